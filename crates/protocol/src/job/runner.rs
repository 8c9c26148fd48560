//! One caller's view of two rows, the lock's and the job's, as its instance knows one.

use std::time::Duration;

use super::change::{Ending, RecordChange};
use super::record::{Recorded, SlotState, nearest, not_before};
use crate::{Act, Change, Holder, Observation, Row, Timestamp, Writer};

/// The longest pause after a failure.
const PAUSE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The wish of one caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The slot to run.
    pub slot: Slot,
    /// So many times it may be started.
    pub attempts: u32,
    /// The pause after the first failure; it doubles with each.
    pub pause: Duration,
    /// How far ahead of Spanner's clock a slot may be.
    pub ahead: Duration,
}

/// A slot, as a caller names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Slot {
    /// This time.
    At(Timestamp),
    /// The multiple of this period that is nearest to Spanner's time.
    Every(Duration),
}

/// The next step for a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// It may be started.
    Start,
    /// A start of this caller is under way, or was not heard of in time.
    Ours,
    /// It runs elsewhere, or the run of a slot before it does.
    Runs,
    /// It may be started so much later: its time has not come, or it has failed just now.
    Wait(Duration),
    /// It is done.
    Done,
    /// A later one was started.
    Superseded,
    /// It is recorded as failed.
    Failed,
    /// No attempt is left, and nobody has recorded the end of the last one: it is to be recorded as
    /// failed.
    Lost,
    /// It is too far ahead of Spanner's clock, by so much.
    Ahead(Duration),
    /// The row has no record that this version knows.
    Unreadable,
}

/// One caller of a job.
///
/// It stands between an instance and its rows. While the slot may not be started the instance is shown a
/// lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Runner {
    key: String,
    id: String,
    lease: Duration,
    asked: Asked,
    /// The slot, once a period's is known.
    slot: Option<Timestamp>,
    /// The job's row as it was observed last.
    seen: Option<Row>,
    step: Step,
    /// The last attempt to begin, and which start of the slot it is.
    attempt: Option<Writer>,
    start: u32,
    ending: Ending,
}

impl Runner {
    /// Returns a caller that has seen nothing so far, by the key of the job's row.
    pub fn new(key: String, id: &str, lease: Duration, asked: Asked) -> Runner {
        let slot = match asked.slot {
            Slot::At(slot) => Some(slot),
            Slot::Every(_) => None,
        };
        let (id, step, ending) = (id.to_string(), Step::Ours, Ending::Failed);
        Runner { key, id, lease, asked, slot, seen: None, step, attempt: None, start: 0, ending }
    }

    /// Returns the key of the job's row.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns the slot, once it is known.
    pub fn slot(&self) -> Option<Timestamp> {
        self.slot
    }

    /// Returns the job's row as it was observed last.
    pub fn seen(&self) -> Option<&Row> {
        self.seen.as_ref()
    }

    /// Returns what followed for the slot from the last observation.
    pub fn step(&self) -> Step {
        self.step
    }

    /// Returns which start of the slot the last attempt was.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Says how the run ended, for the release that follows.
    pub fn ends(&mut self, ending: Ending) {
        self.ending = ending;
    }

    /// Begins anew by another instance: nothing is under way.
    pub fn anew(&mut self) {
        (self.step, self.attempt, self.ending) = (Step::Ours, None, Ending::Failed);
    }

    /// Returns what the instance is shown, now that both rows were observed.
    pub fn observed(&mut self, own: Observation, job: Observation) -> Observation {
        let lock = own.row.as_ref();
        let is_held = lock.is_some_and(|row| row.vacant_from(&self.id, self.lease) > own.read_at);
        let is_ours = is_held && lock.map(|row| &row.writer) == self.attempt.as_ref();
        self.seen = job.row;
        self.step = if is_ours { Step::Ours } else { self.decide(is_held, job.read_at) };
        match self.step {
            Step::Start | Step::Ours | Step::Runs => own,
            _ => {
                let writer = Writer::nobody();
                let taken = Row { heartbeat: own.read_at, token: own.read_at, writer, lease: None };
                Observation { row: Some(taken), ..own }
            }
        }
    }

    fn decide(&mut self, is_held: bool, read_at: Timestamp) -> Step {
        let slot = *self.slot.get_or_insert_with(|| match self.asked.slot {
            Slot::At(slot) => slot,
            Slot::Every(period) => nearest(period, read_at),
        });
        let recorded = Recorded::by(self.seen.as_ref());
        match (&recorded, &self.seen) {
            (Recorded::Unreadable, _) => return Step::Unreadable,
            (Recorded::Slot(last), _) if last.slot > slot => return Step::Superseded,
            (Recorded::Slot(last), Some(row)) if last.slot == slot => {
                return match last.state {
                    SlotState::Done => Step::Done,
                    SlotState::Failed => Step::Failed,
                    SlotState::Open if is_held => Step::Runs,
                    SlotState::Open if last.starts >= last.attempts.min(self.asked.attempts) => {
                        Step::Lost
                    }
                    SlotState::Open => wait_until(not_before(row), read_at),
                };
            }
            _ => {}
        }
        match (wait_until(slot, read_at), self.asked.slot) {
            (Step::Wait(ahead), Slot::At(_)) if ahead > self.asked.ahead => Step::Ahead(ahead),
            (Step::Start, _) if is_held => Step::Runs,
            (step, _) => step,
        }
    }

    /// Returns the change that the instance's act asks for; none for one that changes nothing.
    pub fn change(&mut self, act: &Act, holder: &Holder) -> Option<Change> {
        let key = self.key.clone();
        let record = match act {
            Act::Insert { writer } | Act::Takeover { writer, .. } => {
                // An attempt that is not known to have failed may have counted this start already.
                let slot = self.slot.filter(|_| self.step == Step::Start)?;
                self.attempt = Some(writer.clone());
                self.start = self.next_start();
                let (seen, pause) = (self.seen.clone(), self.pause());
                RecordChange::Begin { key, seen, slot, attempts: self.asked.attempts, pause }
            }
            Act::Release { .. } => RecordChange::End { key, ending: self.ending },
            Act::Observe | Act::Heartbeat { .. } | Act::Mark { .. } => {
                return act.change(holder);
            }
        };
        let term = Box::new(act.change(holder)?);
        Some(Change::Job { term, record })
    }

    fn next_start(&self) -> u32 {
        match Recorded::by(self.seen.as_ref()) {
            Recorded::Slot(last) if Some(last.slot) == self.slot => last.starts + 1,
            _ => 1,
        }
    }

    /// Returns how long no start follows this one, should it fail.
    fn pause(&self) -> Duration {
        let doublings = self.start.saturating_sub(1).min(16);
        self.asked.pause.saturating_mul(1 << doublings).min(PAUSE_MAX)
    }
}

fn wait_until(time: Timestamp, read_at: Timestamp) -> Step {
    match time.since(read_at) {
        Duration::ZERO => Step::Start,
        left => Step::Wait(left),
    }
}
