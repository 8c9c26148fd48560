//! Token buckets: how much a table may send beyond what its healthy users send (I8).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep_until, timeout};

use crate::error::{Error, Result};

/// The requests of a read.
pub(crate) const READ: u32 = 1;
/// Those of a transaction: it reads what its changes are judged by, commits, and rolls back if that fails.
pub(crate) const TRANSACTION: u32 = 3;

/// The budget of one table, for all its connections, runtimes and threads together.
#[derive(Debug)]
pub(crate) struct Budget {
    /// Of requests that may achieve nothing: at most 30 in any 10 s.
    pub(crate) requests: Tokens,
    /// Of attempts to connect: two, then one a second. Requests that wait for a connection could keep it
    /// from being made.
    pub(crate) connects: Tokens,
}

/// A token bucket that many share. It charges what may achieve nothing, and refunds what brings answers.
#[derive(Debug)]
pub(crate) struct Tokens {
    /// Locked for moments only.
    bucket: Mutex<Bucket>,
    refunded: Notify,
}

/// The tokens of one request, and when they were paid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    cost: u32,
    at: Instant,
}

/// A token bucket. Whoever pays needs one token, and may owe the others: so the dear don't starve behind the
/// cheap.
#[derive(Debug)]
pub(crate) struct Bucket {
    left: i64,
    burst: i64,
    /// The time for one token.
    refill: Duration,
    counted_at: Instant,
    /// When it was full last.
    full_at: Instant,
}

impl Budget {
    pub(crate) fn new() -> Budget {
        let second = Duration::from_secs(1);
        let requests = Tokens::new(Bucket::new(12, Duration::from_millis(700)));
        Budget { requests, connects: Tokens::new(Bucket::new(2, second)) }
    }
}

impl Tokens {
    fn new(bucket: Bucket) -> Tokens {
        Tokens { bucket: Mutex::new(bucket), refunded: Notify::new() }
    }

    /// Pays for a request, if there is enough.
    pub(crate) fn pay(&self, cost: u32) -> Option<Payment> {
        self.bucket().pay(cost, Instant::now())
    }

    /// Waits until it has paid.
    pub(crate) async fn paid(&self, cost: u32) -> Payment {
        loop {
            let mut refunded = std::pin::pin!(self.refunded());
            refunded.as_mut().enable();
            if let Some(payment) = self.pay(cost) {
                return payment;
            }
            match self.refilled_at() {
                Some(at) => {
                    tokio::select! {
                        () = refunded => {}
                        () = sleep_until(at) => {}
                    }
                }
                // Somebody else's refund came in between.
                None => tokio::task::yield_now().await,
            }
        }
    }

    /// Gives the price of a request back: it was not in vain.
    pub(crate) fn refund(&self, payment: Payment) {
        self.bucket().refund(payment, Instant::now());
        self.refunded.notify_waiters();
    }

    /// Returns when there will be more, if there is nothing.
    pub(crate) fn refilled_at(&self) -> Option<Instant> {
        self.bucket().refilled_at(Instant::now())
    }

    /// Waits for the next refund by whoever shares the tokens; counts from when it is enabled.
    pub(crate) fn refunded(&self) -> Notified<'_> {
        self.refunded.notified()
    }

    /// Sends a request that only tidies up: it waits until it is paid for, in `limit` at most.
    pub(crate) async fn tidying<T>(
        &self,
        doing: impl FnOnce() -> String,
        cost: u32,
        limit: Duration,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Ok(payment) = timeout(limit, self.paid(cost)).await else {
            return Err(Error::timed_out(doing(), limit));
        };
        let answer = request.await;
        if answer.is_ok() {
            self.refund(payment);
        }
        answer
    }

    fn bucket(&self) -> MutexGuard<'_, Bucket> {
        self.bucket.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Bucket {
    pub(crate) fn new(burst: u32, refill: Duration) -> Bucket {
        let burst = burst.into();
        let now = Instant::now();
        Bucket { left: burst, burst, refill, counted_at: now, full_at: now }
    }

    pub(crate) fn pay(&mut self, cost: u32, now: Instant) -> Option<Payment> {
        self.refill(now);
        let is_enough = self.left > 0;
        is_enough.then(|| {
            self.left -= i64::from(cost);
            Payment { cost, at: now }
        })
    }

    /// Returns true if so many tokens are left.
    pub(crate) fn has(&mut self, tokens: usize, now: Instant) -> bool {
        self.refill(now);
        usize::try_from(self.left).is_ok_and(|left| left >= tokens)
    }

    /// A bucket that was full since the payment has the tokens again already.
    pub(crate) fn refund(&mut self, payment: Payment, now: Instant) {
        self.refill(now);
        if self.full_at <= payment.at {
            self.left = (self.left + i64::from(payment.cost)).min(self.burst);
        }
    }

    pub(crate) fn refilled_at(&mut self, now: Instant) -> Option<Instant> {
        self.refill(now);
        let missing = u32::try_from(1 - self.left).unwrap_or_default();
        (missing > 0).then(|| self.counted_at + self.refill * missing)
    }

    fn refill(&mut self, now: Instant) {
        // Another thread's clock may be virtual, and far ahead.
        self.counted_at = self.counted_at.min(now);
        while self.left < self.burst && self.counted_at + self.refill <= now {
            self.left += 1;
            self.counted_at += self.refill;
        }
        if self.left == self.burst {
            (self.counted_at, self.full_at) = (now, now);
        }
    }
}

