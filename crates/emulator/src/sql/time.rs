//! Timestamps as GoogleSQL texts write them.

use super::error::{Pos, Result, SqlError};
use crate::engine::{Reader, Timestamp};

/// Reads a timestamp as literals write it: `2026-1-2 3:4:5.678+1:30`. It has `T` or a blank between
/// date and time, a fraction of up to nine digits, and an offset, `Z` or ` UTC`. Or it is a date, a
/// blank and an offset.
///
/// # Errors
/// UNIMPLEMENTED without an offset, where Spanner takes Los Angeles's, and for places' names;
/// both need the history of the world's time zones. INVALID_ARGUMENT for what is no timestamp.
pub fn timestamp(text: &str, at: Pos) -> Result<Timestamp> {
    let invalid = || SqlError::invalid(at, format!("Invalid TIMESTAMP literal: {text:?}"));
    let mut rest = Reader(text);
    let date = rest.date().ok_or_else(invalid)?;
    let mut nanos = date.nanos();
    let is_blank = rest.mark(' ');
    let is_separated = is_blank || ['T', 't'].into_iter().any(|mark| rest.mark(mark));
    let has_clock = is_separated && rest.0.starts_with(|next: char| next.is_ascii_digit());
    if has_clock {
        // A leap second is the first of the next minute.
        nanos += rest.clock(1, 60).ok_or_else(invalid)?;
    }
    let zone_less = "a timestamp without a time zone (write Z or an offset such as +01:00)";
    nanos -= match rest.0 {
        "" if has_clock || !is_separated => return Err(SqlError::unsupported(at, zone_less)),
        "Z" | "z" | " UTC" if has_clock => 0,
        " Z" | " z" | " utc" => return Err(invalid()),
        zone if has_clock && is_name(zone) => {
            let shown = zone.trim_start().escape_debug();
            return Err(SqlError::unsupported(at, format_args!("the time zone {shown}")));
        }
        _ if has_clock || is_blank => {
            rest.offset().filter(|_| rest.0.is_empty()).ok_or_else(invalid)?
        }
        _ => return Err(invalid()),
    };
    Timestamp::from_nanos(nanos).ok_or_else(invalid)
}

/// Returns true if this is a blank and what could be the name of a place.
fn is_name(zone: &str) -> bool {
    zone.strip_prefix(' ').is_some_and(|name| {
        name.starts_with(|next: char| next.is_ascii_alphabetic()) && name.is_ascii()
    })
}

impl Reader<'_> {
    /// Reads `+hours` or `+hours:minutes` as nanoseconds.
    fn offset(&mut self) -> Option<i128> {
        let sign = if self.mark('-') { -1 } else { self.mark('+').then_some(1)? };
        let hours = self.number(1, 2, 14)?;
        let minutes = if self.mark(':') { self.number(1, 2, 59)? } else { 0 };
        (hours < 14 || minutes == 0).then_some(())?;
        Some(sign * i128::from(hours * 3_600 + minutes * 60) * 1_000_000_000)
    }
}
