//! From names to what they stand for: a tree becomes a plan.

mod aggregate;
mod array;
mod binder;
mod call;
mod cast;
mod constant;
mod dml;
mod expr;
mod from;
mod operands;
mod order;
mod outputs;
mod query;
mod scope;
mod subquery;
mod typed;

use super::ast::Statement;
use super::error::Result;
use super::plan::{Plan, Write};

pub use binder::Binder;
pub use dml::first_subquery;

impl Binder<'_> {
    /// Binds a statement.
    pub fn statement(&mut self, statement: &Statement) -> Result<Plan> {
        match statement {
            Statement::Query(select) => self.query(select).map(|(query, _)| Plan::Query(query)),
            Statement::Insert(insert) => self.insert(insert).map(written),
            Statement::Update(update) => self.update(update).map(written),
            Statement::Delete(delete) => self.delete(delete).map(written),
        }
    }
}

fn written(write: Write) -> Plan {
    Plan::Write(Box::new(write))
}
