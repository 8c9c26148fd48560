//! Functions on dates.

use super::misbound::misbound;
use crate::engine::{Date, Value};
use crate::sql::error::{Result, SqlError};

/// The parts of a date that can be added.
pub const SHIFTS: &[&str] = &["DAY", "WEEK", "MONTH", "QUARTER", "YEAR"];
/// The parts of a date between whose borders a difference counts.
pub const PARTS: &[&str] = &["DAY", "WEEK", "ISOWEEK", "MONTH", "QUARTER", "YEAR"];

/// `DATE(year, month, day)`
pub fn of_civil(arguments: &[Value]) -> Result<Value> {
    let [Value::Int64(year), Value::Int64(month), Value::Int64(day)] = arguments else {
        return Err(misbound("DATE"));
    };
    let small = |number: &i64| u32::try_from(*number).ok();
    let date =
        small(month).zip(small(day)).and_then(|(month, day)| Date::from_civil(*year, month, day));
    date.map(Value::Date).ok_or_else(|| {
        let message = format!("Input calculates to invalid date: {year:04}-{month:02}-{day:02}");
        SqlError::out_of_range(message)
    })
}

pub fn add(arguments: &[Value]) -> Result<Value> {
    shifted(arguments, 1)
}

pub fn subtract(arguments: &[Value]) -> Result<Value> {
    shifted(arguments, -1)
}

fn shifted(arguments: &[Value], sign: i64) -> Result<Value> {
    let [Value::Date(date), Value::Int64(amount), Value::String(part)] = arguments else {
        return Err(misbound("DATE_ADD"));
    };
    let shifted = amount.checked_mul(sign).and_then(|amount| match part.as_str() {
        "DAY" => Date::from_days(date.days().checked_add(amount)?),
        "WEEK" => Date::from_days(date.days().checked_add(amount.checked_mul(7)?)?),
        "MONTH" => months_later(*date, amount),
        "QUARTER" => months_later(*date, amount.checked_mul(3)?),
        _ => months_later(*date, amount.checked_mul(12)?),
    });
    shifted.map(Value::Date).ok_or_else(|| {
        SqlError::out_of_range(format!("Adding {amount} {part} to date {date} causes overflow"))
    })
}

/// The same day of another month, or its last day if that is earlier.
fn months_later(date: Date, months: i64) -> Option<Date> {
    let (year, month, day) = date.civil();
    let month = (year * 12 + i64::from(month) - 1).checked_add(months)?;
    let (year, month) = (month.div_euclid(12), u32::try_from(month.rem_euclid(12)).ok()? + 1);
    (28..=day.max(28))
        .rev()
        .map(|last| day.min(last))
        .find_map(|day| Date::from_civil(year, month, day))
}

/// `DATE_DIFF`: how many borders of a part lie between two dates.
pub fn difference(arguments: &[Value]) -> Result<Value> {
    let [Value::Date(later), Value::Date(earlier), Value::String(part)] = arguments else {
        return Err(misbound("DATE_DIFF"));
    };
    Ok(Value::Int64(ordinal(*later, part) - ordinal(*earlier, part)))
}

/// How many parts have begun since some start.
fn ordinal(date: Date, part: &str) -> i64 {
    let (year, month, _) = date.civil();
    let month = i64::from(month) - 1;
    match part {
        "DAY" => date.days(),
        // 1970-01-01 was a Thursday; weeks start on Sunday, those of ISO on Monday.
        "WEEK" => (date.days() + 4).div_euclid(7),
        "ISOWEEK" => (date.days() + 3).div_euclid(7),
        "MONTH" => year * 12 + month,
        "QUARTER" => year * 4 + month / 3,
        _ => year,
    }
}

/// `DATE_TRUNC`: the first day of the part.
pub fn truncate(arguments: &[Value]) -> Result<Value> {
    let [Value::Date(date), Value::String(part)] = arguments else {
        return Err(misbound("DATE_TRUNC"));
    };
    let (year, month, _) = date.civil();
    let first = match part.as_str() {
        "DAY" => Some(*date),
        "WEEK" => Date::from_days(ordinal(*date, part) * 7 - 4),
        "ISOWEEK" => Date::from_days(ordinal(*date, part) * 7 - 3),
        "MONTH" => Date::from_civil(year, month, 1),
        "QUARTER" => Date::from_civil(year, (month - 1) / 3 * 3 + 1, 1),
        _ => Date::from_civil(year, 1, 1),
    };
    first.map(Value::Date).ok_or_else(|| {
        SqlError::out_of_range(format!("Truncating date {date} to {part} causes overflow"))
    })
}

/// `UNIX_DATE`
pub fn days(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Date(date)] => Ok(Value::Int64(date.days())),
        _ => Err(misbound("UNIX_DATE")),
    }
}

/// `DATE_FROM_UNIX_DATE`
pub fn of_days(arguments: &[Value]) -> Result<Value> {
    let [Value::Int64(days)] = arguments else { return Err(misbound("DATE_FROM_UNIX_DATE")) };
    Date::from_days(*days).map(Value::Date).ok_or_else(|| {
        SqlError::out_of_range(format!("DATE value is out of allowed range: {days}"))
    })
}
