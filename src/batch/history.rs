//! How the last acts of a lock fared.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::{Answer, Rejection};
use tokio::time::Instant;

use super::op::{Class, Op};
use crate::error::Outcome;

/// The most locks whose failure history outlives their handles, and for how long it does.
const LOCKS_MAX: usize = 1_000;
const MEMORY: Duration = Duration::from_secs(60);

/// The histories of locks that are isolated, for the next handle of each.
#[derive(Debug, Default)]
pub(crate) struct FailureHistories(Mutex<HashMap<Arc<str>, Noted>>);

/// A history, and when it was last added to.
type Noted = (Instant, Arc<FailureHistory>);

/// How the last acts of a lock fared.
#[derive(Debug, Default)]
pub(crate) struct FailureHistory {
    /// True if the last one failed.
    has_failed: AtomicBool,
    /// True if the last one of each kind did, or lost a race.
    has_failed_in: [AtomicBool; Class::ALL.len()],
    /// Acts in a row that may have been the reason for a failure, by kind.
    failure_counts: [AtomicU32; Class::ALL.len()],
}

impl FailureHistories {
    /// Returns a history for an instance of a lock, with the failures counted before it.
    /// Nothing that it asks for repeats what they asked for.
    pub(crate) fn of(&self, lock: &str) -> Arc<FailureHistory> {
        let histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = histories.get(lock).filter(|(noted_at, _)| noted_at.elapsed() < MEMORY);
        known.map(|(_, history)| Arc::new(history.inherited())).unwrap_or_default()
    }

    /// Notes how an act ended.
    pub(crate) fn note(&self, history: &Arc<FailureHistory>, op: &Op, outcome: &Outcome) {
        let was_isolated = history.is_isolated();
        history.note(op, outcome);
        if !history.is_isolated() && !was_isolated {
            return;
        }
        let now = Instant::now();
        let mut histories = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !history.is_isolated() {
            histories.remove(&op.lock);
            return;
        }
        if histories.len() >= LOCKS_MAX && !histories.contains_key(&op.lock) {
            histories.retain(|_, (noted_at, _)| now < *noted_at + MEMORY);
        }
        if histories.len() < LOCKS_MAX || histories.contains_key(&op.lock) {
            histories.insert(Arc::clone(&op.lock), (now, Arc::clone(history)));
        }
    }
}

impl FailureHistory {
    /// Returns true if an act of this kind repeats one that failed, and how many before it may have
    /// been the reason for a failure.
    pub(crate) fn holding(&self, class: Class) -> (bool, u32) {
        // A read finds out if the act before it failed.
        let has_failed = class == Class::Polls && self.has_failed.load(Ordering::Relaxed);
        let is_repeat = has_failed || self.has_failed_in[class as usize].load(Ordering::Relaxed);
        (is_repeat, self.failure_counts[class as usize].load(Ordering::Relaxed))
    }

    /// Notes that the first act of each kind repeats what another instance failed at.
    pub(crate) fn repeats(&self) {
        self.has_failed_in.iter().for_each(|has_failed| has_failed.store(true, Ordering::Relaxed));
    }

    fn note(&self, op: &Op, outcome: &Outcome) {
        let class = op.kind.class();
        let failed = matches!(outcome.answer, Answer::NotApplied | Answer::Unknown);
        self.has_failed.store(failed, Ordering::Relaxed);
        // A row in the way says nothing that a Spanner in trouble might not say for ever.
        let lost = matches!(outcome.answer, Answer::Rejected(Rejection::Changed(None)));
        self.has_failed_in[class as usize].store(failed || lost, Ordering::Relaxed);
        let failure_count = &self.failure_counts[class as usize];
        if !failed {
            failure_count.store(0, Ordering::Relaxed);
        } else if op.is_isolated() {
            failure_count.store(op.failure_count.saturating_add(1), Ordering::Relaxed);
        }
    }

    fn is_isolated(&self) -> bool {
        self.failure_counts.iter().any(|of| of.load(Ordering::Relaxed) > 0)
    }

    fn inherited(&self) -> FailureHistory {
        let failure_count = |of: &AtomicU32| AtomicU32::new(of.load(Ordering::Relaxed));
        FailureHistory {
            failure_counts: self.failure_counts.each_ref().map(failure_count),
            ..FailureHistory::default()
        }
    }
}
