//! A fencing token as text: where it travels to another process or service.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::token::FencingToken;

impl FencingToken {
    /// The header, or key of gRPC metadata, under which to send a token to another service.
    pub const HEADER: &str = "x-fencing-token";

    /// Reads a token from the value of an HTTP header or of gRPC metadata, with or without blanks
    /// around it. Its text, decimal digits, is valid in both.
    ///
    /// ```
    /// use spindle::FencingToken;
    ///
    /// let token = FencingToken::from_nanoseconds(1_795_000_000_123_456_000);
    /// let sent = token.to_string();
    /// assert_eq!(FencingToken::from_header_value(sent.as_bytes())?, token);
    /// # Ok::<(), spindle::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) if the value is no token.
    pub fn from_header_value(value: &[u8]) -> Result<FencingToken> {
        String::from_utf8_lossy(value.trim_ascii()).parse()
    }
}

impl FromStr for FencingToken {
    type Err = Error;

    /// Reads decimal digits.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) if the text is no token.
    fn from_str(text: &str) -> Result<FencingToken> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        match text.parse::<u64>() {
            Ok(nanoseconds) if digits && i64::try_from(nanoseconds).is_ok() => {
                Ok(FencingToken::from_nanoseconds(nanoseconds))
            }
            _ => Err(Error::config(format!(
                "fencing token `{text}`: expected nanoseconds since the epoch in decimal digits"
            ))),
        }
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
