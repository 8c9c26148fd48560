//! Queries.

use std::sync::Arc;

use super::Binder;
use super::aggregate::folds_rows;
use super::scope::Frame;
use super::typed::Typed;
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind, FromItem, Item, Limit, Literal, Order, Select};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Node, OrderBy, Output, Query};

/// The most columns a result can have.
const MAX_OUTPUTS: usize = 10_000;

impl Binder<'_> {
    /// Binds a query, on its own or inside the query that is being bound.
    pub(super) fn query(&mut self, select: &Select) -> Result<Query> {
        self.queries += 1;
        let number = self.queries;
        let frame = match &select.from {
            Some(FromItem::Table(name)) => self.frame(name)?,
            Some(FromItem::Unnest { array, alias }) => self.unnested(array, alias.as_deref())?,
            None => Frame::empty(),
        };
        if let (Some(filter), None) = (&select.filter, &select.from) {
            return Err(SqlError::invalid(
                filter.at,
                "Query without FROM clause cannot have a WHERE clause",
            ));
        }
        self.scope.enter(frame);
        let (outer_aliases, outer_aggregates) =
            (std::mem::take(&mut self.aliases), self.aggregates.take());
        let filter = match &select.filter {
            Some(filter) => Some(self.condition(filter, "WHERE clause")?),
            None => None,
        };
        if folds_rows(select) {
            self.fold_rows();
        }
        let mut outputs = self.outputs(&select.items)?;
        let order = self.order(&select.order, &mut outputs)?;
        let outputs = outputs.into_iter().map(Output::from).collect();
        let (skip, limit) = self.limit(select.limit.as_ref())?;
        let aggregates = std::mem::replace(&mut self.aggregates, outer_aggregates);
        self.aliases = outer_aliases;
        let source = self.scope.leave().into_source();
        Ok(Query { number, source, filter, aggregates, outputs, order, skip, limit })
    }

    /// Binds a condition, which must be BOOL.
    pub(super) fn condition(&mut self, expr: &Expr, place: &str) -> Result<Node> {
        let typed = self.expr(expr)?;
        let found = typed.type_name();
        match typed.coerced(Type::Bool)? {
            Some(condition) => Ok(condition.node),
            None => {
                let message = format!("{place} should return type BOOL, but returns type {found}");
                Err(SqlError::invalid(expr.at, message))
            }
        }
    }

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
                return Err(SqlError::unplaced(crate::engine::Code::InvalidArgument, message));
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
        let names: Vec<String> = match (self.scope.innermost(), table) {
            (Some(frame), Some(table)) if !frame.is_called(table) => {
                return Err(SqlError::invalid(at, format!("Unrecognized name: {table}")));
            }
            (Some(frame), _) => frame.columns().iter().map(|(name, _)| name.clone()).collect(),
            (None, _) => Vec::new(),
        };
        if names.is_empty() {
            return Err(SqlError::invalid(at, "SELECT * must have a FROM clause"));
        }
        for (position, name) in names.into_iter().enumerate() {
            outputs.push((name, self.scope.own_column(position, at)?));
        }
        Ok(())
    }

    fn order(&mut self, order: &[Order], outputs: &mut [(String, Typed)]) -> Result<Vec<OrderBy>> {
        if order.is_empty() {
            return Ok(Vec::new());
        }
        for (name, output) in outputs.iter_mut() {
            // However often an output is named, there is only one of it.
            let node = std::mem::replace(&mut output.node, Node::Constant(Value::Null));
            output.node = Node::Shared(Arc::new(node));
            if !name.is_empty() {
                let alias = self.aliases.entry(name.to_ascii_lowercase());
                alias.and_modify(|alias| *alias = None).or_insert_with(|| Some(output.clone()));
            }
        }
        let mut bound = Vec::with_capacity(order.len());
        for item in order {
            let node = match &item.expr.kind {
                ExprKind::Literal(Literal::Integer(place)) => usize::try_from(*place)
                    .ok()
                    .and_then(|place| outputs.get(place.checked_sub(1)?))
                    .ok_or_else(|| {
                        let message = "ORDER BY is out of SELECT column number range";
                        SqlError::invalid(item.expr.at, format!("{message}: {place}"))
                    })
                    .and_then(|(_, typed)| {
                        check_order(typed.value_type, item.expr.at)?;
                        Ok(typed.node.clone())
                    })?,
                ExprKind::Literal(_) => {
                    let message = "Cannot ORDER BY a constant that is no column number";
                    return Err(SqlError::invalid(item.expr.at, message));
                }
                _ => {
                    let typed = self.expr(&item.expr)?;
                    check_order(typed.value_type, item.expr.at)?;
                    typed.node
                }
            };
            let descending = item.descending;
            let nulls_first = item.nulls_first.unwrap_or(!descending);
            bound.push(OrderBy { node, descending, nulls_first });
        }
        self.aliases.clear();
        Ok(bound)
    }

    fn limit(&mut self, limit: Option<&Limit>) -> Result<(u64, Option<u64>)> {
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
            let construct = format!("{clause} with anything but an integer or a parameter");
            return Err(SqlError::unsupported(expr.at, construct));
        }
        let count = match self.expr(expr)?.coerced(Type::Int64)?.map(|typed| typed.node) {
            Some(Node::Constant(Value::Int64(count))) => u64::try_from(count).ok(),
            _ => None,
        };
        count.ok_or_else(|| {
            SqlError::invalid(expr.at, format!("{clause} expects a non-negative INT64"))
        })
    }
}

impl From<(String, Typed)> for Output {
    fn from((name, typed): (String, Typed)) -> Output {
        Output { name, value_type: typed.value_type, node: typed.node }
    }
}

fn check_order(value_type: Option<Type>, at: Pos) -> Result<()> {
    match value_type {
        Some(value_type) if !value_type.is_comparable() => {
            let message = format!("ORDER BY does not support expressions of type {value_type}");
            Err(SqlError::invalid(at, message))
        }
        _ => Ok(()),
    }
}
