//! Arrays.

use super::Binder;
use super::expr::{maybe_not, no_signature, same_type};
use super::scope::Frame;
use super::typed::{Origin, Typed, coerced_all, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::Expr;
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Node, Relation};

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
        let is_literal =
            element.is_none() && items.iter().all(|item| matches!(item.origin, Origin::Literal));
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
        // An array that could be of another type becomes one of the operand's, if it can.
        if let Some(wanted) = operand.value_type.and_then(Type::array)
            && let Ok(Some(coerced)) = array.clone().coerced(wanted)
        {
            array = coerced;
        }
        let Some(Type::Array(element)) = array.value_type else { return Err(no_array(&array)) };
        match array.node {
            // One by one, so that a key can be looked up by them.
            Node::Constant(Value::Array { values, .. }) => {
                let constant = |value| Typed {
                    value_type: Some(*element),
                    ..Typed::constant(at, value, array.origin.of_computation())
                };
                let all = std::iter::once(operand).chain(values.into_iter().map(constant));
                let mut nodes = same_type(all.collect(), "IN", at)?;
                let list = nodes.split_off(1);
                let operand = nodes.pop().unwrap_or(Node::Constant(Value::Null));
                Ok(maybe_not(negated, Node::In(Box::new(operand), list), at))
            }
            node => {
                let found = operand.type_name();
                if !element.is_comparable() {
                    return Err(super::expr::not_comparable("IN", *element, at));
                }
                let operand = operand
                    .coerced(*element)?
                    .ok_or_else(|| no_signature("IN UNNEST", found, at))?;
                let node = Node::InArray(Box::new([operand.node, node]));
                Ok(maybe_not(negated, node, at))
            }
        }
    }
    /// What a query over `UNNEST(array)` has to offer.
    pub(super) fn unnested(&mut self, array: &Expr, alias: Option<&str>) -> Result<Frame> {
        let array = self.expr(array)?;
        let at = array.at;
        let Some(Type::Array(element)) = array.value_type else { return Err(no_array(&array)) };
        let Some(array) = array.coerced(Type::Array(element))? else {
            return Err(SqlError::unsupported(at, "an array of values of several types"));
        };
        let values = match array.node {
            Node::Constant(Value::Array { values, .. }) => values,
            // An array that is NULL has no elements.
            Node::Constant(_) => Vec::new(),
            _ => {
                let construct = "FROM UNNEST of anything but constants and parameters";
                return Err(SqlError::unsupported(at, construct));
            }
        };
        let rows = values.into_iter().map(|value| vec![value]).collect();
        let columns = vec![(alias.unwrap_or_default().to_owned(), *element)];
        // The alias is the name of an element, and nothing is inside an element.
        Ok(Frame::new("", columns, Relation::Fixed(rows)))
    }
}

fn no_array(found: &Typed) -> SqlError {
    let message = format!(
        "Values referenced in UNNEST must be arrays. UNNEST contains expression of type {}",
        found.type_name()
    );
    SqlError::invalid(found.at, message)
}
