//! Requests that may have to wait, and what is left of them when their sender gives up.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use super::clock::Clock;
use super::error::Result;
use super::state::{State, Step};
use super::transaction::{Status, TransactionId};
use super::value::Timestamp;

/// The state that the requests of a database work on.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub clock: Arc<dyn Clock>,
    state: Arc<Mutex<State>>,
    changed: Arc<Notify>,
}

/// A request under way: while there is one, its transaction is not idle.
pub(super) struct Request<'a> {
    database: &'a Shared,
    id: TransactionId,
}

impl Shared {
    /// Returns a state of which the requests are woken by what `changed` says.
    pub fn new(clock: Arc<dyn Clock>, state: State, changed: Arc<Notify>) -> Shared {
        Shared { clock, state: Arc::new(Mutex::new(state)), changed }
    }

    /// Returns the time, in the microseconds that timestamps have.
    pub fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().micros())
    }

    /// Resolves once it is this moment.
    pub async fn wait_until(&self, moment: Timestamp) {
        // The clock's own wait is on the heap.
        if self.now() < moment {
            self.clock.wait_until(moment).await;
        }
    }

    /// Returns the state, for as long as the guard is held.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a request of a transaction.
    pub fn request(&self, id: TransactionId) -> Request<'_> {
        let now = self.now();
        // One that is over, or was idle for too long, answers that to the request itself.
        if let Ok(transaction) = self.state().open_transaction(id.number(), now) {
            transaction.requests += 1;
        }
        Request { database: self, id }
    }
}

impl Request<'_> {
    /// Tries until nothing is in the way any more.
    pub async fn run<T>(
        self,
        mut attempt: impl FnMut(&mut State, Timestamp) -> Result<Step<T>>,
    ) -> Result<T> {
        let database = self.database;
        loop {
            // Registered before the attempt, so that no change after it is missed.
            let changed = database.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let until = {
                let now = database.now();
                let mut state = database.state();
                let age = state.age(self.id.number());
                state.stop_waiting(age);
                match attempt(&mut state, now)? {
                    Step::Done(result) => return Ok(result),
                    Step::Blocked(blocked, locks) => {
                        state.waiting.push((age, locks));
                        blocked.until
                    }
                }
            };
            tokio::select! {
                () = changed => {}
                () = database.clock.wait_until(until) => {}
            }
        }
    }
}

impl Drop for Request<'_> {
    fn drop(&mut self) {
        let now = self.database.now();
        let number = self.id.number();
        let mut state = self.database.state();
        let age = state.transactions.get(&number).and_then(|transaction| transaction.age);
        if age.is_some_and(|age| state.stop_waiting((age, number))) {
            // Those who waited behind this request may go on.
            self.database.changed.notify_waiters();
        }
        if let Some(transaction) = state.transactions.get_mut(&number) {
            transaction.requests = transaction.requests.saturating_sub(1);
            transaction.last_used = now;
        }
    }
}

/// Rolls a transaction back, if it is still open, when the request that it is for is over.
pub(super) struct EndsWithRequest<'a> {
    pub database: &'a Shared,
    pub id: TransactionId,
}

impl Drop for EndsWithRequest<'_> {
    fn drop(&mut self) {
        self.database.state().finish(self.id.number(), Status::RolledBack);
    }
}
