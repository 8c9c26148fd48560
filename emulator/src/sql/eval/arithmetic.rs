//! Arithmetic, which fails rather than wraps around.

use crate::engine::Value;
use crate::sql::ast::BinaryOp;
use crate::sql::error::{Result, SqlError};

/// `+`, `-`, `*` on two INT64 or FLOAT64, `/` on two FLOAT64. NULL if a side is.
pub fn binary(op: BinaryOp, left: Value, right: Value) -> Result<Value> {
    match (left, right) {
        (Value::Int64(left), Value::Int64(right)) => integers(op, left, right).map(Value::Int64),
        (Value::Float64(left), Value::Float64(right)) => {
            floats(op, left, right).map(Value::Float64)
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
        _ => Ok(Value::Null),
    }
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
