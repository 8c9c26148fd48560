//! Arithmetic, which fails rather than wraps around.

use crate::engine::{Numeric, Value};
use crate::sql::ast::BinaryOp;
use crate::sql::error::{Result, SqlError};

/// `+`, `-`, `*` on two INT64, FLOAT64 or NUMERIC, `/` on the latter two. NULL if a side is.
pub fn binary(op: BinaryOp, left: Value, right: Value) -> Result<Value> {
    match (left, right) {
        (Value::Int64(left), Value::Int64(right)) => integers(op, left, right).map(Value::Int64),
        (Value::Float64(left), Value::Float64(right)) => {
            floats(op, left, right).map(Value::Float64)
        }
        (Value::Numeric(left), Value::Numeric(right)) => {
            numerics(op, left, right).map(Value::Numeric)
        }
        _ => Ok(Value::Null),
    }
}

/// The number with the other sign. NULL if it is.
pub fn negate(value: Value) -> Result<Value> {
    match value {
        Value::Int64(value) => value
            .checked_neg()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: -({value})"))),
        Value::Float64(value) => Ok(Value::Float64(-value)),
        Value::Numeric(value) => Ok(Value::Numeric(value.negated())),
        _ => Ok(Value::Null),
    }
}

/// The number without its sign.
pub fn absolute(value: &Value) -> Result<Value> {
    match value {
        Value::Int64(value) => value
            .checked_abs()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: ABS({value})"))),
        Value::Float64(value) => Ok(Value::Float64(value.abs())),
        Value::Numeric(value) => Ok(Value::Numeric(value.absolute())),
        _ => Ok(Value::Null),
    }
}

/// What is left of a division, with the sign of the dividend.
pub fn remainder(value: &Value, divisor: &Value) -> Result<Value> {
    let by_zero = || SqlError::out_of_range("division by zero: MOD(X, 0)");
    match (value, divisor) {
        (Value::Int64(_), Value::Int64(0)) => Err(by_zero()),
        (Value::Int64(value), Value::Int64(divisor)) => {
            Ok(Value::Int64(value.wrapping_rem(*divisor)))
        }
        (Value::Numeric(value), Value::Numeric(divisor)) => {
            value.checked_rem(*divisor).map(Value::Numeric).ok_or_else(by_zero)
        }
        _ => Ok(Value::Null),
    }
}

fn numerics(op: BinaryOp, left: Numeric, right: Numeric) -> Result<Numeric> {
    let result = match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Subtract => left.checked_sub(right),
        BinaryOp::Multiply => left.checked_mul(right),
        _ if right == Numeric::default() => {
            return Err(SqlError::out_of_range(format!("division by zero: {left} / {right}")));
        }
        _ => left.checked_div(right),
    };
    let symbol = op.symbol();
    result
        .ok_or_else(|| SqlError::out_of_range(format!("numeric overflow: {left} {symbol} {right}")))
}

fn integers(op: BinaryOp, left: i64, right: i64) -> Result<i64> {
    let result = match op {
        BinaryOp::Add => left.checked_add(right),
        BinaryOp::Subtract => left.checked_sub(right),
        _ => left.checked_mul(right),
    };
    let symbol = op.symbol();
    result.ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: {left} {symbol} {right}")))
}

fn floats(op: BinaryOp, left: f64, right: f64) -> Result<f64> {
    let result = match op {
        BinaryOp::Add => left + right,
        BinaryOp::Subtract => left - right,
        BinaryOp::Multiply => left * right,
        _ if right == 0.0 => {
            return Err(SqlError::out_of_range(format!("division by zero: {left} / {right}")));
        }
        _ => left / right,
    };
    // Only infinity makes infinity.
    if result.is_finite() || !left.is_finite() || !right.is_finite() {
        return Ok(result);
    }
    let symbol = op.symbol();
    Err(SqlError::out_of_range(format!("double overflow: {left} {symbol} {right}")))
}
