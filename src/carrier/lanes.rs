//! The queue of acts: in which order they go, and in which company.

use std::collections::HashSet;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::Budgets;
use super::parcel::{Lane, Parcel};

/// Rows of one request, at the most; Spanner allows 80,000 cells a commit.
pub(crate) const ROWS_MAX: usize = 1_000;
/// Bytes of keys and values of one request, at the most.
const BYTES_MAX: usize = 1 << 20;
/// How long heartbeats gather before they leave, at the most. Tasks that wake at one mark run one
/// after another, beside the carrier's.
const GATHERING_MAX: Duration = Duration::from_millis(5);
/// Into how many of these the limit of a heartbeat goes, at the least.
const GATHERINGS: u32 = 32;

/// All that waits.
#[derive(Debug)]
pub(crate) struct Lanes {
    lanes: [Waiting; Lane::ALL.len()],
    budgets: Budgets,
}

/// The acts that wait for one kind of request.
#[derive(Debug)]
struct Waiting {
    queue: VecDeque<Arc<Parcel>>,
    /// Parts of batches that were refused as a whole, each with the time before which it stays.
    parts: VecDeque<(Instant, Vec<Arc<Parcel>>)>,
    in_flight: usize,
    /// Requests on their way with acts whose predecessors may have held others up.
    suspects_in_flight: usize,
    /// How many such acts may share a request: more with each one that arrives.
    company: usize,
}

/// Acts that go together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) lane: Lane,
    /// Sorted by lock.
    pub(crate) parcels: Vec<Arc<Parcel>>,
    pub(crate) fare: Fare,
}

/// On what terms a request travels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Fare {
    /// True if its acts are suspected of holding others up.
    pub(crate) is_suspect: bool,
    /// True if it counts as one that may be in vain.
    pub(crate) is_paid: bool,
}

impl Lanes {
    pub(crate) fn new(now: Instant) -> Lanes {
        let waiting = || Waiting {
            queue: VecDeque::new(),
            parts: VecDeque::new(),
            in_flight: 0,
            suspects_in_flight: 0,
            company: 1,
        };
        Lanes { lanes: [waiting(), waiting(), waiting(), waiting()], budgets: Budgets::new(now) }
    }

    pub(crate) fn add(&mut self, parcel: Arc<Parcel>) {
        self.lane(parcel.load.lane()).queue.push_back(parcel);
    }

    /// Has these acts travel together, and not before `not_before`. They go before other parts: what
    /// was refused first is found before more is refused.
    pub(crate) fn add_part(&mut self, lane: Lane, not_before: Instant, part: Vec<Arc<Parcel>>) {
        self.lane(lane).parts.push_front((not_before, part));
    }

    /// Returns the next request that may leave now.
    pub(crate) fn depart(&mut self, now: Instant) -> Option<Batch> {
        self.budgets.refill(now);
        let mut is_urgent_waiting = false;
        for lane in Lane::ALL {
            let waiting = &mut self.lanes[lane as usize];
            // A slot of its own keeps a lane from starving behind those before it.
            let room = if is_urgent_waiting { 1 } else { lane.in_flight_max() };
            if let Some(batch) = waiting.depart(lane, room, now, &mut self.budgets) {
                return Some(batch);
            }
            is_urgent_waiting |= !waiting.is_empty() && !waiting.is_gathering(lane, now);
        }
        None
    }

    /// Returns when something that is held back may leave.
    pub(crate) fn next(&self, now: Instant) -> Option<Instant> {
        let parts = self.lanes.iter().flat_map(|waiting| waiting.parts.iter());
        let parts = parts.map(|(not_before, _)| *not_before).filter(|at| *at > now).min();
        let held_back = self.lanes.iter().any(|waiting| !waiting.is_empty());
        let paid = self.budgets.refilled_at().filter(|_| held_back);
        let gathered = self.lanes[Lane::Heartbeats as usize].gathers_until();
        parts.into_iter().chain(paid).chain(gathered.filter(|at| *at > now)).min()
    }

    /// Notes that a request is no longer on its way; `done` says whether it came to something, in
    /// time.
    pub(crate) fn arrived(&mut self, lane: Lane, fare: Fare, done: bool) {
        if done && fare.is_paid {
            self.budgets.refund(lane);
        }
        let waiting = self.lane(lane);
        if fare.is_suspect {
            waiting.suspects_in_flight = waiting.suspects_in_flight.saturating_sub(1);
            waiting.company = if done { (waiting.company * 2).min(ROWS_MAX) } else { 1 };
        } else {
            waiting.in_flight = waiting.in_flight.saturating_sub(1);
        }
    }

    fn lane(&mut self, lane: Lane) -> &mut Waiting {
        &mut self.lanes[lane as usize]
    }
}

