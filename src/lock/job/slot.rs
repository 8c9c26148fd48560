//! The name of a scheduled run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use chrono::{DateTime, TimeZone, Utc};
use spindle_protocol::Timestamp;
use spindle_protocol::job;

use crate::error::{Error, Result};

/// The shortest period, and the longest.
const PERIOD_MIN: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

/// A slot: the time for which a run is scheduled. It names the run, on all nodes alike.
///
/// It is a point in time, so that it knows no time zone: an hour that the end of daylight saving time
/// repeats is two slots. A `chrono::DateTime` of any zone makes one, and a `SystemTime` does.
///
/// ```
/// use std::time::Duration;
/// use spindle::job::Slot;
///
/// let slot = Slot::from(chrono::DateTime::parse_from_rfc3339("2026-10-25T02:30:00+02:00")?);
/// assert_ne!(slot, Slot::from(chrono::DateTime::parse_from_rfc3339("2026-10-25T02:30:00+01:00")?));
/// let hourly = Slot::every(Duration::from_secs(3_600));
/// # let _ = hourly;
/// # Ok::<(), chrono::ParseError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot(job::Slot);

impl Slot {
    /// Returns the slot of this time.
    pub fn at(time: impl Into<Slot>) -> Slot {
        time.into()
    }

    /// Returns the slot of a schedule of this period, from 1 s to 366 days: the multiple of it since
    /// 1970-01-01T00:00:00Z that is **nearest** to Spanner's time when the job's row is first read.
    ///
    /// The node's own clock plays no part: it only says when to ask. A timer that fires early names the
    /// slot that comes, and the run waits for it; one that fires late names the slot that has come.
    pub fn every(period: Duration) -> Slot {
        Slot(job::Slot::Every(period))
    }

    /// Returns the slot as the protocol has it, if it can be one.
    pub(super) fn checked(self, job: &str) -> Result<job::Slot> {
        match self.0 {
            job::Slot::Every(period) if !(PERIOD_MIN..=PERIOD_MAX).contains(&period) => {
                Err(Error::config(format!(
                    "job `{job}`: period {period:?}; expected {PERIOD_MIN:?} to {PERIOD_MAX:?}"
                )))
            }
            job::Slot::At(slot) if slot.0 <= 0 || slot.0 == i64::MAX => Err(Error::config(
                format!("job `{job}`: slot {}; expected a time between 1970 and 2262", time(slot)),
            )),
            slot => Ok(slot),
        }
    }
}

impl<Zone: TimeZone> From<DateTime<Zone>> for Slot {
    fn from(time: DateTime<Zone>) -> Slot {
        // A time that doesn't fit is refused later, with its name.
        let late = if time.timestamp() > 0 { i64::MAX } else { i64::MIN };
        Slot(job::Slot::At(Timestamp(time.timestamp_nanos_opt().unwrap_or(late))))
    }
}

impl From<SystemTime> for Slot {
    fn from(time: SystemTime) -> Slot {
        // Beyond the years of a `DateTime`, too.
        let nanos = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_nanos()).unwrap_or(i64::MAX),
            Err(before) => i64::try_from(before.duration().as_nanos()).map_or(i64::MIN, |it| -it),
        };
        Slot(job::Slot::At(Timestamp(nanos)))
    }
}

/// Returns a time of Spanner's for people.
pub(super) fn time(at: Timestamp) -> DateTime<Utc> {
    DateTime::from_timestamp_nanos(at.0)
}
