//! Arithmetic, which fails rather than wraps around.

use super::misbound;
use crate::engine::{Numeric, Value};
use crate::sql::error::{Result, SqlError};

/// The result of an operator, by its symbol, on two numbers of one type.
pub fn binary(op: char, arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Int64(left), Value::Int64(right)] => integers(op, *left, *right).map(Value::Int64),
        [Value::Float64(left), Value::Float64(right)] => {
            floats(op, *left, *right).map(Value::Float64)
        }
        [Value::Numeric(left), Value::Numeric(right)] => {
            numerics(op, *left, *right).map(Value::Numeric)
        }
        _ => Err(misbound("arithmetic")),
    }
}

/// Returns the number with the other sign.
pub fn negate(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Int64(value)] => value
            .checked_neg()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: -({value})"))),
        [Value::Float64(value)] => Ok(Value::Float64(-value)),
        [Value::Numeric(value)] => Ok(Value::Numeric(value.negated())),
        _ => Err(misbound("-")),
    }
}

/// `ABS`
pub fn absolute(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Int64(value)] => value
            .checked_abs()
            .map(Value::Int64)
            .ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: ABS({value})"))),
        [Value::Float64(value)] => Ok(Value::Float64(value.abs())),
        [Value::Numeric(value)] => Ok(Value::Numeric(value.absolute())),
        _ => Err(misbound("ABS")),
    }
}

/// `DIV`: the quotient without what is behind its point.
pub fn quotient(arguments: &[Value]) -> Result<Value> {
    let [Value::Int64(value), Value::Int64(divisor)] = arguments else {
        return Err(misbound("DIV"));
    };
    let reason = if *divisor == 0 { "division by zero" } else { "int64 overflow" };
    let failed = || SqlError::out_of_range(format!("{reason}: {value} / {divisor}"));
    value.checked_div(*divisor).map(Value::Int64).ok_or_else(failed)
}

/// `MOD`: what is left of a division, with the sign of the dividend.
pub fn remainder(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Int64(_), Value::Int64(0)] => {
            Err(SqlError::out_of_range("division by zero: MOD(X, 0)"))
        }
        [Value::Int64(value), Value::Int64(divisor)] => {
            Ok(Value::Int64(value.wrapping_rem(*divisor)))
        }
        _ => Err(misbound("MOD")),
    }
}

fn numerics(op: char, left: Numeric, right: Numeric) -> Result<Numeric> {
    let result = match op {
        '+' => left.checked_add(right),
        '-' => left.checked_sub(right),
        '*' => left.checked_mul(right),
        _ if right == Numeric::default() => {
            return Err(SqlError::out_of_range(format!("division by zero: {left} / {right}")));
        }
        _ => left.checked_div(right),
    };
    result.ok_or_else(|| SqlError::out_of_range(format!("numeric overflow: {left} {op} {right}")))
}

fn integers(op: char, left: i64, right: i64) -> Result<i64> {
    let result = match op {
        '+' => left.checked_add(right),
        '-' => left.checked_sub(right),
        _ => left.checked_mul(right),
    };
    result.ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: {left} {op} {right}")))
}

fn floats(op: char, left: f64, right: f64) -> Result<f64> {
    let result = match op {
        '+' => left + right,
        '-' => left - right,
        '*' => left * right,
        _ if right == 0.0 => {
            return Err(SqlError::out_of_range(format!("division by zero: {left} / {right}")));
        }
        _ => left / right,
    };
    // Only infinity makes infinity.
    if result.is_finite() || !left.is_finite() || !right.is_finite() {
        return Ok(result);
    }
    Err(SqlError::out_of_range(format!("double overflow: {left} {op} {right}")))
}
