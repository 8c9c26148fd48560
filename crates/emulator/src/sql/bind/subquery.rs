//! Queries inside expressions.

use std::sync::Arc;

use super::Binder;
use super::operands::{maybe_not, pair};
use super::typed::{Typed, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, Select, SubqueryKind};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Node, Use};

impl Binder<'_> {
    pub(super) fn subquery_as(
        &mut self,
        kind: SubqueryKind,
        select: &Select,
        at: Pos,
    ) -> Result<Typed> {
        let (subquery, outputs) = self.subquery(select)?;
        if kind == SubqueryKind::Exists {
            let node = Node::Subquery(Use::Exists, subquery);
            return Ok(Typed::computed(at, Type::Bool, node));
        }
        let [output] = outputs.as_slice() else {
            let message = "Scalar subquery cannot have more than one column";
            return Err(SqlError::invalid(at, message));
        };
        let value_type = output.value_type.unwrap_or(Type::Int64);
        Ok(Typed::computed(at, value_type, Node::Subquery(Use::Value, subquery)))
    }

    pub(super) fn in_query(
        &mut self,
        operand: &Expr,
        select: &Select,
        negated: bool,
        at: Pos,
    ) -> Result<Typed> {
        let mut operand = self.expr(operand)?.decided()?;
        if operand.is_literal() && operand.value_type.is_none() {
            // Here, NULL is an INT64 like any other.
            operand = Typed::computed(at, Type::Int64, operand.node);
        }
        let (mut subquery, outputs) = self.subquery(select)?;
        let [output] = outputs.as_slice() else {
            let message = "Subquery of type IN must have only one output column";
            return Err(SqlError::invalid(at, message));
        };
        let found = (operand.type_name(), output.type_name());
        // The values are what the query makes of them: no literals.
        let value_type = output.value_type.unwrap_or(Type::Int64);
        let values = Typed::computed(at, value_type, Node::Output(0));
        let unified = unified(vec![operand, values])?
            .filter(|(_, known)| known.is_some_and(Type::is_comparable));
        let Some((nodes, _)) = unified else {
            let message = format!(
                "Cannot execute IN subquery with uncomparable types {} and {}",
                found.0, found.1
            );
            return Err(SqlError::invalid(at, message));
        };
        let [operand, values] = pair(nodes);
        if let Node::Cast { target, .. } = values {
            let mut query = (*subquery.query).clone();
            let output = &mut query.outputs[0];
            let node = std::mem::replace(&mut output.node, Node::Constant(Value::Null));
            output.node = Node::Cast { operand: Box::new(node), target, safe: false };
            output.value_type = target;
            subquery.query = Arc::new(query);
        }
        let node = Node::Subquery(Use::Contains(Box::new(operand)), subquery);
        Ok(maybe_not(negated, node, at))
    }
}
