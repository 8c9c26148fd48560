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

use super::budget::Budget;
use super::lanes::{Batch, Ending, Fare, GATHERING_MAX, Lanes, Repeat};
use super::parcel::{Lane, Parcel};
use super::store::Store;
use super::trip::{Return, Whole, panicked, travel};
use crate::error::panic_message;

/// Into how many parts acts are sent again that failed together, or are slow to come back. Two
/// rounds find one row among a thousand, well within the lease, at the price of three failures.
const PARTS: usize = 32;
/// How long parts of a batch that was refused stay, at the most. By then, others that wanted the
/// same rows at the same time are out of step.
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// How long a request stays whose first read was aborted, and until it has been often: at first, and
/// at most.
const ABORTED_PAUSE: Duration = Duration::from_millis(2);
/// How often a request is sent once more as it was: after its read was aborted, and after its commit
/// was. One row in trouble aborts the commits of all.
const READS_MAX: u32 = 60;
const COMMITS_MAX: u32 = 2;
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
    repeat: Repeat,
    sent: Instant,
    /// True if another request was on its way at the same time.
    had_company: bool,
    /// When its acts are sent again in parts.
    late_from: Option<Instant>,
}

impl<S: Store> Post<S> {
    pub(crate) fn new(
        store: Arc<S>,
        inbox: mpsc::UnboundedReceiver<Arc<Parcel>>,
        budget: Arc<Budget>,
        random: SmallRng,
    ) -> Post<S> {
        Post {
            store,
            inbox,
            lanes: Lanes::new(budget, Instant::now()),
            trips: BTreeMap::new(),
            travelling: FuturesUnordered::new(),
            sent: 0,
            random,
        }
    }

