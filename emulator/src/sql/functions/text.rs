//! Functions on STRING and BYTES.

use std::hash::{BuildHasher, RandomState};

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::prelude::BASE64_STANDARD;

use super::misbound::misbound;
use crate::engine::{Type, Value};
use crate::sql::error::{Result, SqlError};

/// The largest STRING or BYTES that an expression can make; Spanner's limit for a value.
pub const MAX_VALUE_BYTES: usize = 10 << 20;

/// The largest value that `REPEAT` and the like make.
const MAX_MADE_BYTES: usize = 1 << 20;

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

/// `TO_HEX`
pub fn to_hex(arguments: &[Value]) -> Result<Value> {
    let [Value::Bytes(bytes)] = arguments else { return Err(misbound("TO_HEX")) };
    check_size("TO_HEX", bytes.len() * 2)?;
    let digit = |digit: u8| char::from_digit(u32::from(digit), 16).unwrap_or('0');
    Ok(Value::String(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()))
}

/// `FROM_HEX`: an odd number of digits starts with half a byte.
pub fn from_hex(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text)] = arguments else { return Err(misbound("FROM_HEX")) };
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
pub fn uuid(_: &[Value]) -> Result<Value> {
    // Each state has keys of its own, which the system has drawn at random.
    let random = || u128::from(RandomState::new().hash_one(0_u8));
    let bits = random() << 64 | random();
    let bits = bits & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62;
    let digits = format!("{bits:032x}");
    let (one, two, three) = (&digits[..8], &digits[8..12], &digits[12..16]);
    Ok(Value::String(format!("{one}-{two}-{three}-{}-{}", &digits[16..20], &digits[20..])))
}

/// `TO_BASE64`
pub fn to_base64(arguments: &[Value]) -> Result<Value> {
    let [Value::Bytes(bytes)] = arguments else { return Err(misbound("TO_BASE64")) };
    check_size("TO_BASE64", bytes.len().div_ceil(3) * 4)?;
    Ok(Value::String(BASE64_STANDARD.encode(bytes)))
}

/// `FROM_BASE64`
pub fn from_base64(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text)] = arguments else { return Err(misbound("FROM_BASE64")) };
    let digits: String = text.chars().filter(|next| !next.is_ascii_whitespace()).collect();
    // Padding may be missing, and what its digits say beyond the last byte means nothing.
    const FORM: GeneralPurposeConfig = GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&STANDARD, FORM)
        .decode(digits)
        .map(Value::Bytes)
        .map_err(|_| SqlError::out_of_range("Failed to decode invalid base64 string"))
}

/// A result made of little input has a lower limit.
fn check_made(function: &str, bytes: usize) -> Result<()> {
    match bytes > MAX_MADE_BYTES {
        true => {
            let message = format!("Output of {function} exceeds max allowed output size of 1MB");
            Err(SqlError::out_of_range(message))
        }
        false => Ok(()),
    }
}

/// `REPEAT`
pub fn repeat(arguments: &[Value]) -> Result<Value> {
    let [value, Value::Int64(times)] = arguments else { return Err(misbound("REPEAT")) };
    let times = usize::try_from(*times).map_err(|_| {
        let message = "Second argument (repeat count) for REPEAT cannot be negative";
        SqlError::out_of_range(message)
    })?;
    match value {
        Value::String(text) => {
            check_made("REPEAT", text.len().saturating_mul(times))?;
            Ok(Value::String(if text.is_empty() { String::new() } else { text.repeat(times) }))
        }
        Value::Bytes(bytes) => {
            check_made("REPEAT", bytes.len().saturating_mul(times))?;
            Ok(Value::Bytes(if bytes.is_empty() { Vec::new() } else { bytes.repeat(times) }))
        }
        _ => Err(misbound("REPEAT")),
    }
}

/// `REVERSE`
pub fn reverse(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text)] => Ok(Value::String(text.chars().rev().collect())),
        [Value::Bytes(bytes)] => Ok(Value::Bytes(bytes.iter().rev().copied().collect())),
        _ => Err(misbound("REVERSE")),
    }
}

pub fn pad_start(arguments: &[Value]) -> Result<Value> {
    padded(arguments, true)
}

pub fn pad_end(arguments: &[Value]) -> Result<Value> {
    padded(arguments, false)
}

/// Of this length, cut off or filled up with the pattern, or with blanks.
fn padded(arguments: &[Value], at_start: bool) -> Result<Value> {
    let (value, length, pattern) = match arguments {
        [value, Value::Int64(length)] => (value, *length, None),
        [value, Value::Int64(length), pattern] => (value, *length, Some(pattern)),
        _ => return Err(misbound("LPAD")),
    };
    let length = usize::try_from(length).map_err(|_| {
        let message = "Second argument (output size) for LPAD/RPAD cannot be negative";
        SqlError::out_of_range(message)
    })?;
    check_made("LPAD/RPAD", length)?;
    match (value, pattern) {
        (Value::String(text), None | Some(Value::String(_))) => {
            let pattern: Vec<char> = match pattern {
                Some(Value::String(pattern)) => pattern.chars().collect(),
                _ => vec![' '],
            };
            let text: Vec<char> = text.chars().collect();
            let padded: String = filled(&text, length, &pattern, at_start)?.into_iter().collect();
            check_made("LPAD/RPAD", padded.len())?;
            Ok(Value::String(padded))
        }
        (Value::Bytes(bytes), None) => Ok(Value::Bytes(filled(bytes, length, b" ", at_start)?)),
        (Value::Bytes(bytes), Some(Value::Bytes(pattern))) => {
            Ok(Value::Bytes(filled(bytes, length, pattern, at_start)?))
        }
        _ => Err(misbound("LPAD")),
    }
}

fn filled<C: Copy>(text: &[C], length: usize, pattern: &[C], at_start: bool) -> Result<Vec<C>> {
    if pattern.is_empty() {
        let message = "Third argument (pad pattern) for LPAD/RPAD cannot be empty";
        return Err(SqlError::out_of_range(message));
    }
    let kept = &text[..text.len().min(length)];
    let padding = pattern.iter().copied().cycle().take(length - kept.len());
    Ok(match at_start {
        true => padding.chain(kept.iter().copied()).collect(),
        false => kept.iter().copied().chain(padding).collect(),
    })
}

/// `SPLIT`: at commas if nothing else is said; at an empty separator, into characters.
pub fn split(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::String(text), rest @ ..] => {
            let separator = match rest {
                [Value::String(separator)] => separator.as_str(),
                _ => ",",
            };
            let parts: Vec<Value> = match separator {
                "" if text.is_empty() => vec!["".into()],
                "" => text.chars().map(|next| next.to_string().into()).collect(),
                separator => text.split(separator).map(Value::from).collect(),
            };
            Ok(Value::Array { element: &Type::String, values: parts })
        }
        [Value::Bytes(bytes), Value::Bytes(separator)] => {
            let mut parts = vec![Vec::new()];
            let mut rest = bytes.as_slice();
            while let Some(next) = rest.first() {
                match rest.strip_prefix(separator.as_slice()) {
                    Some(behind) if !separator.is_empty() => {
                        parts.push(Vec::new());
                        rest = behind;
                    }
                    _ => {
                        if let Some(part) = parts.last_mut() {
                            part.push(*next);
                        }
                        rest = &rest[1..];
                        if separator.is_empty() && !rest.is_empty() {
                            parts.push(Vec::new());
                        }
                    }
                }
            }
            let values = parts.into_iter().map(Value::Bytes).collect();
            Ok(Value::Array { element: &Type::Bytes, values })
        }
        _ => Err(misbound("SPLIT")),
    }
}
