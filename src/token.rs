use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use spindle_protocol::Timestamp;

/// The fencing token of a term: what a write must carry to be refused once the term is over.
///
/// It is the commit timestamp of the transaction that began the term, in nanoseconds since the
/// Unix epoch. The tokens of one lock strictly increase from term to term, whoever holds, also
/// across a deletion of the lock's row: Spanner orders the commits that touch it ([commit
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
    /// The token that another process was given as nanoseconds since the Unix epoch.
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

    /// When the term began, by Spanner's clock.
    pub const fn to_datetime(self) -> DateTime<Utc> {
        DateTime::from_timestamp_nanos(self.0.cast_signed())
    }

    /// The header, or key of gRPC metadata, under which to send a token to another service.
    pub const HEADER: &str = "x-fencing-token";

    /// The token as the value of an HTTP header or of gRPC metadata: decimal digits, which are
    /// valid in both.
    ///
    /// ```
    /// use spindle::FencingToken;
    ///
    /// let token = FencingToken::from_nanoseconds(1_795_000_000_123_456_000);
    /// let sent = token.to_header_value();
    /// assert_eq!(FencingToken::from_header_value(sent.as_bytes())?, token);
    /// # Ok::<(), spindle::Error>(())
    /// ```
    pub fn to_header_value(self) -> String {
        self.to_string()
    }

    /// Reads what [`to_header_value`](FencingToken::to_header_value) wrote, with or without
    /// blanks around it.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) if the value is no token.
    pub fn from_header_value(value: &[u8]) -> crate::Result<FencingToken> {
        String::from_utf8_lossy(value.trim_ascii()).parse()
    }

    pub(crate) fn from_timestamp(timestamp: Timestamp) -> FencingToken {
        FencingToken(u64::try_from(timestamp.0).unwrap_or(0))
    }

    pub(crate) fn to_timestamp(self) -> Timestamp {
        Timestamp(self.0.cast_signed())
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for FencingToken {
    type Err = crate::Error;

    /// Reads decimal digits.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) if the text is no token.
    fn from_str(text: &str) -> Result<FencingToken, crate::Error> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(nanoseconds) if digits && i64::try_from(nanoseconds).is_ok() => {
                Ok(FencingToken(nanoseconds))
            }
            _ => Err(crate::Error::config(format!(
                "fencing token `{text}`: expected nanoseconds since the epoch in decimal digits"
            ))),
        }
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> u64 {
        token.0
    }
}

impl From<FencingToken> for DateTime<Utc> {
    fn from(token: FencingToken) -> DateTime<Utc> {
        token.to_datetime()
    }
}

#[cfg(feature = "serde")]
impl serde::Serialize for FencingToken {
    /// As a decimal string, in every format.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(feature = "serde")]
impl<'de> serde::Deserialize<'de> for FencingToken {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_value_is_read_with_blanks_and_nothing_else_around() {
        let token = FencingToken::from_nanoseconds(42);
        assert_eq!(FencingToken::from_header_value(b" 42\t").unwrap(), token);
        for value in [&b"42, 43"[..], b"", b"\xff42", b"4 2"] {
            assert!(FencingToken::from_header_value(value).unwrap_err().is_config());
        }
    }

    #[test]
    fn a_token_survives_the_way_through_text() {
        for nanoseconds in [0, 1, 1_795_000_000_123_456_000, i64::MAX.cast_unsigned()] {
            let token = FencingToken::from_nanoseconds(nanoseconds);
            assert_eq!(token.to_string().parse::<FencingToken>().unwrap(), token);
        }
    }

    #[test]
    fn text_that_is_no_token_is_refused() {
        for text in
            ["", "-1", "+1", " 1", "1e3", "0x1", "18446744073709551616", "9223372036854775808"]
        {
            let error = text.parse::<FencingToken>().unwrap_err();
            assert!(error.is_config(), "{text}: {error}");
        }
    }
}
