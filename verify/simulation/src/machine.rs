//! The clocks of one instance's machine, and Spanner's.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::simulation::{ClockId, Machine, STANDS_STILL};
use spindle_emulator::engine::{self, Sleep};
use tokio::time::{Instant, sleep};

/// A machine whose clocks run at a rate of their own, and one of which stops in suspension.
#[derive(Debug)]
pub(crate) struct Clocks {
    origin: Instant,
    rate: f64,
    suspended: Mutex<Suspended>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Suspended {
    total: Duration,
    since: Option<Instant>,
}

impl Clocks {
    pub(crate) fn new(rate: f64) -> Clocks {
        Clocks { origin: Instant::now(), rate, suspended: Mutex::default() }
    }

    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    pub(crate) fn suspend(&self) {
        let mut suspended = lock(&self.suspended);
        suspended.since = suspended.since.or(Some(Instant::now()));
    }

    pub(crate) fn wake_up(&self) {
        let mut suspended = lock(&self.suspended);
        if let Some(since) = suspended.since.take() {
            suspended.total += since.elapsed();
        }
    }
}

impl Machine for Clocks {
    fn read(&self, clock: ClockId) -> Duration {
        // An hour ahead, so that no subtraction reaches the origin.
        let mut elapsed = self.origin.elapsed() + Duration::from_secs(3_600);
        if Some(clock) == STANDS_STILL {
            let suspended = *lock(&self.suspended);
            elapsed -=
                suspended.total + suspended.since.map_or(Duration::ZERO, |since| since.elapsed());
        }
        elapsed.mul_f64(self.rate)
    }
}

/// True time, of which Spanner knows only that it lies in an interval. Spanner reads the late end,
/// and a commit waits until that is certainly over.
#[derive(Debug)]
pub(crate) struct TrueTime {
    started: Instant,
    uncertainty: Duration,
    last: Mutex<Option<engine::Timestamp>>,
}

/// When every simulation begins: tokens have 19 digits, as they have today.
const START_MICROS: i64 = 1_795_000_000_000_000;
const TICK: Duration = Duration::from_micros(1);

impl TrueTime {
    pub(crate) fn new(uncertainty: Duration) -> TrueTime {
        TrueTime { started: Instant::now(), uncertainty, last: Mutex::new(None) }
    }

    /// How long after the start `timestamp` was given, at the latest.
    pub(crate) fn elapsed_at(timestamp_nanos: i64) -> Duration {
        let nanos = timestamp_nanos.saturating_sub(START_MICROS * 1_000);
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
    }

    /// Returns the true time `elapsed` after the start.
    pub(crate) fn at(elapsed: Duration) -> spindle_protocol::Timestamp {
        spindle_protocol::Timestamp(START_MICROS * 1_000) + elapsed
    }

    fn latest(&self) -> engine::Timestamp {
        let ahead = self.started.elapsed() + self.uncertainty;
        engine::Timestamp::from_micros(START_MICROS)
            .checked_add(ahead)
            .unwrap_or(engine::Timestamp::MAX)
    }
}

impl engine::Clock for TrueTime {
    /// No two readings are the same, so that no commit has to wait for a virtual clock that stands
    /// still.
    fn now(&self) -> engine::Timestamp {
        let mut last = lock(&self.last);
        let after_last = last.and_then(|last| last.checked_add(TICK));
        let now = after_last.map_or(self.latest(), |after_last| after_last.max(self.latest()));
        *last = Some(now);
        now
    }

    fn wait_until(&self, moment: engine::Timestamp) -> Sleep<'_> {
        // The early end of the interval has to pass, which is twice the uncertainty behind the late.
        let certain = moment.checked_add(self.uncertainty * 2).unwrap_or(moment);
        let wait = certain.since(self.latest());
        // Less than a timer can wait is the spread of readings at one instant of virtual time.
        if wait < Duration::from_millis(1) {
            return Box::pin(std::future::ready(()));
        }
        Box::pin(sleep(wait))
    }

    fn advance(&self, _: Duration) {}
}

/// Locks what only this thread uses, so that a poisoned lock means that the run is over anyway.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
