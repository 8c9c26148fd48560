//! Arithmetic, which fails rather than wraps around.

use super::misbound::misbound;
use crate::engine::{Numeric, Value};
use crate::sql::error::{Result, SqlError};

/// An operator on two numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Op {
    fn symbol(self) -> char {
        match self {
            Op::Add => '+',
            Op::Subtract => '-',
            Op::Multiply => '*',
            Op::Divide => '/',
        }
    }
}

pub fn add(arguments: &[Value]) -> Result<Value> {
    binary(Op::Add, arguments)
}

pub fn subtract(arguments: &[Value]) -> Result<Value> {
    binary(Op::Subtract, arguments)
}

pub fn multiply(arguments: &[Value]) -> Result<Value> {
    binary(Op::Multiply, arguments)
}

pub fn divide(arguments: &[Value]) -> Result<Value> {
    binary(Op::Divide, arguments)
}

fn binary(op: Op, arguments: &[Value]) -> Result<Value> {
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

fn numerics(op: Op, left: Numeric, right: Numeric) -> Result<Numeric> {
    let result = match op {
        Op::Add => left.checked_add(right),
        Op::Subtract => left.checked_sub(right),
        Op::Multiply => left.checked_mul(right),
        _ if right == Numeric::default() => {
            return Err(SqlError::out_of_range(format!("division by zero: {left} / {right}")));
        }
        _ => left.checked_div(right),
    };
    let symbol = op.symbol();
    result
        .ok_or_else(|| SqlError::out_of_range(format!("numeric overflow: {left} {symbol} {right}")))
}

fn integers(op: Op, left: i64, right: i64) -> Result<i64> {
    let result = match op {
        Op::Add => left.checked_add(right),
        Op::Subtract => left.checked_sub(right),
        _ => left.checked_mul(right),
    };
    let symbol = op.symbol();
    result.ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: {left} {symbol} {right}")))
}

fn floats(op: Op, left: f64, right: f64) -> Result<f64> {
    let result = match op {
        Op::Add => left + right,
        Op::Subtract => left - right,
        Op::Multiply => left * right,
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
