//! The permits that this process knows to be free, and its place in line: shared by all in it that
//! want one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle_protocol::permits::{PermitMark, PermitWait, TakenPermit};
use spindle_protocol::{Moment, Row, Timestamp};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use spindle::rows;

/// Between two polls of which the first showed something free, and after a permit was dropped here.
pub(crate) const PAUSE_FIRST: Duration = Duration::from_millis(50);
pub(crate) const PAUSE_LONGEST: Duration = Duration::from_secs(10);
/// Between two tries of permits that fail again and again, at first.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// One process's knowledge of a semaphore's permits. A cheap clone is the same pool.
#[derive(Clone, Debug)]
pub(crate) struct Pool(Arc<PoolState>);

#[derive(Debug)]
struct PoolState {
    /// Under which the pool stands in line: its own, and that of no instance.
    nonce: u64,
    known: Mutex<PoolView>,
    freed: Notify,
}

#[derive(Debug)]
struct PoolView {
    /// Seen free, or promised to this process, and wanted by nobody here so far: the best one last.
    free: Vec<usize>,
    /// Given back here, and seen with no other process since.
    lately: BTreeSet<usize>,
    /// Tried or held by somebody here.
    ours: BTreeSet<usize>,
    failed: FailedPermits,
    /// The callers here that wait, in the order of their calls.
    waiting: BTreeMap<u64, Arc<Notify>>,
    /// How many have called so far.
    calls: u64,
    /// How many of them wait, or try a permit.
    callers: usize,
    line: PermitWait,
    /// When to poll again.
    poll_at: Instant,
    /// How many permits were given back here so far.
    given_back: u64,
}

/// The permits that failed when a caller that waits tried them last: their rows can't be written,
/// perhaps, though the others' can.
#[derive(Debug)]
struct FailedPermits {
    numbers: BTreeSet<usize>,
    /// Until then those who wait go by the others, as if somebody else had these.
    retry_at: Instant,
    /// How long the next pause is.
    pause: Duration,
}

/// The permits as a poll shows them.
#[derive(Debug)]
pub(crate) struct Sight {
    pub(crate) read_at: Timestamp,
    /// For anybody.
    pub(crate) free: Vec<usize>,
    /// For this process alone, for the time being.
    pub(crate) promised: Vec<usize>,
    /// Held, or promised to another process.
    pub(crate) taken: Vec<TakenPermit>,
}

/// One caller of this process that waits. Dropping it leaves the queue.
#[derive(Debug)]
pub(crate) struct PermitCaller {
    call: u64,
    pool: Pool,
}

/// A permit that one caller in this process tries or holds. Dropping it says that nobody does.
#[derive(Debug)]
pub(crate) struct PermitSlot {
    pub(crate) number: usize,
    pool: Pool,
    /// By the caller, who has tried it.
    is_held: bool,
}

impl PoolView {
    /// Takes note of what a poll shows.
    ///
    /// A permit that is promised to this process goes first. Then come those that it had lately, so that
    /// processes that have enough don't race. Others choose, too: the rest goes by chance, and those that
    /// failed come last.
    fn sees(&mut self, sight: &Sight) {
        for permit in &sight.taken {
            self.lately.remove(&permit.number);
            self.failed.numbers.remove(&permit.number);
        }
        let is_wanted = |number: &&usize| !self.ours.contains(number);
        self.free = sight.free.iter().filter(is_wanted).copied().collect();
        self.free.sort_by_cached_key(|number| (self.lately.contains(number), rows::random()));
        self.free.sort_by_key(|number| !self.failed.numbers.contains(number));
        self.free.extend(sight.promised.iter().filter(is_wanted));
    }

    /// Has those who wait poll in a moment.
    fn polls_soon(&mut self, freed: &Notify) {
        let now = Instant::now();
        let soon = now + PAUSE_FIRST;
        // A poll that is under way has no later one set.
        self.poll_at = if self.poll_at <= now { soon } else { self.poll_at.min(soon) };
        freed.notify_one();
    }
}

