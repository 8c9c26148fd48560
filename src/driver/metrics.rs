//! The counts and measurements of an instance, by the `metrics` facade; nothing without the
//! feature.
//!
//! `docs/operating.md` lists them all.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::{Act, Moment, Row, Timestamp};

use crate::error::Error;
use crate::loss::Loss;
use crate::status::succession;

/// A loop that wakes this part of a lease late counts as stalled.
const STALLS_PER_LEASE: u32 = 10;

/// The meter of one instance.
#[derive(Debug)]
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    label: facade::Shared,
    holds: bool,
    /// The act under way, and when it was sent.
    act: Option<(&'static str, Moment)>,
    /// When Spanner answered last.
    answered: Option<Moment>,
    /// The row that the last attempt displaces, and whether it said that it was seized.
    displaced: Option<(Row, bool)>,
    /// When the loop means to come round again.
    due: Option<Moment>,
}

impl Meter {
    /// Notes that an act is sent; a takeover perhaps of a row that says that it was seized.
    pub(crate) fn sends(&mut self, act: &Act, name: &'static str, was_seized: bool, now: Moment) {
        match act {
            Act::Insert { .. } => self.displaced = None,
            Act::Takeover { seen, .. } => self.displaced = Some((seen.clone(), was_seized)),
            Act::Observe | Act::Heartbeat { .. } | Act::Release { .. } | Act::Sweep { .. } => {}
        }
        self.act = Some((name, now));
        // Age counts from the first request: nothing can be heard before.
        self.answered = self.answered.or(Some(now));
        self.count("spindle_requests_total", &[("act", name)]);
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
                self.answered = Some(now);
                if act == "heartbeat" {
                    self.measure("spindle_heartbeat_seconds", now.since(sent));
                }
            }
        }
    }

    pub(crate) fn began(&mut self, token: Timestamp, id: &str) {
        let displaced = self.displaced.take();
        let (row, was_seized) =
            displaced.as_ref().map_or((None, false), |(row, seized)| (Some(row), *seized));
        let (how, vacant_since) = succession(row, was_seized, id);
        self.count("spindle_terms_begun_total", &[("how", how)]);
        if let Some(since) = vacant_since {
            self.measure("spindle_vacancy_seconds", token.since(since));
        }
        self.held(true);
    }

    pub(crate) fn ended(&mut self, loss: &Loss) {
        if self.holds {
            self.count("spindle_terms_ended_total", &[("cause", cause(loss))]);
        }
        self.held(false);
    }

    /// Notes that the loop comes round, with this much validity left to its term.
    pub(crate) fn turns(&mut self, now: Moment, remaining: Duration, lease: Duration) {
        let age = self.answered.map(|answered| now.since(answered));
        self.report(Some(remaining).filter(|remaining| !remaining.is_zero()), age);
        if self.due.take().is_some_and(|due| now.since(due) > lease / STALLS_PER_LEASE) {
            self.count("spindle_stalls_total", &[]);
        }
    }

    /// Notes that the loop sleeps until `due`, unless something happens before.
    pub(crate) fn sleeps_until(&mut self, due: Option<Moment>) {
        self.due = due;
    }

    /// Instances of a process that have the same label hold so many locks together.
    fn held(&mut self, holds: bool) {
        if std::mem::replace(&mut self.holds, holds) != holds {
            self.add("spindle_held", if holds { 1.0 } else { -1.0 });
        }
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        // The last report of a loop that is gone would stand for ever.
        self.ended(&Loss::Abandoned);
        self.report(None, None);
    }
}

fn cause(loss: &Loss) -> &'static str {
    match loss {
        Loss::LetGo => "released",
        Loss::Lapsed => "lapsed",
        Loss::Superseded { .. } => "superseded",
        Loss::OutOfContact => "out_of_contact",
        Loss::Expired => "expired",
        Loss::Abandoned => "abandoned",
    }
}

