//! Values made of all rows of a query.

use super::Binder;
use super::expr::{no_signature, not_comparable};
use super::typed::Typed;
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind, Item, Select};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Aggregate, Fold, Node};

const AGGREGATES: &[(&str, Fold)] =
    &[("COUNT", Fold::Count), ("SUM", Fold::Sum), ("MIN", Fold::Min), ("MAX", Fold::Max)];

/// The aggregate function of this name, in any case.
pub(super) fn aggregate(name: &str) -> Option<Fold> {
    AGGREGATES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, fold)| *fold)
}

impl Binder<'_> {
    /// Binds `COUNT(*)`.
    pub(super) fn count_rows(&mut self, at: Pos) -> Result<Typed> {
        let operand = Typed::constant(at, Value::Bool(true), super::typed::Origin::Computed);
        self.folded(Fold::Count, "COUNT", false, at, |_| Ok(operand))
    }

    /// Binds a call of an aggregate function.
    pub(super) fn aggregated(
        &mut self,
        fold: Fold,
        name: &str,
        operand: &Expr,
        distinct: bool,
        at: Pos,
    ) -> Result<Typed> {
        self.folded(fold, name, distinct, at, |binder| binder.expr(operand))
    }

    /// Binds a call with `DISTINCT`, which only aggregate functions have.
    pub(super) fn distinct_call(
        &mut self,
        function: &str,
        arguments: &[Expr],
        at: Pos,
    ) -> Result<Typed> {
        let name = function.to_ascii_uppercase();
        match (aggregate(&name), arguments) {
            (Some(fold), [operand]) => self.aggregated(fold, &name, operand, true, at),
            _ => Err(SqlError::unsupported(at, format_args!("DISTINCT in a call of {function}"))),
        }
    }

    fn folded(
        &mut self,
        fold: Fold,
        name: &str,
        distinct: bool,
        at: Pos,
        operand: impl FnOnce(&mut Self) -> Result<Typed>,
    ) -> Result<Typed> {
        // Inside another aggregate's operand, and where rows are chosen, there is nothing to fold.
        let Some(mut aggregates) = self.aggregates.take() else {
            return Err(SqlError::invalid(
                at,
                format!("Aggregate function {name} not allowed here"),
            ));
        };
        self.set_folded(false);
        let bound = operand(self);
        self.set_folded(true);
        let bound = bound?;
        let found = bound.value_type;
        if let Some(value_type) = found
            && !value_type.is_comparable()
            && (distinct || matches!(fold, Fold::Min | Fold::Max))
        {
            return Err(not_comparable(name, value_type, at));
        }
        let value_type = match (fold, found.unwrap_or(Type::Int64)) {
            (Fold::Count, _) => Type::Int64,
            (Fold::Sum, number @ (Type::Int64 | Type::Float64 | Type::Numeric)) => number,
            (Fold::Sum, _) => return Err(no_signature(name, bound.type_name(), at)),
            (Fold::Min | Fold::Max, value_type) => value_type,
        };
        aggregates.push(Aggregate { fold, distinct, operand: bound.node });
        let index = aggregates.len() - 1;
        self.aggregates = Some(aggregates);
        Ok(Typed::computed(at, value_type, Node::Column { outward: 0, index }))
    }

    /// From here on, the query being bound has one row, made of aggregates.
    pub(super) fn fold_rows(&mut self) {
        self.aggregates = Some(Vec::new());
        self.set_folded(true);
    }

    fn set_folded(&mut self, folded: bool) {
        if let Some(frame) = self.scope.innermost() {
            frame.folded = folded;
        }
    }
}

/// Whether a query makes one row of all rows rather than showing them.
pub(super) fn folds_rows(select: &Select) -> bool {
    let items = select.items.iter().filter_map(|item| match item {
        Item::Expr { expr, .. } => Some(expr),
        Item::Star { .. } => None,
    });
    items.chain(select.order.iter().map(|order| &order.expr)).any(contains_aggregate)
}

fn contains_aggregate(expr: &Expr) -> bool {
    match &expr.kind {
        ExprKind::CountRows => true,
        ExprKind::Call { function, .. } if aggregate(function).is_some() => true,
        // What a subquery folds is its own.
        ExprKind::Exists(_) => false,
        kind => {
            let mut found = false;
            kind.for_each_child(&mut |child| found = found || contains_aggregate(child));
            found
        }
    }
}
