//! Functions that make a long STRING or BYTES of a short one.

use super::misbound::misbound;
use crate::engine::Value;
use crate::sql::error::{Result, SqlError};

/// The largest value that `REPEAT` and the like make.
const MAX_MADE_BYTES: usize = 1 << 20;

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
