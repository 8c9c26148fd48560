//! The invariants, one file each, and what they look at.

mod announced;
mod at_work;
mod batcher;
mod beside;
mod commit;
mod fenced;
mod history;
mod invariant;
mod later_terms;
mod load;
mod once;
mod one_holder;
mod other_rows;
mod past;
mod progress;
mod reserved;

use std::sync::Arc;
use std::time::Duration;

use spindle::Term;
use spindle_judge::{Disorder, Mode};
use spindle_protocol::{Act, Answer, Timestamp};

pub(crate) use at_work::AtWork;
pub(crate) use batcher::Sent;
pub(crate) use beside::check as bounded_rows;
pub(crate) use commit::{Committed, Purpose};
pub(crate) use history::History;
pub(crate) use invariant::Finding;
pub use invariant::{Invariant, Violation};
pub(crate) use other_rows::{CANARIES, canary_row, unharmed};
pub(crate) use past::Past;
pub(crate) use progress::settles;

use crate::coverage::CoverageGoal;
use crate::plan::Plan;
use crate::process::Process;

/// Everything that watches one world.
#[derive(Debug)]
pub(crate) struct Checks {
    pub(crate) history: History,
    one_holder: bool,
    announced: Vec<announced::Announced>,
    load: Vec<load::Load>,
    /// Of processes with many locks.
    batchers: batcher::Batchers,
    at_work: AtWork,
    runs: once::Runs,
    through_client: bool,
    pub(crate) finding: Finding,
}

impl Checks {
    pub(crate) fn new(plan: &Plan, slots: &[Arc<Process>]) -> Checks {
        let members: usize = plan.locks.iter().map(|lock| lock.members.len()).sum();
        Checks {
            history: History::new(slots),
            // Manual edits that delete or edit rows can cause two holders.
            one_holder: !plan.has_manual_edits,
            announced: (0..members).map(|_| announced::Announced::default()).collect(),
            load: (0..members).map(|_| load::Load::default()).collect(),
            batchers: batcher::Batchers::default(),
            at_work: AtWork::default(),
            runs: once::Runs::default(),
            through_client: plan.through_client,
            finding: Finding::default(),
        }
    }

    /// A process has taken a step, or its owner a look. Gives what is worth counting.
    pub(crate) fn look(
        &mut self,
        process: &Process,
        everyone: &[Arc<Process>],
        now: Duration,
    ) -> Vec<CoverageGoal> {
        let held = process.has_lock();
        let announced = &mut self.announced[process.who];
        if held.is_none() && !announced.is_watching() {
            return Vec::new();
        }
        let mut coverage = Vec::new();
        let began = held.filter(|token| announced.is_new(*token));
        let ended = announced.step(process, held, now, &mut coverage);
        self.finding.expect(Invariant::I7, now, ended);
        if let Some(token) = began {
            self.published(&process.lock_name, token.as_nanoseconds(), now);
            if let Some(writer) = self.announced[process.who].writer() {
                let writer = process.format.written(&writer);
                self.history.published(&process.lock_name, token, writer);
            }
        }
        if held.is_some() {
            if self.one_holder {
                self.finding.expect(Invariant::I1, now, one_holder::check(process, everyone));
                let worker = self.at_work.on(&process.lock_name);
                let alone = one_holder::check_against_work(process, worker);
                self.finding.expect(Invariant::I1, now, alone);
            }
            let latest = self.at_work.latest(&process.lock_name);
            let renewed = later_terms::renewed_in_time(process, latest, now);
            self.finding.expect(Invariant::I4, now, renewed);
        }
        coverage
    }

    /// A term was published with this token.
    ///
    /// While I1 holds, terms are published in the order of their tokens. Where people edit rows, the order is that
    /// of the commits alone.
    fn published(&mut self, lock: &str, token: u64, now: Duration) {
        let (increased, fenced) = self.at_work.published(lock, token, Mode::Exclusive);
        match increased {
            Err(Disorder::Overtaken { token, by }) if !self.one_holder => {
                self.history.overtaken(lock, token, by);
            }
            Err(disorder) => {
                let what = format!("lock `{lock}`: {disorder}");
                self.finding.fail(Invariant::I2, now, what);
            }
            Ok(()) => {}
        }
        self.finding.expect(Invariant::I3, now, fenced);
    }

