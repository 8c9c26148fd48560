//! Binds the parts of one statement: the schema, the parameters and the scopes that they see.

use std::sync::Arc;

use super::scope::{Named, Scope};
use crate::engine::{Dialect, Schema, Table, Timestamp};
use crate::sql::ast::TableName;
use crate::sql::error::{Result, SqlError};
use crate::sql::params::Parameters;

/// Binds the parts of one statement.
pub struct Binder<'a> {
    pub(super) schema: &'a Schema,
    pub(super) parameters: &'a Parameters,
    pub(super) now: Timestamp,
    pub(super) scope: Scope,
    /// The queries of `WITH` so far.
    pub(super) named: Vec<Named>,
    pub(super) queries: usize,
}

impl<'a> Binder<'a> {
    /// Returns a binder for a statement with these parameters. `now` is its `CURRENT_TIMESTAMP()`.
    pub fn new(schema: &'a Schema, parameters: &'a Parameters, now: Timestamp) -> Binder<'a> {
        let (scope, named) = (Scope::default(), Vec::new());
        Binder { schema, parameters, now, scope, named, queries: 0 }
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
