//! The permits that this process knows to be free, shared by all in it that want one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::system::random;

/// For so many polls a process hands a permit from caller to caller before it leaves it to others: at
/// first, and at most, if nobody takes it.
const TENURE_FIRST: u32 = 5;
const TENURE_LONGEST: u32 = 60;

/// One process's knowledge of a semaphore's permits. A cheap clone is the same pool.
#[derive(Clone, Debug)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    poll: Duration,
    known: Mutex<Known>,
    freed: Notify,
}

#[derive(Debug)]
struct Known {
    /// Seen free, and wanted by nobody here so far.
    free: Vec<usize>,
    /// Tried or held by somebody here.
    ours: BTreeSet<usize>,
    /// The callers here that wait, in the order of their calls.
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// How many have called so far.
    calls: u64,
    /// Since when permits have gone from caller to caller here.
    kept_since: BTreeMap<usize, Instant>,
    /// The permits that are left to other processes, and until when.
    resting: BTreeMap<usize, Instant>,
    /// For how many polls a permit is kept.
    tenure: u32,
}

/// One caller of this process that waits. Dropping it leaves the queue.
#[derive(Debug)]
pub(super) struct Waiter {
    call: u64,
    pool: Pool,
}

/// A permit that one caller in this process tries or holds. Dropping it says that nobody does.
#[derive(Debug)]
pub(super) struct PermitSlot {
    pub(super) number: usize,
    pool: Pool,
    /// True if the permit is free for the next caller here.
    is_free: bool,
}

impl Shared {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(super) fn new(poll: Duration) -> Pool {
        let known = Known {
            free: Vec::new(),
            ours: BTreeSet::new(),
            waiting: BTreeMap::new(),
            calls: 0,
            kept_since: BTreeMap::new(),
            resting: BTreeMap::new(),
            tenure: TENURE_FIRST,
        };
        Pool(Arc::new(Shared { poll, known: Mutex::new(known), freed: Notify::new() }))
    }

    /// Takes note of a poll: these are free. Returns how long it is until the first of those that are
    /// left to others may be taken here, if there are any.
    pub(super) fn seen(&self, free: Vec<usize>) -> Option<Duration> {
        let mut known = self.0.known();
        let now = Instant::now();
        let Known { free: known_free, ours, resting, tenure, .. } = &mut *known;
        resting.retain(|number, until| {
            let is_free = free.contains(number);
            if is_free && now < *until {
                return true;
            }
            *tenure = if is_free { (*tenure * 2).min(TENURE_LONGEST) } else { TENURE_FIRST };
            false
        });
        *known_free = free;
        known_free.retain(|number| !ours.contains(number) && !resting.contains_key(number));
        resting.values().min().map(|until| until.saturating_duration_since(now))
    }

    /// Forgets what is known to be free: it is old.
    pub(super) fn forget(&self) {
        self.0.known().free.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.known().free.is_empty()
    }

    /// Returns one of those seen free, at random: others choose, too.
    pub(super) fn pick(&self) -> Option<PermitSlot> {
        let mut known = self.0.known();
        if known.free.is_empty() {
            return None;
        }
        let at = random::index_below(known.free.len());
        let number = known.free.swap_remove(at);
        known.ours.insert(number);
        known.kept_since.entry(number).or_insert_with(Instant::now);
        Some(PermitSlot { number, pool: self.clone(), is_free: false })
    }

    /// Returns true if somebody here waits for a permit.
    pub(super) fn is_awaited(&self) -> bool {
        !self.0.known().waiting.is_empty()
    }

    /// Enters the queue of this process, as its last.
    pub(super) fn enqueue(&self) -> Waiter {
        let mut known = self.0.known();
        known.calls += 1;
        Waiter { call: known.calls, pool: self.clone() }
    }

    /// Waits until somebody here has given a permit back. Cancellation safe.
    pub(super) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

impl Waiter {
    /// Waits until this caller is the first of those that wait here. It stays so until it
    /// [`steps_out`](Waiter::steps_out). Cancellation safe.
    pub(super) async fn turn_comes(&self) {
        loop {
            let called = {
                let mut known = self.pool.0.known();
                let called = Arc::clone(known.waiting.entry(self.call).or_default());
                if known.waiting.keys().next() == Some(&self.call) {
                    return;
                }
                called
            };
            called.notified().await;
        }
    }

    /// Lets the next one go first, while this caller tries the permit that it has picked. If another
    /// process was faster, it waits again, before all that called later.
    pub(super) fn steps_out(&self) {
        let mut known = self.pool.0.known();
        known.waiting.remove(&self.call);
        if let Some(next) = known.waiting.values().next() {
            next.notify_one();
        }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.steps_out();
    }
}

impl PermitSlot {
    /// Gives the permit to the next caller here, without a poll. One that has been kept here for long
    /// is left to other processes first.
    pub(super) fn give_back(mut self) {
        let pool = self.pool.clone();
        self.is_free = true;
        drop(self);
        pool.0.freed.notify_one();
    }
}

impl Drop for PermitSlot {
    fn drop(&mut self) {
        let mut known = self.pool.0.known();
        known.ours.remove(&self.number);
        let now = Instant::now();
        let is_awaited = !known.waiting.is_empty();
        let kept = known.kept_since.get(&self.number).map(|since| now.duration_since(*since));
        let is_due = kept.is_some_and(|kept| kept >= self.pool.0.poll * known.tenure);
        // All at the same moment: a poll in between would make it free a second time.
        match (self.is_free, is_awaited, is_due) {
            // A poll has to show what became of it.
            (false, ..) => drop(known.kept_since.remove(&self.number)),
            (true, true, false) => known.free.push(self.number),
            (true, false, _) => {
                known.kept_since.remove(&self.number);
                known.free.push(self.number);
            }
            // It is the turn of other processes.
            (true, true, true) => {
                known.kept_since.remove(&self.number);
                known.resting.insert(self.number, now + self.pool.0.poll * 5 / 4);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_permit_is_given_to_one_caller_at_a_time() {
        let pool = Pool::new(Duration::from_secs(1));
        pool.seen(vec![0, 1, 2]);
        let slots: Vec<PermitSlot> = std::iter::from_fn(|| pool.pick()).collect();
        let numbers: BTreeSet<usize> = slots.iter().map(|slot| slot.number).collect();
        assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
        pool.seen(vec![0, 1, 2]);
        assert!(pool.pick().is_none(), "they are ours, whatever a poll shows");
        drop(slots);
        assert!(pool.pick().is_none(), "a poll has to show that they are free");
        pool.seen(vec![1]);
        pool.pick().unwrap().give_back();
        assert_eq!(pool.pick().unwrap().number, 1);
    }
}
