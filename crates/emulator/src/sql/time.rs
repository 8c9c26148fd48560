//! Timestamps and dates as GoogleSQL texts write them.

use super::error::{Pos, Result, SqlError};
use crate::engine::{Date, Timestamp};

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
    let mut nanos = i128::from(date.days()) * 86_400_000_000_000;
    let is_blank = rest.mark(' ');
    let is_separated = is_blank || ['T', 't'].into_iter().any(|mark| rest.mark(mark));
    let has_clock = is_separated && rest.0.starts_with(|next: char| next.is_ascii_digit());
    if has_clock {
        nanos += rest.clock().ok_or_else(invalid)?;
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

/// Reads a date as literals write it: `2026-1-2`.
pub fn date(text: &str) -> Option<Date> {
    let mut rest = Reader(text);
    rest.date().filter(|_| rest.0.is_empty())
}

struct Reader<'a>(&'a str);

impl Reader<'_> {
    /// Reads a mark, if it comes next.
    fn mark(&mut self, mark: char) -> bool {
        let stripped = self.0.strip_prefix(mark);
        self.0 = stripped.unwrap_or(self.0);
        stripped.is_some()
    }

    /// Reads a number of so many digits that is at most `largest`.
    fn number(&mut self, least: usize, most: usize, largest: i64) -> Option<i64> {
        let digits = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        let number = number.parse().ok().filter(|_| digits >= least)?;
        (number <= largest).then_some(number)
    }

    fn date(&mut self) -> Option<Date> {
        let year = self.number(4, 4, 9999)?;
        let month = self.mark('-').then(|| self.number(1, 2, 12))??;
        let day = self.mark('-').then(|| self.number(1, 2, 31))??;
        Date::from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)
    }

    /// Reads `hour:minute:second.fraction` as nanoseconds.
    fn clock(&mut self) -> Option<i128> {
        let hour = self.number(1, 2, 23)?;
        let minute = self.mark(':').then(|| self.number(1, 2, 59))??;
        // A leap second is the first of the next minute.
        let second = self.mark(':').then(|| self.number(1, 2, 60))??;
        let mut nanos = 0;
        if self.mark('.') {
            let digits = self.0.len();
            nanos = self.number(1, 9, i64::MAX)?;
            for _ in digits - self.0.len()..9 {
                nanos *= 10;
            }
        }
        Some(i128::from(hour * 3_600 + minute * 60 + second) * 1_000_000_000 + i128::from(nanos))
    }

    /// Reads `+hours` or `+hours:minutes` as nanoseconds.
    fn offset(&mut self) -> Option<i128> {
        let sign = if self.mark('-') { -1 } else { self.mark('+').then_some(1)? };
        let hours = self.number(1, 2, 14)?;
        let minutes = if self.mark(':') { self.number(1, 2, 59)? } else { 0 };
        (hours < 14 || minutes == 0).then_some(())?;
        Some(sign * i128::from(hours * 3_600 + minutes * 60) * 1_000_000_000)
    }
}
