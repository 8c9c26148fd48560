//! The only task that sends: what leaves when, and what is done about those that don't come back.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use rand::RngExt as _;
use rand::rngs::SmallRng;
use tokio::sync::mpsc;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep_until};

use super::lanes::{Batch, Fare, Lanes};
use super::parcel::{Lane, Parcel};
use super::store::Store;
use super::trip::{Return, panicked, travel};
use crate::error::panic_message;

/// Into how many parts acts are sent again that failed together, or are slow to come back. Two
/// rounds find one row among a thousand, well within the lease, at the price of three failures.
const PARTS: usize = 32;
/// How long parts of a batch that was refused stay, at the most. By then, others that wanted the
/// same rows at the same time are out of step.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How often those who woke at the same moment get their chance to hand their acts over first.
const TURNS_MAX: usize = 16;

pub(crate) struct Post<S> {
    store: Arc<S>,
    inbox: mpsc::UnboundedReceiver<Arc<Parcel>>,
    lanes: Lanes,
    trips: BTreeMap<u64, Trip>,
    travelling: FuturesUnordered<Travelling>,
    sent: u64,
    random: SmallRng,
}

type Travelling = Pin<Box<dyn Future<Output = (u64, Return)> + Send>>;

/// A request on its way.
struct Trip {
    lane: Lane,
    parcels: Arc<[Arc<Parcel>]>,
    fare: Fare,
    /// When its acts are sent again in parts.
    late_from: Option<Instant>,
}

impl<S: Store> Post<S> {
    pub(crate) fn new(
        store: Arc<S>,
        inbox: mpsc::UnboundedReceiver<Arc<Parcel>>,
        random: SmallRng,
    ) -> Post<S> {
        Post {
            store,
            inbox,
            lanes: Lanes::new(Instant::now()),
            trips: BTreeMap::new(),
            travelling: FuturesUnordered::new(),
            sent: 0,
            random,
        }
    }

    /// Runs until the last seat is gone: then nobody waits for an answer any more.
    pub(crate) async fn run(mut self) {
        loop {
            let now = Instant::now();
            self.part_late(now);
            while let Some(batch) = self.lanes.depart(now) {
                self.send(batch, now);
            }
            let next = self.next(now);
            tokio::select! {
                biased;
                parcel = self.inbox.recv() => match parcel {
                    Some(parcel) => {
                        self.lanes.add(parcel);
                        self.collect().await;
                    }
                    None => return,
                },
                Some((trip, back)) = self.travelling.next() => self.arrived(trip, back),
                () = at(next) => {}
            }
        }
    }

    /// Takes in what is handed over at this moment; it waits for nobody.
    async fn collect(&mut self) {
        for _ in 0..TURNS_MAX {
            let mut is_more = false;
            while let Ok(parcel) = self.inbox.try_recv() {
                self.lanes.add(parcel);
                is_more = true;
            }
            if !is_more {
                return;
            }
            yield_now().await;
        }
    }

    fn send(&mut self, batch: Batch, now: Instant) {
        let limit = batch.limit(now);
        let Batch { lane, parcels, fare } = batch;
        parcels.iter().for_each(|parcel| parcel.leaves(parcels.len() == 1));
        let parcels: Arc<[Arc<Parcel>]> = parcels.into();
        let is_parted = lane == Lane::Heartbeats && parcels.len() > 1;
        let late_from = is_parted.then(|| now + shortest(&parcels) / 3);
        let (store, carried) = (Arc::clone(&self.store), Arc::clone(&parcels));
        self.sent += 1;
        let trip = self.sent;
        self.travelling.push(Box::pin(async move {
            // A panic in it, such as a log subscriber's, must not cost all the others their carrier.
            let travelling = AssertUnwindSafe(travel(&*store, lane, &carried, limit));
            let back = travelling.catch_unwind().await;
            (trip, back.unwrap_or_else(|panic| panicked(&carried, &panic_message(&*panic))))
        }));
        self.trips.insert(trip, Trip { lane, parcels, fare, late_from });
    }

