//! Calendar arithmetic for [`Date`] and [`Timestamp`], and their RFC 3339 text.

use std::fmt;
use std::time::Duration;

const SECONDS_PER_DAY: i64 = 86_400;
const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// A calendar date, as days since 1970-01-01, between the years 1 and 9999.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date(i32);

impl Date {
    /// The earliest date Spanner can store.
    pub const MIN: Date = Date(-719_162);
    /// The latest date Spanner can store.
    pub const MAX: Date = Date(2_932_896);

    /// Returns the date this many days after 1970-01-01, if Spanner can store it.
    pub fn from_days(days: i64) -> Option<Date> {
        let date = Date(i32::try_from(days).ok()?);
        (Date::MIN..=Date::MAX).contains(&date).then_some(date)
    }

    /// Returns the date with this year, month (1 to 12) and day (1 to 31), if there is one.
    pub fn from_civil(year: i64, month: u32, day: u32) -> Option<Date> {
        if !(1..=9999).contains(&year) || !(1..=12).contains(&month) {
            return None;
        }
        if day < 1 || day > days_in_month(year, month) {
            return None;
        }
        Date::from_days(days_from_civil(year, month, day))
    }

    /// Days since 1970-01-01.
    pub fn days(self) -> i64 {
        i64::from(self.0)
    }

    /// Year, month and day.
    pub fn civil(self) -> (i64, u32, u32) {
        civil_from_days(self.days())
    }

    /// Reads `YYYY-MM-DD`; one-digit months and days are accepted.
    pub fn parse(text: &str) -> Option<Date> {
        let mut parts = text.splitn(3, '-');
        let year = digits(parts.next()?, 4, 4)?;
        let month = digits(parts.next()?, 1, 2)?;
        let day = digits(parts.next()?, 1, 2)?;
        Date::from_civil(year, u32::try_from(month).ok()?, u32::try_from(day).ok()?)
    }
}

impl fmt::Display for Date {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.civil();
        write!(f, "{year:04}-{month:02}-{day:02}")
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
        // The range of years keeps this below 2^58.
        (self.0.div_euclid(1_000)) as i64
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
        let (date, rest) = text.split_at_checked(10)?;
        let date = Date::parse(date)?;
        let time = rest.strip_prefix('T')?.strip_suffix('Z')?;
        let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
        if fraction.is_empty() || fraction.len() > 9 {
            return None;
        }
        let nanos = digits(fraction, 1, 9)? * 10_i64.pow(9 - fraction.len() as u32);
        let mut parts = clock.splitn(3, ':');
        let hour = digits(parts.next()?, 2, 2).filter(|hour| *hour < 24)?;
        let minute = digits(parts.next()?, 2, 2).filter(|minute| *minute < 60)?;
        let second = digits(parts.next()?, 2, 2).filter(|second| *second < 60)?;
        let seconds = date.days() * SECONDS_PER_DAY + hour * 3_600 + minute * 60 + second;
        Timestamp::from_parts(seconds, u32::try_from(nanos).ok()?)
    }

    /// Returns the calendar date in UTC.
    pub fn date(self) -> Date {
        // The range of timestamps is the range of dates.
        Date(self.seconds().div_euclid(SECONDS_PER_DAY) as i32)
    }
}

impl fmt::Display for Timestamp {
    /// RFC 3339 in UTC, with as many digits of fraction as the value needs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.seconds().rem_euclid(SECONDS_PER_DAY);
        let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
        write!(f, "{}T{hour:02}:{minute:02}:{second:02}", self.date())?;
        let nanos = self.subsec_nanos();
        if nanos > 0 {
            write!(f, ".{}", format!("{nanos:09}").trim_end_matches('0'))?;
        }
        write!(f, "Z")
    }
}

fn digits(text: &str, least: usize, most: usize) -> Option<i64> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    ((least..=most).contains(&text.len()) && all_digits).then(|| text.parse().ok())?
}

fn days_in_month(year: i64, month: u32) -> u32 {
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

// Years are counted from March, so that the leap day is the last day of a year. Days are counted in
// eras of 400 years, which all have the same length.
const DAYS_PER_ERA: i64 = 146_097;
const DAYS_FROM_YEAR_0_MARCH_TO_EPOCH: i64 = 719_468;

fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let march_year = if month <= 2 { year - 1 } else { year };
    let era = march_year.div_euclid(400);
    let year_of_era = march_year.rem_euclid(400);
    let march_month = i64::from((month + 9) % 12);
    let day_of_year = (153 * march_month + 2) / 5 + i64::from(day) - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * DAYS_PER_ERA + day_of_era - DAYS_FROM_YEAR_0_MARCH_TO_EPOCH
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let shifted = days + DAYS_FROM_YEAR_0_MARCH_TO_EPOCH;
    let era = shifted.div_euclid(DAYS_PER_ERA);
    let day_of_era = shifted.rem_euclid(DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 { march_month + 3 } else { march_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_day_round_trips_through_the_calendar() {
        let mut previous = None;
        for days in Date::MIN.days()..=Date::MAX.days() {
            let date = Date::from_days(days).unwrap();
            let (year, month, day) = date.civil();
            assert_eq!(Date::from_civil(year, month, day), Some(date));
            assert!(previous < Some((year, month, day)));
            previous = Some((year, month, day));
        }
        assert_eq!(Date::MIN.to_string(), "0001-01-01");
        assert_eq!(Date::MAX.to_string(), "9999-12-31");
    }
}
