//! The ticks at which the locks of a process act, so that what is due goes together.

use std::time::Duration;

use rand::{Rng, RngExt as _};
use tokio::time::Instant;

/// Ticks as far apart as a caller asks for.
///
/// Callers that share these and ask for the same distance get the same ticks. The ticks of twice the
/// distance are among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    since: Instant,
    /// Chosen at random: other processes have other ticks.
    phase: Duration,
    /// The distance of these from the ticks that all locks of the process share.
    of_group: Duration,
}

/// The distance of the ticks of one group of locks from those of the next. It is no simple part of
/// any interval that people choose, so that groups spread over each.
const SPREAD: Duration = Duration::from_millis(618_034);

impl Ticks {
    /// Returns the ticks of one group of the locks that share these. Thousands of heartbeats at one
    /// moment would wait for each other.
    pub(crate) fn of_group(self, group: u32) -> Ticks {
        Ticks { of_group: SPREAD * group, ..self }
    }

    /// Returns the ticks that all groups share, for polls: they may wait for each other, and full
    /// requests are the fewest.
    pub(crate) fn of_all(self) -> Ticks {
        Ticks { of_group: Duration::ZERO, ..self }
    }

    pub(crate) fn new(random: &mut impl Rng) -> Ticks {
        let phase = Duration::from_nanos(random.random::<u32>().into());
        Ticks { since: Instant::now(), phase, of_group: Duration::ZERO }
    }

    /// Returns the time to the last tick that is no later than `latest` from now. The argument
    /// `within` is the distance between ticks, so it is less than that before `latest`.
    pub(crate) fn before(self, latest: Duration, within: Duration) -> Duration {
        latest.saturating_sub(self.beyond(latest, within))
    }

    /// As [`before`](Ticks::before), but `latest` if that tick has passed long ago: no other lock
    /// acts then.
    pub(crate) fn next(self, latest: Duration, within: Duration) -> Duration {
        let beyond = self.beyond(latest, within);
        let is_gone = beyond.saturating_sub(latest) > within / 4;
        if is_gone { latest } else { latest.saturating_sub(beyond) }
    }

    /// Returns the time from the last tick to `latest`.
    fn beyond(self, latest: Duration, within: Duration) -> Duration {
        if within.is_zero() {
            return Duration::ZERO;
        }
        let since = (self.since.elapsed() + self.phase + self.of_group + latest).as_nanos();
        u64::try_from(since % within.as_nanos()).map_or(within, Duration::from_nanos)
    }
}