impl Lane {
    /// Returns how many requests may be on their way at a time.
    fn in_flight_max(self) -> usize {
        match self {
            Lane::Heartbeats => 8,
            Lane::Polls | Lane::Terms => 4,
            Lane::Sweeps => 1,
        }
    }

    /// Returns true if acts of this kind are repeated without regard to the bound on load (I8); the
    /// parts of what was refused together are not.
    fn is_free(self) -> bool {
        self == Lane::Heartbeats
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.queue.is_empty() && self.parts.is_empty()
    }

    /// Returns true if more acts may still come that are due at the same mark as those that wait.
    fn is_gathering(&self, lane: Lane, now: Instant) -> bool {
        let is_full = self.queue.len() >= ROWS_MAX;
        lane == Lane::Heartbeats && !is_full && self.gathers_until().is_some_and(|at| now < at)
    }

    /// Counts from the first that came: an act in the queue waits for those after it once.
    fn gathers_until(&self) -> Option<Instant> {
        let first = self.queue.iter().find(|parcel| parcel.suspicion == 0)?;
        let gathering = GATHERING_MAX.min(first.limit / GATHERINGS);
        Some(first.deadline - first.limit + gathering)
    }

    fn drop_idle(&mut self) {
        self.queue.retain(|parcel| !parcel.is_idle());
        self.parts.retain_mut(|(_, part)| {
            part.retain(|parcel| !parcel.is_idle());
            !part.is_empty()
        });
    }

    fn depart(
        &mut self,
        lane: Lane,
        room: usize,
        now: Instant,
        budgets: &mut Budgets,
    ) -> Option<Batch> {
        if self.is_empty() || (self.in_flight >= room && self.suspects_in_flight > 1) {
            return None;
        }
        let is_gathering = self.is_gathering(lane, now);
        if is_gathering && self.parts.is_empty() {
            return None;
        }
        self.drop_idle();
        let is_paid = !lane.is_free();
        if self.in_flight < room {
            let ready = self.parts.iter().position(|(not_before, _)| *not_before <= now);
            if let Some(ready) = ready
                && budgets.pay(lane)
                && let Some((_, part)) = self.parts.remove(ready)
            {
                self.in_flight += 1;
                return Some(Batch::new(lane, part, Fare { is_suspect: false, is_paid: true }));
            }
            if is_gathering {
                return None;
            }
            let mut pays = || lane.is_free() || budgets.pay(lane);
            let trusted = |parcel: &Parcel| parcel.suspicion == 0;
            let fresh = |parcel: &Parcel| trusted(parcel) && !parcel.is_repeat;
            // The first to come goes first. Repeats go along for nothing, or wait until they may.
            let first = self.first(lane, ROWS_MAX, trusted);
            let is_fresh = first.iter().any(|at| fresh(&self.queue[*at]));
            let (chosen, is_paid) = if is_fresh {
                (first, false)
            } else if !first.is_empty() && pays() {
                (first, is_paid)
            } else {
                (self.first(lane, ROWS_MAX, fresh), false)
            };
            if !chosen.is_empty() {
                self.in_flight += 1;
                let fare = Fare { is_suspect: false, is_paid };
                return Some(Batch::new(lane, self.take(&chosen), fare));
            }
        }
        self.depart_suspects(lane, budgets)
    }

    fn depart_suspects(&mut self, lane: Lane, budgets: &mut Budgets) -> Option<Batch> {
        if self.suspects_in_flight > 1 {
            return None;
        }
        let chosen = self.suspects(lane);
        let (chosen, is_paid) = if lane.is_free() {
            (chosen, false)
        } else if !chosen.is_empty() && budgets.pay(lane) {
            (chosen, true)
        } else {
            // Those that repeat nothing go all the same, and so in one request.
            let fresh = |parcel: &Parcel| parcel.suspicion > 0 && !parcel.is_repeat;
            (self.first(lane, ROWS_MAX, fresh), false)
        };
        if chosen.is_empty() {
            return None;
        }
        self.suspects_in_flight += 1;
        Some(Batch::new(lane, self.take(&chosen), Fare { is_suspect: true, is_paid }))
    }

    /// Acts whose predecessors may have held others up: those least suspected together, and beside
    /// them the act that has waited longest, alone.
    fn suspects(&self, lane: Lane) -> Vec<usize> {
        let suspected = |parcel: &Parcel| parcel.suspicion > 0;
        match self.suspects_in_flight {
            0 => {
                let suspicions = self.queue.iter().map(|parcel| parcel.suspicion);
                let least = suspicions.filter(|suspicion| *suspicion > 0).min();
                self.first(lane, self.company, |parcel| Some(parcel.suspicion) == least)
            }
            _ => self.first(lane, 1, suspected),
        }
    }

