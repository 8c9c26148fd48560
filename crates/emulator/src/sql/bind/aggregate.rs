//! Values made of all rows.

use super::Binder;
use super::operands::not_comparable;
use super::typed::Typed;
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind, Item, Select};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::functions::fold::Fold;
use crate::sql::functions::{self, Code};
use crate::sql::plan::{Aggregate, Node};

/// A call of an aggregate function.
pub(super) struct AggregateCall<'e> {
    pub name: &'static str,
    pub fold: Fold,
    pub arguments: &'e [Expr],
    pub distinct: bool,
    pub at: Pos,
}

impl Binder<'_> {
    /// Binds `COUNT(*)`.
    pub(super) fn count_rows(&mut self, at: Pos) -> Result<Typed> {
        let others = self.leave_aggregates("COUNT(*)", at)?;
        let aggregate = Aggregate {
            fold: Fold::Count,
            distinct: false,
            operand: Node::Constant(Value::Bool(true)),
        };
        Ok(self.folded(others, aggregate, Type::Int64, at))
    }

    /// Binds a call of an aggregate function.
    pub(super) fn aggregated(&mut self, call: &AggregateCall) -> Result<Typed> {
        let others = self.leave_aggregates(call.name, call.at)?;
        let (aggregate, value_type) = self.aggregate(call)?;
        Ok(self.folded(others, aggregate, value_type, call.at))
    }

    fn aggregate(&mut self, call: &AggregateCall) -> Result<(Aggregate, Type)> {
        let arguments = self.exprs(call.arguments)?;
        let operand_type = arguments.first().and_then(|operand| operand.value_type);
        if let Some(value_type) = operand_type
            && !value_type.is_comparable()
            && (call.distinct || matches!(call.fold, Fold::Min | Fold::Max))
        {
            return Err(not_comparable(call.name, value_type, call.at));
        }
        let known = functions::known(call.name).ok_or_else(|| self.unknown(call.name, call.at))?;
        let (mut nodes, result) = self.matched(known, arguments, call.at)?;
        let aggregate = Aggregate {
            fold: call.fold,
            distinct: call.distinct,
            operand: nodes.pop().unwrap_or(Node::Constant(Value::Null)),
        };
        Ok((aggregate, result))
    }

    /// Lets the operand of an aggregate see rows.
    fn leave_aggregates(&mut self, name: &str, at: Pos) -> Result<Vec<Aggregate>> {
        // Inside another aggregate's operand, and where rows are chosen, there is nothing to fold.
        self.scope.innermost().and_then(|frame| frame.aggregates.take()).ok_or_else(|| {
            SqlError::invalid(at, format!("Aggregate function {name} not allowed here"))
        })
    }

    fn folded(
        &mut self,
        mut all: Vec<Aggregate>,
        aggregate: Aggregate,
        value_type: Type,
        at: Pos,
    ) -> Typed {
        let known = all.iter().position(|known| *known == aggregate);
        let place = known.unwrap_or_else(|| {
            all.push(aggregate);
            all.len() - 1
        });
        if let Some(frame) = self.scope.innermost() {
            frame.aggregates = Some(all);
        }
        Typed::computed(at, value_type, Node::Column(place))
    }

    /// Returns true if a query makes one row of all rows rather than showing them.
    pub(super) fn folds_rows(&self, select: &Select) -> bool {
        let mut items = select.items.iter().filter_map(|item| match item {
            Item::Expr { expr, .. } => Some(expr),
            Item::Star { .. } => None,
        });
        items.any(|expr| self.contains_aggregate(expr))
    }

    /// Returns true if an expression uses an aggregate. The aggregates of a subquery are its own.
    fn contains_aggregate(&self, expr: &Expr) -> bool {
        match &expr.kind {
            ExprKind::CountRows => true,
            ExprKind::Call { function, .. } if is_aggregate(function) => true,
            kind => {
                let mut found = false;
                kind.for_each_child(&mut |child| found = found || self.contains_aggregate(child));
                found
            }
        }
    }
}

fn is_aggregate(function: &str) -> bool {
    functions::known(&function.to_ascii_uppercase())
        .is_some_and(|known| matches!(known.function.code, Code::Aggregate(_)))
}
