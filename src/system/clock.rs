use std::time::Duration;

use spindle_protocol::Moment;

/// A sleeper wakes so often to read the clock. Timers stand still while the machine is suspended.
const TICK: Duration = Duration::from_secs(10);

/// The process's own clock, by which a holder judges whether its lease still protects it.
///
/// It never goes back, and it counts the time that the machine is suspended. So a leader whose
/// machine slept through its lease finds its lock gone the moment it wakes. On Linux and Android
/// that is `CLOCK_BOOTTIME`; on Apple's systems `CLOCK_MONOTONIC`, which counts suspended time
/// there. Elsewhere it is [`std::time::Instant`], which may not.
///
/// Two pauses escape every clock of the machine. A hypervisor can stop the whole machine, to take a
/// snapshot or to move it. A process can spend time in a checkpoint (CRIU). A process that comes
/// back from either believes in its lease for what was left of it when it stopped. Use a fence
/// there, as anywhere.
#[derive(Clone, Debug)]
pub struct Clock(Source);

/// A simulated machine with clocks of its own.
#[cfg(feature = "__simulation")]
pub trait Machine: std::fmt::Debug + Send + Sync {
    /// Reads one of its clocks: time since an arbitrary origin.
    fn read(&self, clock: rustix::time::ClockId) -> Duration;
}

#[derive(Clone, Debug)]
enum Source {
    System,
    Runtime(tokio::time::Instant),
    #[cfg(feature = "__simulation")]
    Simulated(std::sync::Arc<dyn Machine>),
}

/// The system's clock that counts suspended time.
#[cfg(any(target_os = "linux", target_os = "android"))]
const ID: rustix::time::ClockId = rustix::time::ClockId::Boottime;
#[cfg(target_vendor = "apple")]
const ID: rustix::time::ClockId = rustix::time::ClockId::Monotonic;

impl Clock {
    /// Returns the system's clock; the default.
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// Tokio's clock, which follows `tokio::time::pause`: for tests on virtual time.
    ///
    /// It doesn't count suspended time, so it is not for production.
    pub fn runtime() -> Clock {
        // The origin is a day ago, so that no subtraction reaches it.
        let origin = tokio::time::Instant::now();
        Clock(Source::Runtime(origin.checked_sub(Duration::from_secs(86_400)).unwrap_or(origin)))
    }

    /// Sleeps for so long; what the machine is suspended for counts, up to a tick.
    pub(crate) async fn sleep(&self, pause: Duration) {
        let until = self.now() + pause;
        loop {
            let left = until.since(self.now());
            if left.is_zero() {
                return;
            }
            tokio::time::sleep(left.min(TICK)).await;
        }
    }

    #[cfg(feature = "__simulation")]
    pub(crate) fn simulated(machine: std::sync::Arc<dyn Machine>) -> Clock {
        Clock(Source::Simulated(machine))
    }

    /// Reads it.
    pub fn now(&self) -> Moment {
        Moment(match &self.0 {
            Source::System => system_now(),
            Source::Runtime(origin) => origin.elapsed(),
            #[cfg(feature = "__simulation")]
            Source::Simulated(machine) => machine.read(ID),
        })
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

fn system_now() -> Duration {
    let time = rustix::time::clock_gettime(ID);
    // Neither is negative: both count from the start of the machine.
    Duration::new(time.tv_sec.cast_unsigned(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clock_never_goes_back() {
        let clock = Clock::system();
        let mut last = clock.now();
        for _ in 0..10_000 {
            let now = clock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_runtime_clock_follows_virtual_time() {
        let clock = Clock::runtime();
        let before = clock.now();
        tokio::time::advance(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now().since(before), Duration::from_secs(3_600));
    }
}
