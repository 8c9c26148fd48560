//! `EXTRACT`.

use super::Binder;
use super::typed::Typed;
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind, Literal, Name};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::functions::{self, extract};
use crate::sql::plan::Node;

/// Parts of a TIMESTAMP that are no numbers.
const OTHER_PARTS: &[&str] = &["DATE", "TIME", "DATETIME"];

impl Binder<'_> {
    /// Binds `EXTRACT(part FROM operand AT TIME ZONE zone)`. Only UTC is known: other zones have a
    /// history.
    pub(super) fn extract(
        &mut self,
        part: &Name,
        operand: &Expr,
        zone: Option<&Expr>,
        at: Pos,
    ) -> Result<Typed> {
        let known = functions::known(extract::NAME).ok_or_else(|| self.unknown("EXTRACT", at))?;
        let operand = self.expr(operand)?;
        if operand.value_type == Some(Type::String) {
            return Err(SqlError::invalid(at, "EXTRACT does not support STRING arguments"));
        }
        let from = operand.value_type;
        let name = check_part(part, from, at)?;
        let mut arguments = vec![operand, Typed::computed(part.at, Type::String, name)];
        match zone {
            None if from == Some(Type::Timestamp) => {
                let construct = "EXTRACT from a TIMESTAMP without AT TIME ZONE 'UTC'";
                return Err(SqlError::unsupported(at, construct));
            }
            None => {}
            Some(_) if from == Some(Type::Date) => {
                let message = "EXTRACT from DATE does not support AT TIME ZONE";
                return Err(SqlError::invalid(at, message));
            }
            Some(zone) => match &zone.kind {
                ExprKind::Literal(Literal::Text(text)) if text == "UTC" => {
                    arguments.push(self.expr(zone)?);
                }
                _ => {
                    let construct = "AT TIME ZONE with anything but 'UTC'";
                    return Err(SqlError::unsupported(zone.at, construct));
                }
            },
        }
        self.applied(known, arguments, at)
    }
}

/// The name of a part, if a value of this type has it.
fn check_part(part: &Name, from: Option<Type>, at: Pos) -> Result<Node> {
    let name = part.text.to_ascii_uppercase();
    let is_of_time = extract::PARTS_OF_TIME.contains(&name.as_str());
    if OTHER_PARTS.contains(&name.as_str()) {
        return Err(SqlError::unsupported(part.at, format_args!("EXTRACT of the part {name}")));
    }
    if !is_of_time && !extract::PARTS_OF_DATE.contains(&name.as_str()) {
        let message = format!("A valid date part name is required but found {}", part.text);
        return Err(SqlError::invalid(part.at, message));
    }
    match is_of_time && from == Some(Type::Date) {
        true => {
            let message = format!("EXTRACT from DATE does not support the {name} date part");
            Err(SqlError::invalid(at, message))
        }
        false => Ok(Node::Constant(Value::String(name))),
    }
}
