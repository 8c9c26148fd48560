//! Functions on timestamps.

use super::misbound;
use crate::engine::{Timestamp, Value};
use crate::sql::error::{Result, SqlError};

/// The parts of a timestamp that functions understand, and their lengths in nanoseconds.
pub const PARTS: &[(&str, i128)] = &[
    ("NANOSECOND", 1),
    ("MICROSECOND", 1_000),
    ("MILLISECOND", 1_000_000),
    ("SECOND", 1_000_000_000),
    ("MINUTE", 60_000_000_000),
    ("HOUR", 3_600_000_000_000),
    ("DAY", 86_400_000_000_000),
];

fn nanos(part: &str) -> Result<i128> {
    let known = PARTS.iter().find(|(name, _)| *name == part);
    known.map(|(_, nanos)| *nanos).ok_or_else(|| misbound(part))
}

pub fn add(arguments: &[Value]) -> Result<Value> {
    shifted(arguments, 1, "Adding")
}

pub fn subtract(arguments: &[Value]) -> Result<Value> {
    shifted(arguments, -1, "Subtracting")
}

fn shifted(arguments: &[Value], sign: i128, doing: &str) -> Result<Value> {
    let [Value::Timestamp(timestamp), Value::Int64(amount), Value::String(part)] = arguments else {
        return Err(misbound("TIMESTAMP_ADD"));
    };
    let nanos = timestamp.nanos() + sign * i128::from(*amount) * nanos(part)?;
    Timestamp::from_nanos(nanos).map(Value::Timestamp).ok_or_else(|| {
        SqlError::out_of_range(format!("{doing} {amount} {part} and {timestamp} causes overflow"))
    })
}

/// `TIMESTAMP_DIFF`: whole parts only, so the rest is cut off on either side of zero.
pub fn difference(arguments: &[Value]) -> Result<Value> {
    let [Value::Timestamp(later), Value::Timestamp(earlier), Value::String(part)] = arguments
    else {
        return Err(misbound("TIMESTAMP_DIFF"));
    };
    let difference = (later.nanos() - earlier.nanos()) / nanos(part)?;
    i64::try_from(difference).map(Value::Int64).map_err(|_| {
        SqlError::out_of_range(format!(
            "TIMESTAMP_DIFF at {part} precision between values of {later} and {earlier} causes \
             overflow"
        ))
    })
}
