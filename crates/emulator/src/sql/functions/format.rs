//! `FORMAT`.

use super::misbound::misbound;
use super::number;
use super::text::check_size;
use crate::engine::{Type, Value, double};
use crate::sql::error::{Pos, Result, SqlError};

/// The name of the function.
pub const NAME: &str = "FORMAT";
/// The largest width and precision here.
const MAX_WIDTH: usize = 100;

/// A part of a format.
enum Part<'a> {
    Text(&'a str),
    Value(Specifier),
}

/// `%-5d`, `%.2f` and the like.
struct Specifier {
    left: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    letter: char,
}

/// Checks that a format fits arguments of these types.
///
/// # Errors
/// UNIMPLEMENTED for a specifier, or a type with it, that isn't here. INVALID_ARGUMENT for one that
/// doesn't fit.
pub fn check(format: &str, types: &[Type], at: Pos) -> Result<()> {
    let parts = parts(format)?;
    let specifiers = parts.iter().filter_map(|part| match part {
        Part::Value(specifier) => Some(specifier),
        Part::Text(_) => None,
    });
    let expected = specifiers.clone().count();
    if expected != types.len() {
        let few = if expected > types.len() { "few" } else { "many" };
        let message = format!(
            "Too {few} arguments to FORMAT for pattern {format:?}; Expected {}; Got {}",
            expected + 1,
            types.len() + 1
        );
        return Err(SqlError::invalid(at, message));
    }
    for (specifier, found) in specifiers.zip(types) {
        let letter = specifier.letter;
        let fits = match letter {
            'd' => *found == Type::Int64,
            's' => *found == Type::String,
            'f' => matches!(found, Type::Float64 | Type::Numeric),
            _ => true,
        };
        if !fits {
            let message = format!("Invalid type {found} for %{letter} in FORMAT");
            return Err(SqlError::invalid(at, message));
        }
        let element = if let Type::Array(element) = found { **element } else { *found };
        if matches!(element, Type::Timestamp | Type::Json | Type::Bytes) {
            return Err(SqlError::unsupported_value(format_args!(
                "FORMAT of {found} with %{letter}"
            )));
        }
    }
    Ok(())
}

fn parts(format: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut rest = format;
    while let Some((before, specifier)) = rest.split_once('%') {
        parts.push(Part::Text(before));
        rest = match specifier.strip_prefix('%') {
            Some(behind) => {
                parts.push(Part::Text("%"));
                behind
            }
            None => {
                let (specifier, behind) = Specifier::read(specifier).ok_or_else(|| {
                    let shown: String = specifier.chars().take(5).collect();
                    SqlError::unsupported_value(format_args!("the specifier %{shown} in FORMAT"))
                })?;
                parts.push(Part::Value(specifier));
                behind
            }
        };
    }
    parts.push(Part::Text(rest));
    Ok(parts)
}

impl Specifier {
    /// Reads what follows a `%`, and returns what is behind it.
    fn read(text: &str) -> Option<(Specifier, &str)> {
        let (flags, rest) = split_behind(text, |next| matches!(next, '-' | '0'));
        let (width, rest) = split_behind(rest, |next| next.is_ascii_digit());
        let number = |digits: &str| digits.parse().ok().filter(|number| *number <= MAX_WIDTH);
        let (precision, rest) = match rest.strip_prefix('.') {
            Some(rest) => {
                let (digits, rest) = split_behind(rest, |next| next.is_ascii_digit());
                (Some(number(digits)?), rest)
            }
            None => (None, rest),
        };
        let letter = rest.chars().next().filter(|letter| "dsftT".contains(*letter))?;
        let specifier = Specifier {
            left: flags.contains('-'),
            zeros: flags.contains('0'),
            width: if width.is_empty() { 0 } else { number(width)? },
            precision,
            letter,
        };
        let fits = (precision.is_none() || letter == 'f')
            && !(specifier.zeros && (specifier.left || !matches!(letter, 'd' | 'f')));
        fits.then_some((specifier, &rest[1..]))
    }

    /// Returns the value in this form; `None` makes the whole result NULL.
    fn apply(&self, value: &Value) -> Result<Option<String>> {
        let shown = match (self.letter, value) {
            ('t', value) => text(value)?,
            ('T', value) => literal(value)?,
            (_, Value::Null) => return Ok(None),
            ('d', Value::Int64(value)) => value.to_string(),
            ('s', Value::String(value)) => value.clone(),
            ('f', value) => fixed(value, self.precision.unwrap_or(6))?,
            _ => return Err(misbound(NAME)),
        };
        let missing = self.width.saturating_sub(shown.chars().count());
        let is_number = shown.ends_with(|last: char| last.is_ascii_digit());
        Ok(Some(match self.zeros && is_number {
            _ if self.left => shown + &" ".repeat(missing),
            true => {
                let (sign, digits) = shown.split_at(usize::from(shown.starts_with('-')));
                format!("{sign}{}{digits}", "0".repeat(missing))
            }
            false => " ".repeat(missing) + &shown,
        }))
    }
}