    /// Work begins under a term that was got by one of the library's own ways.
    pub(crate) fn work_began(
        &mut self,
        term: &Term,
        everyone: &[Arc<Process>],
        now: Duration,
    ) -> u64 {
        let lock = term.lock();
        self.published(lock, term.token().as_nanoseconds(), now);
        let (number, alone) = self.at_work.begins(lock, term, Mode::Exclusive);
        if self.one_holder {
            self.finding.expect(Invariant::I1, now, alone);
            for process in everyone.iter().filter(|process| process.lock_name == lock) {
                let alone = one_holder::check_against_work(process, Some(term));
                self.finding.expect(Invariant::I1, now, alone);
            }
        }
        number
    }

    pub(crate) fn work_ended(&mut self, number: u64, now: Duration) {
        let ended = self.at_work.ends(number);
        self.finding.expect(Invariant::I7, now, ended);
    }

    pub(crate) fn run_began(&mut self, term: &Term, at_least: Duration, now: Duration) {
        let began = self.runs.began(term.token().as_nanoseconds(), at_least);
        // It is a promise of exclusion in time, and as void as I1 once rows are deleted.
        if self.one_holder {
            self.finding.expect(Invariant::I1, now, began);
        }
    }

    /// A write under a fence was acknowledged.
    pub(crate) fn wrote_fenced(&mut self, term: &Term, at: u64, now: Duration) {
        let written = self.at_work.wrote(term.lock(), term.token().as_nanoseconds(), at);
        self.finding.expect(Invariant::I3, now, written);
    }

    /// A process is about to send something.
    pub(crate) fn before_act(&mut self, process: &Process, act: &Act, now: Duration) {
        let announced = self.announced[process.who].before_act(process, act);
        self.finding.expect(Invariant::I7, now, announced);
        let of = (process.house, process.batcher);
        self.batchers.asked(of, process.who, act, now);
    }

    /// It is told how that ended.
    pub(crate) fn after_act(&mut self, process: &Process, act: &Act, answer: &Answer) {
        self.batchers.answered(process.who, act, answer);
    }

    /// The batcher of a process sends a request that is no heartbeat.
    pub(crate) fn sent_together(&mut self, process: &Process, now: Duration) -> Sent {
        let (sent, bounded) = self.batchers.sent(process.house, now);
        self.finding.expect(Invariant::I8, now, bounded);
        sent
    }

    /// That request brought answers.
    pub(crate) fn came_to_something(&mut self, process: &Process, sent: Sent) {
        self.batchers.came_to_something(process.house, sent);
    }

    /// A process sends a request that is no heartbeat.
    pub(crate) fn sent(&mut self, process: &Process, now: Duration) {
        let bounded = self.load[process.who].sent(&process.timing(), now);
        self.finding.expect(
            Invariant::I8,
            now,
            bounded.map_err(|what| format!("#{}: {what}", process.who)),
        );
    }

    /// The process is gone, and with it what it believed.
    pub(crate) fn gone(&mut self, process: &Process) {
        self.load[process.who] = load::Load::default();
        self.batchers.gone(process.house, process.who);
        self.announced[process.who] = announced::Announced::default();
    }

    /// The server has applied a commit.
    pub(crate) fn committed(&mut self, committed: Committed, now: Duration) {
        if let Purpose::Fenced(term) = &committed.purpose {
            let (token, at) = (term.token.0.unsigned_abs(), committed.at.0.unsigned_abs());
            let written = self.at_work.wrote(&committed.lock, token, at);
            self.finding.expect(Invariant::I3, now, written);
        }
        self.history.committed(committed);
    }

    /// Judges the commits up to `until`, in the order of their timestamps.
    pub(crate) fn settle(&mut self, until: Timestamp, now: Duration) -> Vec<CoverageGoal> {
        let mut coverage = Vec::new();
        if self.through_client {
            // Commits of the instances aren't seen from here.
            self.history.forget();
            return coverage;
        }
        if let Err((invariant, what)) = self.history.settle(until, &mut coverage) {
            self.finding.fail(invariant, now, what);
        }
        coverage
    }
}
