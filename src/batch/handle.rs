//! A mailbox: a lock's way into the batcher of its runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use spindle_protocol::{Answer, Rejection};
use tokio::runtime::{self, Handle};
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use super::request::{Class, Op, OpKind};
use super::{Store, actor};
use crate::budget::Budget;
use crate::error::{Error, Kind, Outcome};
use crate::system::Ticks;

/// An instance waits for so much longer than its act may take. So the request's own limit, which
/// knows what was sent, speaks first.
const GRACE: Duration = Duration::from_millis(5);

/// The locks of one group, which share their ticks.
const GROUP: usize = 2_000;
/// The most groups with ticks of their own; more are of no use.
const GROUPS: usize = 1_000;

/// The batchers of one connection, one for each runtime on which it has locks.
#[derive(Debug)]
pub(crate) struct Batchers {
    running: Mutex<Vec<Batcher>>,
    /// The table's, which other connections may share.
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Batcher {
    runtime: runtime::Id,
    /// The batcher ends with the last of its handles.
    inbox: mpsc::WeakUnboundedSender<Arc<Op>>,
    ticks: Ticks,
    groups: Groups,
}

/// The last acts of a lock that failed.
#[derive(Debug, Default)]
struct FailedActs {
    /// True if its last act failed, of whatever kind.
    last: AtomicBool,
    /// True if the last one of each kind failed, or lost a race.
    of: [AtomicBool; Class::ALL.len()],
}

/// How many locks each group has.
type Groups = Arc<Mutex<Vec<usize>>>;

/// A lock's slot in a group, until the last clone of its handle is dropped.
#[derive(Debug)]
struct GroupSlot {
    group: usize,
    groups: Groups,
}

impl GroupSlot {
    /// Takes a slot in the first group that has one left, so that locks that come and go stay
    /// together.
    fn in_one_of(groups: &Groups) -> GroupSlot {
        let mut counts = groups.lock().unwrap_or_else(PoisonError::into_inner);
        let group = counts.iter().position(|count| *count < GROUP).unwrap_or_else(|| {
            if counts.len() < GROUPS {
                counts.push(0);
            }
            counts.len() - 1
        });
        counts[group] += 1;
        GroupSlot { group, groups: Arc::clone(groups) }
    }
}

impl Drop for GroupSlot {
    fn drop(&mut self) {
        self.groups.lock().unwrap_or_else(PoisonError::into_inner)[self.group] -= 1;
    }
}

/// One lock's slot in a batcher.
#[derive(Clone, Debug)]
pub(crate) struct BatchHandle {
    lock: Arc<str>,
    ticks: Ticks,
    inbox: mpsc::UnboundedSender<Arc<Op>>,
    failed: Arc<FailedActs>,
    _slot: Arc<GroupSlot>,
}

impl Batchers {
    pub(crate) fn new(budget: Arc<Budget>) -> Batchers {
        Batchers { running: Mutex::default(), budget }
    }

    /// Returns a handle for `lock` in the batcher of this runtime, which starts if there is none.
    ///
    /// The same seed makes the same choices.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn handle(&self, store: &Arc<dyn Store>, lock: Arc<str>, seed: u64) -> BatchHandle {
        self.handle_on(store, lock, seed, |batcher| drop(tokio::spawn(batcher)))
    }

