//! Functions on STRING and BYTES.

use std::hash::{BuildHasher, RandomState};

use super::misbound::misbound;
use crate::engine::Value;
use crate::sql::error::{Result, SqlError};

/// The largest STRING or BYTES that an expression can make; Spanner's limit for a value.
pub const MAX_VALUE_BYTES: usize = 10 << 20;

/// Returns the parts, one behind the other: all STRING, all BYTES or all arrays.
pub fn concat(parts: &[Value]) -> Result<Value> {
    let mut parts = parts.iter();
    let mut all = parts.next().cloned().ok_or_else(|| misbound("CONCAT"))?;
    for part in parts {
        let size = match (&mut all, part) {
            (Value::String(text), Value::String(part)) => {
                text.push_str(part);
                text.len()
            }
            (Value::Bytes(bytes), Value::Bytes(part)) => {
                bytes.extend_from_slice(part);
                bytes.len()
            }
            (Value::Array { values, .. }, Value::Array { values: part, .. }) => {
                values.extend_from_slice(part);
                values.len() * size_of::<Value>()
            }
            _ => return Err(misbound("CONCAT")),
        };
        check_size("CONCAT", size)?;
    }
    Ok(all)
}

pub fn starts_with(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text), Value::String(part)] => {
            Ok(Value::Bool(text.starts_with(part.as_str())))
        }
        [Value::Bytes(bytes), Value::Bytes(part)] => Ok(Value::Bool(bytes.starts_with(part))),
        _ => Err(misbound("STARTS_WITH")),
    }
}

pub fn ends_with(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text), Value::String(part)] => {
            Ok(Value::Bool(text.ends_with(part.as_str())))
        }
        [Value::Bytes(bytes), Value::Bytes(part)] => Ok(Value::Bool(bytes.ends_with(part))),
        _ => Err(misbound("ENDS_WITH")),
    }
}

/// `LENGTH`: characters, or bytes.
pub fn length(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text)] => Ok(count(text.chars().count())),
        [Value::Bytes(bytes)] => Ok(count(bytes.len())),
        _ => Err(misbound("LENGTH")),
    }
}

pub fn byte_length(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text)] => Ok(count(text.len())),
        [Value::Bytes(bytes)] => Ok(count(bytes.len())),
        _ => Err(misbound("BYTE_LENGTH")),
    }
}

pub fn check_size(function: &str, bytes: usize) -> Result<()> {
    match bytes > MAX_VALUE_BYTES {
        true => {
            let message = format!("{function}: the result is longer than {MAX_VALUE_BYTES} bytes");
            Err(SqlError::out_of_range(message))
        }
        false => Ok(()),
    }
}

/// A count, as an INT64.
pub fn count(count: usize) -> Value {
    // No value is longer than memory.
    Value::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

pub fn lower(arguments: &[Value]) -> Result<Value> {
    in_case(arguments, false)
}

pub fn upper(arguments: &[Value]) -> Result<Value> {
    in_case(arguments, true)
}

/// The text in lower or upper case. Of bytes, only those that are ASCII letters change.
fn in_case(arguments: &[Value], upper: bool) -> Result<Value> {
    Ok(match (&arguments[0], upper) {
        (Value::String(text), true) => {
            let text = text.to_uppercase();
            check_size("UPPER", text.len())?;
            Value::String(text)
        }
        (Value::String(text), false) => {
            let text = text.to_lowercase();
            check_size("LOWER", text.len())?;
            Value::String(text)
        }
        (Value::Bytes(bytes), true) => Value::Bytes(bytes.to_ascii_uppercase()),
        (Value::Bytes(bytes), false) => Value::Bytes(bytes.to_ascii_lowercase()),
        _ => return Err(misbound("LOWER")),
    })
}

/// `SUBSTR`: from a position, counted from 1 or, if negative, from the end.
pub fn substring(arguments: &[Value]) -> Result<Value> {
    let (value, position, length) = match arguments {
        [value, Value::Int64(position)] => (value, *position, None),
        [value, Value::Int64(position), Value::Int64(length)] => (value, *position, Some(*length)),
        _ => return Err(misbound("SUBSTR")),
    };
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::out_of_range("Third argument in SUBSTR() cannot be negative"));
    }
    let range = |count: usize| {
        let end = i128::try_from(count).unwrap_or(i128::MAX);
        let first = match i128::from(position) {
            0 => 0,
            position if position < 0 => (end + position).max(0),
            position => (position - 1).min(end),
        };
        let last = length.map_or(end, |length| (first + i128::from(length)).min(end));
        // Both lie between zero and the count.
        (usize::try_from(first).unwrap_or(count), usize::try_from(last - first).unwrap_or(0))
    };
    Ok(match value {
        Value::String(text) => {
            let (skipped, taken) = range(text.chars().count());
            Value::String(text.chars().skip(skipped).take(taken).collect())
        }
        Value::Bytes(bytes) => {
            let (skipped, taken) = range(bytes.len());
            Value::Bytes(bytes[skipped..skipped + taken].to_vec())
        }
        _ => return Err(misbound("SUBSTR")),
    })
}

