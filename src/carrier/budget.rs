//! How much may be sent beyond what healthy locks send (I8).

use std::time::Duration;

use tokio::time::Instant;

/// Requests of a kind that may still be repeated in vain.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u32,
    burst: u32,
    refill: Duration,
    counted_at: Instant,
}

impl Budget {
    /// Returns the budget for reads: at most 14 in any 10 s.
    pub(crate) fn of_reads(now: Instant) -> Budget {
        Budget { left: 4, burst: 4, refill: Duration::from_secs(1), counted_at: now }
    }

    /// Returns the budget for transactions, which are two requests each: at most 8 of them in any
    /// 10 s.
    pub(crate) fn of_transactions(now: Instant) -> Budget {
        Budget { left: 3, burst: 3, refill: Duration::from_secs(2), counted_at: now }
    }

    pub(crate) fn refill(&mut self, now: Instant) {
        while self.left < self.burst && self.counted_at + self.refill <= now {
            self.left += 1;
            self.counted_at += self.refill;
        }
        if self.left == self.burst {
            self.counted_at = now;
        }
    }

    /// Takes one, if there is one.
    pub(crate) fn pay(&mut self) -> bool {
        let is_enough = self.left > 0;
        self.left = self.left.saturating_sub(1);
        is_enough
    }

    /// Gives one back: it was not in vain.
    pub(crate) fn refund(&mut self) {
        self.left = (self.left + 1).min(self.burst);
    }

    /// Returns when there will be one, if there is none.
    pub(crate) fn refilled_at(&self) -> Option<Instant> {
        (self.left == 0).then(|| self.counted_at + self.refill)
    }
}
