use std::fmt;

use chrono::{DateTime, Utc};
use spindle_protocol::Timestamp;

/// The fencing token of a term: what a write must carry to be refused once the term is over.
///
/// It is the commit timestamp of the transaction that began the term, in nanoseconds since the
/// Unix epoch. The tokens of one lock strictly increase from term to term, whoever holds, also
/// across a deletion of the lock's row. Spanner orders the commits that touch it ([commit
/// timestamps]). Tokens of different locks have nothing to do with each other.
///
/// As text it is a decimal string, because a JSON number of this size loses digits in JavaScript.
///
/// ```
/// use spindle::FencingToken;
///
/// let token: FencingToken = "1795000000123456000".parse()?;
/// assert!(token < FencingToken::from_nanoseconds(1795000000123457000));
/// assert_eq!(token.to_string(), "1795000000123456000");
/// assert_eq!(token.to_datetime().timestamp_subsec_micros(), 123456);
/// # Ok::<(), spindle::Error>(())
/// ```
///
/// [commit timestamps]: https://cloud.google.com/spanner/docs/commit-timestamp
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Returns the token that another process was given as nanoseconds since the Unix epoch.
    ///
    /// Times after the year 2262 don't fit a Spanner timestamp in nanoseconds; they are cut to
    /// the last that does.
    pub const fn from_nanoseconds(nanoseconds: u64) -> FencingToken {
        const LAST: u64 = i64::MAX as u64;
        FencingToken(if nanoseconds > LAST { LAST } else { nanoseconds })
    }

    /// Nanoseconds since the Unix epoch.
    pub const fn as_nanoseconds(self) -> u64 {
        self.0
    }

    /// Returns when the term began, by Spanner's clock.
    pub const fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_nanos(self.0.cast_signed())
    }

    /// Returns the token of a term that began at this commit, for crates that read [rows](crate::rows).
    pub fn from_timestamp(timestamp: Timestamp) -> FencingToken {
        FencingToken(u64::try_from(timestamp.0).unwrap_or(0))
    }

    /// Returns the timestamp of the commit that began the term.
    pub fn to_timestamp(self) -> Timestamp {
        Timestamp(self.0.cast_signed())
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
