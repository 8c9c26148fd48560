//! One act on its way, and who waits for its answer.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::{Answer, Change, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use crate::error::Outcome;

/// The kinds of request, which never mix; the first one here goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// They read token and writer and write the heartbeat: no fence conflicts with them.
    Heartbeats,
    /// Reads at one timestamp.
    Polls,
    /// They write the token and may wait for a fence, as begins do.
    Releases,
    /// Those of terms.
    Begins,
}

impl Class {
    pub(crate) const ALL: [Class; 4] =
        [Class::Heartbeats, Class::Polls, Class::Releases, Class::Begins];
}

/// A request for one lock.
#[derive(Clone, Debug)]
pub(crate) enum OpKind {
    /// Reads its row.
    Observe {
        /// True if nobody looked at it for this instance before.
        is_first: bool,
    },
    /// Changes its row.
    Change(Change),
}

impl OpKind {
    pub(crate) fn class(&self) -> Class {
        match self {
            OpKind::Observe { .. } => Class::Polls,
            // The term is what it waits for.
            OpKind::Change(Change::Job { term, .. }) => OpKind::Change((**term).clone()).class(),
            OpKind::Change(Change::Heartbeat { .. }) => Class::Heartbeats,
            OpKind::Change(
                Change::Insert { .. }
                | Change::Takeover { .. }
                | Change::BeginRead { .. }
                | Change::BeginWrite { .. },
            ) => Class::Begins,
            OpKind::Change(_) => Class::Releases,
        }
    }

    /// Returns when the term began that a heartbeat prolongs.
    pub(crate) fn term_began(&self) -> Option<Timestamp> {
        match self {
            OpKind::Change(Change::Heartbeat { term, .. }) => Some(term.token),
            _ => None,
        }
    }

    /// Returns the keys of the rows by which it is judged besides its lock's own, and which it may
    /// change: those of readers and writers.
    pub(crate) fn others(&self) -> Vec<&str> {
        match self {
            OpKind::Change(Change::BeginRead { vacant, .. }) => {
                vacant.iter().map(|(key, _)| &**key).collect()
            }
            OpKind::Change(Change::BeginWrite { gate: (gate, _), readers, .. }) => {
                let readers = readers.iter().map(|(key, _)| &**key);
                std::iter::once(&**gate).chain(readers).collect()
            }
            _ => Vec::new(),
        }
    }

    /// About as many bytes as its keys and values take, besides the lock's name.
    fn bytes(&self) -> usize {
        let others = self.others().iter().map(|key| ROW + key.len() * 2).sum::<usize>();
        let OpKind::Change(change) = self else { return ROW };
        ROW + others + said(change)
    }
}

/// About as many bytes as the timestamps and the writer of a row take, and what frames them.
const ROW: usize = 200;

/// About as many bytes as the slots before take in a job's row.
const JOB_PAST: usize = 4_096;

/// The bytes of the text that a change leaves.
fn said(change: &Change) -> usize {
    let info = match change {
        Change::Insert { holder, .. }
        | Change::Takeover { holder, .. }
        | Change::BeginRead { holder, .. } => holder.info.as_ref(),
        Change::Release { info, .. } => info.as_ref(),
        Change::BeginWrite { begin, .. } => return said(begin),
        // The slots before stand in the row.
        Change::Job { record, .. } => return ROW + record.key().len() * 2 + JOB_PAST,
        _ => None,
    };
    info.map_or(0, String::len)
}

/// One act on its way.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) lock: Arc<str>,
    pub(crate) kind: OpKind,
    /// When it was asked for, and until when it has time.
    pub(crate) asked: Instant,
    pub(crate) deadline: Instant,
    /// A request for it that takes longer counts as slow.
    pub(crate) patience: Duration,
    /// True if the lock's act before this one failed.
    pub(crate) is_repeat: bool,
    /// How many acts of this kind in a row, the lock's last, may have held others up.
    pub(crate) failure_count: u32,
    waiting: Mutex<Option<oneshot::Sender<Outcome>>>,
    has_left: AtomicBool,
    is_out: AtomicBool,
    went_alone: AtomicBool,
}

