//! `ORDER BY` and `LIMIT`.

use super::Binder;
use super::constant::{is_literal, ordinal};
use super::typed::{Origin, Typed};
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind, Limit, Literal, Order};
use crate::sql::error::{Result, SqlError};
use crate::sql::plan::{Node, OrderBy};

impl Binder<'_> {
    pub(super) fn order(
        &mut self,
        order: &[Order],
        outputs: &[(String, Typed)],
    ) -> Result<Vec<OrderBy>> {
        let output = |place: usize, typed: &Typed| Typed {
            node: Node::Output(place),
            value_type: Some(typed.value_type.unwrap_or(Type::Int64)),
            origin: Origin::Computed,
            at: typed.at,
        };
        self.name_outputs(outputs, output);
        let mut bound = Vec::with_capacity(order.len());
        for item in order {
            let typed = match (ordinal(&item.expr.kind), &item.expr.kind) {
                (Some(place), _) => {
                    let message = "ORDER BY is out of SELECT column number range";
                    let found = usize::try_from(place).ok().and_then(|place| place.checked_sub(1));
                    let found = found.and_then(|place| Some((place, outputs.get(place)?)));
                    let (place, (_, typed)) = found.ok_or_else(|| {
                        SqlError::invalid(item.expr.at, format!("{message}: {place}"))
                    })?;
                    output(place, typed)
                }
                (None, kind) if is_literal(kind) => {
                    let message = "Cannot ORDER BY literal values";
                    return Err(SqlError::invalid(item.expr.at, message));
                }
                _ => self.expr(&item.expr)?,
            };
            bound.push(self.order_by(typed.decided()?, item)?);
        }
        self.name_outputs(&[], output);
        Ok(bound)
    }

    /// Returns what to order by, once it is bound.
    pub(super) fn order_by(&self, typed: Typed, item: &Order) -> Result<OrderBy> {
        match typed.value_type {
            Some(value_type) if !value_type.is_comparable() => {
                let message = format!("ORDER BY does not support expressions of type {value_type}");
                Err(SqlError::invalid(item.expr.at, message))
            }
            _ => Ok(OrderBy { node: typed.node, descending: item.descending }),
        }
    }

    pub(super) fn limit(&mut self, limit: Option<&Limit>) -> Result<(u64, Option<u64>)> {
        let Some(limit) = limit else { return Ok((0, None)) };
        let skip = match &limit.skip {
            Some(skip) => self.row_count(skip, "OFFSET")?,
            None => 0,
        };
        Ok((skip, Some(self.row_count(&limit.count, "LIMIT")?)))
    }

    fn row_count(&mut self, expr: &Expr, clause: &str) -> Result<u64> {
        let is_constant =
            matches!(expr.kind, ExprKind::Literal(Literal::Integer(_)) | ExprKind::Parameter(_));
        if !is_constant {
            return Err(match expr.kind {
                ExprKind::Cast { .. } => SqlError::unsupported(
                    expr.at,
                    format_args!("{clause} with anything but an integer or a parameter"),
                ),
                _ => SqlError::invalid(
                    expr.at,
                    format!("{clause} expects a non-negative integer literal or parameter"),
                ),
            });
        }
        let Some(typed) = self.expr(expr)?.coerced(Type::Int64)? else {
            let message = format!("{clause} expects a non-negative INT64");
            return Err(SqlError::invalid(expr.at, message));
        };
        let count = match typed.node {
            Node::Constant(Value::Int64(count)) => u64::try_from(count).ok(),
            _ => None,
        };
        count.ok_or_else(|| SqlError::out_of_range(format!("{clause} expects a count from 0 on")))
    }
}