    fn arrived(&mut self, trip: u64, back: Return) {
        let Some(Trip { lane, parcels, fare, late_from }) = self.trips.remove(&trip) else {
            return;
        };
        let was_parted = lane == Lane::Heartbeats && parcels.len() > 1 && late_from.is_none();
        if !was_parted {
            self.lanes.arrived(lane, fare, back.is_answered);
        }
        let mut again = Vec::new();
        for (parcel, outcome) in parcels.iter().zip(back.outcomes) {
            match outcome {
                // Its acts are under way again: they are answered by what becomes of those.
                Some(outcome) if was_parted && outcome.error.is_some() => {}
                None if was_parted => {}
                Some(outcome) => parcel.answer(outcome),
                None => {
                    parcel.returns();
                    again.push(Arc::clone(parcel));
                }
            }
        }
        self.part(lane, &again);
    }

    /// Sends acts again that failed together, in parts.
    fn part(&mut self, lane: Lane, again: &[Arc<Parcel>]) {
        for part in again.chunks(again.len().div_ceil(PARTS).max(1)) {
            let pause = match lane {
                Lane::Heartbeats | Lane::Polls => Duration::ZERO,
                Lane::Terms | Lane::Sweeps => PAUSE_MAX.mul_f64(self.random.random()),
            };
            self.lanes.add_part(lane, Instant::now() + pause, part.to_vec());
        }
    }

    /// Sends heartbeats again, in smaller company, if their request is slow. One row that waits for
    /// a lock makes all the others in its request wait. A repeat is harmless (I4).
    fn part_late(&mut self, now: Instant) {
        for trip in self.trips.values_mut() {
            if trip.late_from.is_none_or(|late_from| now < late_from) {
                continue;
            }
            trip.late_from = None;
            self.lanes.arrived(trip.lane, trip.fare, false);
            for part in trip.parcels.chunks(trip.parcels.len().div_ceil(PARTS)) {
                self.lanes.add_part(trip.lane, now, part.to_vec());
            }
        }
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        let late = self.trips.values().filter_map(|trip| trip.late_from).min();
        late.into_iter().chain(self.lanes.next(now)).min()
    }
}

fn shortest(parcels: &[Arc<Parcel>]) -> Duration {
    parcels.iter().map(|parcel| parcel.limit).min().unwrap_or_default()
}

async fn at(next: Option<Instant>) {
    match next {
        Some(next) => sleep_until(next).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use spindle_protocol::{Answer, Change, Timestamp};

    use super::*;
    use crate::carrier::parcel::Load;
    use crate::carrier::{Carriers, Sight, Verdict};
    use crate::error::{Error, Result};

    /// Panics in its first request, as a log's subscriber may.
    #[derive(Default)]
    struct Panicking(AtomicUsize);

    impl Store for Panicking {
        async fn read(&self, _: Vec<Arc<str>>, _: Duration) -> Result<Sight> {
            assert!(self.0.fetch_add(1, Ordering::Relaxed) > 0, "the log is full");
            Ok(Sight { rows: Vec::new(), read_at: Timestamp(1), with_lease: true })
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

    #[tokio::test(start_paused = true)]
    async fn a_request_that_panics_is_one_that_failed_and_the_carrier_goes_on() {
        let (carriers, store) = (Carriers::none(), Arc::<Panicking>::default());
        let seats = ["a", "b"].map(|lock| carriers.seat(&store, lock.into(), 1));
        let look = || Load::Observe { saw_lease: Arc::default(), saw_seizure: Arc::default() };
        let limit = Duration::from_secs(3);
        let polls = seats.each_ref().map(|seat| seat.send(look(), limit));
        for poll in polls {
            let outcome = poll.await;
            assert_eq!(outcome.answer, Answer::NotApplied);
            let error = outcome.error.unwrap().to_string();
            assert!(error.contains("the log is full"), "{error}");
        }
        tokio::time::advance(Duration::from_secs(10)).await;
        for seat in &seats {
            let outcome = seat.send(look(), limit).await;
            assert!(matches!(outcome.answer, Answer::Observed(_)), "{:?}", outcome.answer);
        }
    }
}