    /// Returns where in the queue the acts are that may share the next request.
    fn first(&self, lane: Lane, max: usize, suits: impl Fn(&Parcel) -> bool) -> Vec<usize> {
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        let mut locks = HashSet::new();
        for (at, parcel) in self.queue.iter().enumerate() {
            if chosen.len() == max {
                break;
            }
            // Two writes of one row would have to be judged by each other.
            if !suits(parcel) || (lane != Lane::Polls && !locks.insert(&*parcel.lock)) {
                continue;
            }
            bytes += parcel.bytes();
            if bytes > BYTES_MAX && !chosen.is_empty() {
                break;
            }
            chosen.push(at);
        }
        chosen
    }

    /// Takes the acts at these places, which ascend, out of the queue.
    fn take(&mut self, chosen: &[usize]) -> Vec<Arc<Parcel>> {
        let mut places = chosen.iter().copied().peekable();
        let (mut taken, mut left) = (Vec::with_capacity(chosen.len()), VecDeque::new());
        for (at, parcel) in std::mem::take(&mut self.queue).into_iter().enumerate() {
            if places.next_if_eq(&at).is_some() {
                taken.push(parcel);
            } else {
                left.push_back(parcel);
            }
        }
        self.queue = left;
        taken
    }
}

impl Batch {
    fn new(lane: Lane, mut parcels: Vec<Arc<Parcel>>, fare: Fare) -> Batch {
        parcels.sort_by(|one, other| one.lock.cmp(&other.lock));
        Batch { lane, parcels, fare }
    }

    /// Returns how long the request may take: each of its acts is bounded by its own limit besides.
    pub(crate) fn limit(&self, now: Instant) -> Duration {
        let deadlines = self.parcels.iter().map(|parcel| parcel.deadline);
        deadlines.max().unwrap_or(now).saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Change, Nonce, TermId, Timestamp, Writer};
    use tokio::sync::oneshot;

    use super::*;
    use crate::carrier::parcel::Load;
    use crate::outcome::Outcome;

    const SUSPECT: Fare = Fare { is_suspect: true, is_paid: true };
    const LIMIT: Duration = Duration::from_secs(3);

    /// Acts that wait, and those who wait for them.
    struct Waiters {
        lanes: Lanes,
        answers: Vec<oneshot::Receiver<Outcome>>,
    }

    fn look() -> Load {
        Load::Observe { saw_lease: Arc::default(), saw_seizure: Arc::default() }
    }

