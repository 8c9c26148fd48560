//! How much a table may send beyond what its healthy users send (I8): token buckets, shared by all
//! that sends for it.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, sleep_until, timeout};

use super::op::Class;
use crate::error::{Error, Result};

/// Requests beyond what healthy users send, in any [`PERIOD`] (I8); attempts to connect apart.
const REQUESTS_MAX: usize = 30;
const PERIOD: Duration = Duration::from_secs(10);

/// The budget of one table, for all its connections, runtimes and threads together.
///
/// A token bucket: it charges requests that may achieve nothing, and refunds those that bring
/// answers. Its lock is held for moments only.
#[derive(Debug)]
pub(crate) struct Budget {
    buckets: Mutex<Buckets>,
    refunded: Notify,
}

/// The price of a request that may achieve nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charge {
    Read,
    /// It reads what its changes are judged by, and commits.
    Transaction,
    ReadAndTransaction,
    /// One more read of a transaction whose first read was aborted. These may come all at once,
    /// since it takes about as many to get past a transaction whose process died; the sum is
    /// bounded.
    ReadAgain,
    /// An attempt to connect. Of these there is one a second besides, or requests that wait for a
    /// connection could keep it from being made.
    Connect,
    /// A request of heartbeats in parts, which each batcher pays from a bucket of its own.
    Heartbeats,
}

/// The price of one request, and when it was paid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payment {
    charge: Charge,
    at: Instant,
}

#[derive(Debug)]
struct Buckets {
    /// When each request was paid for, within the period.
    paid: VecDeque<Instant>,
    reads: Bucket,
    transactions: Bucket,
    connects: Bucket,
}

/// The budgets of one batcher: the table's, and one of its own for parts of heartbeats.
#[derive(Debug)]
pub(super) struct Budgets {
    shared: Arc<Budget>,
    heartbeats: Bucket,
}

/// A token bucket.
#[derive(Debug)]
struct Bucket {
    left: u32,
    burst: u32,
    refill: Duration,
    counted_at: Instant,
    /// The refund for a request that brought an answer.
    reward: u32,
}

impl Budget {
    /// In any 10 s at most 14 reads and 8 transactions, which are two requests each; and 12
    /// attempts to connect.
    pub(crate) fn new() -> Budget {
        let now = Instant::now();
        let reads = Bucket::new(4, Duration::from_secs(1), 1, now);
        let transactions = Bucket::new(3, Duration::from_secs(2), 1, now);
        let connects = Bucket::new(2, Duration::from_secs(1), 1, now);
        let paid = VecDeque::new();
        let buckets = Mutex::new(Buckets { paid, reads, transactions, connects });
        Budget { buckets, refunded: Notify::new() }
    }

    /// Pays for a request, if there is enough.
    pub(crate) fn pay(&self, charge: Charge) -> Option<Payment> {
        let (mut buckets, price) = (self.refilled(), charge.requests());
        let is_room = buckets.paid.len() + price <= REQUESTS_MAX;
        let is_enough = is_room && buckets.of(charge).all(|bucket| bucket.left > 0);
        is_enough.then(|| {
            let at = Instant::now();
            buckets.of(charge).for_each(|bucket| bucket.left -= 1);
            buckets.paid.extend(std::iter::repeat_n(at, price));
            Payment { charge, at }
        })
    }

    /// Gives the price of a request back: it was not in vain.
    pub(crate) fn refund(&self, payment: Payment) {
        let Payment { charge, at } = payment;
        let mut buckets = self.refilled();
        buckets.of(charge).for_each(Bucket::refund);
        // Those of others may have been in vain, and count until their window is over.
        for _ in 0..charge.requests() {
            let its_own = buckets.paid.iter().position(|paid| *paid == at);
            its_own.and_then(|index| buckets.paid.remove(index));
        }
        drop(buckets);
        self.refunded.notify_waiters();
    }

    /// Returns when there will be more of that for which there is not enough.
    pub(crate) fn refilled_at(&self, charge: Charge) -> Option<Instant> {
        let mut buckets = self.refilled();
        let is_short = buckets.paid.len() + charge.requests() > REQUESTS_MAX;
        let logged = buckets.paid.front().filter(|_| is_short).map(|paid| *paid + PERIOD);
        logged.into_iter().chain(buckets.of(charge).filter_map(|bucket| bucket.refilled_at())).min()
    }

