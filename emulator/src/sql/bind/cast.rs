//! `CAST`.

use super::Binder;
use super::typed::{Origin, Typed};
use crate::engine::{Code, Type, Value};
use crate::sql::ast::Expr;
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::eval::cast;
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
        if let Origin::Untyped(_) = operand.origin {
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
        if let (Origin::Literal, Node::Constant(value), false) =
            (&operand.origin, &operand.node, safe)
        {
            return match cast::cast(value.clone(), target) {
                Ok(value) => Ok(Typed {
                    value_type: Some(target),
                    ..Typed::constant(at, value, Origin::Computed)
                }),
                Err(error) if error.code() == Code::Unimplemented => Err(error),
                Err(_) => {
                    let shown = literal(value);
                    let message = format!("Could not cast literal {shown} to type {target}");
                    Err(SqlError::invalid(operand.at, message))
                }
            };
        }
        Ok(computed(Node::Cast { operand: Box::new(operand.node), target, safe }))
    }
}

/// Whether values of a type can become ones of another.
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

fn literal(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        Value::Float64(value) => crate::engine::double::text(*value),
        Value::Int64(value) => value.to_string(),
        other => other.to_string(),
    }
}
