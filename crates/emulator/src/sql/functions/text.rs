//! Functions on STRING and BYTES.

use std::hash::{BuildHasher, RandomState};

use super::misbound;
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
    let [Value::String(text), Value::String(part)] = arguments else {
        return Err(misbound("ENDS_WITH"));
    };
    Ok(Value::Bool(text.ends_with(part.as_str())))
}

/// `STRPOS`: where the part starts, counted from 1; 0 if it isn't there.
pub fn place(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text), Value::String(part)] = arguments else {
        return Err(misbound("STRPOS"));
    };
    let place = text.find(part.as_str());
    Ok(place.map_or(Value::Int64(0), |byte| count(text[..byte].chars().count() + 1)))
}

/// `REPLACE`: nothing is replaced where nothing is sought.
pub fn replaced(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text), Value::String(from), Value::String(to)] = arguments else {
        return Err(misbound("REPLACE"));
    };
    if from.is_empty() {
        return Ok(arguments[0].clone());
    }
    let count = text.matches(from.as_str()).count();
    let kept = text.len() - count * from.len();
    check_size("REPLACE", kept.saturating_add(count.saturating_mul(to.len())))?;
    Ok(Value::String(text.replace(from.as_str(), to)))
}

/// The characters that go, at the ends of a text.
type Set<'a> = &'a dyn Fn(char) -> bool;

pub fn trim(arguments: &[Value]) -> Result<Value> {
    trimmed(arguments, |text, set| text.trim_matches(set))
}

pub fn trim_start(arguments: &[Value]) -> Result<Value> {
    trimmed(arguments, |text, set| text.trim_start_matches(set))
}

pub fn trim_end(arguments: &[Value]) -> Result<Value> {
    trimmed(arguments, |text, set| text.trim_end_matches(set))
}

/// Without what is in the set, or without blanks.
fn trimmed(arguments: &[Value], trim: for<'t> fn(&'t str, Set<'_>) -> &'t str) -> Result<Value> {
    let Some(Value::String(text)) = arguments.first() else { return Err(misbound("TRIM")) };
    let in_set = |next: char| match arguments.get(1) {
        Some(Value::String(set)) => set.contains(next),
        _ => next.is_whitespace(),
    };
    Ok(Value::String(trim(text, &in_set).to_owned()))
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
    changed("LOWER", arguments, str::to_lowercase)
}

pub fn upper(arguments: &[Value]) -> Result<Value> {
    changed("UPPER", arguments, str::to_uppercase)
}

fn changed(name: &str, arguments: &[Value], change: fn(&str) -> String) -> Result<Value> {
    let [Value::String(text)] = arguments else { return Err(misbound(name)) };
    let text = change(text);
    check_size(name, text.len())?;
    Ok(Value::String(text))
}

/// `SUBSTR`: from a position, counted from 1 or, if negative, from the end.
pub fn substring(arguments: &[Value]) -> Result<Value> {
    let (text, position, length) = match arguments {
        [Value::String(text), Value::Int64(position)] => (text, *position, None),
        [Value::String(text), Value::Int64(position), Value::Int64(length)] => {
            (text, *position, Some(*length))
        }
        _ => return Err(misbound("SUBSTR")),
    };
    if length.is_some_and(|length| length < 0) {
        return Err(SqlError::out_of_range("Third argument in SUBSTR() cannot be negative"));
    }
    let count = text.chars().count();
    let end = i128::try_from(count).unwrap_or(i128::MAX);
    let first = match i128::from(position) {
        0 => 0,
        position if position < 0 => (end + position).max(0),
        position => (position - 1).min(end),
    };
    let last = length.map_or(end, |length| (first + i128::from(length)).min(end));
    // Both lie between zero and the count.
    let skipped = usize::try_from(first).unwrap_or(count);
    let taken = usize::try_from(last - first).unwrap_or(0);
    Ok(Value::String(text.chars().skip(skipped).take(taken).collect()))
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
