//! Where the engine's time comes from.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::value::Timestamp;

/// A future that a [`Clock`] returns.
pub type Sleep<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// The source of the engine's true time.
///
/// Every timestamp, limit and wait of a database comes from here, so a test that brings its own
/// clock decides how time passes.
pub trait Clock: Send + Sync + fmt::Debug {
    /// The time now, in whole microseconds, as commit timestamps have them: of a finer time the engine
    /// takes those alone. It should not go back; if it does, timestamps keep rising all the same.
    fn now(&self) -> Timestamp;

    /// Resolves once [`Clock::now`] has reached `moment`.
    fn wait_until(&self, moment: Timestamp) -> Sleep<'_>;

    /// Moves the clock forward and wakes the waiters whose moment has come.
    fn advance(&self, duration: Duration);
}

/// The default clock: wall time when it was made, and tokio's monotonic time since.
///
/// It never steps by itself, and it stands still while tokio's time is paused.
#[derive(Debug)]
pub struct TokioClock {
    started: Instant,
    start: Timestamp,
    advanced: Mutex<Duration>,
    moved: Notify,
}

impl TokioClock {
    /// Returns a clock that shows wall time now.
    pub fn new() -> TokioClock {
        #[expect(clippy::disallowed_methods, reason = "read once, to start from; never again")]
        let wall = std::time::SystemTime::now();
        let since_epoch = wall.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        // Commit timestamps have microseconds; starting on one keeps sums of them exact.
        let micros = i64::try_from(since_epoch.as_micros()).unwrap_or(i64::MAX);
        TokioClock::starting_at(Timestamp::from_micros(micros))
    }

    /// Returns a clock that shows `start` now.
    pub fn starting_at(start: Timestamp) -> TokioClock {
        TokioClock {
            started: Instant::now(),
            start,
            advanced: Mutex::new(Duration::ZERO),
            moved: Notify::new(),
        }
    }

    fn advanced(&self) -> Duration {
        *self.advanced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Default for TokioClock {
    fn default() -> TokioClock {
        TokioClock::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        let elapsed = self.started.elapsed().saturating_add(self.advanced());
        let now = self.start.checked_add(elapsed).unwrap_or(Timestamp::MAX);
        // A column that takes commit timestamps refuses times after the engine's, which has whole
        // microseconds. A finer time from here could not be written within its microsecond.
        Timestamp::from_micros(now.micros())
    }

    fn wait_until(&self, moment: Timestamp) -> Sleep<'_> {
        Box::pin(async move {
            loop {
                // Registered before the clock is read, so that no advance is missed in between.
                let moved = self.moved.notified();
                tokio::pin!(moved);
                moved.as_mut().enable();
                let now = self.now();
                if now >= moment {
                    return;
                }
                tokio::select! {
                    () = moved => {}
                    () = tokio::time::sleep(moment.since(now)) => {}
                }
            }
        })
    }

    fn advance(&self, duration: Duration) {
        let mut advanced = self.advanced.lock().unwrap_or_else(PoisonError::into_inner);
        *advanced = advanced.saturating_add(duration);
        drop(advanced);
        self.moved.notify_waiters();
    }
}