impl Pool {
    /// Returns the pool of this process, which polls so often.
    pub(crate) fn new(id: &str, poll: Duration) -> Pool {
        let nonce = rows::random();
        let known = PoolView {
            free: Vec::new(),
            lately: BTreeSet::new(),
            ours: BTreeSet::new(),
            failed: FailedPermits {
                numbers: BTreeSet::new(),
                retry_at: Instant::now(),
                pause: RETRY_PAUSE,
            },
            waiting: BTreeMap::new(),
            calls: 0,
            callers: 0,
            line: PermitWait::new(id, nonce, poll),
            poll_at: Instant::now(),
            given_back: 0,
        };
        Pool(Arc::new(PoolState { nonce, known: Mutex::new(known), freed: Notify::new() }))
    }

    fn known(&self) -> MutexGuard<'_, PoolView> {
        self.0.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn nonce(&self) -> u64 {
        self.0.nonce
    }

    /// Returns true if a release has promised the permit of this row to this process.
    pub(crate) fn is_promised(&self, row: &Row) -> bool {
        self.known().line.is_promised(row)
    }

    /// Takes note of a poll by a caller that only tries.
    pub(crate) fn seen(&self, sight: &Sight) {
        self.known().sees(sight);
    }

    /// Takes note of a poll for those that wait. Returns the place in line to take, if it is time for one.
    pub(crate) fn polled(&self, now: Moment, mut sight: Sight) -> Option<PermitMark> {
        let mut known = self.known();
        known.sees(&sight);
        let PoolView { ours, line, free, failed, .. } = &mut *known;
        if Instant::now() < failed.retry_at {
            free.retain(|number| !failed.numbers.contains(number));
        }
        sight.taken.retain(|permit| !ours.contains(&permit.number));
        line.polled(now, sight.read_at, !free.is_empty(), &sight.taken)
    }

    /// Takes note that another process was faster to take this permit. Returns the place to take, if no
    /// other permit is known to be free.
    pub(crate) fn lost_race(&self, now: Moment, number: usize) -> Option<PermitMark> {
        let mut known = self.known();
        if known.free.is_empty() { known.line.lost_race(now, number) } else { None }
    }

    /// Takes note that something failed: a place in line would add to it.
    pub(crate) fn failed(&self, now: Moment) {
        self.known().line.failed(now);
    }

    /// Takes note that a caller who waits could not try this permit. The first time that may be so with
    /// any of them; a permit that fails again is left alone for a while.
    pub(crate) fn take_failed(&self, now: Moment, number: usize) {
        let mut known = self.known();
        let PoolView { free, failed, line, .. } = &mut *known;
        // The others would fail as well. They wait for the next poll.
        free.clear();
        let is_old = failed.retry_at + PAUSE_LONGEST * 2 < Instant::now();
        if failed.numbers.is_empty() || is_old {
            failed.numbers.clear();
            failed.pause = RETRY_PAUSE;
        }
        if failed.numbers.insert(number) {
            line.failed(now);
        } else {
            failed.retry_at = Instant::now() + failed.pause;
            failed.pause = (failed.pause * 2).min(PAUSE_LONGEST);
        }
    }

    /// Takes note that a caller has this permit. For those that are left a new wait begins, and no pause
    /// goes on that trouble made long.
    pub(crate) fn is_served(&self, number: usize) {
        let mut known = self.known();
        known.line.ends();
        known.failed.numbers.remove(&number);
        known.polls_soon(&self.0.freed);
    }

    /// Forgets what is known to be free: it is old.
    pub(crate) fn forget(&self) {
        self.known().free.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known().free.is_empty()
    }

    /// Returns the best of those seen free.
    pub(crate) fn pick(&self) -> Option<PermitSlot> {
        let mut known = self.known();
        let number = known.free.pop()?;
        known.ours.insert(number);
        Some(PermitSlot { number, pool: self.clone(), is_held: false })
    }

