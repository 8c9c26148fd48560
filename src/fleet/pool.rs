//! The permits that this process knows to be free, shared by all in it that want one.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Notify;

use crate::system::chance;

/// One process's knowledge of a semaphore's permits. A cheap clone is the same pool.
#[derive(Clone, Debug, Default)]
pub(super) struct Pool(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    freed: Notify,
}

#[derive(Debug, Default)]
struct Known {
    /// Seen free, and wanted by nobody here so far.
    free: Vec<usize>,
    /// Tried or held by somebody here.
    ours: BTreeSet<usize>,
}

/// A permit that one caller in this process tries or holds. Dropping it says that nobody does.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) number: usize,
    pool: Pool,
    /// True if the permit is free for the next caller here.
    is_free: bool,
}

impl Pool {
    /// Takes note of a poll: these are free.
    pub(super) fn seen(&self, free: Vec<usize>) {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.free = free;
        let Known { free, ours } = &mut *known;
        free.retain(|number| !ours.contains(number));
    }

    /// Returns one of those seen free, at random: others choose, too.
    pub(super) fn pick(&self) -> Option<Place> {
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.free.is_empty() {
            return None;
        }
        let at = chance::place(known.free.len());
        let number = known.free.swap_remove(at);
        known.ours.insert(number);
        Some(Place { number, pool: self.clone(), is_free: false })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner).free.is_empty()
    }

    /// Waits until somebody here has given a permit back. Cancellation safe.
    pub(super) async fn freed(&self) {
        self.0.freed.notified().await;
    }
}

impl Place {
    /// Gives the permit to the next caller here, without a poll.
    pub(super) fn give_back(mut self) {
        let pool = self.pool.clone();
        self.is_free = true;
        drop(self);
        pool.0.freed.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut known = self.pool.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.ours.remove(&self.number);
        // At the same moment: a poll in between would make it free a second time.
        if self.is_free {
            known.free.push(self.number);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_permit_is_given_to_one_caller_at_a_time() {
        let pool = Pool::default();
        pool.seen(vec![0, 1, 2]);
        let places: Vec<Place> = std::iter::from_fn(|| pool.pick()).collect();
        let numbers: BTreeSet<usize> = places.iter().map(|place| place.number).collect();
        assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
        pool.seen(vec![0, 1, 2]);
        assert!(pool.pick().is_none(), "they are ours, whatever a poll shows");
        drop(places);
        assert!(pool.pick().is_none(), "a poll has to show that they are free");
        pool.seen(vec![1]);
        pool.pick().unwrap().give_back();
        assert_eq!(pool.pick().unwrap().number, 1);
    }
}
