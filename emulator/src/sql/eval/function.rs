//! Functions.

use super::like::like;
use super::{arithmetic, compare, text};
use crate::engine::{Code, Timestamp, Value};
use crate::sql::ast::Comparison;
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Function, Unit};
use crate::sql::time;

/// About how many steps a function takes beyond the one that every node counts for.
pub fn cost(function: Function, arguments: &[Value]) -> u64 {
    let length = |value: Option<&Value>| match value {
        Some(Value::String(text)) => text.len(),
        Some(Value::Bytes(bytes)) => bytes.len(),
        _ => 0,
    };
    let of_bytes = matches!(arguments.first(), Some(Value::Bytes(_)));
    match function {
        // Each place of the one may be compared with each of the other.
        Function::Like | Function::Trim { .. } => {}
        Function::Strpos | Function::Replace if of_bytes => {}
        _ => return 0,
    }
    length(arguments.first()).saturating_mul(length(arguments.get(1))) as u64 / 32
}

/// Applies a function to values that are not NULL.
pub fn apply(function: Function, arguments: &[Value]) -> Result<Value> {
    match (function, arguments) {
        (Function::StartsWith, [Value::String(text), Value::String(prefix)]) => {
            Ok(Value::Bool(text.starts_with(prefix.as_str())))
        }
        (Function::StartsWith, [Value::Bytes(bytes), Value::Bytes(prefix)]) => {
            Ok(Value::Bool(bytes.starts_with(prefix)))
        }
        (Function::EndsWith, [Value::String(text), Value::String(suffix)]) => {
            Ok(Value::Bool(text.ends_with(suffix.as_str())))
        }
        (Function::EndsWith, [Value::Bytes(bytes), Value::Bytes(suffix)]) => {
            Ok(Value::Bool(bytes.ends_with(suffix)))
        }
        (Function::Like, [value, pattern]) => like(value, pattern),
        (Function::Concat, parts) => text::concat(parts),
        (Function::Length, [Value::String(text)]) => Ok(text::count(text.chars().count())),
        (Function::ByteLength, [Value::String(text)]) => Ok(text::count(text.len())),
        (Function::Length | Function::ByteLength, [Value::Bytes(bytes)]) => {
            Ok(text::count(bytes.len()))
        }
        (Function::Lower, [value]) => text::in_case(value, false),
        (Function::Upper, [value]) => text::in_case(value, true),
        (Function::Substr, [value, Value::Int64(position)]) => {
            text::substring(value, *position, None)
        }
        (Function::Substr, [value, Value::Int64(position), Value::Int64(length)]) => {
            text::substring(value, *position, Some(*length))
        }
        (Function::Trim { start, end }, [value, set @ ..]) => {
            Ok(text::trimmed(value, set.first(), start, end))
        }
        (Function::Replace, [value, from, to]) => text::replaced(value, from, to),
        (Function::Strpos, [value, part]) => Ok(text::place(value, part)),
        (Function::ToHex, [Value::Bytes(bytes)]) => text::to_hex(bytes),
        (Function::FromHex, [Value::String(text)]) => text::from_hex(text),
        (Function::GenerateUuid, []) => Ok(text::uuid()),
        (Function::Abs, [value]) => arithmetic::absolute(value),
        (Function::Mod, [value, divisor]) => arithmetic::remainder(value, divisor),
        (Function::Greatest, values) => Ok(extreme(values, Comparison::Greater)),
        (Function::Least, values) => Ok(extreme(values, Comparison::Less)),
        (Function::ArrayLength, [Value::Array { values, .. }]) => Ok(text::count(values.len())),
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

/// The greatest or the least of these values; a NaN, if one is.
pub fn extreme(values: &[Value], wanted: Comparison) -> Value {
    let is_nan = |value: &Value| matches!(value, Value::Float64(value) if value.is_nan());
    let better = |best: Value, next: &Value| {
        let replaces = is_nan(next) || compare(wanted, next, &best) == Value::Bool(true);
        if replaces && !is_nan(&best) { next.clone() } else { best }
    };
    let mut rest = values.iter();
    let first = rest.next().cloned().unwrap_or(Value::Null);
    rest.fold(first, better)
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