    /// Returns true if somebody here waits for a permit.
    pub(crate) fn is_awaited(&self) -> bool {
        !self.known().waiting.is_empty()
    }

    /// Enters the queue of this process, as its last.
    pub(crate) fn enqueue(&self) -> PermitCaller {
        let mut known = self.known();
        known.calls += 1;
        known.callers += 1;
        PermitCaller { call: known.calls, pool: self.clone() }
    }

    /// Waits until it is time to poll: a permit that is given back here moves that time.
    /// Returns what [`poll_ends`](Pool::poll_ends) is to be told. Cancellation safe.
    pub(crate) async fn poll_begins(&self) -> u64 {
        loop {
            let poll_at = {
                let mut known = self.known();
                let now = Instant::now();
                if known.poll_at <= now {
                    // If this poll is given up, the next one is due.
                    known.poll_at = now;
                    return known.given_back;
                }
                known.poll_at
            };
            tokio::select! {
                () = self.0.freed.notified() => {}
                () = sleep_until(poll_at) => {}
            }
        }
    }

    /// Has the next poll come after this pause, unless a permit was given back since this one began.
    pub(crate) fn poll_ends(&self, begun: u64, pause: Duration) {
        let mut known = self.known();
        if known.given_back == begun {
            known.poll_at = Instant::now() + pause;
        }
    }
}

