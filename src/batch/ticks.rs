//! The marks at which the locks of a process act, so that what is due goes together.

use std::time::Duration;

use rand::{Rng, RngExt as _};
use tokio::time::Instant;

/// Marks on the time line, as far apart as anybody asks for.
///
/// All who share these and ask for the same distance get the same marks; marks of twice the
/// distance are among them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ticks {
    since: Instant,
    /// Chosen at random: other processes have other marks.
    phase: Duration,
    /// How far these are from the marks that all the locks of the process share.
    of_group: Duration,
}

/// How far apart the marks of one group of locks are from those of the next: by no simple part of
/// any interval that people choose, so that groups spread over each.
const SPREAD: Duration = Duration::from_millis(618_034);

impl Ticks {
    /// Returns the marks for a group of the locks that share these. Thousands that are due at one
    /// moment would wait for each other, and none at the next.
    pub(crate) fn of_group(self, group: u32) -> Ticks {
        Ticks { of_group: SPREAD * group, ..self }
    }

    /// Returns the marks that all groups share, for polls: nothing is lost where they wait for each
    /// other, and full requests are the fewest.
    pub(crate) fn of_all(self) -> Ticks {
        Ticks { of_group: Duration::ZERO, ..self }
    }

    pub(crate) fn new(random: &mut impl Rng) -> Ticks {
        let phase = Duration::from_nanos(random.random::<u32>().into());
        Ticks { since: Instant::now(), phase, of_group: Duration::ZERO }
    }

    /// Returns the time to the last mark that is no later than `latest` from now. The argument
    /// `within` is the distance between marks, and how long before `latest` it may be.
    pub(crate) fn before(self, latest: Duration, within: Duration) -> Duration {
        latest.saturating_sub(self.beyond(latest, within))
    }

    /// As [`before`](Ticks::before); `latest` if that mark has passed long ago, since who comes
    /// then meets nobody.
    pub(crate) fn next(self, latest: Duration, within: Duration) -> Duration {
        let beyond = self.beyond(latest, within);
        let is_gone = beyond.saturating_sub(latest) > within / 4;
        if is_gone { latest } else { latest.saturating_sub(beyond) }
    }

    /// Returns how long before `latest` the last mark is.
    fn beyond(self, latest: Duration, within: Duration) -> Duration {
        if within.is_zero() {
            return Duration::ZERO;
        }
        let since = (self.since.elapsed() + self.phase + self.of_group + latest).as_nanos();
        u64::try_from(since % within.as_nanos()).map_or(within, Duration::from_nanos)
    }
}
