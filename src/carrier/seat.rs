//! A lock's place in the carrier of its runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use tokio::runtime::{self, Handle};
use tokio::sync::mpsc;
use tokio::time::timeout_at;

use super::budget::Budget;
use super::parcel::{Load, Parcel};
use super::post::Post;
use super::record::{Record, Records};
use super::step::Step;
use super::store::Store;
use crate::error::{Error, Kind};
use crate::outcome::Outcome;

/// How much longer an instance waits than its act may take, so that the request's own limit, which
/// knows what was sent, speaks first.
const GRACE: Duration = Duration::from_millis(5);

/// How many locks share their marks.
const GROUP: usize = 2_000;
/// How many groups have marks of their own; more are of no use.
const GROUPS: usize = 1_000;

/// The batchers of one connection, one for each runtime on which it has locks.
#[derive(Debug)]
pub(crate) struct Carriers {
    running: Mutex<Vec<Carrier>>,
    /// The table's, which other connections may share.
    budget: Arc<Budget>,
}

#[derive(Debug)]
struct Carrier {
    runtime: runtime::Id,
    step: Step,
    records: Arc<Records>,
    /// The carrier ends with the last of its seats.
    inbox: mpsc::WeakUnboundedSender<Arc<Parcel>>,
    /// How many have sat down so far.
    seats: Arc<AtomicUsize>,
}

/// One lock's place in a carrier.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    lock: Arc<str>,
    step: Step,
    inbox: mpsc::UnboundedSender<Arc<Parcel>>,
    record: Arc<Record>,
    records: Arc<Records>,
}

impl Carriers {
    pub(crate) fn new(budget: Arc<Budget>) -> Carriers {
        Carriers { running: Mutex::default(), budget }
    }

    /// Returns a seat for `lock` in the carrier of this runtime, which starts if there is none.
    ///
    /// The same seed makes the same choices.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn seat<S: Store>(&self, store: &Arc<S>, lock: Arc<str>, seed: u64) -> Seat {
        self.seat_on(store, lock, seed, |carrier| drop(tokio::spawn(carrier)))
    }

    /// As [`seat`](Carriers::seat), with the carrier to be run by the caller.
    pub(crate) fn seat_on<S: Store>(
        &self,
        store: &Arc<S>,
        lock: Arc<str>,
        seed: u64,
        spawn: impl FnOnce(Pin<Box<dyn Future<Output = ()> + Send>>),
    ) -> Seat {
        let runtime = Handle::current().id();
        let mut carriers = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        carriers.retain(|carrier| carrier.inbox.strong_count() > 0);
        let running = carriers.iter().find(|carrier| carrier.runtime == runtime);
        let running = running.and_then(|carrier| {
            let (records, seats) = (Arc::clone(&carrier.records), Arc::clone(&carrier.seats));
            Some((carrier.inbox.upgrade()?, carrier.step, records, seats))
        });
        let (inbox, step, records, seats) = running.unwrap_or_else(|| {
            let mut random = SmallRng::seed_from_u64(seed);
            let step = Step::new(&mut random);
            let (inbox, arriving) = mpsc::unbounded_channel();
            let (store, budget) = (Arc::clone(store), Arc::clone(&self.budget));
            spawn(Box::pin(Post::new(store, arriving, budget, random).run()));
            let records = Arc::<Records>::default();
            let known = Arc::clone(&records);
            let seats = Arc::<AtomicUsize>::default();
            carriers.push(Carrier {
                runtime,
                step,
                records: known,
                inbox: inbox.downgrade(),
                seats: Arc::clone(&seats),
            });
            (inbox, step, records, seats)
        });
        let group = seats.fetch_add(1, Ordering::Relaxed) / GROUP;
        let step = step.of_group(u32::try_from(group % GROUPS).unwrap_or_default());
        Seat { record: records.of(&lock), lock, step, inbox, records }
    }
}

impl Seat {
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// Notes that an instance before this one failed at what this one asks for first.
    pub(crate) fn repeats(&self) {
        self.record.repeats();
    }

