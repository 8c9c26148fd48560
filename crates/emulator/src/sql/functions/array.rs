//! Functions on arrays.

use super::misbound::misbound;
use super::text::{check_size, count};
use crate::engine::Value;
use crate::sql::error::Result;

/// `ARRAY_LENGTH`
pub fn length(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Array { values, .. }] => Ok(count(values.len())),
        _ => Err(misbound("ARRAY_LENGTH")),
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
    let (mut text, mut bytes) = (String::new(), Vec::new());
    for (place, value) in shown.enumerate() {
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