/// Returns the status that Spanner gave, as gRPC calls it; `timeout` where no answer came.
fn code(error: &Error) -> &'static str {
    match error.code() {
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
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, PoisonError};

    use metrics::{Key, KeyName, Label, Level, Metadata, SharedString, Unit, with_recorder};

    use super::{Arc, Duration, Meter};
    use crate::names::fleet_of;

    /// Labels that a process gives: they cost memory wherever they go.
    const LABELS_MAX: usize = 1_000;

    static LABELS: Mutex<BTreeMap<Arc<str>, Arc<Mutex<Extremes>>>> = Mutex::new(BTreeMap::new());

    static NEXT: AtomicU64 = AtomicU64::new(0);

    /// The label of one instance, which others of the process may have too: those of the same fleet,
    /// those of the same lock, and all that come after the first thousand.
    #[derive(Debug)]
    pub(super) struct Shared {
        name: SharedString,
        extremes: Arc<Mutex<Extremes>>,
        number: u64,
        remaining: Option<Duration>,
        age: Option<Duration>,
    }

    /// The values that the instances of a label reported last; a gauge shows the worst of them.
    #[derive(Debug, Default)]
    struct Extremes {
        remaining: BTreeSet<(Duration, u64)>,
        ages: BTreeSet<(Duration, u64)>,
    }

    static METADATA: Metadata<'static> =
        Metadata::new("spindle", Level::INFO, Some(module_path!()));

    impl Meter {
        pub(crate) fn new(lock: &Arc<str>) -> Meter {
            let label = Shared::new(fleet_of(lock).map_or_else(|| Arc::clone(lock), Arc::from));
            describe();
            Meter { label, holds: false, act: None, answered: None, displaced: None, due: None }
        }

        pub(super) fn count(&self, name: &'static str, labels: &[(&'static str, &'static str)]) {
            let key = self.key(name, labels);
            with_recorder(|recorder| recorder.register_counter(&key, &METADATA).increment(1));
        }

        pub(super) fn measure(&self, name: &'static str, duration: Duration) {
            let (key, seconds) = (self.key(name, &[]), duration.as_secs_f64());
            with_recorder(|recorder| recorder.register_histogram(&key, &METADATA).record(seconds));
        }

        /// Reports the validity that is left of the term, if there is one, and the age of contact.
        pub(super) fn report(&mut self, remaining: Option<Duration>, age: Option<Duration>) {
            let keys = ["spindle_remaining_seconds", "spindle_contact_age_seconds"]
                .map(|name| self.key(name, &[]));
            let (extremes, number) = (Arc::clone(&self.label.extremes), self.label.number);
            // Until the gauges are set: a later report must not be overwritten by this one.
            let mut extremes = extremes.lock().unwrap_or_else(PoisonError::into_inner);
            let Extremes { remaining: all, ages } = &mut *extremes;
            replace(all, number, self.label.remaining, remaining);
            replace(ages, number, self.label.age, age);
            let worst = [all.first(), ages.last()];
            with_recorder(|recorder| {
                for (key, worst) in keys.iter().zip(worst) {
                    let seconds = worst.map_or(0.0, |(duration, _)| duration.as_secs_f64());
                    recorder.register_gauge(key, &METADATA).set(seconds);
                }
            });
            (self.label.remaining, self.label.age) = (remaining, age);
        }

        pub(super) fn add(&self, name: &'static str, by: f64) {
            let key = self.key(name, &[]);
            with_recorder(|recorder| recorder.register_gauge(&key, &METADATA).increment(by));
        }

        fn key(&self, name: &'static str, labels: &[(&'static str, &'static str)]) -> Key {
            let mut all = vec![Label::new("lock", self.label.name.clone())];
            all.extend(labels.iter().map(|(name, value)| Label::from_static_parts(name, value)));
            Key::from_parts(KeyName::from_const_str(name), all)
        }
    }

    impl Shared {
        fn new(lock: Arc<str>) -> Shared {
            let mut labels = LABELS.lock().unwrap_or_else(PoisonError::into_inner);
            let others = "(others)";
            let is_over = labels.len() >= LABELS_MAX && !labels.contains_key(&lock);
            let lock = if is_over { Arc::from(others) } else { lock };
            let extremes = Arc::clone(labels.entry(Arc::clone(&lock)).or_default());
            Shared {
                name: SharedString::from_shared(lock),
                extremes,
                number: NEXT.fetch_add(1, Ordering::Relaxed),
                remaining: None,
                age: None,
            }
        }
    }

    fn replace(
        all: &mut BTreeSet<(Duration, u64)>,
        number: u64,
        before: Option<Duration>,
        now: Option<Duration>,
    ) {
        if let Some(before) = before {
            all.remove(&(before, number));
        }
        all.extend(now.map(|now| (now, number)));
    }

    /// Describes each metric for scrapes. A recorder that is installed later learns of it from the
    /// next lock.
    fn describe() {
        let counters = [
            ("spindle_requests_total", "Requests sent to Spanner, by act"),
            ("spindle_failures_total", "Requests that failed, by act and code"),
            ("spindle_terms_begun_total", "Terms that began here, by how"),
            ("spindle_terms_ended_total", "Terms that ended here, by cause"),
            ("spindle_stalls_total", "Times that the loop ran late by more than a tick"),
        ];
        let gauges = [
            ("spindle_held", "How many instances of this process hold the lock", Unit::Count),
            ("spindle_remaining_seconds", "Validity left of the term", Unit::Seconds),
            ("spindle_contact_age_seconds", "Time since Spanner answered last", Unit::Seconds),
        ];
        let histograms = [
            ("spindle_heartbeat_seconds", "Time that a heartbeat took"),
            ("spindle_vacancy_seconds", "Time that the lock was free before a term here"),
        ];
        with_recorder(|recorder| {
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
        Meter { holds: false, act: None, answered: None, displaced: None, due: None }
    }

    fn count(&self, _: &'static str, _: &[(&'static str, &'static str)]) {}

    fn measure(&self, _: &'static str, _: Duration) {}

    fn report(&mut self, _: Option<Duration>, _: Option<Duration>) {}

    fn add(&self, _: &'static str, _: f64) {}
}