pub fn trim(arguments: &[Value]) -> Result<Value> {
    trimmed(arguments, true, true)
}

pub fn trim_start(arguments: &[Value]) -> Result<Value> {
    trimmed(arguments, true, false)
}

pub fn trim_end(arguments: &[Value]) -> Result<Value> {
    trimmed(arguments, false, true)
}

/// Without what is in the set, or without blanks.
fn trimmed(arguments: &[Value], start: bool, end: bool) -> Result<Value> {
    Ok(match (&arguments[0], arguments.get(1)) {
        (Value::String(text), set) => {
            let in_set = |next: char| match set {
                Some(Value::String(set)) => set.contains(next),
                _ => next.is_whitespace(),
            };
            let mut rest = text.as_str();
            if start {
                rest = rest.trim_start_matches(in_set);
            }
            if end {
                rest = rest.trim_end_matches(in_set);
            }
            Value::String(rest.to_owned())
        }
        (Value::Bytes(bytes), Some(Value::Bytes(set))) => {
            let mut rest = bytes.as_slice();
            while let (true, [first, others @ ..]) = (start, rest)
                && set.contains(first)
            {
                rest = others;
            }
            while let (true, [others @ .., last]) = (end, rest)
                && set.contains(last)
            {
                rest = others;
            }
            Value::Bytes(rest.to_vec())
        }
        _ => return Err(misbound("TRIM")),
    })
}

/// `REPLACE`: nothing is replaced where nothing is sought.
pub fn replaced(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [value @ Value::String(text), Value::String(from), Value::String(to)] => {
            if from.is_empty() {
                return Ok(value.clone());
            }
            let count = text.matches(from.as_str()).count();
            let kept = text.len() - count * from.len();
            check_size("REPLACE", kept.saturating_add(count.saturating_mul(to.len())))?;
            Ok(Value::String(text.replace(from.as_str(), to)))
        }
        [value @ Value::Bytes(bytes), Value::Bytes(from), Value::Bytes(to)] => {
            if from.is_empty() {
                return Ok(value.clone());
            }
            let mut result = Vec::with_capacity(bytes.len());
            let mut rest = bytes.as_slice();
            while let Some(next) = rest.first() {
                match rest.strip_prefix(from.as_slice()) {
                    Some(behind) => {
                        result.extend_from_slice(to);
                        rest = behind;
                    }
                    None => {
                        result.push(*next);
                        rest = &rest[1..];
                    }
                }
                check_size("REPLACE", result.len())?;
            }
            Ok(Value::Bytes(result))
        }
        _ => Err(misbound("REPLACE")),
    }
}

/// `STRPOS`: where the part starts, counted from 1; 0 if it isn't there.
pub fn place(arguments: &[Value]) -> Result<Value> {
    let place = match arguments {
        [Value::String(text), Value::String(part)] => {
            text.find(part.as_str()).map(|byte| text[..byte].chars().count())
        }
        [Value::Bytes(_), Value::Bytes(part)] if part.is_empty() => Some(0),
        [Value::Bytes(bytes), Value::Bytes(part)] => {
            bytes.windows(part.len()).position(|window| window == part.as_slice())
        }
        _ => return Err(misbound("STRPOS")),
    };
    Ok(place.map_or(Value::Int64(0), |place| count(place + 1)))
}

/// `GENERATE_UUID`: a random one, of version 4.
pub fn uuid(_: &[Value]) -> Result<Value> {
    // Each state has keys of its own, which the system has drawn at random.
    let random = || u128::from(RandomState::new().hash_one(0_u8));
    let bits = random() << 64 | random();
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let digits = format!("{bits:032x}");
    let (one, two, three) = (&digits[..8], &digits[8..12], &digits[12..16]);
    Ok(Value::String(format!("{one}-{two}-{three}-{}-{}", &digits[16..20], &digits[20..])))
}
