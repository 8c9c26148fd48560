//! Arrays.

use super::Binder;
use super::operands::{maybe_not, no_signature};
use super::typed::{Origin, Typed, coerced_all, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::Expr;
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::Node;

impl Binder<'_> {
    /// Binds `[…]`, whose elements may have to be of a type.
    pub(super) fn array(
        &mut self,
        element: Option<Type>,
        items: &[Expr],
        at: Pos,
    ) -> Result<Typed> {
        let items = self.exprs(items)?;
        let found = type_names(&items);
        let is_literal = element.is_none() && items.iter().all(Typed::is_literal);
        let unified = match element {
            Some(element) => coerced_all(items, element)?.map(|nodes| (nodes, Some(element))),
            None => unified(items)?,
        };
        let Some((nodes, element)) = unified else {
            let message = format!("Array elements of types {found} do not have a common supertype");
            return Err(SqlError::invalid(at, message));
        };
        // An array of nothing but NULLs is one of INT64, unless its place says otherwise.
        let array = element.unwrap_or(Type::Int64).array();
        let Some(Type::Array(element)) = array else {
            return Err(SqlError::invalid(at, "Cannot construct array with element type ARRAY"));
        };
        if nodes.iter().all(|node| matches!(node, Node::Constant(_))) {
            let constant = |node| match node {
                Node::Constant(value) => value,
                _ => Value::Null,
            };
            let values = nodes.into_iter().map(constant).collect();
            let origin = if is_literal { Origin::Literal } else { Origin::Computed };
            return Ok(Typed::constant(at, Value::Array { element, values }, origin));
        }
        Ok(Typed::computed(at, Type::Array(element), Node::Array(element, nodes)))
    }

    /// Binds `operand IN UNNEST(array)`.
    pub(super) fn in_array(
        &mut self,
        operand: &Expr,
        array: &Expr,
        negated: bool,
        at: Pos,
    ) -> Result<Typed> {
        let operand = self.expr(operand)?;
        let mut array = self.expr(array)?;
        // A parameter without a type has elements of the operand's type, and so has an array without
        // elements, if it can.
        let wanted = operand.value_type.and_then(Type::array);
        match (&array.origin, wanted.or(Type::Int64.array())) {
            (Origin::Untyped(_), Some(wanted)) => {
                let found = format!("{}, {}", operand.type_name(), array.type_name());
                let coerced = array.coerced(wanted)?;
                array = coerced.ok_or_else(|| no_signature("IN UNNEST", &found, at))?;
            }
            (Origin::Literal, Some(wanted)) if array.value_type.is_some() => {
                array = array.clone().coerced(wanted)?.unwrap_or(array);
            }
            _ => {}
        }
        let found = format!("{}, {}", operand.type_name(), array.type_name());
        let Some(Type::Array(element)) = array.value_type else { return Err(no_array(&array)) };
        // GoogleSQL would have a literal's elements be NUMERIC, which FLOAT64 can't become.
        if let (Some(Type::Numeric), Type::Float64, Origin::Literal) =
            (operand.value_type, *element, &array.origin)
        {
            return Err(no_signature("IN UNNEST", &found, at));
        }
        let array = array.coerced(Type::Array(element))?;
        if !element.is_comparable() {
            return Err(super::operands::not_comparable("IN", *element, at));
        }
        let pair = operand.coerced(*element)?.zip(array);
        let (operand, array) = pair.ok_or_else(|| no_signature("IN UNNEST", &found, at))?;
        let node = match array.node {
            Node::Constant(Value::Array { values, .. }) => Node::among(operand.node, values),
            node => Node::InArray(Box::new([operand.node, node])),
        };
        Ok(maybe_not(negated, node, at))
    }
}

pub(super) fn no_array(found: &Typed) -> SqlError {
    let message = format!(
        "Values referenced in UNNEST must be arrays. UNNEST contains expression of type {}",
        found.type_name()
    );
    SqlError::invalid(found.at, message)
}
