//! Times in UTC as RFC 3339 has them, to the nanosecond.

use chrono::{DateTime, SecondsFormat};

use crate::Timestamp;

/// Returns the time as a text, with as many digits of the second as it needs.
pub(super) fn text_of(time: Timestamp) -> String {
    let text = DateTime::from_timestamp_nanos(time.0).to_rfc3339_opts(SecondsFormat::Nanos, true);
    let needed = text.trim_end_matches('Z').trim_end_matches('0').trim_end_matches('.');
    format!("{needed}Z")
}

/// Reads what [`text_of`] wrote, and nothing else.
pub(super) fn time_of(text: &str) -> Option<Timestamp> {
    let time = DateTime::parse_from_rfc3339(text).ok()?.timestamp_nanos_opt().map(Timestamp)?;
    // There is one way to write each.
    (text_of(time) == text).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000_000;

    #[test]
    fn times_are_written_as_rfc_3339_has_them_and_read_again() {
        for (text, nanoseconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T23:59:59.5Z", 951_868_799_500_000_000),
            ("2026-10-25T01:00:00Z", 1_792_890_000_000_000_000),
            ("2026-11-27T02:03:04.000000001Z", 1_795_744_984_000_000_001),
            ("1969-12-31T23:59:59Z", -SECOND),
        ] {
            assert_eq!(text_of(Timestamp(nanoseconds)), text);
            assert_eq!(time_of(text), Some(Timestamp(nanoseconds)), "{text}");
        }
        for time in [i64::MIN + SECOND, i64::MAX - SECOND, 1_709_164_800 * SECOND].map(Timestamp) {
            assert_eq!(time_of(&text_of(time)), Some(time));
        }
    }

    #[test]
    fn no_other_text_is_read() {
        for text in [
            "",
            "2026-11-27",
            "2026-11-27T02:03:04",
            "2026-11-27T02:03:04+01:00",
            "2026-02-29T00:00:00Z",
            "2026-11-27T24:00:00Z",
            "2026-11-27T2:03:04Z",
            "2026-11-27T02:03:04.50Z",
            "2026-11-27T02:03:04.Z",
            "99999-01-01T00:00:00Z",
        ] {
            assert_eq!(time_of(text), None, "{text}");
        }
    }
}
