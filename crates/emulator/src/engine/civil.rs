//! Calendar arithmetic for [`Date`] and [`Timestamp`], and their RFC 3339 text.

use std::fmt;
use std::time::Duration;

use chrono::{DateTime, NaiveDate};

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A calendar date between the years 1 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(NaiveDate);

impl Date {
    /// Reads `YYYY-MM-DD`; one-digit months and days are accepted.
    pub fn parse(text: &str) -> Option<Date> {
        let mut rest = Reader(text);
        rest.date().filter(|_| rest.0.is_empty())
    }

    /// Nanoseconds from the epoch to its beginning.
    pub(crate) fn nanos(self) -> i128 {
        i128::from(self.0.to_epoch_days()) * 86_400 * NANOS_PER_SECOND
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time, as nanoseconds since the Unix epoch, between the years 1 and 9999.
///
/// Commit and read timestamps have microsecond precision; stored values may be finer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i128);

impl Timestamp {
    /// 0001-01-01T00:00:00Z, the earliest timestamp Spanner can store.
    pub const MIN: Timestamp = Timestamp(-62_135_596_800 * NANOS_PER_SECOND);
    /// 9999-12-31T23:59:59.999999999Z, the latest timestamp Spanner can store.
    pub const MAX: Timestamp = Timestamp(253_402_300_800 * NANOS_PER_SECOND - 1);
    /// 1970-01-01T00:00:00Z.
    pub const EPOCH: Timestamp = Timestamp(0);

    /// Returns the timestamp this many nanoseconds after the epoch, if Spanner can store it.
    pub fn from_nanos(nanos: i128) -> Option<Timestamp> {
        let timestamp = Timestamp(nanos);
        (Timestamp::MIN..=Timestamp::MAX).contains(&timestamp).then_some(timestamp)
    }

    /// Returns the timestamp this many microseconds after the epoch.
    ///
    /// Out of range values become the nearest timestamp that can be stored.
    pub fn from_micros(micros: i64) -> Timestamp {
        Timestamp(i128::from(micros) * 1_000).clamp(Timestamp::MIN, Timestamp::MAX)
    }

    /// Returns the timestamp with these seconds since the epoch and nanoseconds within the second.
    pub fn from_parts(seconds: i64, nanos: u32) -> Option<Timestamp> {
        if nanos >= 1_000_000_000 {
            return None;
        }
        Timestamp::from_nanos(i128::from(seconds) * NANOS_PER_SECOND + i128::from(nanos))
    }

    /// Nanoseconds since the epoch.
    pub fn nanos(self) -> i128 {
        self.0
    }

    /// Whole microseconds since the epoch, rounded down.
    pub fn micros(self) -> i64 {
        // Division of small numbers is faster. The range of years keeps the result below 2^58.
        match i64::try_from(self.0) {
            Ok(nanos) => nanos.div_euclid(1_000),
            Err(_) => self.0.div_euclid(1_000) as i64,
        }
    }

    /// Whole seconds since the epoch, rounded down.
    pub fn seconds(self) -> i64 {
        self.0.div_euclid(NANOS_PER_SECOND) as i64
    }

    /// Nanoseconds within the second.
    pub fn subsec_nanos(self) -> u32 {
        self.0.rem_euclid(NANOS_PER_SECOND) as u32
    }

    /// This timestamp moved into the future, if it can still be stored.
    pub fn checked_add(self, duration: Duration) -> Option<Timestamp> {
        Timestamp::from_nanos(self.0.checked_add(i128::try_from(duration.as_nanos()).ok()?)?)
    }

    /// This timestamp moved into the past, at most to [`Timestamp::MIN`].
    pub fn saturating_sub(self, duration: Duration) -> Timestamp {
        let nanos = i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX);
        Timestamp(self.0.saturating_sub(nanos)).max(Timestamp::MIN)
    }

    /// Returns how much later this timestamp is than `earlier`; zero if it isn't.
    pub fn since(self, earlier: Timestamp) -> Duration {
        let nanos = (self.0 - earlier.0).max(0);
        let seconds = u64::try_from(nanos / NANOS_PER_SECOND).unwrap_or(u64::MAX);
        Duration::new(seconds, (nanos % NANOS_PER_SECOND) as u32)
    }

    /// Reads RFC 3339: `2026-01-02T03:04:05.000006Z`, in UTC and with up to nine digits of
    /// fraction. This is the form in which timestamps travel in requests.
    pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
        let mut rest = Reader(text);
        let date = rest.date()?;
        let has_whole_date = text.len() - rest.0.len() == "YYYY-MM-DD".len();
        let clock = (has_whole_date && rest.mark('T')).then(|| rest.clock(2, 59))??;
        let is_done = rest.mark('Z') && rest.0.is_empty();
        Timestamp::from_nanos(date.nanos() + clock).filter(|_| is_done)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, with as many digits of fraction as the value needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The range of years is within chrono's.
        let time = DateTime::from_timestamp_secs(self.seconds()).unwrap_or_default();
        write!(f, "{}", time.format("%FT%T"))?;
        let nanos = self.subsec_nanos();
        if nanos > 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        write!(f, "Z")
    }
}

/// The rest of a text that says a time.
pub(crate) struct Reader<'a>(pub &'a str);

impl Reader<'_> {
    /// Reads a mark, if it comes next.
    pub fn mark(&mut self, mark: char) -> bool {
        let stripped = self.0.strip_prefix(mark);
        self.0 = stripped.unwrap_or(self.0);
        stripped.is_some()
    }

    /// Reads a number of so many digits that is at most `largest`.
    pub fn number(&mut self, least: usize, most: usize, largest: i64) -> Option<i64> {
        let digits = self.0.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.0.split_at(digits);
        self.0 = rest;
        let number = number.parse().ok().filter(|_| digits >= least)?;
        (number <= largest).then_some(number)
    }

    /// Reads `year-month-day`.
    pub fn date(&mut self) -> Option<Date> {
        let year = self.number(4, 4, 9999).filter(|year| *year > 0)?;
        let month = self.mark('-').then(|| self.number(1, 2, 12))??;
        let day = self.mark('-').then(|| self.number(1, 2, 31))??;
        NaiveDate::from_ymd_opt(year as i32, month as u32, day as u32).map(Date)
    }

    /// Reads `hour:minute:second.fraction` as nanoseconds; each of the three has so many digits, or two.
    pub fn clock(&mut self, least: usize, last_second: i64) -> Option<i128> {
        let hour = self.number(least, 2, 23)?;
        let minute = self.mark(':').then(|| self.number(least, 2, 59))??;
        let second = self.mark(':').then(|| self.number(least, 2, last_second))??;
        let mut nanos = 0;
        if self.mark('.') {
            let digits = self.0.len();
            nanos = self.number(1, 9, i64::MAX)?;
            for _ in digits - self.0.len()..9 {
                nanos *= 10;
            }
        }
        Some(i128::from(hour * 3_600 + minute * 60 + second) * NANOS_PER_SECOND + i128::from(nanos))
    }
}
