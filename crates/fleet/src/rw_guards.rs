//! The guards of readers and writers.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::Arc;

use tokio::sync::{OwnedRwLockWriteGuard, watch};
use tokio_util::sync::CancellationToken;

use spindle::{Guard, ReleaseOutcome, Term};

/// One reader's hold of an [`RwLock`](super::RwLock). It is renewed in the background until this is
/// released or dropped.
///
/// It is held like any lock, by a [`Guard`]: it can be lost, and dropping it releases it soon after.
/// Its row is deleted with that. It derefs to its [`Term`], which has the token, the fence and the
/// cancellation.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct ReadGuard {
    guard: Guard,
    _reading: Reading,
}

impl ReadGuard {
    pub(crate) fn new(guard: Guard, reading: Reading) -> ReadGuard {
        ReadGuard { guard, _reading: reading }
    }

    /// Ends reading, within the release limit, and says what came of that.
    ///
    /// # Cancellation safety
    ///
    /// Once polled, the release goes on whether or not the future is dropped.
    pub async fn release(self) -> ReleaseOutcome {
        self.guard.release().await
    }
}

impl Deref for ReadGuard {
    type Target = Term;

    /// Returns the term under which it reads.
    fn deref(&self) -> &Term {
        &self.guard
    }
}

/// The only writer's hold of an [`RwLock`](super::RwLock). It is renewed in the background until this
/// is released or dropped.
///
/// It is held like any lock, by a [`Guard`]: it can be lost, and dropping it releases it soon after.
/// It derefs to its [`Term`], which has the token, the fence and the cancellation.
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct WriteGuard {
    /// The write lock, and its term, which is cancelled with either of both locks.
    guard: Guard,
    term: Term,
    gate: Guard,
    _turn: OwnedRwLockWriteGuard<()>,
}

impl WriteGuard {
    pub(crate) fn new(guard: Guard, gate: Guard, turn: OwnedRwLockWriteGuard<()>) -> WriteGuard {
        let cancelled = guard.cancellation();
        let term = guard.with_cancellation(cancelled.clone());
        tokio::spawn(cancel_with(gate.cancellation(), cancelled));
        WriteGuard { guard, term, gate, _turn: turn }
    }

    /// Ends writing, within the release limit, and says what came of that.
    ///
    /// # Cancellation safety
    ///
    /// Once polled, the release goes on whether or not the future is dropped.
    pub async fn release(self) -> ReleaseOutcome {
        // Readers that have first refusal at the gate find the write lock vacant.
        let (write_lock, gate) = (self.guard.release().await, self.gate.release().await);
        match (write_lock, gate) {
            (held @ ReleaseOutcome::Unacknowledged { .. }, _) => held,
            // Others see the gate as held, whatever came of the write lock.
            (_, held @ ReleaseOutcome::Unacknowledged { .. }) => held,
            (write_lock, _) => write_lock,
        }
    }
}

/// Cancels the second once the first is cancelled.
async fn cancel_with(first: CancellationToken, second: CancellationToken) {
    tokio::select! {
        () = first.cancelled() => second.cancel(),
        () = second.cancelled() => {}
    }
}

impl Deref for WriteGuard {
    type Target = Term;

    /// Returns the term under which it writes.
    fn deref(&self) -> &Term {
        &self.term
    }
}

/// The number of read guards by one table in this process, by the name of the lock.
#[derive(Debug, Default)]
pub(crate) struct Reads(watch::Sender<BTreeMap<String, usize>>);

/// Counts a read guard of this process's table, for as long as it is there.
#[derive(Debug)]
pub(crate) struct Reading {
    reads: Arc<Reads>,
    lock: String,
}

impl Reads {
    /// Returns true if there is a read guard of that lock.
    pub(crate) fn is_any(&self, lock: &str) -> bool {
        self.0.borrow().contains_key(lock)
    }

    /// Waits until there is a read guard of that lock.
    pub(crate) async fn is_there(&self, lock: &str) {
        // The table keeps the sender.
        let _ = self.0.subscribe().wait_for(|reads| reads.contains_key(lock)).await;
    }

    /// Waits until there is no read guard of that lock.
    pub(crate) async fn none_is_left(&self, lock: &str) {
        // The table keeps the sender.
        let _ = self.0.subscribe().wait_for(|reads| !reads.contains_key(lock)).await;
    }
}

impl Reading {
    pub(crate) fn new(reads: &Arc<Reads>, lock: &str) -> Reading {
        reads.0.send_modify(|reads| *reads.entry(lock.to_string()).or_default() += 1);
        Reading { reads: Arc::clone(reads), lock: lock.to_string() }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.reads.0.send_modify(|reads| {
            if let Some(count) = reads.get_mut(&self.lock) {
                *count -= 1;
                if *count == 0 {
                    reads.remove(&self.lock);
                }
            }
        });
    }
}
