//! Arithmetic, which fails rather than wraps around.

use super::misbound::misbound;
use crate::engine::{Numeric, Value, double};
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

pub fn safe_add(arguments: &[Value]) -> Result<Value> {
    Ok(binary(Op::Add, arguments).unwrap_or(Value::Null))
}

pub fn safe_subtract(arguments: &[Value]) -> Result<Value> {
    Ok(binary(Op::Subtract, arguments).unwrap_or(Value::Null))
}

pub fn safe_multiply(arguments: &[Value]) -> Result<Value> {
    Ok(binary(Op::Multiply, arguments).unwrap_or(Value::Null))
}

pub fn safe_divide(arguments: &[Value]) -> Result<Value> {
    Ok(binary(Op::Divide, arguments).unwrap_or(Value::Null))
}

pub fn safe_negate(arguments: &[Value]) -> Result<Value> {
    Ok(negate(arguments).unwrap_or(Value::Null))
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

/// `SIGN`: -1, 0 or 1, and NaN of a NaN.
pub fn sign(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Int64(value)] => Ok(Value::Int64(value.signum())),
        [Value::Float64(value)] if *value == 0.0 => Ok(Value::Float64(0.0)),
        [Value::Float64(value)] => Ok(Value::Float64(value.signum())),
        [Value::Numeric(value)] => {
            let zero = Numeric::default();
            let sign = i64::from(*value > zero) - i64::from(*value < zero);
            Ok(Value::Numeric(Numeric::from(sign)))
        }
        _ => Err(misbound("SIGN")),
    }
}

/// `MOD`: what is left of a division, with the sign of the dividend.
pub fn remainder(arguments: &[Value]) -> Result<Value> {
    let by_zero = || SqlError::out_of_range("division by zero: MOD(X, 0)");
    match arguments {
        [Value::Int64(_), Value::Int64(0)] => Err(by_zero()),
        [Value::Int64(value), Value::Int64(divisor)] => {
            Ok(Value::Int64(value.wrapping_rem(*divisor)))
        }
        [Value::Numeric(value), Value::Numeric(divisor)] => {
            value.checked_rem(*divisor).map(Value::Numeric).ok_or_else(by_zero)
        }
        _ => Err(misbound("MOD")),
    }
}

/// `DIV`: the quotient without what is behind its point.
pub fn quotient(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Int64(value), Value::Int64(0)] => {
            Err(SqlError::out_of_range(format!("division by zero: {value} / 0")))
        }
        [Value::Int64(value), Value::Int64(divisor)] => value
            .checked_div(*divisor)
            .map(Value::Int64)
            .ok_or_else(|| SqlError::out_of_range(format!("int64 overflow: {value} / {divisor}"))),
        [Value::Numeric(value), Value::Numeric(divisor)] => {
            if *divisor == Numeric::default() {
                return Err(SqlError::out_of_range(format!("division by zero: {value} / 0")));
            }
            value.checked_quotient(*divisor).map(Value::Numeric).ok_or_else(|| {
                SqlError::out_of_range(format!("numeric overflow: {value} / {divisor}"))
            })
        }
        _ => Err(misbound("DIV")),
    }
}

/// `ROUND`: half away from zero.
pub fn round(arguments: &[Value]) -> Result<Value> {
    to_place("ROUND", arguments, f64::round, Numeric::rounded)
}

/// `TRUNC`: towards zero.
pub fn truncate(arguments: &[Value]) -> Result<Value> {
    to_place("TRUNC", arguments, f64::trunc, |value, places| Some(value.truncated(places)))
}

fn to_place(
    name: &str,
    arguments: &[Value],
    of_double: fn(f64) -> f64,
    of_numeric: fn(Numeric, i64) -> Option<Numeric>,
) -> Result<Value> {
    let places = match arguments.get(1) {
        None => 0,
        Some(Value::Int64(places)) => *places,
        Some(_) => return Err(misbound(name)),
    };
    let overflow = || SqlError::out_of_range(format!("{name}: the result is too large"));
    match &arguments[0] {
        Value::Float64(value) if !value.is_finite() => Ok(Value::Float64(*value)),
        Value::Float64(value) if places == 0 => Ok(Value::Float64(of_double(*value))),
        // The last bit depends on how it is done.
        Value::Float64(_) => Err(SqlError::unsupported_value(format_args!(
            "{name} of a FLOAT64 to a number of digits"
        ))),
        Value::Numeric(value) => {
            of_numeric(*value, places).map(Value::Numeric).ok_or_else(overflow)
        }
        _ => Err(misbound(name)),
    }
}

/// `CEIL`
pub fn ceiling(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Float64(value)] => Ok(Value::Float64(value.ceil())),
        [Value::Numeric(value)] => whole(value.negated().floor().map(Numeric::negated)),
        _ => Err(misbound("CEIL")),
    }
}

/// `FLOOR`
pub fn floor(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Float64(value)] => Ok(Value::Float64(value.floor())),
        [Value::Numeric(value)] => whole(value.floor()),
        _ => Err(misbound("FLOOR")),
    }
}

fn whole(value: Option<Numeric>) -> Result<Value> {
    value.map(Value::Numeric).ok_or_else(|| SqlError::out_of_range("numeric overflow"))
}

/// `SQRT`
pub fn square_root(arguments: &[Value]) -> Result<Value> {
    let [Value::Float64(value)] = arguments else {
        return Err(SqlError::unsupported_value("SQRT of a NUMERIC"));
    };
    match *value < 0.0 {
        true => {
            let shown = double::text(*value);
            let message = format!("Argument to SQRT cannot be negative: {shown}");
            Err(SqlError::out_of_range(message))
        }
        false => Ok(Value::Float64(value.sqrt())),
    }
}

/// `POW`
pub fn power(arguments: &[Value]) -> Result<Value> {
    let [Value::Float64(base), Value::Float64(exponent)] = arguments else {
        return Err(SqlError::unsupported_value("POW of a NUMERIC"));
    };
    let result = base.powf(*exponent);
    let fails = result.is_nan() && !base.is_nan() && !exponent.is_nan()
        || result.is_infinite() && base.is_finite() && exponent.is_finite();
    match fails {
        true => {
            let (base, exponent) = (double::text(*base), double::text(*exponent));
            let message = format!("Floating point error in function: POW({base}, {exponent})");
            Err(SqlError::out_of_range(message))
        }
        false => Ok(Value::Float64(result)),
    }
}

/// `IEEE_DIVIDE`: never fails.
pub fn ieee_divide(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Float64(left), Value::Float64(right)] => Ok(Value::Float64(left / right)),
        _ => Err(misbound("IEEE_DIVIDE")),
    }
}

pub fn is_nan(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Float64(value)] => Ok(Value::Bool(value.is_nan())),
        _ => Err(misbound("IS_NAN")),
    }
}

pub fn is_infinite(arguments: &[Value]) -> Result<Value> {
    match arguments {
        [Value::Float64(value)] => Ok(Value::Bool(value.is_infinite())),
        _ => Err(misbound("IS_INF")),
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
