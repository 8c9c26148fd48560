//! Values that are sent without a type.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::error::{Pos, Result, SqlError};
use crate::engine::{Date, Json, Numeric, Timestamp, Type, Value};

/// A value as JSON knows it.
#[derive(Clone, Debug, PartialEq)]
pub enum Untyped {
    /// `null`
    Null,
    /// A boolean.
    Bool(bool),
    /// A number: a FLOAT64.
    Number(f64),
    /// A string, which is also how INT64, NUMERIC, BYTES, DATE, TIMESTAMP and JSON travel.
    Text(String),
    /// A list: an array.
    List(Vec<Untyped>),
}

/// Reads a value that was sent without a type as one of type `target`.
///
/// # Errors
/// It is not in the form in which such values travel.
pub fn untyped_value(content: &Untyped, target: Type, at: Pos) -> Result<Value> {
    let value = match (content, target) {
        (Untyped::Null, _) => Some(Value::Null),
        (Untyped::Bool(value), Type::Bool) => Some(Value::Bool(*value)),
        (Untyped::Number(value), Type::Float64) => Some(Value::Float64(*value)),
        (Untyped::List(contents), Type::Array(element)) => {
            let values = contents.iter().map(|content| untyped_value(content, *element, at));
            Some(Value::Array { element, values: values.collect::<Result<_>>()? })
        }
        (Untyped::Text(text), _) => from_text(text, target),
        _ => None,
    };
    value.ok_or_else(|| {
        let shown = match content {
            Untyped::Null => "null".into(),
            Untyped::Bool(value) => value.to_string(),
            Untyped::Number(value) => value.to_string(),
            Untyped::Text(text) => format!("{text:?}"),
            Untyped::List(_) => "a list".into(),
        };
        SqlError::invalid(at, format!("Could not parse {shown} as {target}"))
    })
}

/// Returns the value that a text means as one of this type, as requests carry it; `None` if no text
/// means such a value, or not this one.
pub fn from_text(text: &str, target: Type) -> Option<Value> {
    match target {
        Type::Bool | Type::Array(_) => None,
        Type::Numeric => Numeric::parse_exact(text).map(Value::Numeric),
        Type::Json => Json::parse(text).ok().map(Value::Json),
        Type::String => Some(Value::String(text.to_owned())),
        Type::Int64 => text.parse().ok().map(Value::Int64),
        Type::Float64 => match text {
            "NaN" => Some(Value::Float64(f64::NAN)),
            "Infinity" => Some(Value::Float64(f64::INFINITY)),
            "-Infinity" => Some(Value::Float64(f64::NEG_INFINITY)),
            _ => None,
        },
        Type::Bytes => BASE64_STANDARD.decode(text).ok().map(Value::Bytes),
        Type::Date => Date::parse(text).map(Value::Date),
        Type::Timestamp => Timestamp::parse_rfc3339(text).map(Value::Timestamp),
    }
}
