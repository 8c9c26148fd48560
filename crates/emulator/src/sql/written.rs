//! Expressions that a schema holds: defaults, generated columns, constraints.

use super::ast::{Expr, ExprKind};
use super::bind::{Binder, first_subquery};
use super::error::SqlError;
use super::eval::{Evaluation, Rows, Stop};
use super::params::Parameters;
use super::plan::NewValue;
use crate::engine::{
    Cell, Code, Column, DefaultExpression, Error, Result, RowExpression, Schema, Timestamp, Type,
    Value,
};

/// Functions whose value is another one each time.
const UNSTEADY: &[&str] = &["CURRENT_TIMESTAMP", "GENERATE_UUID", "PENDING_COMMIT_TIMESTAMP"];

/// An expression in parentheses.
pub struct Written {
    /// The text between the parentheses.
    text: String,
    /// The expression.
    expr: Expr,
    /// The names that it uses.
    names: Vec<String>,
}

impl Written {
    /// Returns an expression and its text.
    pub fn new(text: String, expr: Expr) -> Written {
        let mut names = Vec::new();
        note_names(&expr, &mut names);
        Written { text, expr, names }
    }

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
        if let Some(at) = first_subquery(&self.expr) {
            let message = "Cannot use non-scalar expressions inside column default.";
            return Err(refused(column, &SqlError::invalid(at, message)));
        }
        match self.bound(column, Timestamp::EPOCH)? {
            NewValue::CommitTimestamp if !column.allow_commit_timestamp => {
                let message = "PENDING_COMMIT_TIMESTAMP() needs the option allow_commit_timestamp";
                Err(refused(column, &SqlError::invalid(self.expr.at, message)))
            }
            NewValue::Computed(_) if column.allow_commit_timestamp => {
                Err(Error::failed_precondition(format!(
                    "Cannot use commit timestamp column `{}` as a column with default value.",
                    column.name
                )))
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

impl RowExpression for Written {
    fn text(&self) -> &str {
        &self.text
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn check(&self, columns: &[(&str, Type)], value_type: Type) -> Result<()> {
        if let Some(function) = unsteady(&self.expr) {
            return Err(Error::invalid_argument(format!(
                "Expression is non-deterministic due to the use of non-determinstic function \
                 `{function}`. It must yield the same value for the same values of its columns."
            )));
        }
        let schema = Schema::default();
        let parameters = Parameters::default();
        let bound = Binder::new(&schema, &parameters, Timestamp::EPOCH)
            .formula(columns, &self.expr, value_type);
        bound.map(drop).map_err(Error::from)
    }

    fn value(&self, columns: &[(&str, Type)], value_type: Type, row: &[Value]) -> Result<Value> {
        let schema = Schema::default();
        let parameters = Parameters::default();
        let (node, used) = Binder::new(&schema, &parameters, Timestamp::EPOCH)
            .formula(columns, &self.expr, value_type)?;
        let mut slots = vec![Value::Null; used.len()];
        for (position, slot) in used {
            slots[slot] = row.get(position).cloned().unwrap_or(Value::Null);
        }
        match Evaluation::default().value(&node, &Rows { row: &slots, ..Rows::default() }) {
            Ok(value) => Ok(value),
            Err(Stop::Failed(error)) => Err(error.into()),
            Err(Stop::Missing(_)) => Err(Error::new(Code::Internal, "a formula reads no rows")),
        }
    }
}

/// Collects the names that an expression uses.
fn note_names(expr: &Expr, names: &mut Vec<String>) {
    if let ExprKind::Column { table, name } = &expr.kind {
        names.extend(table.iter().chain([name]).cloned());
    }
    expr.kind.for_each_child(&mut |child| note_names(child, names));
}

/// A function in an expression that doesn't always give the same.
fn unsteady(expr: &Expr) -> Option<&'static str> {
    let mut found = match &expr.kind {
        ExprKind::Call { function, .. } => {
            UNSTEADY.iter().find(|known| function.eq_ignore_ascii_case(known)).copied()
        }
        _ => None,
    };
    expr.kind.for_each_child(&mut |child| found = found.or_else(|| unsteady(child)));
    found
}

fn refused(column: &Column, error: &SqlError) -> Error {
    let name = &column.name;
    Error::new(error.code(), format!("Error parsing the default value of column {name}: {error}"))
}
