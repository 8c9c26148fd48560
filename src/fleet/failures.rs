//! Failures of one kind in a row: kept for whoever asks, and logged.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::error::Error;
use crate::system::Clock;
use crate::term::{Failure, say};

/// The failures since the last success, by this clock.
#[derive(Debug)]
pub(super) struct FailureLog(Clock, Mutex<Option<Failure>>);

impl FailureLog {
    pub(super) fn new(clock: &Clock) -> FailureLog {
        FailureLog(clock.clone(), Mutex::default())
    }

    /// Notes one more, and logs it by `tell` if it is the first or the log said so a minute ago.
    /// Returns how many there are.
    pub(super) fn failed(&self, error: &Error, tell: impl FnOnce()) -> u64 {
        let mut failure = self.lock();
        let is_to_tell = Failure::again(&mut failure, self.0.now(), error);
        let count = failure.as_ref().map_or(0, |failure| failure.count);
        drop(failure);
        if is_to_tell {
            say(tell);
        }
        count
    }

    /// Notes a success. Returns how many failures it ends.
    pub(super) fn end(&self) -> u64 {
        self.lock().take().map_or(0, |failure| failure.count)
    }

    /// Returns the last failure, if no success has come since.
    pub(super) fn last(&self) -> Option<Error> {
        self.lock().as_ref().map(|failure| failure.error.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failure>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