    /// As [`handle`](Batchers::handle), with the batcher to be run by the caller.
    pub(crate) fn handle_on(
        &self,
        store: &Arc<dyn Store>,
        lock: Arc<str>,
        seed: u64,
        spawn: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>),
    ) -> BatchHandle {
        let runtime = Handle::current().id();
        let mut batchers = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        batchers.retain(|batcher| batcher.inbox.strong_count() > 0);
        // One whose task was lost takes nothing any more.
        let is_running = |batcher: &Batcher| {
            let inbox = batcher.inbox.upgrade().filter(|inbox| !inbox.is_closed())?;
            (batcher.runtime == runtime)
                .then(|| (inbox, batcher.ticks, Arc::clone(&batcher.groups)))
        };
        let running = batchers.iter().find_map(is_running);
        let (inbox, ticks, groups) = running.unwrap_or_else(|| {
            let mut random = SmallRng::seed_from_u64(seed);
            let (ticks, groups) = (Ticks::new(&mut random), Groups::default());
            let (inbox, arriving) = mpsc::unbounded_channel();
            let (store, budget) = (Arc::clone(store), Arc::clone(&self.budget));
            spawn(Box::pin(actor::run(store, arriving, budget, random)));
            let groups_too = Arc::clone(&groups);
            batchers.push(Batcher { runtime, inbox: inbox.downgrade(), ticks, groups: groups_too });
            (inbox, ticks, groups)
        });
        let slot = GroupSlot::in_one_of(&groups);
        let ticks = ticks.of_group(u32::try_from(slot.group).unwrap_or_default());
        BatchHandle { lock, ticks, inbox, failed: Arc::default(), _slot: Arc::new(slot) }
    }
}

impl FailedActs {
    /// Returns true if an act of this kind repeats one that failed. A read finds out what became of the act
    /// before it, whatever that was.
    fn is_repeated_by(&self, class: Class) -> bool {
        let is_read = class == Class::Polls && self.last.load(Ordering::Relaxed);
        is_read || self.of[class as usize].load(Ordering::Relaxed)
    }

    fn note(&self, class: Class, outcome: &Outcome) {
        let failed = matches!(outcome.answer, Answer::NotApplied | Answer::Unknown);
        self.last.store(failed, Ordering::Relaxed);
        // A row in the way says nothing that a Spanner in trouble might not say for ever.
        let lost = matches!(outcome.answer, Answer::Rejected(Rejection::Changed(None)));
        self.of[class as usize].store(failed || lost, Ordering::Relaxed);
    }
}

impl BatchHandle {
    pub(crate) fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// Notes that an instance before this one failed at what this one asks for first.
    pub(crate) fn repeats(&self) {
        self.failed.of.iter().for_each(|last| last.store(true, Ordering::Relaxed));
    }

    /// Hands over an act, at once; the future is the answer, in not much more than `limit`. A
    /// request for it that takes longer than `patience` counts as slow.
    ///
    /// Dropping the future takes the act back if it hasn't left yet.
    pub(crate) fn send(
        &self,
        kind: OpKind,
        limit: Duration,
        patience: Duration,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let (failed, class) = (Arc::clone(&self.failed), kind.class());
        let is_repeat = failed.is_repeated_by(class);
        let (op, answer) = Op::new(Arc::clone(&self.lock), kind, (limit, patience), is_repeat);
        if self.inbox.send(Arc::clone(&op)).is_err() {
            let error = Error::new(Kind::Abandoned { lock: op.lock.to_string() });
            op.answer(Outcome::failed(Answer::NotApplied, error));
        }
        async move {
            let outcome = match timeout_at(op.deadline + GRACE, answer).await {
                Ok(Ok(outcome)) => outcome,
                // It was lost with its batcher, or its time is over.
                Ok(Err(_)) | Err(_) => unanswered(&op, limit),
            };
            failed.note(class, &outcome);
            outcome
        }
    }
}

