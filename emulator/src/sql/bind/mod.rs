//! From names to what they stand for: a tree becomes a plan.

mod aggregate;
mod array;
mod call;
mod cast;
mod dml;
mod expr;
mod query;
mod scope;
mod text;
mod typed;

use std::collections::BTreeMap;

use super::ast::{Statement, TableName};
use super::error::{Result, SqlError};
use super::information_schema;
use super::params::Parameters;
use super::plan::{Aggregate, Plan, Relation};
use crate::engine::{Dialect, Schema, Table, Timestamp};
use scope::{Frame, Scope, columns_of};
use typed::Typed;

/// Binds the parts of one statement.
pub struct Binder<'a> {
    schema: &'a Schema,
    parameters: &'a Parameters,
    now: Timestamp,
    scope: Scope,
    /// The result columns that `ORDER BY` can name, while it is bound, by name in lower case;
    /// `None` where several have one name.
    aliases: BTreeMap<String, Option<Typed>>,
    /// The aggregates so far, while the parts of a query are bound that see them.
    aggregates: Option<Vec<Aggregate>>,
    queries: usize,
}

impl<'a> Binder<'a> {
    /// A binder for a statement with these parameters. `now` is its `CURRENT_TIMESTAMP()`.
    pub fn new(schema: &'a Schema, parameters: &'a Parameters, now: Timestamp) -> Binder<'a> {
        Binder {
            schema,
            parameters,
            now,
            scope: Scope::default(),
            aliases: BTreeMap::new(),
            aggregates: None,
            queries: 0,
        }
    }

    /// Binds a statement.
    pub fn statement(&mut self, statement: &Statement) -> Result<Plan> {
        match statement {
            Statement::Query(select) => self.query(select).map(Plan::Query),
            Statement::Insert(insert) => self.insert(insert).map(Plan::Write),
            Statement::Update(update) => self.update(update).map(Plan::Write),
            Statement::Delete(delete) => self.delete(delete).map(Plan::Write),
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

    /// What a query over this table has to offer.
    fn frame(&self, name: &TableName) -> Result<Frame> {
        let called = name.alias.as_ref().unwrap_or(&name.name);
        match &name.schema {
            None => {
                let table = self.table(name)?;
                let relation = Relation::Table(table.clone());
                Ok(Frame::new(called, columns_of(table), relation))
            }
            Some(schema) if schema.eq_ignore_ascii_case(information_schema::NAME) => {
                let view = information_schema::view(&name.name, self.schema)
                    .ok_or_else(|| information_schema::missing(name))?;
                Ok(Frame::new(called, view.columns, Relation::Fixed(view.rows)))
            }
            Some(schema) => {
                Err(SqlError::unsupported(name.at, format_args!("the schema {schema}")))
            }
        }
    }
}

fn not_found(name: &TableName) -> SqlError {
    SqlError::invalid(name.at, format!("Table not found: {}", name.name))
}
