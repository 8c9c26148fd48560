//! Expressions that a schema holds: defaults, generated columns, constraints.

use super::ast::{Expr, ExprKind};
use super::bind::{Binder, first_subquery};
use super::error::SqlError;
use super::eval::{Evaluation, Rows, Stop};
use super::params::Parameters;
use super::plan::{NewValue, Node};
use crate::engine::{
    Cell, Code, Column, DefaultExpression, Error, Expression, Result, RowExpression, Schema,
    Timestamp, Type, Value,
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

    /// Returns the expression over these columns, with the positions and the slots of those it uses.
    fn formula(
        &self,
        columns: &[(&str, Type)],
        value_type: Type,
    ) -> Result<(Node, Vec<(usize, usize)>)> {
        let (schema, parameters) = (Schema::default(), Parameters::default());
        let mut binder = Binder::new(&schema, &parameters, Timestamp::EPOCH);
        Ok(binder.formula(columns, &self.expr, value_type)?)
    }
}

fn evaluated(node: &Node, row: &[Value]) -> Result<Value> {
    match Evaluation::default().value(node, &Rows { row, ..Rows::default() }) {
        Ok(value) => Ok(value),
        Err(Stop::Failed(error)) => Err(error.into()),
        Err(Stop::Missing(_)) => {
            Err(Error::new(Code::Internal, "a schema's expression reads no rows"))
        }
    }
}

impl Expression for Written {
    fn text(&self) -> &str {
        &self.text
    }
}

impl DefaultExpression for Written {
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
        evaluated(&node, &[]).map(Cell::Value)
    }
}

impl RowExpression for Written {
    fn names(&self) -> &[String] {
        &self.names
    }

    fn check(&self, columns: &[(&str, Type)], value_type: Type) -> Result<()> {
        if let Some(function) = unsteady(&self.expr, columns) {
            return Err(Error::invalid_argument(format!(
                "Expression is non-deterministic due to the use of non-determinstic function \
                 `{function}`. It must yield the same value for the same values of its columns."
            )));
        }
        self.formula(columns, value_type).map(drop)
    }

    fn value(&self, columns: &[(&str, Type)], value_type: Type, row: &[Value]) -> Result<Value> {
        let (node, used) = self.formula(columns, value_type)?;
        let mut slots = vec![Value::Null; used.len()];
        for (position, slot) in used {
            slots[slot] = row.get(position).cloned().unwrap_or(Value::Null);
        }
        evaluated(&node, &slots)
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
fn unsteady(expr: &Expr, columns: &[(&str, Type)]) -> Option<&'static str> {
    let is_column = |name: &str| columns.iter().any(|(own, _)| own.eq_ignore_ascii_case(name));
    let called = match &expr.kind {
        ExprKind::Call { function, .. } => Some(function),
        // One function needs no parentheses.
        ExprKind::Column { table: None, name } if !is_column(name) => Some(name),
        _ => None,
    };
    let known = |function: &String| UNSTEADY.iter().find(|it| function.eq_ignore_ascii_case(it));
    let mut found = called.and_then(known).copied();
    expr.kind.for_each_child(&mut |child| found = found.or_else(|| unsteady(child, columns)));
    found
}

fn refused(column: &Column, error: &SqlError) -> Error {
    let name = &column.name;
    Error::new(error.code(), format!("Error parsing the default value of column {name}: {error}"))
}