/// The requests of one user that go past the batcher: those that repeat a failure are charged.
#[derive(Debug, Default)]
pub(crate) struct RetryCharge {
    has_failed: AtomicBool,
}

/// One such request; whoever drops it without an answer gets nothing back.
#[must_use]
pub(crate) struct PaidRequest<'a> {
    charge: &'a RetryCharge,
    budget: &'a Budget,
    payment: Option<Payment>,
}

impl RetryCharge {
    /// Waits until the next request may leave. It leaves at once if it repeats no failure.
    pub(crate) async fn pay<'a>(&'a self, budget: &'a Budget, cost: u32) -> PaidRequest<'a> {
        let is_repeat = self.has_failed.load(Ordering::Relaxed);
        let payment = if is_repeat { Some(budget.requests.paid(cost).await) } else { None };
        PaidRequest { charge: self, budget, payment }
    }

    /// Sends a request at its turn.
    pub(crate) async fn send<T>(
        &self,
        budget: &Budget,
        cost: u32,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let paid = self.pay(budget, cost).await;
        let answer = request.await;
        paid.ends(answer.is_ok());
        answer
    }
}

impl PaidRequest<'_> {
    /// Notes if the request brought an answer.
    pub(crate) fn ends(self, is_answered: bool) {
        self.charge.has_failed.store(!is_answered, Ordering::Relaxed);
        if let Some(payment) = self.payment.filter(|_| is_answered) {
            self.budget.requests.refund(payment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Duration = Duration::from_secs(10);
    const REQUESTS_MAX: u32 = 30;

    #[tokio::test(start_paused = true)]
    async fn users_of_one_budget_repeat_together_what_one_of_them_may() {
        let budget = Budget::new();
        let users: [RetryCharge; 20] = Default::default();
        let sent = AtomicBool::new(false);
        let mut count = 0;
        let fail = async || {
            sent.store(true, Ordering::Relaxed);
            Err::<(), _>(Error::config("no"))
        };
        for user in &users {
            assert!(user.send(&budget, TRANSACTION, fail()).await.is_err());
        }
        let start = Instant::now();
        while start.elapsed() < PERIOD {
            for user in &users {
                sent.store(false, Ordering::Relaxed);
                let sending = user.send(&budget, TRANSACTION, fail());
                // A user whose turn doesn't come takes its request back.
                let _ = timeout(Duration::from_millis(5), sending).await;
                count += TRANSACTION * u32::from(sent.load(Ordering::Relaxed));
            }
        }
        assert!((18..=REQUESTS_MAX).contains(&count), "{count}");
    }

    #[tokio::test(start_paused = true)]
    async fn the_dear_wait_no_longer_than_the_cheap_and_owe_what_is_missing() {
        let budget = Budget::new();
        while budget.requests.pay(READ).is_some() {}
        let start = Instant::now();
        budget.requests.paid(TRANSACTION).await;
        let one = start.elapsed();
        budget.requests.paid(READ).await;
        assert_eq!(start.elapsed(), one * (TRANSACTION + 1), "the debt is paid first");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refund_wakes_whoever_waits_for_the_same_tokens() {
        let budget = Budget::new();
        let start = Instant::now();
        let first = budget.requests.pay(TRANSACTION).unwrap();
        while budget.requests.pay(READ).is_some() {}
        tokio::join!(budget.requests.paid(TRANSACTION), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            budget.requests.refund(first);
        });
        assert_eq!(start.elapsed(), Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refund_of_long_ago_buys_nothing() {
        let budget = Budget::new();
        let answered_late = budget.requests.pay(READ).unwrap();
        tokio::time::advance(PERIOD).await;
        while budget.requests.pay(READ).is_some() {}
        budget.requests.refund(answered_late);
        assert!(budget.requests.pay(READ).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_in_vain_leave_attempts_to_connect_alone() {
        let budget = Budget::new();
        while budget.requests.pay(READ).is_some() {}
        let attempts = std::iter::from_fn(|| budget.connects.pay(1)).count();
        assert_eq!(attempts, 2);
    }

    #[tokio::test(start_paused = true)]
    async fn tidying_gives_up_where_all_is_spent() {
        let budget = Budget::new();
        while budget.requests.pay(TRANSACTION).is_some() {}
        let tidy = async |seconds| {
            let (doing, limit) = (|| "tidy up".to_string(), Duration::from_millis(seconds));
            budget.requests.tidying(doing, TRANSACTION, limit, async { Ok(()) }).await
        };
        assert!(tidy(100).await.is_err());
        assert!(tidy(2_000).await.is_ok());
    }
}
