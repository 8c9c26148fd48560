//! From names to what they stand for: a tree becomes a plan.

mod aggregate;
mod array;
mod call;
mod cast;
mod dml;
mod expr;
mod from;
mod query;
mod scope;
mod typed;

use super::ast::{Statement, TableName};
use super::error::{Result, SqlError};
use super::params::Parameters;
use super::plan::{Plan, Write};
use crate::engine::{Dialect, Schema, Table, Timestamp};
use from::Named;
use scope::Scope;

/// Binds the parts of one statement.
pub struct Binder<'a> {
    schema: &'a Schema,
    parameters: &'a Parameters,
    now: Timestamp,
    scope: Scope,
    /// The queries of `WITH` so far.
    named: Vec<Named>,
    queries: usize,
}

impl<'a> Binder<'a> {
    /// A binder for a statement with these parameters. `now` is its `CURRENT_TIMESTAMP()`.
    pub fn new(schema: &'a Schema, parameters: &'a Parameters, now: Timestamp) -> Binder<'a> {
        let (scope, named) = (Scope::default(), Vec::new());
        Binder { schema, parameters, now, scope, named, queries: 0 }
    }

    /// Binds a statement.
    pub fn statement(&mut self, statement: &Statement) -> Result<Plan> {
        match statement {
            Statement::Query(select) => self.query(select).map(|(query, _)| Plan::Query(query)),
            Statement::Insert(insert) => self.insert(insert).map(written),
            Statement::Update(update) => self.update(update).map(written),
            Statement::Delete(delete) => self.delete(delete).map(written),
        }
    }

    /// The table of this name that rows can be written to.
    fn table(&self, name: &TableName) -> Result<&'a Table> {
        if self.schema.dialect() == Dialect::PostgreSql {
            let construct = "a statement over a table in the dialect POSTGRESQL";
            return Err(SqlError::unsupported(name.at, construct));
        }
        self.schema.table(&name.name).ok_or_else(|| not_found(name))
    }
}

fn written(write: Write) -> Plan {
    Plan::Write(Box::new(write))
}

fn not_found(name: &TableName) -> SqlError {
    SqlError::invalid(name.at, format!("Table not found: {}", name.name))
}