    /// Runs until the last seat is gone: then nobody waits for an answer any more.
    pub(crate) async fn run(mut self) {
        let budget = Arc::clone(self.lanes.budget());
        loop {
            let now = Instant::now();
            let mut refunded = std::pin::pin!(budget.refunded());
            refunded.as_mut().enable();
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
                () = refunded, if self.lanes.is_waiting() => {}
            }
        }
    }

    /// Takes in what is handed over at this moment; it waits for nobody. Where many thousands run, a
    /// turn of all of them takes long, and what came first would be late.
    async fn collect(&mut self) {
        let since = Instant::now();
        for _ in 0..TURNS_MAX {
            let mut is_more = false;
            while let Ok(parcel) = self.inbox.try_recv() {
                self.lanes.add(parcel);
                is_more = true;
            }
            if !is_more || since.elapsed() >= GATHERING_MAX {
                return;
            }
            yield_now().await;
        }
    }

    fn send(&mut self, batch: Batch, now: Instant) {
        let limit = batch.limit(now);
        let Batch { lane, parcels, fare, repeat } = batch;
        parcels.iter().for_each(|parcel| parcel.leaves(parcels.len() == 1));
        let parcels: Arc<[Arc<Parcel>]> = parcels.into();
        let is_parted = lane == Lane::Heartbeats && parcels.len() > 1;
        // Where requests go one at a time, the server is slow and no row holds it up.
        let shares = if self.lanes.is_apart(now) { 1 } else { 3 };
        let late_from = is_parted.then(|| now + shortest(&parcels) / shares);
        let (store, carried) = (Arc::clone(&self.store), Arc::clone(&parcels));
        self.sent += 1;
        let trip = self.sent;
        self.travelling.push(Box::pin(async move {
            // A panic in it, such as a log subscriber's, must not cost all the others their carrier.
            let travelling = AssertUnwindSafe(travel(&*store, lane, &carried, limit));
            let back = travelling.catch_unwind().await;
            (trip, back.unwrap_or_else(|panic| panicked(&carried, &panic_message(&*panic))))
        }));
        let had_company = !self.trips.is_empty();
        self.trips.values_mut().for_each(|other| other.had_company = true);
        let sent = now;
        let trip_of = Trip { lane, parcels, fare, repeat, sent, had_company, late_from };
        self.trips.insert(trip, trip_of);
    }

    fn arrived(&mut self, trip: u64, back: Return) {
        let Some(trip) = self.trips.remove(&trip) else { return };
        let Trip { lane, parcels, fare, repeat, .. } = &trip;
        let (lane, acts, was_parted) = (*lane, parcels.len(), trip.was_parted());
        if !was_parted {
            let (is_done, is_heard) = (back.is_answered, back.is_heard);
            let ending = Ending { sent: trip.sent, acts, is_done, is_heard };
            self.lanes.arrived(lane, *fare, *repeat, ending);
            if self.repeats_whole(&trip, back.whole) {
                return;
            }
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

    /// Sends a request once more as it was, if that may help and can be paid for.
    fn repeats_whole(&mut self, trip: &Trip, whole: Option<Whole>) -> bool {
        let Repeat { count, is_alone, .. } = trip.repeat;
        let (is_worth_it, only_read) = match whole {
            None => return false,
            Some(Whole::Aborted { at_read: true }) => (count < READS_MAX, true),
            Some(Whole::Aborted { at_read: false }) => (count < COMMITS_MAX, false),
            Some(Whole::Gone) => (trip.had_company && !is_alone, lane_reads(trip.lane)),
        };
        let (now, is_gone) = (Instant::now(), whole == Some(Whole::Gone));
        let pause = if is_gone {
            Duration::ZERO
        } else {
            // Others in the way are out of step by then, and a dead one is soon found out.
            let longest = (ABORTED_PAUSE * 2_u32.saturating_pow(count.min(8))).min(PAUSE_MAX);
            ABORTED_PAUSE + longest.saturating_sub(ABORTED_PAUSE).mul_f64(self.random.random())
        };
        let is_late = trip.parcels.iter().all(|parcel| now + pause >= parcel.deadline);
        if !is_worth_it || is_late || !self.lanes.pay_repeat(trip.lane, only_read, now) {
            return false;
        }
        trip.parcels.iter().for_each(|parcel| parcel.returns());
        let repeat = Repeat { count: count + 1, is_alone: is_gone, is_paid: true };
        self.lanes.add_repeat(trip.lane, now + pause, trip.parcels.to_vec(), repeat);
        true
    }

    /// Sends acts again that failed together, in parts.
    fn part(&mut self, lane: Lane, again: &[Arc<Parcel>]) {
        for part in again.chunks(again.len().div_ceil(PARTS).max(1)) {
            let pause = match lane {
                Lane::Heartbeats | Lane::Polls => Duration::ZERO,
                Lane::Releases | Lane::Begins | Lane::Sweeps => {
                    PAUSE_MAX.mul_f64(self.random.random())
                }
            };
            self.lanes.add_part(lane, Instant::now() + pause, part.to_vec());
        }
    }

    /// Sends heartbeats again, in smaller company, if their request is slow. One row that waits for
    /// a lock makes all the others in its request wait. A repeat is harmless (I4).
    ///
    /// A large one and two others at a time: where more are slow it is the server that is, and more
    /// requests would make it slower.
    fn part_late(&mut self, now: Instant) {
        while let Some((late_from, trip)) = self.next_late()
            && late_from <= now
            && let Some(trip) = self.trips.get_mut(&trip)
        {
            // No single row keeps all of them waiting.
            if let Some(until) = self.lanes.late_until(now) {
                trip.late_from = Some(until);
                continue;
            }
            trip.late_from = None;
            let (sent, acts) = (trip.sent, trip.parcels.len());
            let ending = Ending { sent, acts, is_done: false, is_heard: false };
            self.lanes.arrived(trip.lane, trip.fare, trip.repeat, ending);
            for part in trip.parcels.chunks(trip.parcels.len().div_ceil(PARTS)) {
                self.lanes.add_part(trip.lane, now, part.to_vec());
            }
        }
    }

    /// Returns the request that is late first of those that may go in parts, and from when it is.
    fn next_late(&self) -> Option<(Instant, u64)> {
        let (large, others): (Vec<_>, Vec<_>) =
            self.trips.values().filter(|trip| trip.was_parted()).partition(|trip| trip.is_large());
        let may = |trip: &Trip| if trip.is_large() { large.is_empty() } else { others.len() < 2 };
        let late = self.trips.iter().filter(|(_, trip)| may(trip));
        late.filter_map(|(id, trip)| Some((trip.late_from?, *id))).min()
    }

    fn next(&self, now: Instant) -> Option<Instant> {
        let late = self.next_late().map(|(late_from, _)| late_from);
        late.into_iter().chain(self.lanes.next(now)).min()
    }
}

impl Trip {
    /// Returns true if its acts are under way in parts besides.
    fn was_parted(&self) -> bool {
        self.lane == Lane::Heartbeats && self.parcels.len() > 1 && self.late_from.is_none()
    }

    fn is_large(&self) -> bool {
        self.parcels.len() > PARTS
    }
}

/// Returns true if requests of this kind are one read.
fn lane_reads(lane: Lane) -> bool {
    lane == Lane::Polls
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
    use crate::carrier::{Budget, Carriers, Sight, Verdict};
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
        let (carriers, store) =
            (Carriers::new(Arc::new(Budget::new())), Arc::<Panicking>::default());
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
