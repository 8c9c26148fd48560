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
const GROUP: usize = 8_000;
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
