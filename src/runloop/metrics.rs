//! The counts and measurements of an instance, by the `metrics` facade; nothing without the
//! feature.
//!
//! `docs/operating.md` lists them all.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::Moment;

use crate::error::{Error, TermEnd};

/// A loop that wakes this part of a lease late counts as stalled.
const STALLS_PER_LEASE: u32 = 10;

/// The meter of one instance.
#[derive(Debug)]
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    label: facade::Shared,
    state: State,
    /// The act under way, and when it was sent.
    act: Option<(&'static str, Moment)>,
    /// When the first of the acts was sent that nothing has answered since.
    unanswered: Option<Moment>,
    /// When the loop means to come round again.
    due: Option<Moment>,
}

impl Meter {
    /// Notes that an act is sent.
    pub(crate) fn sends(&mut self, act: &'static str, now: Moment) {
        self.act = Some((act, now));
        self.unanswered = self.unanswered.or(Some(now));
        self.count("spindle_acts_total", &[("act", act)]);
    }

    /// Notes that the act under way was answered, well or not.
    pub(crate) fn answered(&mut self, error: Option<&Error>, now: Moment) {
        let Some((act, sent)) = self.act.take() else { return };
        match error {
            Some(error) => {
                let code = code(error);
                self.count("spindle_failures_total", &[("act", act), ("code", code)]);
            }
            None => {
                self.unanswered = None;
                if act == "heartbeat" {
                    self.measure("spindle_heartbeat_seconds", now.since(sent));
                }
            }
        }
    }

    /// Notes that nobody wants the lock, so that no answer is missing once the act under way has its own.
    pub(crate) fn rests(&mut self) {
        if self.act.is_none() {
            self.unanswered = None;
        }
    }

    pub(crate) fn began(&mut self, how: &'static str, vacancy: Option<Duration>) {
        self.count("spindle_terms_begun_total", &[("how", how)]);
        if let Some(vacancy) = vacancy {
            self.measure("spindle_vacancy_seconds", vacancy);
        }
        self.state.holds = true;
        self.report();
    }

    pub(crate) fn ended(&mut self, end: &TermEnd) {
        if !self.state.holds {
            return;
        }
        self.count("spindle_terms_ended_total", &[("cause", end.as_str())]);
        self.state.holds = false;
        self.report();
    }

    /// Notes that the loop comes round, with this much validity left to its term, and whether
    /// anybody wants the lock from here, be it after a pause.
    pub(crate) fn turns(
        &mut self,
        now: Moment,
        remaining: Duration,
        lease: Duration,
        contends: bool,
    ) {
        self.state.contends = contends;
        self.state.remaining = Some(remaining).filter(|remaining| !remaining.is_zero());
        self.state.age = self.unanswered.map(|since| now.since(since));
        self.report();
        if self.due.take().is_some_and(|due| now.since(due) > lease / STALLS_PER_LEASE) {
            self.count("spindle_stalls_total", &[]);
        }
    }

    /// Notes that the loop sleeps until `due`, unless something happens before.
    pub(crate) fn sleeps_until(&mut self, due: Option<Moment>) {
        self.due = due;
    }
}

/// The state of one instance, as its gauges show it together with those of the same label.
#[derive(Clone, Copy, Debug, Default)]
struct State {
    holds: bool,
    contends: bool,
    remaining: Option<Duration>,
    /// How long requests have gone without any answer.
    age: Option<Duration>,
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.ended(&TermEnd::Abandoned);
    }
}

/// Returns the status that Spanner gave, as gRPC calls it; `timeout` where no answer came, `other` where
/// it has none of these names.
fn code(error: &Error) -> &'static str {
    match error.code() {
        // Found out by what Spanner answered.
        None if error.is_schema() || error.is_config() || error.is_session_lost() => "other",
        None => "timeout",
        Some(Code::Aborted) => "aborted",
        Some(Code::Cancelled) => "cancelled",
        Some(Code::DeadlineExceeded) => "deadline_exceeded",
        Some(Code::FailedPrecondition) => "failed_precondition",
        Some(Code::Internal) => "internal",
        Some(Code::InvalidArgument) => "invalid_argument",
        Some(Code::NotFound) => "not_found",
        Some(Code::PermissionDenied) => "permission_denied",
        Some(Code::ResourceExhausted) => "resource_exhausted",
        Some(Code::Unauthenticated) => "unauthenticated",
        Some(Code::Unavailable) => "unavailable",
        Some(_) => "other",
    }
}

