//! Failures of one kind in a row: kept for whoever asks, and logged.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::Error;
use spindle::task::say;
use spindle::testing::Clock;
use spindle_protocol::Moment;

/// From one line about failures that go on to the next.
const REPEAT: Duration = Duration::from_secs(60);

/// The failures since the last success, by this clock.
#[derive(Debug)]
pub(crate) struct FailureLog(Clock, Mutex<Option<Failures>>);

#[derive(Debug)]
struct Failures {
    last: Error,
    count: u64,
    told: Moment,
}

impl FailureLog {
    pub(crate) fn new(clock: &Clock) -> FailureLog {
        FailureLog(clock.clone(), Mutex::default())
    }

    /// Notes one more, and logs it by `tell` if it is the first or the log said so a minute ago.
    /// Returns how many there are.
    pub(crate) fn failed(&self, error: &Error, tell: impl FnOnce()) -> u64 {
        let now = self.0.now();
        let mut failures = self.lock();
        let before = failures.take();
        let is_due = before.as_ref().is_none_or(|it| now.since(it.told) >= REPEAT);
        let told = before.as_ref().map_or(now, |it| if is_due { now } else { it.told });
        let count = before.map_or(0, |it| it.count) + 1;
        *failures = Some(Failures { last: error.clone(), count, told });
        drop(failures);
        if is_due {
            say(tell);
        }
        count
    }

    /// Notes a success. Returns how many failures it ends.
    pub(crate) fn end(&self) -> u64 {
        self.lock().take().map_or(0, |it| it.count)
    }

    /// Returns the last failure, if no success has come since.
    pub(crate) fn last(&self) -> Option<Error> {
        self.lock().as_ref().map(|it| it.last.clone())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failures>> {
        self.1.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