/// Says what is known of an act whose time is over: it may have left.
fn unanswered(op: &Op, limit: Duration) -> Outcome {
    let answer = op.without_answer();
    let error = match answer {
        Answer::Unknown => {
            Error::unknown(format!("lock `{}`: hear what became of a request", op.lock))
        }
        _ => Error::timed_out(format!("lock `{}`: wait for its turn", op.lock), limit),
    };
    Outcome::failed(answer, error)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use spindle_protocol::{Change, Nonce, TermId, Timestamp, Writer};
    use tokio::time::Instant;

    use super::*;
    use crate::batch::tests::Reads;

    fn look() -> OpKind {
        OpKind::Observe { is_first: false }
    }

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_lock_joins_the_batcher_of_its_own_runtime_and_outlives_the_others() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let store = Arc::new(Reads::new(|| true)) as Arc<dyn Store>;
        let (dead, alive) = (runtime(), runtime());
        // Nothing drives it from here on.
        let first = dead.block_on(async { batchers.handle(&store, "a".into(), 1) });
        let outcome = alive.block_on(async {
            batchers.handle(&store, "b".into(), 1).send(look(), LIMIT, LIMIT).await
        });
        assert!(matches!(outcome.answer, Answer::Observed(_)), "{:?}", outcome.error);
        drop(first);
    }

    #[tokio::test(start_paused = true)]
    async fn an_act_that_no_batcher_takes_is_answered_at_once() {
        let (batchers, start) = (Batchers::new(Arc::new(Budget::new())), Instant::now());
        let store = Arc::new(Reads::new(|| true)) as Arc<dyn Store>;
        let handle = batchers.handle_on(&store, "a".into(), 1, drop);
        let outcome = handle.send(look(), LIMIT, LIMIT).await;
        assert_eq!((outcome.answer, start.elapsed()), (Answer::NotApplied, Duration::ZERO));
        assert!(outcome.error.unwrap().to_string().contains("lock `a`"));
    }

    #[tokio::test(start_paused = true)]
    async fn an_act_that_left_and_was_never_answered_has_an_unknown_outcome() {
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let store = Arc::new(Reads::new(|| true));
        store.is_silent.store(true, Ordering::Relaxed);
        let handle = batchers.handle(&(store as Arc<dyn Store>), "a".into(), 1);
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(1), writer };
        let beat = OpKind::Change(Change::Heartbeat { term, looks: false });
        let outcome = handle.send(beat, LIMIT, LIMIT).await;
        let error = outcome.error.unwrap();
        assert_eq!(outcome.answer, Answer::Unknown);
        assert!(error.is_outcome_unknown() && !error.to_string().contains("its turn"), "{error}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_batcher_whose_task_was_lost_is_replaced() {
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let store = Arc::new(Reads::new(|| true)) as Arc<dyn Store>;
        let lost = batchers.handle_on(&store, "a".into(), 1, drop);
        let handle = batchers.handle(&store, "b".into(), 1);
        let outcome = handle.send(look(), LIMIT, LIMIT).await;
        assert!(matches!(outcome.answer, Answer::Observed(_)), "{:?}", outcome.error);
        drop(lost);
    }

    #[tokio::test(start_paused = true)]
    async fn locks_that_come_and_go_share_the_ticks_of_those_that_stay() {
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let store = Arc::new(Reads::new(|| true)) as Arc<dyn Store>;
        let handle = || batchers.handle(&store, "a".into(), 1);
        let distance = LIMIT * 10;
        let tick = |handle: &BatchHandle| handle.ticks().before(distance, distance);
        let first = handle();
        for _ in 0..3 * GROUP {
            assert_eq!(tick(&handle().clone()), tick(&first));
        }
        let _many: Vec<_> = (1..GROUP).map(|_| handle()).collect();
        let another = handle();
        assert_ne!(tick(&another), tick(&first), "too many for one moment");
        let polls = |handle: &BatchHandle| handle.ticks().of_all().before(distance, distance);
        assert_eq!(polls(&another), polls(&first), "their polls go together all the same");
    }

    #[tokio::test(start_paused = true)]
    async fn batchers_of_one_table_repeat_together_what_one_of_them_may() {
        let (budget, reads) = (Arc::new(Budget::new()), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&reads);
        let store = Arc::new(Reads::new(move || {
            counted.fetch_add(1, Ordering::Relaxed);
            false
        })) as Arc<dyn Store>;
        let batchers: Vec<_> = (0..20).map(|_| Batchers::new(Arc::clone(&budget))).collect();
        let handles: Vec<_> = batchers.iter().map(|of| of.handle(&store, "a".into(), 1)).collect();
        let asking = handles.iter().map(|handle| async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(10) {
                // It may fail without having left.
                let _ = handle.send(look(), LIMIT, LIMIT).await;
            }
        });
        futures_util::future::join_all(asking).await;
        let (fresh, repeats_max) = (handles.len(), 30);
        let reads = reads.load(Ordering::Relaxed);
        assert!((fresh + 15..=fresh + repeats_max).contains(&reads), "{reads}");
    }
}