fn split_behind(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|next| !belongs(next)).unwrap_or(text.len()))
}

/// `FORMAT(format, value, …)`, once [`check`] has let it through.
pub fn format(arguments: &[Value]) -> Result<Value> {
    let (format, mut values) = match arguments {
        [Value::String(format), values @ ..] => (format, values.iter()),
        [Value::Null, ..] => return Ok(Value::Null),
        _ => return Err(misbound(NAME)),
    };
    let mut all = String::new();
    let mut is_null = false;
    for part in parts(format)? {
        match part {
            Part::Text(text) => all.push_str(text),
            Part::Value(specifier) => {
                let value = values.next().ok_or_else(|| misbound(NAME))?;
                match specifier.apply(value)? {
                    Some(shown) => all.push_str(&shown),
                    None => is_null = true,
                }
            }
        }
        check_size(NAME, all.len())?;
    }
    Ok(if is_null { Value::Null } else { Value::String(all) })
}

/// `%f`
fn fixed(value: &Value, precision: usize) -> Result<String> {
    match value {
        // A zero has no sign here.
        Value::Float64(value) if value.is_finite() => Ok(format!("{:.precision$}", value + 0.0)),
        Value::Float64(value) => Ok(double::text(*value)),
        Value::Numeric(number) => {
            let digits = Value::Int64(i64::try_from(precision).unwrap_or(i64::MAX));
            let Ok(Value::Numeric(rounded)) = number::round(&[value.clone(), digits]) else {
                return Err(SqlError::unsupported_value("FORMAT of so large a NUMERIC with %f"));
            };
            let is_negative = number.to_string().starts_with('-');
            let shown = rounded.to_string();
            // A sign stays beside what is rounded to zero.
            let sign = if is_negative && !shown.starts_with('-') { "-" } else { "" };
            let (whole, fraction) = shown.split_once('.').unwrap_or((&shown, ""));
            let point = if precision > 0 { "." } else { "" };
            Ok(format!("{sign}{whole}{point}{fraction:0<precision$}"))
        }
        _ => Err(misbound(NAME)),
    }
}

/// `%t`
fn text(value: &Value) -> Result<String> {
    Ok(match value {
        Value::String(value) => value.clone(),
        Value::Numeric(value) => value.to_string(),
        Value::Date(value) => value.to_string(),
        Value::Float64(value) if !value.is_finite() => double::text(*value),
        Value::Array { values, .. } => {
            let shown: Result<Vec<String>> = values.iter().map(text).collect();
            format!("[{}]", shown?.join(", "))
        }
        value => literal(value)?,
    })
}

/// `%T`
fn literal(value: &Value) -> Result<String> {
    Ok(match value {
        Value::Null => "NULL".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Int64(value) => value.to_string(),
        Value::Float64(value) if !value.is_finite() => {
            format!("CAST(\"{}\" AS FLOAT64)", double::text(*value))
        }
        Value::Float64(value) => {
            let shown = double::text(*value);
            if shown.contains(['.', 'e']) { shown } else { shown + ".0" }
        }
        Value::Numeric(value) => format!("NUMERIC \"{value}\""),
        Value::Date(value) => format!("DATE \"{value}\""),
        Value::String(value) => quoted(value)?,
        Value::Array { values, .. } => {
            let shown: Result<Vec<String>> = values.iter().map(literal).collect();
            format!("[{}]", shown?.join(", "))
        }
        _ => return Err(misbound(NAME)),
    })
}

/// A text as a literal, in the quotes that need no escape.
fn quoted(text: &str) -> Result<String> {
    let quote = if text.contains('"') && !text.contains('\'') { '\'' } else { '"' };
    let mut shown = String::from(quote);
    for next in text.chars() {
        match next {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            _ if next == quote || next == '\\' => shown.extend(['\\', next]),
            _ if next.is_ascii_control() => {
                return Err(SqlError::unsupported_value("FORMAT of a control character with %T"));
            }
            _ => shown.push(next),
        }
    }
    shown.push(quote);
    Ok(shown)
}
