//! Conversions between types.

use crate::engine::{Code, Date, Numeric, Type, Value, double};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::time;

/// Returns the value as one of another type, as `CAST` makes it.
///
/// # Errors
/// OUT_OF_RANGE if it is no such value.
pub fn cast(value: Value, target: Type) -> Result<Value> {
    match (value, target) {
        (Value::Null, _) => Ok(Value::Null),
        (Value::String(text), target) => from_text(&text, target),
        (value, Type::String) => to_text(value).map(Value::String),
        (Value::Bool(value), Type::Int64) => Ok(Value::Int64(i64::from(value))),
        (Value::Int64(value), Type::Bool) => Ok(Value::Bool(value != 0)),
        (Value::Int64(value), Type::Float64) => Ok(Value::Float64(value as f64)),
        (Value::Int64(value), Type::Numeric) => Ok(Value::Numeric(Numeric::from(value))),
        (Value::Numeric(value), Type::Float64) => Ok(Value::Float64(value.to_f64())),
        (Value::Numeric(value), Type::Int64) => value
            .to_i64()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::out_of_range(format!("int64 out of range: {value}"))),
        (Value::Float64(value), Type::Numeric) => {
            Numeric::from_f64(value).map(Value::Numeric).ok_or_else(|| {
                let shown = double::text(value);
                SqlError::out_of_range(format!("Illegal conversion of double to numeric: {shown}"))
            })
        }
        (Value::Float64(value), Type::Int64) => integer(value).map(Value::Int64),
        // The binder lets nothing else through but what needs no conversion.
        (value, _) => Ok(value),
    }
}

/// The nearest integer, half away from zero.
fn integer(value: f64) -> Result<i64> {
    const TWO_TO_63: f64 = 9_223_372_036_854_775_808.0;
    let rounded = value.round();
    match (-TWO_TO_63..TWO_TO_63).contains(&rounded) {
        true => Ok(rounded as i64),
        false => Err(SqlError::out_of_range(format!(
            "Illegal conversion of non-finite floating point number to an integer, or out of \
             range: {}",
            double::text(value)
        ))),
    }
}

fn to_text(value: Value) -> Result<String> {
    Ok(match value {
        Value::Bool(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Numeric(value) => value.to_string(),
        // A zero has no sign here.
        Value::Float64(value) => double::text(value + 0.0),
        Value::Date(value) => value.to_string(),
        Value::Bytes(bytes) => String::from_utf8(bytes)
            .map_err(|_| SqlError::out_of_range("Invalid cast of bytes to UTF8 string"))?,
        other => other.to_string(),
    })
}

fn from_text(text: &str, target: Type) -> Result<Value> {
    let bad = |what: &str| SqlError::out_of_range(format!("Bad {what} value: {text}"));
    let blank = |next: char| next.is_ascii_whitespace();
    match target {
        Type::Bool if text.eq_ignore_ascii_case("true") => Ok(Value::Bool(true)),
        Type::Bool if text.eq_ignore_ascii_case("false") => Ok(Value::Bool(false)),
        Type::Bool => Err(bad("bool")),
        Type::Int64 => {
            parse_integer(text.trim_matches(blank)).map(Value::Int64).ok_or_else(|| bad("int64"))
        }
        Type::Float64 => {
            parse_double(text.trim_matches(blank)).map(Value::Float64).ok_or_else(|| bad("double"))
        }
        Type::Numeric => Numeric::parse(text)
            .map(Value::Numeric)
            .ok_or_else(|| SqlError::out_of_range(format!("Invalid NUMERIC value: {text}"))),
        Type::Bytes => Ok(Value::Bytes(text.as_bytes().to_vec())),
        Type::Date => Date::parse(text)
            .map(Value::Date)
            .ok_or_else(|| SqlError::out_of_range(format!("Invalid date: {text:?}"))),
        Type::Timestamp => {
            time::timestamp(text, Pos::START).map(Value::Timestamp).map_err(|error| {
                match error.code() {
                    Code::InvalidArgument => {
                        SqlError::out_of_range(format!("Invalid timestamp: {text:?}"))
                    }
                    code => SqlError::unplaced(code, error.message()),
                }
            })
        }
        Type::String | Type::Json | Type::Array(_) => Ok(Value::String(text.to_owned())),
    }
}

/// Reads a decimal integer, or one such as `-0x1F`.
fn parse_integer(text: &str) -> Option<i64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let Some(hexadecimal) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) else {
        return text.parse().ok();
    };
    // A sign here would be a second one.
    let unsigned = hexadecimal.starts_with(|next: char| next.is_ascii_hexdigit());
    let magnitude = unsigned.then(|| u64::from_str_radix(hexadecimal, 16).ok())??;
    match text.starts_with('-') {
        true => 0_i64.checked_sub_unsigned(magnitude),
        false => i64::try_from(magnitude).ok(),
    }
}

/// Reads a floating point number, decimal or hexadecimal, or one of the words for those that aren't
/// finite. A number that is too large is infinite.
fn parse_double(text: &str) -> Option<f64> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        None => text.parse().ok(),
        Some(hexadecimal) => {
            let magnitude = parse_hexadecimal(hexadecimal)?;
            Some(if text.starts_with('-') { -magnitude } else { magnitude })
        }
    }
}

/// Reads `1f.8p3`. More digits than a double has are refused rather than rounded.
fn parse_hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = match text.split_once(['p', 'P']) {
        None => (text, 0),
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let all = digits.bytes().all(|next| next.is_ascii_hexdigit());
    let value = (all && !digits.is_empty()).then(|| u64::from_str_radix(&digits, 16).ok())??;
    if value >= 1 << 53 {
        return None;
    }
    let places = i32::try_from(fraction.len()).ok()?.checked_mul(4)?;
    Some(value as f64 * 2_f64.powi(exponent.checked_sub(places)?))
}
