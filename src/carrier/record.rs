//! How the last acts of a lock fared.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::{Answer, Rejection};
use tokio::time::Instant;

use super::parcel::{Lane, Parcel};
use crate::outcome::Outcome;

/// Locks whose trouble is remembered beyond their seats, at the most, and for how long.
const LOCKS_MAX: usize = 1_000;
const MEMORY: Duration = Duration::from_secs(60);

/// The records of locks that are suspected, for whoever sits down next.
#[derive(Debug, Default)]
pub(crate) struct Records(Mutex<HashMap<Arc<str>, Noted>>);

/// A record, and when it was last added to.
type Noted = (Instant, Arc<Record>);

/// How the last acts of a lock fared.
#[derive(Debug, Default)]
pub(crate) struct Record {
    /// True if the last one failed.
    has_failed: AtomicBool,
    /// True if the last one of each kind did, or lost a race.
    has_failed_in: [AtomicBool; Lane::ALL.len()],
    /// Acts in a row that may have been the reason for a failure, by kind.
    suspicions: [AtomicU32; Lane::ALL.len()],
}

impl Records {
    /// Returns a record for an instance of a lock, with the suspicions of those before it. Nothing
    /// that it asks for repeats what they asked for.
    pub(crate) fn of(&self, lock: &str) -> Arc<Record> {
        let records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = records.get(lock).filter(|(noted_at, _)| noted_at.elapsed() < MEMORY);
        known.map(|(_, record)| Arc::new(record.inherited())).unwrap_or_default()
    }

    /// Notes how an act ended.
    pub(crate) fn note(&self, record: &Arc<Record>, parcel: &Parcel, outcome: &Outcome) {
        let was_suspected = record.is_suspected();
        record.note(parcel, outcome);
        if !record.is_suspected() && !was_suspected {
            return;
        }
        let now = Instant::now();
        let mut records = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !record.is_suspected() {
            records.remove(&parcel.lock);
            return;
        }
        if records.len() >= LOCKS_MAX && !records.contains_key(&parcel.lock) {
            records.retain(|_, (noted_at, _)| now < *noted_at + MEMORY);
        }
        if records.len() < LOCKS_MAX || records.contains_key(&parcel.lock) {
            records.insert(Arc::clone(&parcel.lock), (now, Arc::clone(record)));
        }
    }
}

impl Record {
    /// Returns true if an act of this kind repeats one that failed, and how many before it may have
    /// been the reason for a failure.
    pub(crate) fn standing(&self, lane: Lane) -> (bool, u32) {
        // A read finds out if the act before it failed.
        let has_failed = lane == Lane::Polls && self.has_failed.load(Ordering::Relaxed);
        let is_repeat = has_failed || self.has_failed_in[lane as usize].load(Ordering::Relaxed);
        (is_repeat, self.suspicions[lane as usize].load(Ordering::Relaxed))
    }

    /// Notes that the first act of each kind repeats what another instance failed at.
    pub(crate) fn repeats(&self) {
        self.has_failed_in.iter().for_each(|has_failed| has_failed.store(true, Ordering::Relaxed));
    }

    fn note(&self, parcel: &Parcel, outcome: &Outcome) {
        let lane = parcel.load.lane();
        let failed = matches!(outcome.answer, Answer::NotApplied | Answer::Unknown);
        self.has_failed.store(failed, Ordering::Relaxed);
        // A row in the way says nothing that a Spanner in trouble might not say for ever.
        let lost = matches!(
            outcome.answer,
            Answer::Rejected(Rejection::Changed(None) | Rejection::TakeoverRowExists)
        );
        self.has_failed_in[lane as usize].store(failed || lost, Ordering::Relaxed);
        let suspicion = &self.suspicions[lane as usize];
        if !failed {
            suspicion.store(0, Ordering::Relaxed);
        } else if parcel.is_suspect() {
            suspicion.store(parcel.suspicion.saturating_add(1), Ordering::Relaxed);
        }
    }

    fn is_suspected(&self) -> bool {
        self.suspicions.iter().any(|of| of.load(Ordering::Relaxed) > 0)
    }

    fn inherited(&self) -> Record {
        let suspicion = |of: &AtomicU32| AtomicU32::new(of.load(Ordering::Relaxed));
        Record { suspicions: self.suspicions.each_ref().map(suspicion), ..Record::default() }
    }
}
