//! `GROUP BY`.

use super::Binder;
use super::constant::{is_literal, ordinal};
use super::outputs::name_of;
use super::scope::Groups;
use super::typed::Typed;
use crate::engine::{Code, Type};
use crate::sql::ast::{Expr, ExprKind, Item, Select};
use crate::sql::error::{Result, SqlError};

impl Binder<'_> {
    /// Binds `GROUP BY`. From here on the query sees groups, if it has any.
    pub(super) fn enter_groups(&mut self, select: &Select) -> Result<()> {
        let folds = self.folds_rows(select);
        if select.group.is_empty() && !folds {
            return match &select.having {
                Some(having) => Err(SqlError::invalid(
                    having.at,
                    "The HAVING clause requires GROUP BY or aggregation to be present",
                )),
                None => Ok(()),
            };
        }
        if select.from.is_empty() {
            let message = "Aggregate functions are not allowed in SELECT without FROM clause";
            return Err(SqlError::unplaced(Code::InvalidArgument, message));
        }
        let mut keys = Vec::with_capacity(select.group.len());
        for item in &select.group {
            let key = self.group_key(item, &select.items)?;
            if let Some(value_type) = key.value_type
                && !value_type.is_comparable()
            {
                let kind = if value_type == Type::Json { "JSON" } else { "ARRAY" };
                let message = format!("Grouping by expressions of type {kind} is not allowed");
                return Err(SqlError::invalid(item.at, message));
            }
            keys.push(key);
        }
        if let Some(frame) = self.scope.innermost() {
            frame.groups = Some(Groups { keys, aggregates: Vec::new() });
        }
        Ok(())
    }

    fn group_key(&mut self, item: &Expr, items: &[Item]) -> Result<Typed> {
        let selected = match (ordinal(&item.kind), &item.kind) {
            (Some(place), _) => {
                let message = format!("GROUP BY is out of SELECT column number range: {place}");
                let place = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
                let found = place.and_then(|place| items.get(place));
                Some(found.ok_or_else(|| SqlError::invalid(item.at, message))?)
            }
            (None, kind) if is_literal(kind) => {
                return Err(SqlError::invalid(item.at, "Cannot GROUP BY literal values"));
            }
            // A name is that of a column of the result first.
            (None, ExprKind::Column { table: None, name }) => items.iter().find(|selected| {
                matches!(selected, Item::Expr { alias: Some(alias), .. }
                    if alias.eq_ignore_ascii_case(name))
            }),
            (None, ExprKind::Column { table: Some(table), .. })
                if items
                    .iter()
                    .filter_map(name_of)
                    .any(|name| name.eq_ignore_ascii_case(table)) =>
            {
                let message =
                    format!("Cannot GROUP BY field references from SELECT list alias {table}");
                return Err(SqlError::invalid(item.at, message));
            }
            _ => None,
        };
        match selected {
            None => self.placed(item),
            Some(Item::Expr { expr, .. }) if self.contains_aggregate(expr) => {
                Err(SqlError::invalid(
                    item.at,
                    "The column contains an aggregation function, which is not allowed in GROUP BY",
                ))
            }
            Some(Item::Expr { expr, .. }) => self.placed(expr),
            Some(Item::Star { at, .. }) => {
                Err(SqlError::unsupported(*at, "a number in GROUP BY beside a *"))
            }
        }
    }

    /// Binds an expression that is known by its place in the text.
    fn placed(&mut self, expr: &Expr) -> Result<Typed> {
        Ok(Typed { at: expr.at, ..self.expr(expr)?.decided()? })
    }
}
