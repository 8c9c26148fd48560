//! Failures of one kind in a row: counted, kept for whoever asks, and worth a line of the log each
//! minute.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::error::Error;
use crate::term::{TOLD_EVERY, say};

/// The failures since the last success.
#[derive(Debug, Default)]
pub(super) struct Failures(Mutex<Option<InARow>>);

#[derive(Debug)]
struct InARow {
    count: u32,
    last: Error,
    told: Instant,
}

impl Failures {
    /// Notes one more, and logs it by `tell` if it is the first or the log said so a minute ago.
    /// Returns how many came before it.
    pub(super) fn failed(&self, error: &Error, tell: impl FnOnce()) -> u32 {
        let (mut failures, now) = (self.lock(), Instant::now());
        let before = failures.as_ref().map_or(0, |row| row.count);
        let told = failures.as_ref().map(|row| row.told);
        let told = told.filter(|told| now.duration_since(*told) < TOLD_EVERY);
        let count = before.saturating_add(1);
        *failures = Some(InARow { count, last: error.clone(), told: told.unwrap_or(now) });
        drop(failures);
        if told.is_none() {
            say(tell);
        }
        before
    }

    /// Notes a success. Returns how many failures it ends.
    pub(super) fn end(&self) -> u32 {
        self.lock().take().map_or(0, |row| row.count)
    }

    /// Returns the last failure, if no success has come since.
    pub(super) fn last(&self) -> Option<Error> {
        self.lock().as_ref().map(|row| row.last.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<InARow>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
