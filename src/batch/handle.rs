//! A lock's slot in the batcher of its runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use spindle_protocol::Answer;
use tokio::runtime::{self, Handle};
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use super::budget::Budget;
use super::dispatch::Dispatcher;
use super::history::{FailureHistories, FailureHistory};
use super::op::{Op, OpKind};
use super::store::Store;
use super::ticks::Ticks;
use crate::error::{Error, Kind, Outcome};

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
    shared: Shared,
}

/// The part of a batcher that its handles share.
#[derive(Clone, Debug)]
struct Shared {
    ticks: Ticks,
    histories: Arc<FailureHistories>,
    groups: Groups,
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
    history: Arc<FailureHistory>,
    histories: Arc<FailureHistories>,
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
        let running = batchers.iter().find(|batcher| batcher.runtime == runtime);
        let running =
            running.and_then(|batcher| Some((batcher.inbox.upgrade()?, batcher.shared.clone())));
        let (inbox, Shared { ticks, histories, groups }) = running.unwrap_or_else(|| {
            let mut random = SmallRng::seed_from_u64(seed);
            let ticks = Ticks::new(&mut random);
            let shared = Shared { ticks, histories: Arc::default(), groups: Groups::default() };
            let (inbox, arriving) = mpsc::unbounded_channel();
            let (store, budget) = (Arc::clone(store), Arc::clone(&self.budget));
            spawn(Box::pin(Dispatcher::new(store, arriving, budget, random).run()));
            let batcher = Batcher { runtime, inbox: inbox.downgrade(), shared: shared.clone() };
            batchers.push(batcher);
            (inbox, shared)
        });
        let slot = GroupSlot::in_one_of(&groups);
        let ticks = ticks.of_group(u32::try_from(slot.group).unwrap_or_default());
        let (history, _slot) = (histories.of(&lock), Arc::new(slot));
        BatchHandle { history, lock, ticks, inbox, histories, _slot }
    }
}

impl BatchHandle {
    pub(crate) fn ticks(&self) -> Ticks {
        self.ticks
    }

    /// Notes that an instance before this one failed at what this one asks for first.
    pub(crate) fn repeats(&self) {
        self.history.repeats();
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
        let (history, histories) = (Arc::clone(&self.history), Arc::clone(&self.histories));
        let holding = history.holding(kind.class());
        let (op, answer) = Op::new(Arc::clone(&self.lock), kind, (limit, patience), holding);
        if self.inbox.send(Arc::clone(&op)).is_err() {
            let error = Error::new(Kind::Abandoned { lock: op.lock.to_string() });
            op.answer(Outcome::failed(Answer::NotApplied, error));
        }
        async move {
            let outcome = match timeout_at(op.deadline + GRACE, answer).await {
                Ok(Ok(outcome)) => outcome,
                // The act keeps its sender until it is answered.
                Ok(Err(_)) | Err(_) => {
                    let doing = format!("lock `{}`: wait for its turn", op.lock);
                    Outcome::failed(op.without_answer(), Error::timed_out(doing, limit))
                }
            };
            histories.note(&history, &op, &outcome);
            outcome
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::Instant;

    use super::*;
    use crate::batch::store::tests::Reads;

    fn look() -> OpKind {
        OpKind::Observe { is_first: false }
    }

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_lock_joins_the_batcher_of_its_own_runtime_and_outlives_the_others() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let store = Arc::new(Reads(|| true)) as Arc<dyn Store>;
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
        let store = Arc::new(Reads(|| true)) as Arc<dyn Store>;
        let handle = batchers.handle_on(&store, "a".into(), 1, drop);
        let outcome = handle.send(look(), LIMIT, LIMIT).await;
        assert_eq!((outcome.answer, start.elapsed()), (Answer::NotApplied, Duration::ZERO));
        assert!(outcome.error.unwrap().to_string().contains("lock `a`"));
    }

    #[tokio::test(start_paused = true)]
    async fn locks_that_come_and_go_share_the_ticks_of_those_that_stay() {
        let batchers = Batchers::new(Arc::new(Budget::new()));
        let store = Arc::new(Reads(|| true)) as Arc<dyn Store>;
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
        let store = Arc::new(Reads(move || {
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
        let (fresh, repeats_max) = (handles.len(), 14);
        let reads = reads.load(Ordering::Relaxed);
        assert!((fresh + 10..=fresh + repeats_max).contains(&reads), "{reads}");
    }
}
