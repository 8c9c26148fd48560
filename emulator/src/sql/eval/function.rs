//! Functions.

use super::MAX_VALUE_BYTES;
use crate::engine::{Code, Timestamp, Value};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Function, Unit};
use crate::sql::time;

/// Applies a function to values that are not NULL.
pub fn apply(function: Function, arguments: &[Value]) -> Result<Value> {
    match (function, arguments) {
        (Function::StartsWith, [Value::String(text), Value::String(prefix)]) => {
            Ok(Value::Bool(text.starts_with(prefix.as_str())))
        }
        (Function::StartsWith, [Value::Bytes(bytes), Value::Bytes(prefix)]) => {
            Ok(Value::Bool(bytes.starts_with(prefix)))
        }
        (Function::Concat, parts) => concat(parts),
        (Function::Length, [Value::String(text)]) => Ok(length(text.chars().count())),
        (Function::Length, [Value::Bytes(bytes)]) => Ok(length(bytes.len())),
        (Function::TimestampDiff(unit), [Value::Timestamp(later), Value::Timestamp(earlier)]) => {
            difference(*later, *earlier, unit)
        }
        (Function::TimestampAdd(unit), [Value::Timestamp(timestamp), Value::Int64(amount)]) => {
            shifted(*timestamp, i128::from(*amount), unit, "Adding")
        }
        (Function::TimestampSub(unit), [Value::Timestamp(timestamp), Value::Int64(amount)]) => {
            shifted(*timestamp, -i128::from(*amount), unit, "Subtracting")
        }
        (Function::Timestamp, [Value::String(text)]) => timestamp(text),
        // The binder lets no other types through.
        _ => Ok(Value::Null),
    }
}

/// The parts, one behind the other. NULL if one is.
pub fn concat(parts: &[Value]) -> Result<Value> {
    let (mut text, mut bytes) = (String::new(), Vec::new());
    for part in parts {
        match part {
            Value::String(part) => text.push_str(part),
            Value::Bytes(part) => bytes.extend_from_slice(part),
            _ => return Ok(Value::Null),
        }
        if text.len().max(bytes.len()) > MAX_VALUE_BYTES {
            let message = format!("CONCAT: the result is longer than {MAX_VALUE_BYTES} bytes");
            return Err(SqlError::out_of_range(message));
        }
    }
    Ok(match parts.first() {
        Some(Value::Bytes(_)) => Value::Bytes(bytes),
        _ => Value::String(text),
    })
}

fn length(length: usize) -> Value {
    // No value is longer than memory.
    Value::Int64(i64::try_from(length).unwrap_or(i64::MAX))
}

fn difference(later: Timestamp, earlier: Timestamp, unit: Unit) -> Result<Value> {
    // Whole units only, so the rest is cut off on either side of zero.
    let difference = (later.nanos() - earlier.nanos()) / unit.nanos();
    i64::try_from(difference).map(Value::Int64).map_err(|_| {
        let unit = unit.name();
        SqlError::out_of_range(format!(
            "TIMESTAMP_DIFF at {unit} precision between values of {later} and {earlier} causes \
             overflow"
        ))
    })
}

fn shifted(timestamp: Timestamp, amount: i128, unit: Unit, doing: &str) -> Result<Value> {
    let shifted = Timestamp::from_nanos(timestamp.nanos() + amount * unit.nanos());
    shifted.map(Value::Timestamp).ok_or_else(|| {
        let (unit, amount) = (unit.name(), amount.unsigned_abs());
        SqlError::out_of_range(format!("{doing} {amount} {unit} and {timestamp} causes overflow"))
    })
}

fn timestamp(text: &str) -> Result<Value> {
    time::timestamp(text, Pos::START).map(Value::Timestamp).map_err(|error| match error.code() {
        Code::InvalidArgument => SqlError::out_of_range(format!("Invalid timestamp: {text:?}")),
        code => SqlError::unplaced(code, error.message()),
    })
}
