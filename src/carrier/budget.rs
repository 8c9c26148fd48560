//! How much may be sent beyond what healthy locks send (I8).

use std::time::Duration;

use tokio::time::Instant;

use super::parcel::Lane;

/// The budgets from which requests that may be in vain are paid, by their kind.
#[derive(Debug)]
pub(crate) struct Budgets {
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
            reads: Budget::new(4, Duration::from_secs(1), 1, now),
            transactions: Budget::new(3, Duration::from_secs(2), 1, now),
            heartbeats: Budget::new(16, Duration::from_secs(1), 2, now),
        }
    }

    pub(crate) fn refill(&mut self, now: Instant) {
        for budget in [&mut self.reads, &mut self.transactions, &mut self.heartbeats] {
            budget.refill(now);
        }
    }

    /// Pays for a request, if there is enough.
    pub(crate) fn pay(&mut self, lane: Lane) -> bool {
        let is_enough = self.of(lane).all(|budget| budget.left > 0);
        if is_enough {
            self.of(lane).for_each(|budget| budget.left -= 1);
        }
        is_enough
    }

    /// Gives the price of a request back: it was not in vain.
    pub(crate) fn refund(&mut self, lane: Lane) {
        for budget in self.of(lane) {
            budget.left = (budget.left + budget.reward).min(budget.burst);
        }
    }

    /// Returns when there will be more of something of which there is nothing.
    pub(crate) fn refilled_at(&self) -> Option<Instant> {
        let all = [&self.reads, &self.transactions, &self.heartbeats].into_iter();
        all.filter(|budget| budget.left == 0).map(|budget| budget.counted_at + budget.refill).min()
    }

    fn of(&mut self, lane: Lane) -> impl Iterator<Item = &mut Budget> {
        let Budgets { reads, transactions, heartbeats } = self;
        let of = match lane {
            Lane::Heartbeats => [Some(heartbeats), None],
            Lane::Polls => [Some(reads), None],
            Lane::Terms => [Some(transactions), None],
            // It reads, and then writes.
            Lane::Sweeps => [Some(reads), Some(transactions)],
        };
        of.into_iter().flatten()
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
