//! Values as requests carry them.

use base64::alphabet;
use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurpose, GeneralPurposeConfig};
use prost_types::Value as WireValue;
use prost_types::value::Kind;

use crate::engine::{Date, Json, Numeric, Timestamp, Type, Value};

/// Returns a value that was sent, as one of this type.
///
/// # Errors
/// The error says, for people, that it is not in the form in which such values travel.
pub fn decode(sent: &WireValue, target: Type) -> Result<Value, String> {
    let decoded = match (&sent.kind, target) {
        (Some(Kind::NullValue(_)), _) => Some(Value::Null),
        (Some(Kind::BoolValue(value)), Type::Bool) => Some(Value::Bool(*value)),
        (Some(Kind::NumberValue(value)), Type::Float64) => Some(Value::Float64(*value)),
        (Some(Kind::StringValue(text)), _) => from_text(text, target),
        (Some(Kind::ListValue(list)), Type::Array(element)) => {
            let values: Result<_, String> =
                list.values.iter().map(|value| decode(value, *element)).collect();
            Some(Value::Array { element, values: values? })
        }
        _ => None,
    };
    decoded.ok_or_else(|| {
        let shown = match &sent.kind {
            None => "a value of no kind".into(),
            Some(Kind::NullValue(_)) => "NULL".into(),
            Some(Kind::BoolValue(value)) => value.to_string(),
            Some(Kind::NumberValue(value)) => value.to_string(),
            Some(Kind::StringValue(text)) => format!("{text:?}"),
            Some(Kind::ListValue(_)) => "a list".into(),
            Some(Kind::StructValue(_)) => "a struct".into(),
        };
        format!("Could not parse {shown} as {target}")
    })
}

/// The value that a text means as one of this type; `None` if no text means such a value, or not this one.
fn from_text(text: &str, target: Type) -> Option<Value> {
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
        Type::Bytes => bytes(text).map(Value::Bytes),
        Type::Date => Date::parse(text).map(Value::Date),
        Type::Timestamp => Timestamp::parse_rfc3339(text).map(Value::Timestamp),
    }
}

/// Reads Base64 as Google's servers do: without its padding, with spaces in between, and whatever the
/// bits say that are left over.
fn bytes(text: &str) -> Option<Vec<u8>> {
    let text: String = text.chars().filter(|next| !next.is_ascii_whitespace()).collect();
    let padding = match text.ends_with('=') {
        true => DecodePaddingMode::RequireCanonical,
        false => DecodePaddingMode::RequireNone,
    };
    let config = GeneralPurposeConfig::new()
        .with_decode_padding_mode(padding)
        .with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&alphabet::STANDARD, config).decode(text).ok()
}
