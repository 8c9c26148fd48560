//! One value of many.

use std::cmp::Ordering;

use super::{misbound, text::count};
use crate::engine::{Numeric, Value};
use crate::sql::error::{Result, SqlError};

/// The work of an aggregate on the values of many rows. NULLs don't count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// How many there are.
    Count,
    /// Their sum.
    Sum,
    /// Their mean.
    Average,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

impl Fold {
    /// Makes one value of these. Of none, a count is zero and all else NULL.
    ///
    /// # Errors
    /// OUT_OF_RANGE if no value can hold the sum.
    pub fn of(self, mut values: Vec<Value>) -> Result<Value> {
        values.retain(|value| !value.is_null());
        match self {
            Fold::Count => Ok(count(values.len())),
            _ if values.is_empty() => Ok(Value::Null),
            Fold::Sum => sum(&values),
            Fold::Average => average(&values),
            Fold::Min => Ok(extreme(&values, Ordering::Less)),
            Fold::Max => Ok(extreme(&values, Ordering::Greater)),
        }
    }

    /// Without those that are there already. What is folded from the rest doesn't depend on its order.
    pub fn distinct(mut values: Vec<Value>) -> Vec<Value> {
        values.sort();
        values.dedup();
        values
    }
}

/// The sum, which only has to fit in the end.
fn sum(values: &[Value]) -> Result<Value> {
    match &values[0] {
        Value::Int64(_) => i64::try_from(integers(values)?)
            .map(Value::Int64)
            .map_err(|_| SqlError::out_of_range("int64 overflow")),
        Value::Numeric(_) => Numeric::sum(numerics(values))
            .map(Value::Numeric)
            .ok_or_else(|| SqlError::out_of_range("numeric overflow: SUM")),
        _ => Err(misbound("SUM")),
    }
}

/// The mean of INT64, as it is rounded once, at the end.
fn average(values: &[Value]) -> Result<Value> {
    let (sum, count) = (integers(values)?, values.len() as f64);
    let near = sum as f64;
    let quotient = near / count;
    let rest = (-quotient).mul_add(count, near) + (sum - near as i128) as f64;
    Ok(Value::Float64(quotient + rest / count))
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

/// The greatest or the least of these values; a NaN, if one is.
pub fn extreme(values: &[Value], wanted: Ordering) -> Value {
    let is_nan = |value: &Value| matches!(value, Value::Float64(value) if value.is_nan());
    let better = |best: Value, next: &Value| match is_nan(next) || next.cmp(&best) == wanted {
        true if !is_nan(&best) => next.clone(),
        _ => best,
    };
    let mut rest = values.iter();
    let first = rest.next().cloned().unwrap_or(Value::Null);
    rest.fold(first, better)
}
