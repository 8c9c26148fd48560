//! Queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Binder;
use super::scope::{Frame, Named};
use super::typed::{Origin, Typed};
use crate::engine::{Code, Type};
use crate::sql::ast::{Expr, Select};
use crate::sql::error::{Result, SqlError};
use crate::sql::plan::{Grouping, Node, Output, Query, Subquery};

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
    pub(super) fn name_outputs(
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
