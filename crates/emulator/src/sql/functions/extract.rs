//! `EXTRACT`.

use super::misbound::misbound;
use crate::engine::{Date, Timestamp, Value};
use crate::sql::error::Result;

/// The name of the function.
pub const NAME: &str = "EXTRACT";

/// The parts that a date has, and so has a time in some zone.
pub const PARTS_OF_DATE: &[&str] =
    &["DAYOFWEEK", "DAY", "DAYOFYEAR", "WEEK", "ISOWEEK", "MONTH", "QUARTER", "YEAR", "ISOYEAR"];

/// The parts that only a time has.
pub const PARTS_OF_TIME: &[&str] =
    &["NANOSECOND", "MICROSECOND", "MILLISECOND", "SECOND", "MINUTE", "HOUR"];

/// `EXTRACT(part FROM date)`, and of a timestamp in UTC.
pub fn extract(arguments: &[Value]) -> Result<Value> {
    let part = match arguments {
        [Value::Date(date), Value::String(part)] => of_date(*date, part),
        [Value::Timestamp(moment), Value::String(part), Value::String(_)] => {
            of_time(*moment, part).or_else(|| of_date(moment.date(), part))
        }
        _ => None,
    };
    part.map(Value::Int64).ok_or_else(|| misbound(NAME))
}

/// A part of the time of a day, in UTC; `None` of one that it doesn't have.
pub fn of_time(moment: Timestamp, part: &str) -> Option<i64> {
    let second = moment.seconds().rem_euclid(86_400);
    let nanos = i64::from(moment.subsec_nanos());
    Some(match part {
        "NANOSECOND" => nanos,
        "MICROSECOND" => nanos / 1_000,
        "MILLISECOND" => nanos / 1_000_000,
        "SECOND" => second % 60,
        "MINUTE" => second / 60 % 60,
        "HOUR" => second / 3_600,
        _ => return None,
    })
}

/// A part of a date; `None` of one that a date doesn't have.
pub fn of_date(date: Date, part: &str) -> Option<i64> {
    let (year, month, day) = date.civil();
    // 1970-01-01 was a Thursday; Sunday is 0.
    let weekday = (date.days() + 4).rem_euclid(7);
    // An ISO week belongs to the year of its Thursday, and starts on Monday.
    let thursday = || Date::from_days(date.days() - (weekday + 6) % 7 + 3);
    Some(match part {
        "DAYOFWEEK" => weekday + 1,
        "DAY" => i64::from(day),
        "DAYOFYEAR" => days_of_year_before(date)? + 1,
        // The days before the first Sunday are in week 0.
        "WEEK" => (days_of_year_before(date)? + 7 - weekday) / 7,
        "ISOWEEK" => days_of_year_before(thursday()?)? / 7 + 1,
        "MONTH" => i64::from(month),
        "QUARTER" => i64::from(month.div_ceil(3)),
        "YEAR" => year,
        "ISOYEAR" => thursday()?.civil().0,
        _ => return None,
    })
}

fn days_of_year_before(date: Date) -> Option<i64> {
    let first = Date::from_civil(date.civil().0, 1, 1)?;
    Some(date.days() - first.days())
}