    fn heartbeat() -> Load {
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(7), writer };
        Load::Change(Change::Heartbeat { term, holder: None })
    }

    fn release() -> Load {
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(7), writer };
        let next = spindle_protocol::Succession::Anyone;
        Load::Change(Change::Release { term, next, displaced: None, info: None })
    }

    impl Waiters {
        fn none() -> Waiters {
            Waiters { lanes: Lanes::new(Instant::now()), answers: Vec::new() }
        }

        fn add(&mut self, lock: &str, load: Load, is_repeat: bool, suspicion: u32) {
            let (parcel, answer) = Parcel::new(lock.into(), load, LIMIT, (is_repeat, suspicion));
            self.lanes.add(parcel);
            self.answers.push(answer);
        }

        /// Has those gather that are due at the same mark.
        async fn gather(&self) {
            tokio::time::advance(GATHERING_MAX).await;
        }

        fn depart(&mut self) -> Option<(Lane, Vec<String>)> {
            let batch = self.lanes.depart(Instant::now())?;
            Some((batch.lane, batch.parcels.iter().map(|parcel| parcel.lock.to_string()).collect()))
        }
    }

    #[tokio::test(start_paused = true)]
    async fn kinds_never_mix_and_heartbeats_go_first() {
        let mut waiters = Waiters::none();
        waiters.add("a", release(), false, 0);
        waiters.add("b", look(), false, 0);
        waiters.add("d", heartbeat(), false, 0);
        waiters.add("c", heartbeat(), false, 0);
        waiters.gather().await;
        assert_eq!(waiters.depart(), Some((Lane::Heartbeats, vec!["c".into(), "d".into()])));
        assert_eq!(waiters.depart(), Some((Lane::Polls, vec!["b".into()])));
        assert_eq!(waiters.depart(), Some((Lane::Terms, vec!["a".into()])));
        assert_eq!(waiters.depart(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_has_no_more_rows_than_it_may_and_none_twice() {
        let mut waiters = Waiters::none();
        for n in 0..ROWS_MAX + 1 {
            waiters.add(&format!("{n:04}"), heartbeat(), false, 0);
        }
        waiters.add("0000", heartbeat(), false, 0);
        waiters.gather().await;
        let sizes: Vec<_> = std::iter::from_fn(|| waiters.depart()).map(|(_, b)| b.len()).collect();
        assert_eq!(sizes, [ROWS_MAX, 2]);
        let long = "n".repeat(BYTES_MAX / 8);
        for n in 0..3 {
            waiters.add(&format!("{long}{n}"), heartbeat(), false, 0);
        }
        waiters.gather().await;
        assert_eq!(waiters.depart().unwrap().1.len(), 2, "its bytes are bounded, too");
    }

    #[tokio::test(start_paused = true)]
    async fn heartbeats_of_one_mark_leave_together_a_moment_after_the_first() {
        let mut waiters = Waiters::none();
        waiters.add("a", heartbeat(), false, 0);
        waiters.add("p", look(), false, 0);
        waiters.add("t", release(), false, 0);
        assert_eq!(waiters.depart().unwrap().0, Lane::Polls, "nothing else gathers");
        assert_eq!(waiters.depart().unwrap().0, Lane::Terms);
        assert_eq!(waiters.depart(), None);
        let until = waiters.lanes.next(Instant::now());
        assert_eq!(until, Some(Instant::now() + GATHERING_MAX));
        tokio::time::advance(GATHERING_MAX - Duration::from_millis(1)).await;
        waiters.add("b", heartbeat(), true, 0);
        assert_eq!(waiters.depart(), None);
        tokio::time::advance(Duration::from_millis(1)).await;
        assert_eq!(waiters.depart().unwrap().1, ["a", "b"], "the last to come delays nobody");
        for n in 0..ROWS_MAX {
            waiters.add(&format!("{n:04}"), heartbeat(), false, 0);
        }
        assert_eq!(waiters.depart().unwrap().1.len(), ROWS_MAX, "a full request waits for nobody");
    }

    #[tokio::test(start_paused = true)]
    async fn every_kind_keeps_a_slot_of_its_own() {
        let mut waiters = Waiters::none();
        for n in 0..20 * ROWS_MAX {
            waiters.add(&format!("{n:05}"), heartbeat(), false, 0);
        }
        waiters.add("z", look(), false, 0);
        waiters.add("z", release(), false, 0);
        let lanes: Vec<_> = std::iter::from_fn(|| waiters.depart()).map(|(lane, _)| lane).collect();
        let heartbeats = lanes.iter().filter(|lane| **lane == Lane::Heartbeats).count();
        assert_eq!(heartbeats, Lane::Heartbeats.in_flight_max());
        assert!(lanes.contains(&Lane::Polls) && lanes.contains(&Lane::Terms), "{lanes:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_met_the_limit_travels_beside_the_others_in_growing_company() {
        let mut waiters = Waiters::none();
        for n in 0..10 {
            waiters.add(&format!("suspect-{n}"), release(), false, 1);
        }
        waiters.add("suspect-x", release(), false, 5);
        waiters.add("trusted", release(), false, 0);
        assert_eq!(waiters.depart().unwrap().1, ["trusted"]);
        assert_eq!(waiters.depart().unwrap().1, ["suspect-0"], "alone at first");
        assert_eq!(waiters.depart().unwrap().1, ["suspect-1"], "and the next beside it");
        assert_eq!(waiters.depart(), None);
        waiters.lanes.arrived(Lane::Terms, SUSPECT, true);
        waiters.lanes.arrived(Lane::Terms, SUSPECT, true);
        assert_eq!(waiters.depart().unwrap().1.len(), 4, "more of them after each that arrived");
        waiters.lanes.arrived(Lane::Terms, SUSPECT, false);
        assert_eq!(waiters.depart().unwrap().1, ["suspect-6"], "and alone again after a failure");
    }

    #[tokio::test(start_paused = true)]
    async fn repeats_are_bounded_but_go_along_with_others_for_nothing() {
        let mut waiters = Waiters::none();
        let mut repeats = 0;
        for n in 0..100 {
            waiters.add(&format!("repeat-{n}"), look(), true, 0);
            if waiters.depart().is_some() {
                repeats += 1;
                waiters.lanes.arrived(
                    Lane::Polls,
                    Fare { is_suspect: false, is_paid: true },
                    false,
                );
            }
        }
        assert!((1..=4).contains(&repeats), "{repeats}");
        waiters.add("fresh", look(), false, 0);
        let (_, together) = waiters.depart().unwrap();
        assert_eq!(together.len(), 100 - repeats + 1);
        waiters.add("later", look(), true, 0);
        assert_eq!(waiters.depart(), None);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert!(waiters.depart().is_some(), "a second or two later it may");
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_carries_an_act_that_was_dropped() {
        let mut waiters = Waiters::none();
        waiters.add("a", heartbeat(), false, 0);
        waiters.add("b", heartbeat(), false, 0);
        waiters.answers.remove(0);
        waiters.gather().await;
        assert_eq!(waiters.depart().unwrap().1, ["b"]);
    }
}