    /// Waits for the next refund by whoever shares the budget; counts from when it is enabled.
    pub(crate) fn refunded(&self) -> Notified<'_> {
        self.refunded.notified()
    }

    /// Sends a request that only tidies up: it waits until it is paid for, in `limit` at most.
    pub(crate) async fn tidying<T>(
        &self,
        doing: impl FnOnce() -> String,
        charge: Charge,
        limit: Duration,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let Ok(payment) = timeout(limit, self.paid(charge)).await else {
            return Err(Error::timed_out(doing(), limit));
        };
        let answer = request.await;
        if answer.is_ok() {
            self.refund(payment);
        }
        answer
    }

    /// Waits until it has paid.
    pub(crate) async fn paid(&self, charge: Charge) -> Payment {
        loop {
            let mut refunded = std::pin::pin!(self.refunded());
            refunded.as_mut().enable();
            if let Some(payment) = self.pay(charge) {
                return payment;
            }
            match self.refilled_at(charge) {
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

    fn refilled(&self) -> MutexGuard<'_, Buckets> {
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let now = Instant::now();
        // Another thread's clock may be virtual, and far ahead.
        buckets.paid.retain(|paid| *paid <= now && now < *paid + PERIOD);
        buckets.reads.refill(now);
        buckets.transactions.refill(now);
        buckets.connects.refill(now);
        buckets
    }
}

impl Budgets {
    /// In any 10 s at most 26 transactions with parts of heartbeats, of which each that succeeds
    /// earns another.
    pub(super) fn new(shared: Arc<Budget>, now: Instant) -> Budgets {
        Budgets { shared, heartbeats: Bucket::new(16, Duration::from_secs(1), 2, now) }
    }

    pub(super) fn refill(&mut self, now: Instant) {
        self.heartbeats.refill(now);
    }

    /// Pays for a request, if there is enough.
    pub(super) fn pay(&mut self, class: Class) -> Option<Payment> {
        match charge(class) {
            Charge::Heartbeats => self.heartbeats.pay(),
            charge => self.shared.pay(charge),
        }
    }

    /// Pays for one more read of a transaction whose first read was aborted, if there is enough.
    pub(super) fn pay_read(&mut self, class: Class) -> Option<Payment> {
        match charge(class) {
            Charge::Heartbeats => self.heartbeats.pay(),
            _ => self.shared.pay(Charge::ReadAgain),
        }
    }

    /// Gives the price of a request back: it was not in vain.
    pub(super) fn refund(&mut self, payment: Payment) {
        match payment.charge {
            Charge::Heartbeats => self.heartbeats.refund(),
            _ => self.shared.refund(payment),
        }
    }

    /// Returns when there will be more of something of which there is nothing.
    pub(super) fn refilled_at(&self) -> Option<Instant> {
        let shared = self.shared.refilled_at(Charge::ReadAndTransaction);
        shared.into_iter().chain(self.heartbeats.refilled_at()).min()
    }
}

impl Charge {
    /// Returns how many requests that is.
    fn requests(self) -> usize {
        match self {
            Charge::Connect | Charge::Heartbeats => 0,
            Charge::Read | Charge::ReadAgain => 1,
            Charge::Transaction => 2,
            Charge::ReadAndTransaction => 3,
        }
    }
}

/// Returns the charge for a request of this kind.
fn charge(class: Class) -> Charge {
    match class {
        Class::Heartbeats => Charge::Heartbeats,
        Class::Polls => Charge::Read,
        Class::Releases | Class::Begins => Charge::Transaction,
    }
}

impl Buckets {
    fn of(&mut self, charge: Charge) -> impl Iterator<Item = &mut Bucket> {
        let Buckets { reads, transactions, connects, .. } = self;
        let of = match charge {
            Charge::Read => [Some(reads), None],
            Charge::Transaction => [Some(transactions), None],
            Charge::ReadAndTransaction => [Some(reads), Some(transactions)],
            Charge::ReadAgain | Charge::Heartbeats => [None, None],
            Charge::Connect => [Some(connects), None],
        };
        of.into_iter().flatten()
    }
}

impl Bucket {
    fn new(burst: u32, refill: Duration, reward: u32, now: Instant) -> Bucket {
        Bucket { left: burst, burst, refill, counted_at: now, reward }
    }

    fn refill(&mut self, now: Instant) {
        self.counted_at = self.counted_at.min(now);
        while self.left < self.burst && self.counted_at + self.refill <= now {
            self.left += 1;
            self.counted_at += self.refill;
        }
        if self.left == self.burst {
            self.counted_at = now;
        }
    }

    fn pay(&mut self) -> Option<Payment> {
        self.left = self.left.checked_sub(1)?;
        Some(Payment { charge: Charge::Heartbeats, at: Instant::now() })
    }

    fn refund(&mut self) {
        self.left = (self.left + self.reward).min(self.burst);
    }

    fn refilled_at(&self) -> Option<Instant> {
        (self.left == 0).then(|| self.counted_at + self.refill)
    }
}

/// The requests of one user that go past the batcher: those that repeat a failure are charged.
#[derive(Debug, Default)]
pub(crate) struct Repeats {
    has_failed: AtomicBool,
}

/// One such request; whoever drops it without an answer gets nothing back.
#[must_use]
pub(crate) struct Turn<'a> {
    repeats: &'a Repeats,
    budget: &'a Budget,
    payment: Option<Payment>,
}

