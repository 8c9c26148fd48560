//! One value of many.

use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::misbound::misbound;
use crate::engine::{Numeric, Value};
use crate::sql::error::{Result, SqlError};

/// The work of an aggregate on the values of many rows. NULLs don't count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// How many there are.
    Count,
    /// How many are TRUE.
    CountIf,
    /// Their sum.
    Sum,
    /// Their mean.
    Average,
    /// The least.
    Min,
    /// The greatest.
    Max,
    /// True if all are TRUE.
    And,
    /// True if one is TRUE.
    Or,
}

impl Fold {
    /// Makes one value of these. Of none, a count is zero and all else NULL.
    ///
    /// # Errors
    /// OUT_OF_RANGE if no value can hold the sum.
    pub fn of(self, mut values: Vec<Value>) -> Result<Value> {
        values.retain(|value| !value.is_null());
        let is_true = |value: &Value| *value == Value::Bool(true);
        match self {
            Fold::Count => Ok(count(values.len())),
            Fold::CountIf => Ok(count(values.iter().filter(|value| is_true(value)).count())),
            _ if values.is_empty() => Ok(Value::Null),
            Fold::Sum => sum(&values),
            Fold::Average => average(&values),
            Fold::Min => Ok(extreme(&values, Ordering::Less)),
            Fold::Max => Ok(extreme(&values, Ordering::Greater)),
            Fold::And => Ok(Value::Bool(values.iter().all(is_true))),
            Fold::Or => Ok(Value::Bool(values.iter().any(is_true))),
        }
    }

    /// Without those that are there already.
    pub fn distinct(values: Vec<Value>) -> Vec<Value> {
        let mut seen = BTreeSet::new();
        values.into_iter().filter(|value| seen.insert(value.clone())).collect()
    }
}

fn count(count: usize) -> Value {
    // No table has more rows than memory holds.
    Value::Int64(i64::try_from(count).unwrap_or(i64::MAX))
}

/// The sum, which only has to fit in the end.
fn sum(values: &[Value]) -> Result<Value> {
    match &values[0] {
        Value::Int64(_) => i64::try_from(integers(values)?)
            .map(Value::Int64)
            .map_err(|_| SqlError::out_of_range("int64 overflow")),
        Value::Float64(_) => doubles(values).map(Value::Float64),
        Value::Numeric(_) => Numeric::sum(numerics(values))
            .map(Value::Numeric)
            .ok_or_else(|| SqlError::out_of_range("numeric overflow: SUM")),
        _ => Err(misbound("SUM")),
    }
}

fn average(values: &[Value]) -> Result<Value> {
    let count = values.len();
    match &values[0] {
        Value::Int64(_) => {
            let sum = integers(values)?;
            let near = sum as f64;
            let lost = (sum - near as i128) as f64;
            Ok(Value::Float64(divided(near, lost, count as f64)))
        }
        Value::Float64(_) => Ok(Value::Float64(mean_of_doubles(values))),
        Value::Numeric(_) => Numeric::mean(numerics(values))
            .map(Value::Numeric)
            .ok_or_else(|| SqlError::out_of_range("numeric overflow: AVG")),
        _ => Err(misbound("AVG")),
    }
}

fn integers(values: &[Value]) -> Result<i128> {
    let value = |value: &Value| match value {
        Value::Int64(value) => Ok(i128::from(*value)),
        _ => Err(misbound("SUM")),
    };
    values.iter().map(value).sum()
}

fn numerics(values: &[Value]) -> impl Iterator<Item = Numeric> {
    values.iter().filter_map(|value| match value {
        Value::Numeric(value) => Some(*value),
        _ => None,
    })
}

fn doubles_of(values: &[Value]) -> impl Iterator<Item = f64> + Clone {
    values.iter().filter_map(|value| match value {
        Value::Float64(value) => Some(*value),
        _ => None,
    })
}

/// The factor that takes the largest sums into what a FLOAT64 can hold.
const SCALE: f64 = 1_180_591_620_717_411_303_424.0;

fn doubles(values: &[Value]) -> Result<f64> {
    let (sum, lost) = compensated(doubles_of(values));
    if sum.is_finite() || doubles_of(values).any(|value| !value.is_finite()) {
        return Ok(sum + lost);
    }
    // A sum that overflows on the way may fit in the end.
    let (sum, lost) = compensated(doubles_of(values).map(|value| value / SCALE));
    let sum = (sum + lost) * SCALE;
    sum.is_finite().then_some(sum).ok_or_else(|| SqlError::out_of_range("double overflow: SUM"))
}

/// The mean as it is rounded once, at the end: GoogleSQL carries more digits than a FLOAT64 has.
fn mean_of_doubles(values: &[Value]) -> f64 {
    let count = values.len() as f64;
    if doubles_of(values).any(|value| !value.is_finite()) {
        return doubles_of(values).sum();
    }
    let (sum, lost) = compensated(doubles_of(values));
    if sum.is_finite() {
        return divided(sum, lost, count);
    }
    let (sum, lost) = compensated(doubles_of(values).map(|value| value / SCALE));
    divided(sum, lost, count) * SCALE
}

/// The quotient of a sum and what it has lost, with what the division loses.
fn divided(sum: f64, lost: f64, count: f64) -> f64 {
    let quotient = sum / count;
    let rest = (-quotient).mul_add(count, sum);
    quotient + (rest + lost) / count
}

/// The sum, and what its additions have lost, as Neumaier has it.
fn compensated(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let plain: f64 = values.clone().sum();
    if !plain.is_finite() {
        return (plain, 0.0);
    }
    values.fold((0.0_f64, 0.0_f64), |(sum, lost), value| {
        let next = sum + value;
        let rest = match sum.abs() >= value.abs() {
            true => (sum - next) + value,
            false => (value - next) + sum,
        };
        (next, lost + rest)
    })
}

pub fn greatest(arguments: &[Value]) -> Result<Value> {
    Ok(extreme(arguments, Ordering::Greater))
}

pub fn least(arguments: &[Value]) -> Result<Value> {
    Ok(extreme(arguments, Ordering::Less))
}

/// The greatest or the least of these values; a NaN, if one is.
fn extreme(values: &[Value], wanted: Ordering) -> Value {
    let is_nan = |value: &Value| matches!(value, Value::Float64(value) if value.is_nan());
    let better = |best: Value, next: &Value| match is_nan(next) || next.cmp(&best) == wanted {
        true if !is_nan(&best) => next.clone(),
        _ => best,
    };
    let mut rest = values.iter();
    let first = rest.next().cloned().unwrap_or(Value::Null);
    rest.fold(first, better)
}
