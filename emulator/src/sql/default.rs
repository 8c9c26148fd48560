//! The defaults of columns.

use super::ast::Expr;
use super::bind::Binder;
use super::error::SqlError;
use super::eval::{Evaluation, Rows, Stop};
use super::params::Parameters;
use super::plan::NewValue;
use crate::engine::{Cell, Code, Column, DefaultExpression, Error, Result, Schema, Timestamp};

/// The expression of a `DEFAULT (…)`.
pub struct Written {
    /// What stands between the parentheses.
    pub text: String,
    /// What it says.
    pub expr: Expr,
}

impl Written {
    fn bound(&self, column: &Column, now: Timestamp) -> Result<NewValue> {
        // It is evaluated on its own: it sees no table and no parameter.
        let (schema, parameters) = (Schema::default(), Parameters::default());
        Binder::new(&schema, &parameters, now)
            .new_value(column, &self.expr)
            .map_err(|error| refused(column, &error))
    }
}

impl DefaultExpression for Written {
    fn text(&self) -> &str {
        &self.text
    }

    fn check(&self, column: &Column) -> Result<()> {
        match self.bound(column, Timestamp::EPOCH)? {
            NewValue::CommitTimestamp if !column.allow_commit_timestamp => {
                let message = "PENDING_COMMIT_TIMESTAMP() needs the option allow_commit_timestamp";
                Err(refused(column, &SqlError::invalid(self.expr.at, message)))
            }
            NewValue::Computed(_) if column.allow_commit_timestamp => {
                let message = "with the option allow_commit_timestamp, only \
                               PENDING_COMMIT_TIMESTAMP() can be a default";
                Err(refused(column, &SqlError::invalid(self.expr.at, message)))
            }
            NewValue::CommitTimestamp | NewValue::Computed(_) => Ok(()),
        }
    }

    fn value(&self, column: &Column, now: Timestamp) -> Result<Cell> {
        let node = match self.bound(column, now)? {
            NewValue::CommitTimestamp => return Ok(Cell::CommitTimestamp),
            NewValue::Computed(node) => node,
        };
        match Evaluation::default().value(&node, &Rows::default()) {
            Ok(value) => Ok(Cell::Value(value)),
            Err(Stop::Failed(error)) => Err(error.into()),
            Err(Stop::Missing(_)) => Err(Error::new(Code::Internal, "a default reads no rows")),
        }
    }
}

fn refused(column: &Column, error: &SqlError) -> Error {
    let name = &column.name;
    Error::new(error.code(), format!("Error parsing the default value of column {name}: {error}"))
}