impl Repeats {
    /// Waits until the next request may leave. It leaves at once if it repeats no failure.
    pub(crate) async fn turn<'a>(&'a self, budget: &'a Budget, charge: Charge) -> Turn<'a> {
        let is_repeat = self.has_failed.load(Ordering::Relaxed);
        let payment = if is_repeat { Some(budget.paid(charge).await) } else { None };
        Turn { repeats: self, budget, payment }
    }

    /// Sends a request at its turn.
    pub(crate) async fn send<T>(
        &self,
        budget: &Budget,
        charge: Charge,
        request: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        let turn = self.turn(budget, charge).await;
        let answer = request.await;
        turn.ends(answer.is_ok());
        answer
    }
}

impl Turn<'_> {
    /// Notes if the request brought an answer.
    pub(crate) fn ends(self, is_answered: bool) {
        self.repeats.has_failed.store(!is_answered, Ordering::Relaxed);
        if let Some(payment) = self.payment.filter(|_| is_answered) {
            self.budget.refund(payment);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const READS_MAX: usize = 14;

    #[test]
    fn a_charge_is_for_each_request_that_it_names() {
        use Charge::*;
        // A transaction reads what its changes are judged by, and commits.
        for (charge, requests) in [(Read, 1), (Transaction, 2), (ReadAndTransaction, 3)] {
            assert_eq!(charge.requests(), requests, "{charge:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn users_of_one_budget_repeat_together_what_one_of_them_may() {
        let budget = Budget::new();
        let users: [Repeats; 20] = Default::default();
        let sent = AtomicBool::new(false);
        let mut count = 0;
        let fail = async || {
            sent.store(true, Ordering::Relaxed);
            Err::<(), _>(Error::config("no"))
        };
        for user in &users {
            assert!(user.send(&budget, Charge::Read, fail()).await.is_err());
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(10) {
            for user in &users {
                sent.store(false, Ordering::Relaxed);
                let sending = user.send(&budget, Charge::Read, fail());
                // A user whose turn doesn't come takes its request back.
                let _ = timeout(Duration::from_millis(5), sending).await;
                count += usize::from(sent.load(Ordering::Relaxed));
            }
        }
        assert!((10..=READS_MAX).contains(&count), "{count}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_refund_wakes_whoever_waits_for_the_same_budget() {
        let budget = Budget::new();
        let start = Instant::now();
        let first = budget.pay(Charge::Transaction).unwrap();
        while budget.pay(Charge::Transaction).is_some() {}
        tokio::join!(budget.paid(Charge::Transaction), async {
            tokio::time::sleep(Duration::from_millis(1)).await;
            budget.refund(first);
        });
        assert_eq!(start.elapsed(), Duration::from_millis(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_refund_takes_back_what_its_own_request_has_paid_and_nobody_elses() {
        let budget = Budget::new();
        let answered_late = budget.pay(Charge::ReadAgain).unwrap();
        tokio::time::advance(PERIOD - Duration::from_secs(1)).await;
        let in_vain = std::iter::from_fn(|| budget.pay(Charge::ReadAgain)).count();
        assert_eq!(in_vain, REQUESTS_MAX - 1);
        budget.refund(answered_late);
        tokio::time::advance(Duration::from_secs(1)).await;
        let more = std::iter::from_fn(|| budget.pay(Charge::ReadAgain)).count();
        assert_eq!(in_vain + more, REQUESTS_MAX);
    }

    #[tokio::test(start_paused = true)]
    async fn a_repeated_read_that_brought_answers_pays_for_no_transaction() {
        let shared = Arc::new(Budget::new());
        let mut budgets = Budgets::new(Arc::clone(&shared), Instant::now());
        while shared.pay(Charge::Transaction).is_some() {}
        let read = budgets.pay_read(Class::Begins).unwrap();
        budgets.refund(read);
        assert!(budgets.pay(Class::Begins).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn tidying_gives_up_where_all_is_spent() {
        let budget = Budget::new();
        while budget.pay(Charge::Transaction).is_some() {}
        let tidy = async |seconds| {
            let (doing, limit) = (|| "tidy up".to_string(), Duration::from_secs(seconds));
            budget.tidying(doing, Charge::Transaction, limit, async { Ok(()) }).await
        };
        assert!(tidy(1).await.is_err());
        assert!(tidy(2).await.is_ok());
    }
}
