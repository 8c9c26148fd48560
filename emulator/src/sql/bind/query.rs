//! Queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Binder;
use super::scope::{Frame, Groups, Named};
use super::typed::{Origin, Typed};
use crate::engine::{Code, Type, Value};
use crate::sql::ast::{Expr, ExprKind, Item, Limit, Literal, Order, Select};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Grouping, Node, OrderBy, Output, Query, Subquery};

/// The most columns a result can have.
const MAX_OUTPUTS: usize = 10_000;

impl Binder<'_> {
    /// Binds a query that stands on its own.
    pub(super) fn query(&mut self, select: &Select) -> Result<(Arc<Query>, Vec<Typed>)> {
        for (name, query) in &select.with {
            if self.named.iter().any(|named| named.name.eq_ignore_ascii_case(&name.text)) {
                let message = format!("Duplicate alias {} for WITH subquery", name.text);
                return Err(SqlError::invalid(name.at, message));
            }
            let (subquery, _) = self.subquery(query)?;
            let name = name.text.clone();
            self.named.push(Named { name, query: subquery.query });
        }
        let (subquery, outputs) = self.subquery(select)?;
        Ok((subquery.query, outputs))
    }

    /// Binds a query inside the query that is being bound.
    pub(super) fn subquery(&mut self, select: &Select) -> Result<(Subquery, Vec<Typed>)> {
        self.queries += 1;
        let number = self.queries;
        self.scope.enter(Frame::default());
        let bound = self.select(select, number);
        let frame = self.scope.leave();
        let (query, outputs) = bound?;
        Ok((Subquery { query: Arc::new(query), arguments: frame.arguments }, outputs))
    }

    fn select(&mut self, select: &Select, number: usize) -> Result<(Query, Vec<Typed>)> {
        let drafts = self.from(&select.from)?;
        if select.from.is_empty() {
            check_without_from(select)?;
        }
        let filter = match &select.filter {
            Some(filter) => Some(self.condition(filter, "WHERE clause")?),
            None => None,
        };
        self.enter_groups(select)?;
        let outputs = self.outputs(&select.items)?;
        let having = match &select.having {
            Some(having) => Some(self.having(having, &outputs)?),
            None => None,
        };
        if select.distinct {
            check_distinct(&outputs)?;
        }
        let order = self.order(&select.order, &outputs, select.distinct)?;
        let (skip, limit) = self.limit(select.limit.as_ref())?;
        let frame = self.scope.frames.last_mut();
        let mut taken = frame.map(std::mem::take).unwrap_or_default();
        let steps = drafts.into_iter().zip(&taken.relations);
        let steps = steps.map(|(draft, relation)| draft.step(relation)).collect();
        let grouping = taken.groups.take().map(|groups| Grouping {
            keys: groups.keys.into_iter().map(|key| key.node).collect(),
            aggregates: groups.aggregates,
            having,
        });
        let width = taken.width;
        // The query around knows what it hands in.
        self.scope.leave();
        self.scope.enter(Frame { arguments: taken.arguments, ..Frame::default() });
        let typed = outputs.iter().map(|(_, typed)| typed.clone()).collect();
        let outputs = outputs.into_iter().map(Output::from).collect();
        let distinct = select.distinct;
        let for_update = select.for_update;
        let query = Query {
            number,
            steps,
            width,
            filter,
            grouping,
            outputs,
            distinct,
            order,
            skip,
            limit,
            for_update,
        };
        Ok((query, typed))
    }

    /// Binds `GROUP BY`. From here on the query sees groups, if it has any.
    fn enter_groups(&mut self, select: &Select) -> Result<()> {
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
        let selected = match &item.kind {
            ExprKind::Literal(Literal::Integer(place)) => {
                let message = format!("GROUP BY is out of SELECT column number range: {place}");
                let place = usize::try_from(*place).ok().and_then(|place| place.checked_sub(1));
                let found = place.and_then(|place| items.get(place));
                Some(found.ok_or_else(|| SqlError::invalid(item.at, message))?)
            }
            kind if is_literal(kind) => {
                return Err(SqlError::invalid(item.at, "Cannot GROUP BY literal values"));
            }
            // A name is that of a column of the result first.
            ExprKind::Column { table: None, name } => items.iter().find(|selected| {
                matches!(selected, Item::Expr { alias: Some(alias), .. }
                    if alias.eq_ignore_ascii_case(name))
            }),
            _ => None,
        };
        match selected {
            None => self.expr(item),
            Some(Item::Expr { expr, .. }) if self.contains_aggregate(expr) => {
                Err(SqlError::invalid(
                    item.at,
                    "The column contains an aggregation function, which is not allowed in GROUP BY",
                ))
            }
            Some(Item::Expr { expr, .. }) => self.expr(expr),
            Some(Item::Star { at, .. }) => {
                Err(SqlError::unsupported(*at, "a number in GROUP BY beside a *"))
            }
        }
    }

    fn having(&mut self, having: &Expr, outputs: &[(String, Typed)]) -> Result<Node> {
        let shared = |typed: &Typed| {
            let node = Node::Shared(Arc::new(typed.node.clone()));
            Typed { node, origin: Origin::Computed, ..typed.clone() }
        };
        self.name_outputs(outputs, |_, typed| shared(typed));
        let bound = self.condition(having, "HAVING clause");
        self.name_outputs(&[], |_, typed| typed.clone());
        bound
    }

    /// Lets these columns of the result be named, and no others.
    fn name_outputs(
        &mut self,
        outputs: &[(String, Typed)],
        named: impl Fn(usize, &Typed) -> Typed,
    ) {
        let mut aliases = BTreeMap::new();
        for (place, (name, typed)) in outputs.iter().enumerate() {
            if !name.is_empty() {
                let alias = aliases.entry(name.to_ascii_lowercase());
                alias
                    .and_modify(|known| *known = None)
                    .or_insert_with(|| Some(named(place, typed)));
            }
        }
        if let Some(frame) = self.scope.innermost() {
            frame.aliases = aliases;
        }
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

    fn order(
        &mut self,
        order: &[Order],
        outputs: &[(String, Typed)],
        distinct: bool,
    ) -> Result<Vec<OrderBy>> {
        let output = |place: usize, typed: &Typed| Typed {
            node: Node::Output(place),
            value_type: Some(typed.value_type.unwrap_or(Type::Int64)),
            origin: Origin::Computed,
            at: typed.at,
        };
        self.name_outputs(outputs, output);
        let nodes = outputs.iter().map(|(_, typed)| typed.node.clone()).collect();
        if let Some(frame) = self.scope.innermost() {
            frame.visible = distinct.then_some(nodes);
        }
        let mut bound = Vec::with_capacity(order.len());
        for item in order {
            let typed = match &item.expr.kind {
                ExprKind::Literal(Literal::Integer(place)) => {
                    let message = "ORDER BY is out of SELECT column number range";
                    let found = usize::try_from(*place).ok().and_then(|place| place.checked_sub(1));
                    let found = found.and_then(|place| Some((place, outputs.get(place)?)));
                    let (place, (_, typed)) = found.ok_or_else(|| {
                        SqlError::invalid(item.expr.at, format!("{message}: {place}"))
                    })?;
                    output(place, typed)
                }
                kind if is_literal(kind) => {
                    let message = "Cannot ORDER BY literal values";
                    return Err(SqlError::invalid(item.expr.at, message));
                }
                _ => self.expr(&item.expr)?,
            };
            bound.push(self.order_by(typed, item)?);
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
        let count = match self.expr(expr)?.coerced(Type::Int64)?.map(|typed| typed.node) {
            Some(Node::Constant(Value::Int64(count))) => u64::try_from(count).ok(),
            _ => None,
        };
        count.ok_or_else(|| {
            SqlError::invalid(expr.at, format!("{clause} expects a non-negative INT64"))
        })
    }
}

pub(super) fn is_literal(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Literal(literal) => !matches!(literal, Literal::Typed(..)),
        ExprKind::Negate(operand) => is_unsigned(&operand.kind),
        ExprKind::Plus(operand) => is_number(&operand.kind),
        _ => false,
    }
}

