//! The invariants, one file each, and what they look at. The load on a table (I8) is judged where it
//! arises, in `load.rs`.

mod announced;
mod at_work;
mod beside;
mod effect;
mod fenced;
mod history;
mod invariant;
mod jobs;
mod later_terms;
mod one_holder;
mod other_rows;
mod past;
mod progress;
mod reserved;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use spindle::job::JobRun;
use spindle::{Term, simulation};
use spindle_judge::{Disorder, Mode};
use spindle_protocol::{Act, Answer, Rejection, Timestamp, Writer};

pub(crate) use at_work::AtWork;
pub(crate) use beside::check as bounded_rows;
pub(crate) use effect::{Effect, Purpose};
pub(crate) use history::History;
pub use invariant::{Invariant, Violation};
pub(crate) use other_rows::{BYSTANDERS, bystander_row, unharmed};
pub(crate) use past::Past;
pub(crate) use progress::settles;

use crate::coverage::CoverageGoal;
use crate::instance::Instance;
use crate::machine::TrueTime;
use crate::plan::Plan;
use crate::timeline::Timeline;

/// Commits are judged this much later, when none with an earlier timestamp can come any more.
pub(crate) const SETTLING: Duration = Duration::from_secs(1);

/// Everything that watches one world of locks.
#[derive(Debug)]
pub(crate) struct Checks {
    timeline: Arc<Timeline>,
    pub(crate) history: History,
    one_holder: bool,
    announced: Vec<announced::Announced>,
    /// The begin of each instance whose outcome is not known yet.
    unknown: Vec<Option<Writer>>,
    at_work: AtWork,
    runs: jobs::Runs,
    through_client: bool,
    /// The takeover rows that peers of another implementation left.
    pub(crate) peers: BTreeSet<String>,
}

impl Checks {
    pub(crate) fn new(
        plan: &Plan,
        instances: &[Arc<Instance>],
        timeline: &Arc<Timeline>,
    ) -> Checks {
        Checks {
            timeline: Arc::clone(timeline),
            history: History::new(instances),
            // Manual edits that delete or edit rows can cause two holders.
            one_holder: !plan.has_manual_edits,
            announced: instances.iter().map(|_| announced::Announced::default()).collect(),
            unknown: vec![None; instances.len()],
            at_work: AtWork::new(timeline),
            runs: jobs::Runs::default(),
            through_client: plan.through_client,
            peers: BTreeSet::new(),
        }
    }

    /// An instance has taken a step, or its owner a look.
    pub(crate) fn look(&mut self, instance: &Instance, everyone: &[Arc<Instance>]) {
        if let Some(rule) = simulation::broken_rule() {
            self.timeline.fail(Invariant::Contract, rule.into());
        }
        let timeline = Arc::clone(&self.timeline);
        let (held, lock) = (instance.has_lock(), &instance.lock_name);
        let announced = &mut self.announced[instance.who];
        if held.is_none() && !announced.is_watching() {
            return;
        }
        let began = held.filter(|token| announced.is_new(*token));
        timeline.expect(Invariant::I7, announced.step(instance, held, &timeline));
        if let Some(token) = began {
            self.published(lock, token.as_nanoseconds());
            if let Some(writer) = self.announced[instance.who].writer() {
                if self.unknown[instance.who].take().is_some_and(|unknown| unknown == writer) {
                    timeline.saw(CoverageGoal::UnknownApplied);
                }
                self.history.published(lock, token, writer.clone());
            }
        }
        if held.is_some() {
            if self.one_holder {
                timeline.expect(Invariant::I1, one_holder::check(instance, everyone));
                let worker = self.at_work.on(lock);
                timeline.expect(Invariant::I1, one_holder::check_against_work(instance, worker));
            }
            let latest = self.at_work.latest(lock);
            let renewed = later_terms::renewed_in_time(instance, latest, timeline.now());
            timeline.expect(Invariant::I4, renewed);
        }
    }

    /// A term was published with this token.
    ///
    /// While I1 holds, terms are published in the order of their tokens. Where people edit rows, the order is that
    /// of the commits alone.
    fn published(&mut self, lock: &str, token: u64) {
        match self.at_work.published(lock, token, Mode::Exclusive) {
            Err(Disorder::Overtaken { token, by }) if !self.one_holder => {
                self.history.overtaken(lock, token, by);
            }
            increased => {
                let increased = increased.map_err(|disorder| format!("lock `{lock}`: {disorder}"));
                self.timeline.expect(Invariant::I2, increased);
            }
        }
    }

