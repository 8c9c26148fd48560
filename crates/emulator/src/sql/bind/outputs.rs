//! The columns of a result.

use super::Binder;
use super::scope::Relation;
use super::typed::Typed;
use crate::engine::{Code, Type};
use crate::sql::ast::{Expr, ExprKind, Item};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::Output;

/// The most columns a result can have.
const MAX_OUTPUTS: usize = 10_000;

impl Binder<'_> {
    pub(super) fn outputs(&mut self, items: &[Item]) -> Result<Vec<(String, Typed)>> {
        let mut outputs = Vec::new();
        for item in items {
            match item {
                Item::Expr { expr, .. } => {
                    let name = name_of(item).unwrap_or_default().to_owned();
                    outputs.push((name, self.expr(expr)?.decided()?));
                }
                Item::Star { table, at } => self.star(table.as_deref(), *at, &mut outputs)?,
            }
            if outputs.len() > MAX_OUTPUTS {
                let message = format!("Query has more than {MAX_OUTPUTS} columns");
                return Err(SqlError::unplaced(Code::InvalidArgument, message));
            }
        }
        Ok(outputs)
    }

    fn star(
        &mut self,
        table: Option<&str>,
        at: Pos,
        outputs: &mut Vec<(String, Typed)>,
    ) -> Result<()> {
        let Some(frame) = self.scope.innermost().filter(|frame| !frame.relations.is_empty()) else {
            return Err(SqlError::invalid(at, "SELECT * must have a FROM clause"));
        };
        let is_shown = |relation: &Relation| table.is_none_or(|table| relation.is_called(table));
        let mut columns = Vec::new();
        for (place, relation) in frame.relations.iter().enumerate() {
            if is_shown(relation) {
                let names = relation.columns.iter().map(|column| column.name.clone());
                columns.extend(names.enumerate().map(|(position, name)| (place, position, name)));
            }
        }
        if let (Some(table), []) = (table, columns.as_slice()) {
            return Err(SqlError::invalid(at, format!("Unrecognized name: {table}")));
        }
        for (place, position, name) in columns {
            outputs.push((name, self.scope.own_column(place, position, at)?));
        }
        Ok(())
    }
}

/// Returns the name of the result's column that an item makes, if it has one.
pub(super) fn name_of(item: &Item) -> Option<&str> {
    match item {
        Item::Expr { alias: Some(alias), .. } => Some(alias),
        Item::Expr { expr: Expr { kind: ExprKind::Column { name, .. }, .. }, .. } => Some(name),
        Item::Expr { .. } | Item::Star { .. } => None,
    }
}

impl From<(String, Typed)> for Output {
    fn from((name, typed): (String, Typed)) -> Output {
        // A NULL of no type is shown as an INT64.
        Output { name, value_type: typed.value_type.unwrap_or(Type::Int64), node: typed.node }
    }
}