#[cfg(feature = "metrics")]
mod facade {
    use std::collections::{BTreeMap, BTreeSet};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};

    use metrics::{Key, KeyName, Label, Level, Metadata, Recorder, SharedString, Unit};

    use super::{Arc, Duration, Meter, State};
    use crate::names::fleet_of;

    /// Labels that a process has at the same time: they cost memory wherever they go.
    const LABELS_MAX: usize = 1_000;
    /// The label of all locks beyond those.
    const OTHERS: &str = "(others)";

    /// The labels that instances have now.
    static LABELS: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Reports>>>> = Mutex::new(BTreeMap::new());

    static NEXT: AtomicU64 = AtomicU64::new(0);

    /// The label of one instance. Others of the process may have it too: those of the same fleet or
    /// lock, and all that come while there are a thousand labels.
    #[derive(Debug)]
    pub(super) struct Shared {
        lock: Arc<str>,
        reports: Arc<Mutex<Reports>>,
        number: u64,
        last: State,
    }

    /// The last reports of the instances of a label; its gauges show sums and the worst.
    #[derive(Debug, Default)]
    struct Reports {
        instances: usize,
        hold: usize,
        contend: usize,
        remaining: BTreeSet<(Duration, u64)>,
        ages: BTreeSet<(Duration, u64)>,
    }

    static METADATA: Metadata<'static> =
        Metadata::new("spindle", Level::INFO, Some(module_path!()));

    impl Meter {
        pub(crate) fn new(lock: &Arc<str>) -> Meter {
            let label = Shared::new(fleet_of(lock).map_or_else(|| Arc::clone(lock), Arc::from));
            describe();
            let state = State::default();
            Meter { label, state, act: None, unanswered: None, due: None }
        }

        pub(super) fn count(&self, name: &'static str, labels: &[(&'static str, &'static str)]) {
            let key = self.key(name, labels);
            with(|recorder| recorder.register_counter(&key, &METADATA).increment(1));
        }

        pub(super) fn measure(&self, name: &'static str, duration: Duration) {
            let (key, seconds) = (self.key(name, &[]), duration.as_secs_f64());
            with(|recorder| recorder.register_histogram(&key, &METADATA).record(seconds));
        }

        pub(super) fn report(&mut self) {
            self.label.report(self.state);
        }

        fn key(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
            let mut all = vec![self.label.label()];
            all.extend(labels.iter().map(|(name, value)| Label::from_static_parts(name, value)));
            Key::from_parts(KeyName::from_const_str(name), all)
        }
    }

    impl Shared {
        fn new(lock: Arc<str>) -> Shared {
            let mut labels = LABELS.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = labels.len() >= LABELS_MAX && !labels.contains_key(&lock);
            let lock = if is_over { Arc::from(OTHERS) } else { lock };
            let reports = Arc::clone(labels.entry(Arc::clone(&lock)).or_default());
            reports.lock().unwrap_or_else(PoisonError::into_inner).instances += 1;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            Shared { lock, reports, number, last: State::default() }
        }

        fn label(&self) -> Label {
            Label::new("lock", SharedString::from_shared(Arc::clone(&self.lock)))
        }

        fn report(&mut self, report: State) {
            // Until the gauges are set: a later report must not be overwritten by this one.
            let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.replace(self.number, self.last, report);
            set(&self.label(), reports.gauges());
            drop(reports);
            self.last = report;
        }
    }

    impl Drop for Shared {
        fn drop(&mut self) {
            let mut labels = LABELS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
            reports.replace(self.number, self.last, State::default());
            reports.instances -= 1;
            if reports.instances == 0 {
                labels.remove(&self.lock);
            }
            set(&self.label(), reports.gauges());
        }
    }

    impl Reports {
        fn replace(&mut self, number: u64, last: State, report: State) {
            self.hold = self.hold + usize::from(report.holds) - usize::from(last.holds);
            self.contend = self.contend + usize::from(report.contends) - usize::from(last.contends);
            let sets = [
                (&mut self.remaining, last.remaining, report.remaining),
                (&mut self.ages, last.age, report.age),
            ];
            for (all, last, now) in sets {
                if let Some(last) = last {
                    all.remove(&(last, number));
                }
                all.extend(now.map(|now| (now, number)));
            }
        }

        /// The values of the gauges. A recorder forgets none. So a label that nobody has any more
        /// shows no number: every comparison with that is false, in a rule too.
        fn gauges(&self) -> [(&'static str, f64); 4] {
            let seconds = |worst: Option<&(Duration, u64)>| {
                worst.map_or(0.0, |(duration, _)| duration.as_secs_f64())
            };
            let values = match self.instances {
                0 => [f64::NAN; 4],
                _ => [
                    self.hold as f64,
                    self.contend as f64,
                    seconds(self.remaining.first()),
                    seconds(self.ages.last()),
                ],
            };
            let [held, contending, remaining, age] = values;
            [
                ("spindle_held", held),
                ("spindle_contending", contending),
                ("spindle_remaining_seconds", remaining),
                ("spindle_contact_age_seconds", age),
            ]
        }
    }

    fn set(label: &Label, gauges: [(&'static str, f64); 4]) {
        with(|recorder| {
            for (name, value) in gauges {
                let labels = vec![label.clone()];
                let key = Key::from_parts(KeyName::from_const_str(name), labels);
                recorder.register_gauge(&key, &METADATA).set(value);
            }
        });
    }

    /// Hands the recorder what it is to record. One that panics loses that, and harms nothing else.
    fn with(record: impl FnOnce(&dyn Recorder)) {
        // The panic hook has reported it.
        let _ = catch_unwind(AssertUnwindSafe(|| metrics::with_recorder(record)));
    }

    /// Describes each metric for scrapes. A recorder that is installed later learns of it from the
    /// next lock.
    fn describe() {
        let counters = [
            ("spindle_acts_total", "Acts of locks on their rows, by act; a request has many"),
            ("spindle_requests_total", "Requests sent to Spanner, by RPC"),
            ("spindle_failures_total", "Acts that failed, by act and code"),
            ("spindle_terms_begun_total", "Terms that began here, by how"),
            ("spindle_terms_ended_total", "Terms that ended here, by cause"),
            ("spindle_stalls_total", "Times that the loop ran late by more than a tick"),
        ];
        let gauges = [
            ("spindle_held", "How many instances of this process hold the lock", Unit::Count),
            ("spindle_contending", "How many instances of this process want the lock", Unit::Count),
            ("spindle_remaining_seconds", "Validity left of the term", Unit::Seconds),
            ("spindle_contact_age_seconds", "Time since the last good answer", Unit::Seconds),
        ];
        let histograms = [
            ("spindle_heartbeat_seconds", "Time that a heartbeat took"),
            ("spindle_vacancy_seconds", "Time that nobody held before a term here"),
        ];
        with(|recorder| {
            for (name, text) in counters {
                recorder.describe_counter(KeyName::from(name), Some(Unit::Count), text.into());
            }
            for (name, text, unit) in gauges {
                recorder.describe_gauge(KeyName::from(name), Some(unit), text.into());
            }
            for (name, text) in histograms {
                recorder.describe_histogram(KeyName::from(name), Some(Unit::Seconds), text.into());
            }
        });
    }
}

#[cfg(not(feature = "metrics"))]
impl Meter {
    pub(crate) fn new(_: &Arc<str>) -> Meter {
        let state = State::default();
        Meter { state, act: None, unanswered: None, due: None }
    }

    fn count(&self, _: &'static str, _: &[(&'static str, &'static str)]) {}

    fn measure(&self, _: &'static str, _: Duration) {}

    fn report(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    #[test]
    fn a_failure_that_an_answer_told_is_no_timeout() {
        assert_eq!(code(&Error::timed_out("read", Duration::from_secs(1))), "timeout");
        let schema = "no table".to_string();
        for kind in [Kind::Schema(schema), Kind::SessionLost { database: None }] {
            assert_eq!(code(&Error::new(kind)), "other");
        }
    }
}