impl Op {
    pub(crate) fn new(
        lock: Arc<str>,
        kind: OpKind,
        (limit, patience): (Duration, Duration),
        (is_repeat, failure_count): (bool, u32),
    ) -> (Arc<Op>, oneshot::Receiver<Outcome>) {
        let (waiting, answer) = oneshot::channel();
        let asked = Instant::now();
        let op = Op {
            lock,
            kind,
            asked,
            deadline: asked + limit,
            patience,
            is_repeat,
            failure_count,
            waiting: Mutex::new(Some(waiting)),
            has_left: AtomicBool::new(false),
            is_out: AtomicBool::new(false),
            went_alone: AtomicBool::new(false),
        };
        (Arc::new(op), answer)
    }

    pub(crate) fn bytes(&self) -> usize {
        // The name stands in the key that is read, in the write, and in that of a takeover row.
        self.lock.len() * 3 + self.kind.bytes()
    }

    /// Returns true if nobody waits for the answer: it was given, or the act was dropped or is
    /// overdue.
    pub(crate) fn is_idle(&self) -> bool {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.as_ref().is_none_or(oneshot::Sender::is_closed)
    }

    /// Returns true if it is a heartbeat with too little time left for an answer: its request would
    /// only be in the way of others.
    pub(crate) fn is_hopeless(&self, now: Instant) -> bool {
        let left = self.deadline.saturating_duration_since(now);
        self.kind.class() == Class::Heartbeats && left < self.patience / 8
    }

    /// The first answer counts.
    pub(crate) fn answer(&self, outcome: Outcome) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(waiting) = waiting {
            // The caller may be gone.
            let _ = waiting.send(outcome);
        }
    }

    /// Notes that a request carries it from now on, alone or with others.
    pub(crate) fn leaves(&self, alone: bool) {
        self.has_left.store(true, Ordering::Relaxed);
        self.is_out.store(true, Ordering::Relaxed);
        self.went_alone.store(alone, Ordering::Relaxed);
    }

    /// Notes that it waits again, to go in smaller batches.
    pub(crate) fn returns(&self) {
        self.is_out.store(false, Ordering::Relaxed);
    }

    /// Returns true if this act, which failed, may be the reason why others failed with it.
    ///
    /// Most kinds go again in smaller batches, which shows the reason. An attempt to begin a term
    /// is sent once: each that fails is isolated. A slow server has thousands of heartbeats meet
    /// their limits: only those that went alone are isolated.
    pub(crate) fn is_isolated(&self) -> bool {
        let is_likely = match self.kind.class() {
            Class::Begins | Class::Releases => true,
            Class::Heartbeats => self.went_alone.load(Ordering::Relaxed),
            Class::Polls => {
                self.went_alone.load(Ordering::Relaxed) || Instant::now() >= self.deadline
            }
        };
        is_likely && self.is_out.load(Ordering::Relaxed)
    }

    /// Returns what is known of an act to which no answer came.
    pub(crate) fn without_answer(&self) -> Answer {
        let may_change = matches!(self.kind, OpKind::Change(_));
        if may_change && self.has_left.load(Ordering::Relaxed) {
            Answer::Unknown
        } else {
            Answer::NotApplied
        }
    }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Nonce, TermId, Writer};

    use super::*;

    #[tokio::test]
    async fn nobody_knows_what_became_of_a_change_that_left() {
        let limit = Duration::from_secs(1);
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(7), writer };
        let change = OpKind::Change(Change::Heartbeat { term, looks: false });
        let look = OpKind::Observe { is_first: false };
        let (change, _answer) = Op::new("a".into(), change, (limit, limit), (false, 0));
        let (look, _answer) = Op::new("a".into(), look, (limit, limit), (false, 0));
        assert_eq!(change.without_answer(), Answer::NotApplied);
        change.leaves(true);
        look.leaves(true);
        assert_eq!(change.without_answer(), Answer::Unknown);
        assert_eq!(look.without_answer(), Answer::NotApplied);
        change.returns();
        assert_eq!(change.without_answer(), Answer::Unknown, "it has been out");
    }
}
