//! The columns of a result.

use super::Binder;
use super::typed::Typed;
use crate::engine::{Code, Type};
use crate::sql::ast::{ExprKind, Item};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::Output;

/// The most columns a result can have.
const MAX_OUTPUTS: usize = 10_000;

impl Binder<'_> {
    pub(super) fn outputs(&mut self, items: &[Item]) -> Result<Vec<(String, Typed)>> {
        let mut outputs = Vec::new();
        for item in items {
            match item {
                Item::Expr { expr, alias } => {
                    let name = match (alias, &expr.kind) {
                        (Some(alias), _) => alias.clone(),
                        (None, ExprKind::Column { name, .. }) => name.clone(),
                        (None, _) => String::new(),
                    };
                    outputs.push((name, self.expr(expr)?));
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
        let mut columns = Vec::new();
        let mut known = false;
        for (place, relation) in frame.relations.iter().enumerate() {
            if table.is_some_and(|table| !relation.name.eq_ignore_ascii_case(table)) {
                continue;
            }
            known = true;
            if table.is_some() && relation.is_value {
                let message = format!(
                    "Dot-star is not supported for type {}",
                    relation.columns[0].value_type
                );
                return Err(SqlError::invalid(at, message));
            }
            for (position, column) in relation.columns.iter().enumerate() {
                if table.is_some() || !column.merged {
                    columns.push((column.name.clone(), place, position));
                }
            }
        }
        if !known {
            let message = format!("Unrecognized name: {}", table.unwrap_or_default());
            return Err(SqlError::invalid(at, message));
        }
        // A column that stands for two comes first.
        let is_joined = |place: usize, position: usize| {
            let name = &frame.relations[place].columns[position].name;
            table.is_none()
                && frame.relations[place + 1..]
                    .iter()
                    .flat_map(|later| &later.columns)
                    .any(|column| column.merged && column.name.eq_ignore_ascii_case(name))
        };
        columns.sort_by_key(|(_, place, position)| !is_joined(*place, *position));
        for (name, place, position) in columns {
            outputs.push((name, self.scope.own_column(place, position, at)?));
        }
        Ok(())
    }
}

impl From<(String, Typed)> for Output {
    fn from((name, typed): (String, Typed)) -> Output {
        // A NULL of no type is shown as an INT64.
        Output { name, value_type: typed.value_type.unwrap_or(Type::Int64), node: typed.node }
    }
}
