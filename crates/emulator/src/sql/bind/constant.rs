//! Literals.

use super::typed::{Origin, Typed, parse};
use crate::engine::Value;
use crate::sql::ast::{ExprKind, Literal};
use crate::sql::error::{Pos, Result, SqlError};

/// Returns the constant that a literal stands for.
pub(super) fn constant(literal: &Literal, at: Pos) -> Result<Typed> {
    let value = match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Integer(value) => {
            Value::Int64(i64::try_from(*value).map_err(|_| invalid_integer(*value, at))?)
        }
        Literal::Float(written) => return float(written, at),
        Literal::Text(text) => Value::String(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
        // It says its type, so it is taken for no other as a plain literal is.
        Literal::Typed(value_type, text) => {
            return Ok(Typed::constant(at, parse(text, *value_type, at)?, Origin::Computed));
        }
    };
    Ok(Typed::constant(at, value, Origin::Literal))
}

pub(super) fn float(written: &str, at: Pos) -> Result<Typed> {
    // A number too large for a FLOAT64 is infinite.
    let value = written
        .parse::<f64>()
        .map_err(|_| SqlError::invalid(at, format!("Invalid floating point literal: {written}")))?;
    Ok(Typed::constant(at, Value::Float64(value), Origin::Float(written.to_owned())))
}

pub(super) fn invalid_integer(magnitude: u64, at: Pos) -> SqlError {
    SqlError::invalid(at, format!("Invalid integer literal: {magnitude}"))
}

/// Returns true if an expression is a literal that says no type, with or without a sign.
pub(super) fn is_literal(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Literal(literal) => !matches!(literal, Literal::Typed(..)),
        kind => is_number(kind),
    }
}

/// Returns the place among the columns of the result that a number names, a plus before it or not.
pub(super) fn ordinal(kind: &ExprKind) -> Option<u64> {
    match kind {
        ExprKind::Literal(Literal::Integer(place)) => Some(*place),
        ExprKind::Plus(operand) => ordinal(&operand.kind),
        _ => None,
    }
}

fn is_unsigned(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Literal(Literal::Integer(_) | Literal::Float(_)))
}

/// Returns true if this is a number with any number of signs that leave it a literal: of minuses,
/// one.
fn is_number(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Negate(operand) => is_unsigned(&operand.kind),
        ExprKind::Plus(operand) => is_number(&operand.kind),
        kind => is_unsigned(kind),
    }
}
