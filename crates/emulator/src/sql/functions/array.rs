//! Functions on arrays.

use super::misbound::misbound;
use super::text::{check_size, count};
use crate::engine::{Type, Value};
use crate::sql::error::{Result, SqlError};

/// The most elements that `GENERATE_ARRAY` makes.
const MAX_GENERATED: usize = 16_000;

/// `ARRAY_LENGTH`
pub fn length(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Array { values, .. }] => Ok(count(values.len())),
        _ => Err(misbound("ARRAY_LENGTH")),
    }
}

/// `ARRAY_REVERSE`
pub fn reverse(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Array { element, values }] => {
            Ok(Value::Array { element, values: values.iter().rev().cloned().collect() })
        }
        _ => Err(misbound("ARRAY_REVERSE")),
    }
}

/// `ARRAY_TO_STRING`: NULLs are left out, or shown as the third argument.
pub fn to_string(arguments: &[Value]) -> Result<Value> {
    let (values, separator, null) = match arguments {
        [Value::Array { values, .. }, separator] => (values, separator, None),
        [Value::Array { values, .. }, separator, null] => (values, separator, Some(null)),
        _ => return Err(misbound("ARRAY_TO_STRING")),
    };
    let shown = values.iter().filter_map(|value| if value.is_null() { null } else { Some(value) });
    joined(shown, separator)
}

/// Returns the values, all STRING or all BYTES, with a separator between any two.
pub fn joined<'a>(values: impl Iterator<Item = &'a Value>, separator: &Value) -> Result<Value> {
    let (mut text, mut bytes) = (String::new(), Vec::new());
    for (place, value) in values.enumerate() {
        match (value, separator) {
            (Value::String(value), Value::String(separator)) => {
                if place > 0 {
                    text.push_str(separator);
                }
                text.push_str(value);
            }
            (Value::Bytes(value), Value::Bytes(separator)) => {
                if place > 0 {
                    bytes.extend_from_slice(separator);
                }
                bytes.extend_from_slice(value);
            }
            _ => return Err(misbound("ARRAY_TO_STRING")),
        }
        check_size("ARRAY_TO_STRING", text.len().max(bytes.len()))?;
    }
    Ok(match separator {
        Value::Bytes(_) => Value::Bytes(bytes),
        _ => Value::String(text),
    })
}

/// `GENERATE_ARRAY(first, last, step)`
pub fn generate(arguments: &[Value]) -> Result<Value> {
    let (first, last, step) = match arguments {
        [Value::Int64(first), Value::Int64(last)] => (*first, *last, 1),
        [Value::Int64(first), Value::Int64(last), Value::Int64(step)] => (*first, *last, *step),
        _ => return Err(misbound("GENERATE_ARRAY")),
    };
    if step == 0 {
        return Err(SqlError::out_of_range("Sequence step cannot be 0."));
    }
    let mut values = Vec::new();
    let mut next = Some(first);
    while let Some(value) = next.filter(|next| if step > 0 { *next <= last } else { *next >= last })
    {
        if values.len() == MAX_GENERATED {
            let message =
                format!("Cannot generate arrays with more than {MAX_GENERATED} elements.");
            return Err(SqlError::out_of_range(message));
        }
        values.push(Value::Int64(value));
        next = value.checked_add(step);
    }
    Ok(Value::Array { element: &Type::Int64, values })
}

/// `array[OFFSET(place)]` and its relatives; a safe one is NULL where there is no element.
pub fn element(array: &Value, place: i64, safe: bool) -> Result<Value> {
    let Value::Array { values, .. } = array else { return Err(misbound("an element")) };
    let found = usize::try_from(place).ok().and_then(|place| values.get(place));
    match found {
        Some(value) => Ok(value.clone()),
        None if safe => Ok(Value::Null),
        None => Err(SqlError::out_of_range(format!("Array index {place} is out of bounds"))),
    }
}
