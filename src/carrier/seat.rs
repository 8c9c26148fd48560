//! A lock's place in the carrier of its runtime.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use spindle_protocol::Answer;
use tokio::runtime::{self, Handle};
use tokio::sync::mpsc;
use tokio::time::{Instant, timeout_at};

use super::parcel::{Lane, Load, Parcel};
use super::post::Post;
use super::step::Step;
use super::store::Store;
use crate::error::{Error, Kind};
use crate::outcome::Outcome;

/// How much longer an instance waits than its act may take, so that the request's own limit, which
/// knows what was sent, speaks first.
const GRACE: Duration = Duration::from_millis(5);

/// The carriers of one table, one for each runtime on which it has locks.
#[derive(Debug)]
pub(crate) struct Carriers(Mutex<Vec<Carrier>>);

#[derive(Debug)]
struct Carrier {
    runtime: runtime::Id,
    step: Step,
    /// The carrier ends with the last of its seats.
    inbox: mpsc::WeakUnboundedSender<Arc<Parcel>>,
}

/// One lock's place in a carrier.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    lock: Arc<str>,
    step: Step,
    inbox: mpsc::UnboundedSender<Arc<Parcel>>,
    record: Arc<Record>,
}

/// How the last acts of a lock fared.
#[derive(Debug, Default)]
struct Record {
    /// True if the last one failed.
    has_failed: AtomicBool,
    /// True if the last one of each kind did.
    has_failed_in: [AtomicBool; Lane::ALL.len()],
    /// Acts in a row that met their limit, by kind.
    suspicions: [AtomicU32; Lane::ALL.len()],
}

impl Carriers {
    pub(crate) fn none() -> Carriers {
        Carriers(Mutex::default())
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
        let mut carriers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        carriers.retain(|carrier| carrier.inbox.strong_count() > 0);
        let running = carriers.iter().find(|carrier| carrier.runtime == runtime);
        let running = running.and_then(|carrier| Some((carrier.inbox.upgrade()?, carrier.step)));
        let (inbox, step) = running.unwrap_or_else(|| {
            let mut random = SmallRng::seed_from_u64(seed);
            let step = Step::new(&mut random);
            let (inbox, arriving) = mpsc::unbounded_channel();
            spawn(Box::pin(Post::new(Arc::clone(store), arriving, random).run()));
            carriers.push(Carrier { runtime, step, inbox: inbox.downgrade() });
            (inbox, step)
        });
        Seat { lock, step, inbox, record: Arc::default() }
    }
}

impl Seat {
    pub(crate) fn step(&self) -> Step {
        self.step
    }

    /// Returns the name of the lock.
    pub(crate) fn lock(&self) -> &str {
        &self.lock
    }

    /// Hands over an act, at once; the future is the answer, in not much more than `limit`.
    ///
    /// Dropping the future takes the act back if it hasn't left yet.
    pub(crate) fn send(
        &self,
        load: Load,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let record = Arc::clone(&self.record);
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
            record.note(&parcel, &outcome);
            outcome
        }
    }
}

impl Record {
    /// Returns true if an act of this kind repeats one that failed, and how many met their limit
    /// before.
    fn standing(&self, lane: Lane) -> (bool, u32) {
        // A read finds out if the act before it failed.
        let has_failed = lane == Lane::Polls && self.has_failed.load(Ordering::Relaxed);
        let is_repeat = has_failed || self.has_failed_in[lane as usize].load(Ordering::Relaxed);
        (is_repeat, self.suspicions[lane as usize].load(Ordering::Relaxed))
    }

    fn note(&self, parcel: &Parcel, outcome: &Outcome) {
        let lane = parcel.load.lane() as usize;
        let failed = matches!(outcome.answer, Answer::NotApplied | Answer::Unknown);
        self.has_failed.store(failed, Ordering::Relaxed);
        self.has_failed_in[lane].store(failed, Ordering::Relaxed);
        let met_limit = Instant::now() >= parcel.deadline;
        if outcome.answer == Answer::Unknown && met_limit {
            self.suspicions[lane].store(parcel.suspicion.saturating_add(1), Ordering::Relaxed);
        } else if !failed {
            self.suspicions[lane].store(0, Ordering::Relaxed);
        }
    }
}
