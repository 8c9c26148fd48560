//! One value of many.

use std::collections::BTreeSet;

use super::arithmetic;
use super::function::extreme;
use crate::engine::Value;
use crate::sql::ast::{BinaryOp, Comparison};
use crate::sql::error::Result;
use crate::sql::plan::Fold;

/// What an aggregate makes of the values of all rows. NULLs don't count; of no values it makes NULL,
/// and a count of zero.
///
/// # Errors
/// OUT_OF_RANGE if no value can hold the sum.
pub fn fold(fold: Fold, distinct: bool, mut values: Vec<Value>) -> Result<Value> {
    values.retain(|value| !value.is_null());
    if distinct {
        let distinct: BTreeSet<Value> = values.into_iter().collect();
        values = distinct.into_iter().collect();
    }
    match fold {
        Fold::Count => Ok(Value::Int64(i64::try_from(values.len()).unwrap_or(i64::MAX))),
        Fold::Min => Ok(extreme(&values, Comparison::Less)),
        Fold::Max => Ok(extreme(&values, Comparison::Greater)),
        Fold::Sum => {
            let mut values = values.into_iter();
            let first = values.next().unwrap_or(Value::Null);
            values.try_fold(first, |sum, value| arithmetic::binary(BinaryOp::Add, sum, value))
        }
    }
}
