//! `CAST`.

use super::Binder;
use super::typed::{Origin, Typed};
use crate::engine::Type;
use crate::sql::ast::Expr;
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::Node;

impl Binder<'_> {
    /// Binds `CAST(operand AS target)`, or `SAFE_CAST`.
    pub(super) fn cast(
        &mut self,
        operand: &Expr,
        target: Type,
        safe: bool,
        at: Pos,
    ) -> Result<Typed> {
        let operand = self.expr(operand)?;
        let computed = |node| Typed::computed(at, target, node);
        // An array without elements is one of any type.
        let arrays = matches!((operand.value_type, target), (Some(Type::Array(_)), Type::Array(_)));
        if arrays || matches!(operand.origin, Origin::Untyped(..)) {
            let found = operand.type_name();
            let typed = operand.coerced(target)?;
            return typed
                .map(|typed| computed(typed.node))
                .ok_or_else(|| invalid(found, target, at));
        }
        let own = match operand.value_type {
            None => return Ok(computed(operand.node)),
            Some(own) if own == target => return Ok(computed(operand.node)),
            Some(own) => own,
        };
        check(own, target, at)?;
        if let (Type::Numeric, Origin::Float(_)) = (target, &operand.origin)
            && let Ok(Some(operand)) = operand.clone().coerced(target)
        {
            return Ok(computed(operand.node));
        }
        Ok(computed(Node::Cast { operand: Box::new(operand.node), target, safe }))
    }
}

/// Checks that values of a type can become ones of another.
fn check(own: Type, target: Type, at: Pos) -> Result<()> {
    let known = match own {
        Type::Bool => matches!(target, Type::Int64 | Type::String),
        Type::Int64 => {
            matches!(target, Type::Bool | Type::Float64 | Type::Numeric | Type::String)
        }
        Type::Float64 => matches!(target, Type::Int64 | Type::Numeric | Type::String),
        Type::Numeric => matches!(target, Type::Int64 | Type::Float64 | Type::String),
        Type::String => !matches!(target, Type::Json | Type::Array(_)),
        Type::Bytes | Type::Date => target == Type::String,
        Type::Timestamp | Type::Json | Type::Array(_) => false,
    };
    let needs_zone = matches!(
        (own, target),
        (Type::Timestamp, Type::String | Type::Date) | (Type::Date, Type::Timestamp)
    );
    match (known, needs_zone) {
        (true, _) => Ok(()),
        (false, true) => Err(SqlError::unsupported(
            at,
            format_args!("CAST from {own} to {target}, which depends on the default time zone"),
        )),
        (false, false) if own == Type::Json || target == Type::Json => {
            Err(SqlError::unsupported(at, format_args!("CAST from {own} to {target}")))
        }
        (false, false) => Err(invalid(own.name(), target, at)),
    }
}

fn invalid(own: &str, target: Type, at: Pos) -> SqlError {
    SqlError::invalid(at, format!("Invalid cast from {own} to {target}"))
}
