//! The end of a term's validity, by clocks that a program of any language reads by itself.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use spindle::Term;

/// Counts the time that the machine is suspended, as the library does.
#[cfg(any(target_os = "linux", target_os = "android"))]
const BOOTTIME: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const BOOTTIME: ClockId = ClockId::CLOCK_MONOTONIC;

/// A reading that a client sends along is at most so old.
const AGE_MAX: Duration = Duration::from_secs(60);

/// A moment by both clocks, in nanoseconds. Text, because JavaScript loses digits of numbers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Deadline {
    boottime_ns: String,
    monotonic_ns: String,
}

impl Deadline {
    /// Returns the end of what the last heartbeat protects.
    ///
    /// The library counts that from before the heartbeat left (I1). Here both clocks are read first:
    /// whatever passes until the term is looked at makes the deadline earlier, never later.
    pub fn of(term: &Term) -> Deadline {
        let (monotonic, boottime) = (now(ClockId::CLOCK_MONOTONIC), now(BOOTTIME));
        let left = term.remaining();
        let text = |now: Duration| (now + left).as_nanos().to_string();
        Deadline { boottime_ns: text(boottime), monotonic_ns: text(monotonic) }
    }
}

/// A client's own reading of a clock, from just before its request.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reading {
    boottime_ns: Option<String>,
    monotonic_ns: Option<String>,
}

impl Reading {
    /// Refuses a client whose clocks are not this program's: deadlines mean nothing to it.
    pub fn check(&self) -> Result<(), String> {
        check("boottime_ns", self.boottime_ns.as_deref(), now(BOOTTIME))?;
        check("monotonic_ns", self.monotonic_ns.as_deref(), now(ClockId::CLOCK_MONOTONIC))
    }
}

fn check(name: &str, read: Option<&str>, now: Duration) -> Result<(), String> {
    let Some(text) = read else { return Ok(()) };
    let read: u64 = text.parse().map_err(|_| format!("clock: {name} `{text}`: not a number"))?;
    let read = Duration::from_nanos(read);
    if read > now || now - read > AGE_MAX {
        let now = now.as_nanos();
        return Err(format!(
            "clock: {name} is {text} there and {now} here: another machine, or another time namespace"
        ));
    }
    Ok(())
}

fn now(clock: ClockId) -> Duration {
    // Every kernel that this program runs on has both clocks.
    clock_gettime(clock).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_of_another_clock_is_refused() {
        let at = |now: Duration| Reading {
            boottime_ns: Some(now.as_nanos().to_string()),
            monotonic_ns: None,
        };
        let here = now(BOOTTIME);
        assert_eq!(at(here).check(), Ok(()));
        assert!(at(here + Duration::from_secs(5)).check().unwrap_err().contains("namespace"));
        assert!(at(here.saturating_sub(AGE_MAX * 2)).check().is_err() || here < AGE_MAX * 2);
        let letters = Reading { monotonic_ns: Some("soon".to_string()), ..Reading::default() };
        assert!(letters.check().unwrap_err().contains("not a number"));
    }
}