    /// Work begins under a term that was got by one of the library's own ways.
    pub(crate) fn work_began(&mut self, term: &Term, everyone: &[Arc<Instance>]) -> u64 {
        let lock = term.lock();
        self.published(lock, term.token().as_nanoseconds());
        let (number, alone) = self.at_work.begins(lock, term, Mode::Exclusive);
        if self.one_holder {
            self.timeline.expect(Invariant::I1, alone);
            for instance in everyone.iter().filter(|instance| instance.lock_name == lock) {
                let alone = one_holder::check_against_work(instance, Some(term));
                self.timeline.expect(Invariant::I1, alone);
            }
        }
        number
    }

    pub(crate) fn work_ended(&mut self, number: u64) {
        self.timeline.expect(Invariant::I7, self.at_work.ends(number));
    }

    pub(crate) fn run_began(&mut self, run: &JobRun, attempts: u32) {
        let slot = run.slot().timestamp_nanos_opt().unwrap_or_default();
        let began = self.runs.began(slot, run.start(), attempts);
        // As void as I1 once rows are deleted.
        if self.one_holder {
            self.timeline.expect(Invariant::I1, began);
        }
    }

    pub(crate) fn run_is_done(&mut self, run: i64) {
        self.runs.done(run);
    }

    /// A write under a fence was acknowledged.
    pub(crate) fn wrote_fenced(&mut self, term: &Term, at: u64) {
        self.timeline.saw(CoverageGoal::FencedWrite);
        self.at_work.wrote(term.lock(), term.token().as_nanoseconds(), at);
    }

    /// An instance is about to send something.
    pub(crate) fn before_act(&mut self, instance: &Instance, act: &Act) {
        self.timeline.note(instance.who, act);
        let announced = self.announced[instance.who].before_act(instance, act);
        self.timeline.expect(Invariant::I7, announced);
        if matches!(act, Act::Insert { .. } | Act::Takeover { .. })
            && self.unknown[instance.who].take().is_some()
        {
            // It would not try again if the last attempt were its term.
            self.timeline.saw(CoverageGoal::UnknownNotApplied);
        }
    }

    /// It is told how that ended.
    pub(crate) fn after_act(&mut self, instance: &Instance, act: &Act, answer: &Answer) {
        self.timeline.note(instance.who, answer);
        match (act, answer) {
            (Act::Insert { writer } | Act::Takeover { writer, .. }, Answer::Unknown) => {
                self.unknown[instance.who] = Some(writer.clone());
            }
            (Act::Takeover { .. }, Answer::Rejected(_))
            | (Act::Insert { .. }, Answer::Rejected(Rejection::Changed(_))) => {
                self.timeline.saw(CoverageGoal::LostRace);
            }
            (Act::Heartbeat { .. } | Act::Release { .. }, Answer::Rejected(_)) => {
                self.timeline.saw(CoverageGoal::RefusedInTerm);
            }
            (Act::Observe, Answer::Observed(observation)) => {
                let Some(row) = &observation.row else { return };
                let own = instance.plan.timing.lease;
                let waits = |lease| row.heartbeat + lease > observation.read_at;
                if !row.is_released() && !waits(own) && row.lease.is_some_and(waits) {
                    self.timeline.saw(CoverageGoal::LongerLease);
                }
            }
            _ => {}
        }
    }

    /// The instance is gone, and with it what it believed.
    pub(crate) fn gone(&mut self, instance: &Instance, crashed: bool) {
        self.timeline.note(instance.who, &crashed);
        self.unknown[instance.who] = None;
        self.announced[instance.who] = announced::Announced::default();
    }

    /// The server has applied a commit with these effects.
    pub(crate) fn committed(&mut self, at: Timestamp, effects: Vec<Effect>) {
        for effect in effects {
            self.timeline.note(effect.by.unwrap_or(usize::MAX), &(at, &effect.purpose));
            if let Purpose::Fenced(term) = &effect.purpose {
                let token = term.token.0.unsigned_abs();
                self.at_work.wrote(&effect.lock, token, at.0.unsigned_abs());
            }
            self.history.committed(at, effect);
        }
        if self.history.unsettled() >= 256 {
            let now = self.timeline.now();
            self.settle(TrueTime::at(now.saturating_sub(SETTLING)));
        }
    }

    /// Judges the commits up to `until`, in the order of their timestamps.
    pub(crate) fn settle(&mut self, until: Timestamp) {
        if self.through_client {
            // Commits of the instances aren't seen from here.
            self.history.forget();
            return;
        }
        if let Err((invariant, what)) = self.history.settle(until, &self.timeline) {
            self.timeline.fail(invariant, what);
        }
    }
}
