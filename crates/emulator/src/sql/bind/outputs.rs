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
                    outputs.push((name, self.of_group(expr)?.decided()?));
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
        let columns = match table {
            None => frame.shown.clone(),
            Some(table) => {
                let named = |relation: &Relation| relation.name.eq_ignore_ascii_case(table);
                let Some(place) = frame.relations.iter().position(named) else {
                    return Err(SqlError::invalid(at, format!("Unrecognized name: {table}")));
                };
                let Relation { columns, is_value, .. } = &frame.relations[place];
                if *is_value {
                    let kind = columns[0].value_type;
                    let message = format!("Dot-star is not supported for type {kind}");
                    return Err(SqlError::invalid(at, message));
                }
                (0..columns.len()).map(|position| (place, position)).collect()
            }
        };
        for (place, position) in columns {
            let frame = self.scope.innermost();
            let name = frame.map(|frame| frame.relations[place].columns[position].name.clone());
            let column = self.scope.own_column(place, position, at)?;
            outputs.push((name.unwrap_or_default(), column));
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
