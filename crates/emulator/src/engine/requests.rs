//! Requests that may have to wait, and what is left of them when their sender gives up.

use std::sync::{MutexGuard, PoisonError};

use super::database::Database;
use super::error::Result;
use super::state::{State, Step};
use super::transaction::{Outcome, TransactionId};
use super::value::Timestamp;

/// A request under way: while there is one, its transaction is not idle.
pub(super) struct Request<'a> {
    database: &'a Database,
    id: TransactionId,
}

impl Database {
    /// Returns the time, in the microseconds that timestamps have.
    pub(super) fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.clock.now().micros())
    }

    /// Resolves once it is this moment.
    pub(super) async fn wait_until(&self, moment: Timestamp) {
        // The clock's own wait is on the heap.
        if self.now() < moment {
            self.clock.wait_until(moment).await;
        }
    }

    /// Returns the state, for as long as the guard is held.
    pub(super) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a request of a transaction.
    pub(super) fn request(&self, id: TransactionId) -> Request<'_> {
        let now = self.now();
        // One that is over, or was idle for too long, answers that to the request itself.
        if let Ok(transaction) = self.state().open_transaction(id, now) {
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
        let mut waited_for = Vec::new();
        loop {
            // Registered before the attempt, so that no change after it is missed.
            let changed = database.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let until = {
                let now = database.now();
                let mut state = database.state();
                let age = state.age(self.id);
                state.stop_waiting(age);
                let step = attempt(&mut state, now);
                let wanted = match &step {
                    Ok(Step::Blocked(_, locks)) => locks.clone(),
                    _ => Vec::new(),
                };
                if !waited_for.is_empty() && waited_for != wanted {
                    // Those who waited behind this request may go on.
                    database.changed.notify_waiters();
                }
                waited_for = wanted;
                match step? {
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
        let id = self.id;
        let mut state = self.database.state();
        let age = state.open.get(&id).and_then(|transaction| transaction.age);
        if age.is_some_and(|age| state.stop_waiting((age, id))) {
            // Those who waited behind this request may go on.
            self.database.changed.notify_waiters();
        }
        if let Some(transaction) = state.open.get_mut(&id) {
            transaction.requests = transaction.requests.saturating_sub(1);
            transaction.last_used = now;
        }
    }
}

/// Rolls a transaction back, if it is still open, when the request that it is for is over.
pub(super) struct EndsWithRequest<'a> {
    pub database: &'a Database,
    pub id: TransactionId,
}

impl Drop for EndsWithRequest<'_> {
    fn drop(&mut self) {
        self.database.state().finish(self.id, Outcome::RolledBack);
    }
}
