//! Functions on documents.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::misbound::misbound;
use super::text::check_size;
use crate::engine::{Json, Timestamp, Value, double};
use crate::sql::error::{Result, SqlError};

/// The largest number that a FLOAT64 shares with neither of its neighbours.
const EXACT_MAX: u64 = 1 << 53;

/// `JSON_VALUE`: the text of a scalar; NULL of anything else.
pub fn scalar(arguments: &[Value]) -> Result<Value> {
    let found = match arguments {
        [Value::Json(json)] => json.scalar(),
        [Value::Json(json), Value::String(path)] => {
            json.at(&steps(path)?).and_then(|part| part.scalar())
        }
        _ => return Err(misbound("JSON_VALUE")),
    };
    Ok(found.map_or(Value::Null, Value::String))
}

/// `JSON_QUERY`: the document at a path; NULL if there is none.
pub fn part(arguments: &[Value]) -> Result<Value> {
    let [Value::Json(json), Value::String(path)] = arguments else {
        return Err(misbound("JSON_QUERY"));
    };
    Ok(json.at(&steps(path)?).map_or(Value::Null, Value::Json))
}

/// The steps of a path such as `$.a[0]."b c"`.
fn steps(path: &str) -> Result<Vec<&str>> {
    let Some(mut rest) = path.strip_prefix('$') else {
        return Err(SqlError::out_of_range("JSONPath must start with '$'"));
    };
    let mut steps = Vec::new();
    while !rest.is_empty() {
        let (step, behind) = next_step(rest)
            .ok_or_else(|| SqlError::unsupported_value(format_args!("the JSON path {path}")))?;
        steps.push(step);
        rest = behind;
    }
    Ok(steps)
}

/// The first step of what is left of a path, and what is left behind it.
fn next_step(rest: &str) -> Option<(&str, &str)> {
    if let Some(rest) = rest.strip_prefix('[') {
        let (place, behind) = rest.split_once(']')?;
        let is_place = place == "0" || !place.starts_with('0');
        let is_short = (1..10).contains(&place.len());
        let all_digits = place.bytes().all(|next| next.is_ascii_digit());
        return (is_place && is_short && all_digits).then_some((place, behind));
    }
    let rest = rest.strip_prefix('.')?;
    if let Some(rest) = rest.strip_prefix('"') {
        let (name, behind) = rest.split_once('"')?;
        return (!name.contains('\\')).then_some((name, behind));
    }
    let in_name = |next: char| next.is_ascii_alphanumeric() || matches!(next, '_' | '-');
    let (name, behind) = rest.split_at(rest.find(|next| !in_name(next)).unwrap_or(rest.len()));
    let starts_well = name.starts_with(|first: char| first != '-');
    starts_well.then_some((name, behind))
}

/// `PARSE_JSON`
pub fn parsed(arguments: &[Value]) -> Result<Value> {
    let [Value::String(text)] = arguments else { return Err(misbound("PARSE_JSON")) };
    Json::parse(text)
        .map(Value::Json)
        .map_err(|reason| SqlError::out_of_range(format!("Invalid input to PARSE_JSON: {reason}")))
}

/// `TO_JSON_STRING`
pub fn text(arguments: &[Value]) -> Result<Value> {
    let [value] = arguments else { return Err(misbound("TO_JSON_STRING")) };
    let text = written(value);
    check_size("TO_JSON_STRING", text.len())?;
    Ok(Value::String(text))
}

fn written(value: &Value) -> String {
    let quoted = |text: String| format!("\"{text}\"");
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        // A larger one would lose digits in programs that read it as a FLOAT64.
        Value::Int64(value) => match value.unsigned_abs() > EXACT_MAX {
            true => quoted(value.to_string()),
            false => value.to_string(),
        },
        Value::Float64(value) if value.is_nan() => quoted("NaN".to_owned()),
        Value::Float64(value) if *value == f64::INFINITY => quoted("Infinity".to_owned()),
        Value::Float64(value) if value.is_infinite() => quoted("-Infinity".to_owned()),
        // A zero has no sign here.
        Value::Float64(value) => double::text(*value + 0.0),
        Value::Numeric(value) => match value.to_string().parse() {
            Ok(whole) => written(&Value::Int64(whole)),
            Err(_) => quoted(value.to_string()),
        },
        Value::String(text) => {
            Json::quoted(text).replace('\u{2028}', "\\u2028").replace('\u{2029}', "\\u2029")
        }
        Value::Bytes(bytes) => quoted(BASE64_STANDARD.encode(bytes)),
        Value::Date(date) => quoted(date.to_string()),
        Value::Timestamp(moment) => quoted(in_threes(*moment)),
        Value::Json(json) => json.to_string(),
        Value::Array { values, .. } => {
            let parts: Vec<String> = values.iter().map(written).collect();
            format!("[{}]", parts.join(","))
        }
    }
}

/// A timestamp with three, six or nine digits of fraction, or none.
fn in_threes(moment: Timestamp) -> String {
    let shown = moment.to_string();
    let Some((whole, fraction)) = shown.trim_end_matches('Z').split_once('.') else { return shown };
    let digits = fraction.len().next_multiple_of(3);
    format!("{whole}.{fraction:0<digits$}Z")
}
