//! Functions on arrays.

use super::misbound;
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
    let [Value::Array { values, .. }, Value::String(separator), null @ ..] = arguments else {
        return Err(misbound("ARRAY_TO_STRING"));
    };
    let mut all = String::new();
    let shown = values.iter().filter_map(|it| if it.is_null() { null.first() } else { Some(it) });
    for (place, value) in shown.enumerate() {
        let Value::String(text) = value else { return Err(misbound("ARRAY_TO_STRING")) };
        all.push_str(if place > 0 { separator } else { "" });
        all.push_str(text);
        check_size("ARRAY_TO_STRING", all.len())?;
    }
    Ok(Value::String(all))
}
