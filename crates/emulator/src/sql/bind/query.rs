//! Queries.

use std::sync::Arc;

use super::Binder;
use super::scope::Frame;
use super::typed::Typed;
use crate::engine::{Code, Type};
use crate::sql::ast::{Expr, Select};
use crate::sql::error::{Result, SqlError};
use crate::sql::plan::{Node, Output, Query, Subquery};

impl Binder<'_> {
    /// Binds a query that stands on its own.
    pub(super) fn query(&mut self, select: &Select) -> Result<(Arc<Query>, Vec<Typed>)> {
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
        let mut steps = self.from(&select.from)?;
        if select.from.is_empty() {
            self.check_without_from(select)?;
        }
        let filter = match &select.filter {
            Some(filter) => Some(self.condition(filter, "WHERE clause")?),
            None => None,
        };
        if self.folds_rows(select)
            && let Some(frame) = self.scope.innermost()
        {
            frame.aggregates = Some(Vec::new());
        }
        let outputs = self.outputs(&select.items)?;
        let order = self.order(&select.order, &outputs)?;
        let (skip, limit) = self.limit(select.limit.as_ref())?;
        let frame = self.scope.frames.last_mut();
        let taken = frame.map(std::mem::take).unwrap_or_default();
        for (step, relation) in steps.iter_mut().zip(&taken.relations) {
            *step.source.used_mut() = relation.used();
        }
        let (width, aggregates) = (taken.width, taken.aggregates);
        // The query around knows what it hands in.
        self.scope.leave();
        self.scope.enter(Frame { arguments: taken.arguments, ..Frame::default() });
        let typed = outputs.iter().map(|(_, typed)| typed.clone()).collect();
        let outputs = outputs.into_iter().map(Output::from).collect();
        let for_update = select.for_update;
        let query = Query {
            number,
            steps,
            width,
            filter,
            aggregates,
            outputs,
            order,
            skip,
            limit,
            for_update,
        };
        Ok((query, typed))
    }

    /// Lets these columns of the result be named, and no others.
    pub(super) fn name_outputs(
        &mut self,
        outputs: &[(String, Typed)],
        named: impl Fn(usize, &Typed) -> Typed,
    ) {
        let mut aliases: Vec<(String, Option<Typed>)> = Vec::new();
        for (place, (name, typed)) in outputs.iter().enumerate() {
            match aliases.iter_mut().find(|(known, _)| known.eq_ignore_ascii_case(name)) {
                Some((_, alias)) => *alias = None,
                None if name.is_empty() => {}
                None => aliases.push((name.clone(), Some(named(place, typed)))),
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

    fn check_without_from(&self, select: &Select) -> Result<()> {
        let order = select.order.first().map(|order| &order.expr);
        for (clause, expr) in [("a WHERE", select.filter.as_ref()), ("an ORDER BY", order)] {
            if let Some(expr) = expr {
                let message = format!("Query without FROM clause cannot have {clause} clause");
                return Err(SqlError::invalid(expr.at, message));
            }
        }
        match self.folds_rows(select) {
            true => Err(SqlError::unplaced(
                Code::InvalidArgument,
                "Aggregate functions are not allowed in SELECT without FROM clause",
            )),
            false => Ok(()),
        }
    }
}
