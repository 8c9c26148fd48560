use std::ops::Add;
use std::time::Duration;

/// A reading of the process's own clock: time since an arbitrary origin.
///
/// Comparable only with readings of the same clock in the same process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Moment(pub Duration);

impl Moment {
    /// Returns the time from `earlier` to this moment; zero if it is not earlier.
    pub fn since(self, earlier: Moment) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, duration: Duration) -> Moment {
        Moment(self.0.saturating_add(duration))
    }
}

/// A timestamp that Spanner gave: nanoseconds since the Unix epoch.
///
/// Commit timestamps and the read timestamps of strong reads are comparable with each other, and
/// with nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The Unix epoch, which stands for "released" in a heartbeat.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// Returns the time from `earlier` to this timestamp; zero if it is not earlier.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanoseconds = i128::from(self.0) - i128::from(earlier.0);
        u64::try_from(nanoseconds.max(0)).map_or(Duration::MAX, Duration::from_nanos)
    }
}

impl Add<Duration> for Timestamp {
    type Output = Timestamp;

    fn add(self, duration: Duration) -> Timestamp {
        let nanoseconds = i64::try_from(duration.as_nanos()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_add(nanoseconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Moment(Duration::ZERO).since(Moment(Duration::from_secs(1))), Duration::ZERO);
        assert_eq!(Moment(Duration::MAX) + Duration::from_secs(1), Moment(Duration::MAX));
        assert_eq!(Timestamp(i64::MAX) + Duration::MAX, Timestamp(i64::MAX));
        assert_eq!(Timestamp(5).since(Timestamp(7)), Duration::ZERO);
        let extremes = Timestamp(i64::MAX).since(Timestamp(i64::MIN));
        assert_eq!(extremes, Duration::from_nanos(u64::MAX));
    }
}
