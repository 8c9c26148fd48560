//! Failures of one kind in a row, kept for whoever asks.

use std::sync::{Mutex, MutexGuard, PoisonError};

use spindle::Error;

/// The last failure and how many there were, since the last success.
#[derive(Debug, Default)]
pub(crate) struct Failures(Mutex<Option<(Error, u64)>>);

impl Failures {
    /// Notes one more. Returns how many there are.
    pub(crate) fn failed(&self, error: &Error) -> u64 {
        let mut failures = self.lock();
        let count = failures.as_ref().map_or(0, |(_, count)| *count) + 1;
        *failures = Some((error.clone(), count));
        count
    }

    /// Notes a success. Returns how many failures it ends.
    pub(crate) fn end(&self) -> u64 {
        self.lock().take().map_or(0, |(_, count)| count)
    }

    /// Returns the last failure, if no success has come since.
    pub(crate) fn last(&self) -> Option<Error> {
        self.lock().as_ref().map(|(error, _)| error.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<(Error, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