impl PermitCaller {
    /// Waits until this caller is the first of those that wait here. It stays so until it
    /// [`steps_out`](PermitCaller::steps_out). Cancellation safe.
    pub(crate) async fn turn_comes(&self) {
        loop {
            let called = {
                let mut known = self.pool.known();
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
    pub(crate) fn steps_out(&self) {
        let mut known = self.pool.known();
        known.waiting.remove(&self.call);
        if let Some(next) = known.waiting.values().next() {
            next.notify_one();
        }
    }
}

impl Drop for PermitCaller {
    fn drop(&mut self) {
        self.steps_out();
        let mut known = self.pool.known();
        known.callers -= 1;
        if known.callers == 0 {
            known.line.ends();
        }
    }
}

impl PermitSlot {
    /// Takes note that its caller has the permit.
    pub(crate) fn is_taken(&mut self) {
        self.is_held = true;
        self.pool.is_served(self.number);
    }

    /// Has those that wait here poll at once: the permit is free, or promised to whoever is next. Where
    /// nobody waits, it is known to be free, as if a poll had shown it.
    pub(crate) fn give_back(mut self) {
        let (pool, number) = (self.pool.clone(), self.number);
        // Released, and not dropped: nothing is to be waited for.
        self.is_held = false;
        drop(self);
        let mut known = pool.known();
        known.lately.insert(number);
        if known.waiting.is_empty() {
            known.free.push(number);
        }
        known.given_back += 1;
        known.poll_at = Instant::now();
        pool.0.freed.notify_one();
    }
}

impl Drop for PermitSlot {
    fn drop(&mut self) {
        let mut known = self.pool.known();
        known.ours.remove(&self.number);
        known.lately.remove(&self.number);
        if self.is_held {
            // Its guard was dropped just before, and the release is sent in a moment.
            known.given_back += 1;
            known.polls_soon(&self.pool.0.freed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sight(free: &[usize], promised: &[usize]) -> Sight {
        let (free, promised) = (free.to_vec(), promised.to_vec());
        Sight { read_at: Timestamp(1), free, promised, taken: Vec::new() }
    }

    #[tokio::test]
    async fn each_permit_is_given_to_one_caller_at_a_time() {
        let pool = Pool::new("a", Duration::from_secs(1));
        pool.seen(&sight(&[0, 1], &[2]));
        let slots: Vec<PermitSlot> = std::iter::from_fn(|| pool.pick()).collect();
        let numbers: BTreeSet<usize> = slots.iter().map(|slot| slot.number).collect();
        assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
        assert_eq!(slots[0].number, 2, "what is promised goes first");
        pool.seen(&sight(&[0, 1, 2], &[]));
        assert!(pool.pick().is_none(), "they are ours, whatever a poll shows");
        drop(slots);
        assert!(pool.pick().is_none(), "a poll has to show that they are free");
        pool.seen(&sight(&[1], &[]));
        pool.pick().unwrap().give_back();
        assert_eq!(pool.pick().map(|slot| slot.number), Some(1), "nobody else waits");
    }

    #[tokio::test]
    async fn a_process_goes_on_with_the_permits_that_it_had_lately() {
        let (pool, all) = (Pool::new("a", Duration::from_secs(1)), Vec::from_iter(0..30));
        pool.seen(&sight(&[3, 4], &[]));
        let slots = [pool.pick().unwrap(), pool.pick().unwrap()];
        slots.into_iter().for_each(PermitSlot::give_back);
        pool.seen(&sight(&all, &[]));
        let next = [pool.pick().unwrap().number, pool.pick().unwrap().number];
        assert_eq!(BTreeSet::from(next), BTreeSet::from([3, 4]));
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_fails_is_picked_last_and_then_left_alone_for_a_while() {
        let pool = Pool::new("a", Duration::from_secs(1));
        let polled = |free: &[usize]| pool.polled(Moment::default(), sight(free, &[]));
        polled(&[0, 1, 2]);
        pool.take_failed(Moment::default(), 1);
        assert!(pool.pick().is_none(), "the others may fail as well");
        polled(&[0, 1, 2]);
        let picked: Vec<PermitSlot> = std::iter::from_fn(|| pool.pick()).collect();
        assert_eq!(picked[2].number, 1);
        drop(picked);
        pool.take_failed(Moment::default(), 1);
        polled(&[1]);
        assert!(pool.is_empty());
        pool.seen(&sight(&[1], &[]));
        assert!(!pool.is_empty(), "who only tries does not wait");
        tokio::time::sleep(RETRY_PAUSE).await;
        polled(&[1]);
        assert!(!pool.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn no_pause_between_polls_outlasts_the_trouble_that_made_it_long() {
        let (pool, start) = (Pool::new("a", Duration::from_secs(1)), Instant::now());
        let begun = pool.poll_begins().await;
        pool.seen(&sight(&[0], &[]));
        pool.poll_ends(begun, PAUSE_LONGEST);
        let waiting = tokio::spawn({
            let pool = pool.clone();
            async move { pool.poll_begins().await }
        });
        tokio::task::yield_now().await;
        pool.pick().unwrap().is_taken();
        waiting.await.unwrap();
        assert!(start.elapsed() <= PAUSE_FIRST * 2, "{:?}", start.elapsed());
    }

    #[tokio::test(start_paused = true)]
    async fn a_permit_that_is_given_back_while_a_poll_is_under_way_has_another_one_follow() {
        let (pool, second) = (Pool::new("a", Duration::from_secs(1)), Duration::from_secs(1));
        let due = async |pool: &Pool| {
            let start = Instant::now();
            let begun = pool.poll_begins().await;
            (begun, start.elapsed())
        };
        pool.seen(&sight(&[0], &[]));
        let slot = pool.pick().unwrap();
        let (begun, _) = due(&pool).await;
        pool.poll_ends(begun, second);
        let (begun, took) = due(&pool).await;
        assert_eq!(took, second, "nothing was given back");
        slot.give_back();
        pool.poll_ends(begun, second);
        // This one is given up, and so is the knowledge that it would have brought.
        let (_, took) = due(&pool).await;
        assert_eq!(took, Duration::ZERO);
        let (begun, took) = due(&pool).await;
        assert_eq!(took, Duration::ZERO);
        pool.poll_ends(begun, second);
        assert_eq!(due(&pool).await.1, second);
    }
}
