//! Binds the parts of one statement: the schema, the parameters and the scopes that they see.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use super::scope::Scope;
use crate::engine::{Dialect, Schema, Table, Timestamp, Type};
use crate::sql::ast::TableName;
use crate::sql::error::{Result, SqlError};
use crate::sql::params::{Parameters, Reading};

/// Binds the parts of one statement.
pub struct Binder<'a> {
    pub(super) schema: &'a Schema,
    pub(super) parameters: &'a Parameters,
    /// `None` if this and the values of parameters are given only when the statement runs.
    pub(super) now: Option<Timestamp>,
    /// Those values, behind the time.
    pub(super) readings: Rc<RefCell<Vec<Reading>>>,
    /// The types that parameters without one were taken for, by place.
    pub(super) inferred: Rc<RefCell<Vec<(usize, Type)>>>,
    pub(super) scope: Scope,
    pub(super) queries: usize,
}

impl<'a> Binder<'a> {
    /// Returns a binder for a statement with these parameters. `now` is its `CURRENT_TIMESTAMP()`.
    pub fn new(schema: &'a Schema, parameters: &'a Parameters, now: Timestamp) -> Binder<'a> {
        Binder { now: Some(now), ..Binder::for_any_values(schema, parameters) }
    }

    /// Returns a binder that looks at no parameter's value, and at no clock. Where it would have to,
    /// binding fails.
    pub fn for_any_values(schema: &'a Schema, parameters: &'a Parameters) -> Binder<'a> {
        let (readings, inferred, scope) = Default::default();
        Binder { schema, parameters, now: None, readings, inferred, scope, queries: 0 }
    }

    /// Returns the values that the plan for any values is given, behind the time.
    pub fn into_readings(self) -> Vec<Reading> {
        self.readings.take()
    }

    /// Returns the table of this name that rows can be written to.
    pub(super) fn table(&self, name: &TableName) -> Result<&'a Arc<Table>> {
        if self.schema.dialect() == Dialect::PostgreSql {
            let construct = "a statement over a table in the dialect POSTGRESQL";
            return Err(SqlError::unsupported(name.at, construct));
        }
        self.schema.table(&name.name).ok_or_else(|| match self.schema.kept_as(&name.name) {
            Some(kept) => {
                SqlError::unsupported(name.at, format_args!("the {} {}", kept.kind, name.name))
            }
            None => not_found(name),
        })
    }
}

fn not_found(name: &TableName) -> SqlError {
    SqlError::invalid(name.at, format!("Table not found: {}", name.name))
}
