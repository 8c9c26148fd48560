//! How much may be sent beyond what healthy locks send (I8).

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

use super::parcel::Lane;

/// Requests beyond what healthy locks send, in any [`PERIOD`] (I8); heartbeats apart.
const REQUESTS_MAX: usize = 30;
const PERIOD: Duration = Duration::from_secs(10);

/// The budgets from which requests that may be in vain are paid, by their kind.
///
/// A refill spreads them over time. Repeats of a read that was aborted may come all at once, since
/// it takes about as many to get past a transaction whose process died; the sum is bounded.
#[derive(Debug)]
pub(crate) struct Budgets {
    now: Instant,
    /// When each request was paid for, within the period.
    paid: VecDeque<Instant>,
    reads: Budget,
    transactions: Budget,
    heartbeats: Budget,
}

/// Requests of a kind that may still be repeated in vain.
#[derive(Debug)]
struct Budget {
    left: u32,
    burst: u32,
    refill: Duration,
    counted_at: Instant,
    /// How many it gets back for one that was not in vain.
    reward: u32,
}

impl Budgets {
    /// In any 10 s at most 14 reads and 8 transactions, which are two requests each; and 26
    /// transactions with heartbeats, of which each that succeeds earns another.
    pub(crate) fn new(now: Instant) -> Budgets {
        Budgets {
            now,
            paid: VecDeque::new(),
            reads: Budget::new(4, Duration::from_secs(1), 1, now),
            transactions: Budget::new(3, Duration::from_secs(2), 1, now),
            heartbeats: Budget::new(16, Duration::from_secs(1), 2, now),
        }
    }

    pub(crate) fn refill(&mut self, now: Instant) {
        self.now = now;
        let over = self.paid.partition_point(|paid| *paid + PERIOD <= now);
        self.paid.drain(..over);
        for budget in [&mut self.reads, &mut self.transactions, &mut self.heartbeats] {
            budget.refill(now);
        }
    }

    /// Pays for a request, if there is enough.
    pub(crate) fn pay(&mut self, lane: Lane) -> bool {
        let is_enough = self.of(lane).all(|budget| budget.left > 0) && self.log(price(lane));
        if is_enough {
            self.of(lane).for_each(|budget| budget.left -= 1);
        }
        is_enough
    }

    /// Pays for one more read of a transaction whose first read was aborted, if there is enough.
    pub(crate) fn pay_read(&mut self, lane: Lane) -> bool {
        if lane == Lane::Heartbeats { self.pay(lane) } else { self.log(1) }
    }

    /// Gives the price of a request back: it was not in vain.
    pub(crate) fn refund(&mut self, lane: Lane) {
        for budget in self.of(lane) {
            budget.left = (budget.left + budget.reward).min(budget.burst);
        }
        self.paid.truncate(self.paid.len().saturating_sub(price(lane)));
    }

    fn log(&mut self, requests: usize) -> bool {
        let is_enough = self.paid.len() + requests <= REQUESTS_MAX;
        if is_enough {
            self.paid.extend(std::iter::repeat_n(self.now, requests));
        }
        is_enough
    }

    /// Returns when there will be more of something of which there is nothing.
    pub(crate) fn refilled_at(&self) -> Option<Instant> {
        let all = [&self.reads, &self.transactions, &self.heartbeats].into_iter();
        let refilled = all.filter(|budget| budget.left == 0);
        let refilled = refilled.map(|budget| budget.counted_at + budget.refill);
        // A sweep takes the most.
        let is_short = self.paid.len() + price(Lane::Sweeps) > REQUESTS_MAX;
        let logged = self.paid.front().filter(|_| is_short).map(|paid| *paid + PERIOD);
        refilled.chain(logged).filter(|at| *at > self.now).min()
    }

    fn of(&mut self, lane: Lane) -> impl Iterator<Item = &mut Budget> {
        let Budgets { reads, transactions, heartbeats, .. } = self;
        let of = match lane {
            Lane::Heartbeats => [Some(heartbeats), None],
            Lane::Polls => [Some(reads), None],
            Lane::Releases | Lane::Begins => [Some(transactions), None],
            // It reads, and then writes.
            Lane::Sweeps => [Some(reads), Some(transactions)],
        };
        of.into_iter().flatten()
    }
}

/// Returns the requests of one of this kind that count.
fn price(lane: Lane) -> usize {
    match lane {
        Lane::Heartbeats => 0,
        Lane::Polls => 1,
        // They read, and then write.
        Lane::Releases | Lane::Begins => 2,
        // It lists, and does both.
        Lane::Sweeps => 3,
    }
}

impl Budget {
    fn new(burst: u32, refill: Duration, reward: u32, now: Instant) -> Budget {
        Budget { left: burst, burst, refill, counted_at: now, reward }
    }

    fn refill(&mut self, now: Instant) {
        while self.left < self.burst && self.counted_at + self.refill <= now {
            self.left += 1;
            self.counted_at += self.refill;
        }
        if self.left == self.burst {
            self.counted_at = now;
        }
    }
}