    /// Hands over an act, at once; the future is the answer, in not much more than `limit`.
    ///
    /// Dropping the future takes the act back if it hasn't left yet.
    pub(crate) fn send(
        &self,
        load: Load,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let (record, records) = (Arc::clone(&self.record), Arc::clone(&self.records));
        let standing = record.standing(load.lane());
        let (parcel, answer) = Parcel::new(Arc::clone(&self.lock), load, limit, standing);
        // A carrier that is gone answers nothing, which is told below.
        let _ = self.inbox.send(Arc::clone(&parcel));
        async move {
            let outcome = match timeout_at(parcel.deadline + GRACE, answer).await {
                Ok(Ok(outcome)) => outcome,
                Ok(Err(_)) => {
                    let error = Error::new(Kind::Abandoned { lock: parcel.lock.to_string() });
                    Outcome::failed(parcel.without_answer(), error)
                }
                Err(_) => {
                    let doing = format!("lock `{}`: wait for its turn", parcel.lock);
                    Outcome::failed(parcel.without_answer(), Error::timed_out(doing, limit))
                }
            };
            records.note(&record, &parcel, &outcome);
            outcome
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use spindle_protocol::{Answer, Change, Timestamp};
    use tokio::time::Instant;

    use super::*;
    use crate::carrier::{Sight, Verdict};
    use crate::error::Result;

    /// Answers reads if it is told to, counts them, and refuses the rest.
    #[derive(Default)]
    struct Counting {
        answers: bool,
        reads: AtomicUsize,
    }

    impl Store for Counting {
        async fn read(&self, _: Vec<Arc<str>>, limit: Duration) -> Result<Sight> {
            self.reads.fetch_add(1, Ordering::Relaxed);
            let sight = Sight { rows: Vec::new(), read_at: Timestamp(1), with_lease: true };
            if self.answers { Ok(sight) } else { Err(Error::timed_out("read", limit)) }
        }

        async fn transact(&self, changes: Vec<(Arc<str>, Change)>, _: Duration) -> Verdict {
            Verdict::failed(&changes, Error::config("no request"))
        }

        async fn leftovers(
            &self,
            _: Vec<(Arc<str>, Timestamp)>,
            _: Duration,
        ) -> Result<Vec<(Vec<String>, bool)>> {
            Ok(Vec::new())
        }
    }

    fn look() -> Load {
        Load::Observe { saw_lease: Arc::default(), saw_seizure: Arc::default() }
    }

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_lock_joins_the_batcher_of_its_own_runtime_and_outlives_the_others() {
        let runtime =
            || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (batchers, store) = (
            Carriers::new(Arc::new(Budget::new())),
            Arc::new(Counting { answers: true, ..Counting::default() }),
        );
        let (dead, alive) = (runtime(), runtime());
        // Nothing drives it from here on.
        let first = dead.block_on(async { batchers.seat(&store, "a".into(), 1) });
        let outcome = alive
            .block_on(async { batchers.seat(&store, "b".into(), 1).send(look(), LIMIT).await });
        assert!(matches!(outcome.answer, Answer::Observed(_)), "{:?}", outcome.error);
        drop(first);
    }

    #[tokio::test(start_paused = true)]
    async fn batchers_of_one_table_repeat_together_what_one_of_them_may() {
        let (budget, store) = (Arc::new(Budget::new()), Arc::<Counting>::default());
        let batchers: Vec<_> = (0..20).map(|_| Carriers::new(Arc::clone(&budget))).collect();
        let seats: Vec<_> = batchers.iter().map(|of| of.seat(&store, "a".into(), 1)).collect();
        let asking = seats.iter().map(|seat| async {
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(10) {
                // It may fail without having left.
                let _ = seat.send(look(), LIMIT).await;
            }
        });
        futures_util::future::join_all(asking).await;
        let (fresh, repeats_max) = (seats.len(), 14);
        let reads = store.reads.load(Ordering::Relaxed);
        assert!((fresh + 10..=fresh + repeats_max).contains(&reads), "{reads}");
    }
}
