//! Functions on STRING and BYTES.

use std::hash::{BuildHasher, RandomState};

use super::MAX_VALUE_BYTES;
use crate::engine::Value;
use crate::sql::error::{Result, SqlError};

/// The parts, one behind the other. NULL if one is.
pub fn concat(parts: &[Value]) -> Result<Value> {
    let (mut text, mut bytes) = (String::new(), Vec::new());
    for part in parts {
        match part {
            Value::String(part) => text.push_str(part),
            Value::Bytes(part) => bytes.extend_from_slice(part),
            _ => return Ok(Value::Null),
        }
        check_size("CONCAT", text.len().max(bytes.len()))?;
    }
    Ok(match parts.first() {
        Some(Value::Bytes(_)) => Value::Bytes(bytes),
        _ => Value::String(text),
    })
}

fn check_size(function: &str, bytes: usize) -> Result<()> {
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

/// The text in lower or upper case. Of bytes, only those that are ASCII letters change.
pub fn in_case(value: &Value, upper: bool) -> Result<Value> {
    Ok(match (value, upper) {
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
        _ => Value::Null,
    })
}

/// `SUBSTR`: from a position, counted from 1 or, if negative, from the end.
pub fn substring(value: &Value, position: i64, length: Option<i64>) -> Result<Value> {
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
        _ => Value::Null,
    })
}

/// `TRIM`, `LTRIM`, `RTRIM`: without what is in the set, or without blanks.
pub fn trimmed(value: &Value, set: Option<&Value>, start: bool, end: bool) -> Value {
    match (value, set) {
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
        _ => Value::Null,
    }
}

/// `REPLACE`: nothing is replaced where nothing is sought.
pub fn replaced(value: &Value, from: &Value, to: &Value) -> Result<Value> {
    match (value, from, to) {
        (Value::String(text), Value::String(from), Value::String(to)) => {
            if from.is_empty() {
                return Ok(value.clone());
            }
            let count = text.matches(from.as_str()).count();
            let kept = text.len() - count * from.len();
            check_size("REPLACE", kept.saturating_add(count.saturating_mul(to.len())))?;
            Ok(Value::String(text.replace(from.as_str(), to)))
        }
        (Value::Bytes(bytes), Value::Bytes(from), Value::Bytes(to)) => {
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
        _ => Ok(Value::Null),
    }
}

/// `STRPOS`: where the part starts, counted from 1; 0 if it isn't there.
pub fn place(value: &Value, part: &Value) -> Value {
    let place = match (value, part) {
        (Value::String(text), Value::String(part)) => {
            text.find(part.as_str()).map(|byte| text[..byte].chars().count())
        }
        (Value::Bytes(_), Value::Bytes(part)) if part.is_empty() => Some(0),
        (Value::Bytes(bytes), Value::Bytes(part)) => {
            bytes.windows(part.len()).position(|window| window == part.as_slice())
        }
        _ => return Value::Null,
    };
    place.map_or(Value::Int64(0), |place| count(place + 1))
}

/// `TO_HEX`
pub fn to_hex(bytes: &[u8]) -> Result<Value> {
    check_size("TO_HEX", bytes.len() * 2)?;
    let digit = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or('0');
    Ok(Value::String(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()))
}

/// `FROM_HEX`: an odd number of digits starts with half a byte.
pub fn from_hex(text: &str) -> Result<Value> {
    let digits: Option<Vec<u8>> = text
        .chars()
        .map(|digit| digit.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect();
    let Some(digits) = digits else {
        let message = "Failed to decode invalid hexadecimal string due to invalid character";
        return Err(SqlError::out_of_range(message));
    };
    let (odd, pairs) = digits.split_at(digits.len() % 2);
    let bytes = pairs.chunks(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit));
    Ok(Value::Bytes(odd.iter().copied().chain(bytes).collect()))
}

/// `GENERATE_UUID`: a random one, of version 4.
pub fn uuid() -> Value {
    // Each state has keys of its own, which the system has drawn at random.
    let random = || u128::from(RandomState::new().hash_one(0_u8));
    let bits = random() << 64 | random();
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let digits = format!("{bits:032x}");
    let (one, two, three) = (&digits[..8], &digits[8..12], &digits[12..16]);
    Value::String(format!("{one}-{two}-{three}-{}-{}", &digits[16..20], &digits[20..]))
}
