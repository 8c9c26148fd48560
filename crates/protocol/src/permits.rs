//! The line before several locks: a process that waits for any of them chooses which one to mark.
//!
//! All callers of one process that wait for a semaphore's permit share one place. It stands before the
//! permit that changed hands last, and before another one that has changed hands since: so before
//! one whose holders let go, wherever others hold for ever.

use std::sync::Arc;
use std::time::Duration;

use crate::line::{self, MarkLimit, PATIENCE_POLLS, Place};
use crate::{Moment, Row, Timestamp};

/// One process's wait for any of a semaphore's permits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermitWait {
    waiter: Arc<str>,
    /// Spanner's timestamp of its first poll.
    since: Option<Timestamp>,
    /// At how many polls it couldn't take any.
    misses: u8,
    mark_limit: MarkLimit,
    poll_interval: Duration,
}

/// A permit that somebody else has, or was promised.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TakenPermit {
    /// Its number.
    pub number: usize,
    /// The token in its row: when it changed hands last.
    pub token: Timestamp,
    /// The place of who waits first, if anybody does.
    pub next: Option<Place>,
}

/// A place to take before one permit.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PermitMark {
    /// The permit's number.
    pub number: usize,
    /// The place.
    pub place: Place,
}

impl PermitWait {
    /// Returns the wait of a process, which is known in line by its id and this nonce.
    pub fn new(id: &str, nonce: u64, poll_interval: Duration) -> PermitWait {
        let (waiter, mark_limit) = (line::waiter(id, nonce), MarkLimit::default());
        PermitWait { waiter, since: None, misses: 0, mark_limit, poll_interval }
    }

    /// Notes that the wait is over: a caller has a permit, or none waits any more.
    pub fn ends(&mut self) {
        (self.since, self.misses) = (None, 0);
    }

    /// Notes that something failed, which a place would add to (I8).
    pub fn failed(&mut self, now: Moment) {
        self.mark_limit.failed(now);
    }

    /// Returns true if a release has promised the permit to this very process.
    pub fn is_promised(&self, row: &Row) -> bool {
        line::is_promised(row, &self.waiter)
    }

    /// Returns the place to take after a poll that showed these permits as those of others; `has_choice`
    /// if it showed one that a caller may take.
    pub fn polled(
        &mut self,
        now: Moment,
        read_at: Timestamp,
        has_choice: bool,
        taken: &[TakenPermit],
    ) -> Option<PermitMark> {
        self.since.get_or_insert(read_at);
        if has_choice {
            return None;
        }
        let place = self.missed(now)?;
        let number = to_mark(&place, taken)?;
        Some(self.marks(now, number, place))
    }

    /// Returns the place to take after a caller came too late for this permit, which has changed hands
    /// just now.
    pub fn lost_race(&mut self, now: Moment, number: usize) -> Option<PermitMark> {
        let place = self.missed(now)?;
        Some(self.marks(now, number, place))
    }

    /// Counts a poll in vain. Returns the place, if it is time for one.
    fn missed(&mut self, now: Moment) -> Option<Place> {
        let since = self.since?;
        self.misses = (self.misses + 1).min(PATIENCE_POLLS);
        let is_due = self.misses >= PATIENCE_POLLS && self.mark_limit.is_due(now);
        is_due.then(|| Place { rank: 0, since, waiter: Arc::clone(&self.waiter) })
    }

    fn marks(&mut self, now: Moment, number: usize, place: Place) -> PermitMark {
        self.mark_limit.marked(now, self.poll_interval);
        PermitMark { number, place }
    }
}

