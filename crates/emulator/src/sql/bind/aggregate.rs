//! Values made of all rows of a group.

use super::Binder;
use super::constant::is_literal;
use super::operands::not_comparable;
use super::scope::Groups;
use super::typed::{Origin, Typed};
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind, Item, Order, Select};
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
    pub ignores_nulls: Option<bool>,
    pub order: &'e [Order],
    pub at: Pos,
}

impl Binder<'_> {
    /// Binds `COUNT(*)`.
    pub(super) fn count_rows(&mut self, at: Pos) -> Result<Typed> {
        let groups = self.leave_groups("COUNT(*)", at)?;
        let aggregate = Aggregate {
            fold: Fold::Count,
            distinct: false,
            ignores_nulls: false,
            operand: Node::Constant(Value::Bool(true)),
            value_type: Type::Bool,
            separator: None,
            order: Vec::new(),
        };
        Ok(self.folded(groups, aggregate, Type::Int64, at))
    }

    /// Binds a call of an aggregate function.
    pub(super) fn aggregated(&mut self, call: &AggregateCall) -> Result<Typed> {
        let groups = self.leave_groups(call.name, call.at)?;
        let bound = self.aggregate(call);
        match bound {
            Ok((aggregate, value_type)) => Ok(self.folded(groups, aggregate, value_type, call.at)),
            Err(error) => {
                self.return_to(groups);
                Err(error)
            }
        }
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
        let nested = matches!((call.fold, operand_type), (Fold::Array, Some(Type::Array(_))));
        if nested {
            let message = "The argument to ARRAY_AGG must not be an array type";
            return Err(SqlError::invalid(call.at, message));
        }
        let can_order = matches!(call.fold, Fold::Array | Fold::Joined);
        if !can_order && !call.order.is_empty() {
            let message = format!("Aggregate function {} does not support ORDER BY", call.name);
            return Err(SqlError::invalid(call.at, message));
        }
        if call.ignores_nulls.is_some() && !matches!(call.fold, Fold::Array | Fold::Any) {
            let message =
                format!("IGNORE NULLS and RESPECT NULLS are not allowed in {}", call.name);
            return Err(SqlError::invalid(call.at, message));
        }
        if call.distinct && !call.order.is_empty() {
            return Err(SqlError::unsupported(call.at, "DISTINCT beside ORDER BY in a call"));
        }
        if call.fold == Fold::Any && call.ignores_nulls == Some(false) {
            return Err(SqlError::unsupported(call.at, "ANY_VALUE with RESPECT NULLS"));
        }
        let mut order = Vec::with_capacity(call.order.len());
        for item in call.order {
            if is_literal(&item.expr.kind) {
                return Err(SqlError::invalid(item.expr.at, "Cannot ORDER BY literal values"));
            }
            let typed = self.expr(&item.expr)?.decided()?;
            order.push(self.order_by(typed, item)?);
        }
        let separator = (nodes.len() > 1).then(|| nodes.pop()).flatten();
        if let Some(node) = &separator
            && !matches!(node, Node::Constant(_))
        {
            let message =
                format!("Argument 2 to {} must be a literal or query parameter", call.name);
            return Err(SqlError::invalid(call.at, message));
        }
        let is_parameter = |expr: &Expr| matches!(expr.kind, ExprKind::Parameter(_));
        if separator == Some(Node::Constant(Value::Null)) && !is_parameter(&call.arguments[1]) {
            let message = format!("Argument 2 to {} must be non-NULL", call.name);
            return Err(SqlError::invalid(call.arguments[1].at, message));
        }
        let value_type = match (call.fold, result) {
            // The elements of the result are the values.
            (Fold::Array, Type::Array(element)) => *element,
            (Fold::Average | Fold::Count | Fold::CountIf, _) => operand_type.unwrap_or(Type::Int64),
            (_, result) => result,
        };
        let aggregate = Aggregate {
            fold: call.fold,
            distinct: call.distinct,
            ignores_nulls: call.ignores_nulls == Some(true),
            operand: nodes.pop().unwrap_or(Node::Constant(Value::Null)),
            value_type,
            separator,
            order,
        };
        Ok((aggregate, result))
    }

    /// Lets the operand of an aggregate see rows.
    fn leave_groups(&mut self, name: &str, at: Pos) -> Result<Groups> {
        let frame = self.scope.innermost();
        let distinct = frame.as_ref().is_some_and(|frame| frame.visible.is_some());
        // Inside another aggregate's operand, and where rows are chosen, there is nothing to fold.
        match frame.and_then(|frame| frame.groups.take()) {
            Some(groups) if !distinct => Ok(groups),
            other => {
                let message = format!("Aggregate function {name} not allowed here");
                if let Some(groups) = other {
                    self.return_to(groups);
                }
                Err(SqlError::invalid(at, message))
            }
        }
    }

    fn return_to(&mut self, groups: Groups) {
        if let Some(frame) = self.scope.innermost() {
            frame.groups = Some(groups);
        }
    }

    fn folded(
        &mut self,
        mut groups: Groups,
        aggregate: Aggregate,
        value_type: Type,
        at: Pos,
    ) -> Typed {
        let known = groups.aggregates.iter().position(|known| *known == aggregate);
        let place = known.unwrap_or_else(|| {
            groups.aggregates.push(aggregate);
            groups.aggregates.len() - 1
        });
        let node = Node::Column(groups.keys.len() + place);
        self.return_to(groups);
        Typed { node, value_type: Some(value_type), origin: Origin::Computed, at }
    }

    /// Returns true if a query without `GROUP BY` makes one row of all rows rather than showing
    /// them.
    pub(super) fn folds_rows(&self, select: &Select) -> bool {
        let mut items = select.items.iter().filter_map(|item| match item {
            Item::Expr { expr, .. } => Some(expr),
            Item::Star { .. } => None,
        });
        items.any(|expr| self.contains_aggregate(expr))
    }

    /// Returns true if an expression uses an aggregate. The aggregates of a subquery are its own.
    pub(super) fn contains_aggregate(&self, expr: &Expr) -> bool {
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