fn is_unsigned(kind: &ExprKind) -> bool {
    matches!(kind, ExprKind::Literal(Literal::Integer(_) | Literal::Float(_)))
}

/// Returns true if this is a number with any number of signs that leave it a literal: of minuses,
/// one.
fn is_number(kind: &ExprKind) -> bool {
    match kind {
        ExprKind::Negate(operand) => is_unsigned(&operand.kind),
        ExprKind::Plus(operand) => is_number(&operand.kind),
        kind => is_unsigned(kind),
    }
}

fn check_without_from(select: &Select) -> Result<()> {
    let clauses = [
        ("a WHERE", select.filter.as_ref()),
        ("a GROUP BY", select.group.first()),
        ("a HAVING", select.having.as_ref()),
        ("an ORDER BY", select.order.first().map(|order| &order.expr)),
    ];
    for (clause, expr) in clauses {
        if let Some(expr) = expr {
            let message = format!("Query without FROM clause cannot have {clause} clause");
            return Err(SqlError::invalid(expr.at, message));
        }
    }
    match select.distinct {
        true => Err(SqlError::unplaced(
            Code::InvalidArgument,
            "Query without FROM clause cannot use SELECT DISTINCT",
        )),
        false => Ok(()),
    }
}

fn check_distinct(outputs: &[(String, Typed)]) -> Result<()> {
    for (name, typed) in outputs {
        if let Some(value_type) = typed.value_type
            && !value_type.is_comparable()
        {
            let kind = if value_type == Type::Json { "JSON" } else { "ARRAY" };
            let message = format!("Column {name} of type {kind} cannot be used in SELECT DISTINCT");
            return Err(SqlError::invalid(typed.at, message));
        }
    }
    Ok(())
}

impl From<(String, Typed)> for Output {
    fn from((name, typed): (String, Typed)) -> Output {
        // A NULL of no type is shown as an INT64.
        Output { name, value_type: typed.value_type.unwrap_or(Type::Int64), node: typed.node }
    }
}