/// Returns the permit to mark: of those before which nobody stands, or else of those whose place this one
/// goes before, the one that changed hands last. Where the place stands already, only one that has changed hands
/// since those that it stands before.
fn to_mark(place: &Place, taken: &[TakenPermit]) -> Option<usize> {
    let is_own = |it: &&TakenPermit| it.next.as_ref().is_some_and(|it| it.waiter == place.waiter);
    let marked = taken.iter().filter(is_own).map(|it| it.token).max();
    let newest = |may: &dyn Fn(&Place) -> bool, unmarked: bool| {
        let open = taken.iter().filter(|it| it.next.as_ref().map_or(unmarked, may));
        open.max_by_key(|it| it.token)
    };
    let chosen = newest(&|_| false, true).or_else(|| newest(&|it| place.goes_before(it), false))?;
    marked.is_none_or(|marked| chosen.token > marked).then_some(chosen.number)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLL: Duration = Duration::from_secs(1);

    fn place(waiter: &str, since: i64) -> Place {
        Place { rank: 0, since: Timestamp(since), waiter: waiter.into() }
    }

    fn taken(number: usize, token: i64, next: Option<Place>) -> TakenPermit {
        TakenPermit { number, token: Timestamp(token), next }
    }

    fn at(seconds: u64) -> Moment {
        Moment(POLL * u32::try_from(seconds).unwrap())
    }

    fn wait() -> PermitWait {
        PermitWait::new("a", 1, POLL)
    }

    /// The number that it marks by its second poll of these.
    fn marks(seen: &[TakenPermit]) -> Option<usize> {
        let mut wait = wait();
        assert_eq!(wait.polled(at(10), Timestamp(50), false, seen), None, "it polls once more");
        wait.polled(at(11), Timestamp(60), false, seen).map(|mark| mark.number)
    }

    #[test]
    fn the_one_that_changed_hands_last_is_marked_of_those_that_nobody_has_marked() {
        let (young, old) = (Some(place("b#1", 90)), Some(place("b#1", 10)));
        assert_eq!(marks(&[taken(0, 3, None), taken(1, 5, None), taken(2, 4, None)]), Some(1));
        assert_eq!(marks(&[taken(0, 3, None), taken(1, 5, young.clone())]), Some(0));
        assert_eq!(marks(&[taken(0, 3, young.clone()), taken(1, 5, young.clone())]), Some(1));
        assert_eq!(marks(&[taken(0, 3, young), taken(1, 5, old.clone())]), Some(0));
        assert_eq!(marks(&[taken(0, 3, old)]), None);
        assert_eq!(marks(&[]), None);
    }

    #[test]
    fn another_one_is_marked_once_it_has_changed_hands_after_the_first() {
        let own = Some(place("a#0000000000000001", 50));
        assert_eq!(marks(&[taken(0, 3, own.clone()), taken(1, 2, None)]), None);
        assert_eq!(marks(&[taken(0, 3, own.clone()), taken(1, 4, None)]), Some(1));
        assert_eq!(marks(&[taken(0, 3, own.clone()), taken(1, 4, own.clone())]), None);
        let three = [taken(0, 3, own.clone()), taken(1, 6, own), taken(2, 5, None)];
        assert_eq!(marks(&three), None);
    }

    #[test]
    fn a_wait_keeps_its_first_time_until_it_ends_and_counts_polls_that_brought_nothing() {
        let (mut wait, seen) = (wait(), [taken(0, 3, None)]);
        assert_eq!(wait.lost_race(at(9), 0), None, "it has not polled");
        assert_eq!(wait.polled(at(10), Timestamp(50), true, &seen), None);
        assert_eq!(wait.lost_race(at(10), 0), None);
        let mark = wait.polled(at(11), Timestamp(60), false, &seen).unwrap();
        assert_eq!(mark, PermitMark { number: 0, place: place("a#0000000000000001", 50) });
        wait.ends();
        assert_eq!(wait.polled(at(20), Timestamp(70), false, &seen), None);
        assert_eq!(wait.lost_race(at(21), 0).unwrap().place.since, Timestamp(70));
    }

    #[test]
    fn places_are_a_second_apart_and_ten_after_a_failure() {
        let (mut wait, seen) = (PermitWait::new("a", 1, POLL / 10), [taken(0, 3, None)]);
        let mut marks = |ms: u64| {
            let now = Moment(Duration::from_millis(ms));
            wait.polled(now, Timestamp(50), false, &seen).is_some()
        };
        assert!(!marks(0) && marks(100) && !marks(200) && !marks(1_099) && marks(1_100));
        wait.failed(at(5));
        assert!(wait.polled(at(14), Timestamp(50), false, &seen).is_none());
        assert!(wait.polled(at(15), Timestamp(50), false, &seen).is_some());
    }
}
