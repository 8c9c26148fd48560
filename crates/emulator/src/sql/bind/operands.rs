//! The results of operators on their operands.

use super::typed::{Typed, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::Node;

/// Returns a condition, or its opposite.
pub(super) fn maybe_not(negated: bool, node: Node, at: Pos) -> Typed {
    let node = if negated { Node::Not(Box::new(node)) } else { node };
    Typed::computed(at, Type::Bool, node)
}

/// These expressions as ones of one type, so that they can be compared.
pub(super) fn same_type(all: Vec<Typed>, operator: &str, at: Pos) -> Result<Vec<Node>> {
    let found = type_names(&all);
    match unified(all)? {
        Some((_, Some(value_type))) if !value_type.is_comparable() => {
            Err(not_comparable(operator, value_type, at))
        }
        Some((all, _)) => Ok(all),
        None => Err(no_signature(operator, &found, at)),
    }
}

/// Returns the first two.
pub(super) fn pair(nodes: Vec<Node>) -> [Node; 2] {
    let mut nodes = nodes.into_iter();
    [(); 2].map(|()| nodes.next().unwrap_or(Node::Constant(Value::Null)))
}

/// Returns the error for comparisons of arrays and of JSON documents.
pub(super) fn not_comparable(operator: &str, value_type: Type, at: Pos) -> SqlError {
    let comparison = match operator {
        "=" | "!=" | "IN" | "CASE" | "NULLIF" => "Equality",
        other => other,
    };
    let message = format!("{comparison} is not defined for arguments of type {value_type}");
    SqlError::invalid(at, message)
}

/// Returns the error for operands that no form takes.
pub(super) fn no_signature(operator: &str, types: &str, at: Pos) -> SqlError {
    let message = format!("No matching signature for {operator} for argument types: {types}");
    SqlError::invalid(at, message)
}
