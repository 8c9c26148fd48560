//! Calls of functions.

use super::Binder;
use super::aggregate::aggregate;
use super::expr::{no_signature, not_comparable};
use super::text::is_text_function;
use super::typed::{Origin, Typed, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Function, Node, Unit};

/// The function that is the time, and may be called without parentheses.
pub(super) const CURRENT_TIMESTAMP: &str = "CURRENT_TIMESTAMP";

/// The function whose value only the commit knows.
pub(super) const PENDING_COMMIT_TIMESTAMP: &str = "PENDING_COMMIT_TIMESTAMP";

impl Binder<'_> {
    pub(super) fn call(&mut self, function: &str, arguments: &[Expr], at: Pos) -> Result<Typed> {
        // Calls nest, so what the kinds of functions need is kept apart, off each other's stack.
        let name = function.to_ascii_uppercase();
        if let (Some(fold), [operand]) = (aggregate(&name), arguments) {
            return self.aggregated(fold, &name, operand, false, at);
        }
        match (name.as_str(), arguments) {
            ("IF", [condition, then, otherwise]) => {
                self.conditional(condition, then, otherwise, at)
            }
            ("COALESCE", [_, ..]) | ("IFNULL" | "NULLIF", [_, _]) => {
                self.null_function(&name, arguments, at)
            }
            (_, [_, ..]) if is_text_function(&name) => self.text_function(&name, arguments, at),
            ("SUBSTR" | "SUBSTRING", [_, _] | [_, _, _]) => self.substring(arguments, at),
            ("TO_HEX", [operand]) => {
                self.applied(Function::ToHex, &name, (operand, Type::Bytes), Type::String, at)
            }
            ("FROM_HEX", [operand]) => {
                self.applied(Function::FromHex, &name, (operand, Type::String), Type::Bytes, at)
            }
            ("GENERATE_UUID", []) => {
                let node = Node::Apply(Function::GenerateUuid, Vec::new());
                Ok(Typed::computed(at, Type::String, node))
            }
            ("ABS", [_]) | ("MOD", [_, _]) | ("GREATEST" | "LEAST", [_, ..]) => {
                self.number_function(&name, arguments, at)
            }
            ("ARRAY_LENGTH", [array]) => self.array_length(array, at),
            (CURRENT_TIMESTAMP, []) => Ok(self.current_timestamp(at)),
            (PENDING_COMMIT_TIMESTAMP, []) => Err(SqlError::invalid(
                at,
                "The PENDING_COMMIT_TIMESTAMP() function may only be used as a value for INSERT or \
                 UPDATE of an appropriately typed column",
            )),
            ("TIMESTAMP", [text]) => self.timestamp(text, at),
            ("TIMESTAMP_DIFF", [later, earlier, unit]) => self.difference(later, earlier, unit, at),
            ("TIMESTAMP_ADD" | "TIMESTAMP_SUB", [timestamp, interval]) => {
                self.shifted(&name, timestamp, interval, at)
            }
            _ => Err(unknown_call(function, &name, arguments.len(), at)),
        }
    }

    fn current_timestamp(&self, at: Pos) -> Typed {
        Typed::constant(at, Value::Timestamp(self.now), Origin::Computed)
    }

    fn null_function(&mut self, name: &str, arguments: &[Expr], at: Pos) -> Result<Typed> {
        let arguments = self.exprs(arguments)?;
        let found = type_names(&arguments);
        let (nodes, value_type) =
            unified(arguments)?.ok_or_else(|| no_signature(name, &found, at))?;
        let node = match name {
            "NULLIF" => {
                if let Some(value_type) = value_type
                    && !value_type.is_comparable()
                {
                    return Err(not_comparable(name, value_type, at));
                }
                let mut nodes = nodes.into_iter();
                let pair = [(); 2].map(|()| nodes.next().unwrap_or(Node::Constant(Value::Null)));
                Node::NullIf(Box::new(pair))
            }
            _ => Node::Coalesce(nodes),
        };
        Ok(Typed { node, value_type, origin: Origin::Computed, at })
    }

    fn difference(&mut self, later: &Expr, earlier: &Expr, unit: &Expr, at: Pos) -> Result<Typed> {
        let function = Function::TimestampDiff(unit_of(unit)?);
        let later = self.operand(later, Type::Timestamp, "TIMESTAMP_DIFF")?;
        let earlier = self.operand(earlier, Type::Timestamp, "TIMESTAMP_DIFF")?;
        Ok(Typed::computed(at, Type::Int64, Node::Apply(function, vec![later, earlier])))
    }

    fn conditional(
        &mut self,
        condition: &Expr,
        then: &Expr,
        otherwise: &Expr,
        at: Pos,
    ) -> Result<Typed> {
        let condition = self.operand(condition, Type::Bool, "IF")?;
        let values = self.exprs([then, otherwise])?;
        let found = type_names(&values);
        let (mut values, value_type) =
            unified(values)?.ok_or_else(|| no_signature("IF", &format!("BOOL, {found}"), at))?;
        let mut next = || values.pop().unwrap_or(Node::Constant(Value::Null));
        let otherwise = Box::new(next());
        let node = Node::Case { branches: vec![(condition, next())], otherwise };
        Ok(Typed { node, value_type, origin: Origin::Computed, at })
    }

    fn timestamp(&mut self, text: &Expr, at: Pos) -> Result<Typed> {
        let text = self.expr(text)?;
        match text.value_type {
            None | Some(Type::String) => {
                let found = text.type_name();
                let text = text
                    .coerced(Type::String)?
                    .ok_or_else(|| no_signature("TIMESTAMP", found, at))?;
                let node = Node::Apply(Function::Timestamp, vec![text.node]);
                Ok(Typed::computed(at, Type::Timestamp, node))
            }
            Some(Type::Date | Type::Timestamp) => {
                let construct = format!("TIMESTAMP of a {}", text.type_name());
                Err(SqlError::unsupported(at, construct))
            }
            Some(_) => Err(no_signature("TIMESTAMP", text.type_name(), at)),
        }
    }

    fn shifted(&mut self, name: &str, timestamp: &Expr, interval: &Expr, at: Pos) -> Result<Typed> {
        let ExprKind::Interval { amount, unit } = &interval.kind else {
            let message = format!("{name} expects an INTERVAL as its second argument");
            return Err(SqlError::invalid(interval.at, message));
        };
        let unit = unit_called(&unit.text, unit.at)?;
        let nodes = vec![
            self.operand(timestamp, Type::Timestamp, name)?,
            self.operand(amount, Type::Int64, name)?,
        ];
        let function = match name {
            "TIMESTAMP_ADD" => Function::TimestampAdd(unit),
            _ => Function::TimestampSub(unit),
        };
        Ok(Typed::computed(at, Type::Timestamp, Node::Apply(function, nodes)))
    }
}

fn unit_of(expr: &Expr) -> Result<Unit> {
    match &expr.kind {
        ExprKind::Column { table: None, name } => unit_called(name, expr.at),
        _ => Err(SqlError::invalid(expr.at, "Expected a date part, such as MILLISECOND")),
    }
}

fn unit_called(name: &str, at: Pos) -> Result<Unit> {
    let found = Unit::ALL.into_iter().find(|unit| unit.name().eq_ignore_ascii_case(name));
    found.ok_or_else(|| {
        SqlError::invalid(at, format!("A valid date part name is required but found {name}"))
    })
}

/// The functions that [`Binder::call`] knows, with the counts of arguments it knows them with.
const FUNCTIONS: &[(&str, &str)] = &[
    ("COUNT", "one argument"),
    (CURRENT_TIMESTAMP, "no arguments"),
    (PENDING_COMMIT_TIMESTAMP, "no arguments"),
    ("IF", "three arguments"),
    ("COALESCE", "at least one argument"),
    ("IFNULL", "two arguments"),
    ("NULLIF", "two arguments"),
    ("SUM", "one argument"),
    ("MIN", "one argument"),
    ("MAX", "one argument"),
    ("SUBSTR", "two or three arguments"),
    ("SUBSTRING", "two or three arguments"),
    ("TO_HEX", "one argument"),
    ("FROM_HEX", "one argument"),
    ("GENERATE_UUID", "no arguments"),
    ("ABS", "one argument"),
    ("MOD", "two arguments"),
    ("GREATEST", "at least one argument"),
    ("LEAST", "at least one argument"),
    ("ARRAY_LENGTH", "one argument"),
    ("TIMESTAMP", "one argument"),
    ("TIMESTAMP_DIFF", "three arguments"),
    ("TIMESTAMP_ADD", "two arguments"),
    ("TIMESTAMP_SUB", "two arguments"),
];

fn unknown_call(function: &str, name: &str, found: usize, at: Pos) -> SqlError {
    match FUNCTIONS.iter().find(|(known, _)| *known == name) {
        // With a second argument, it reads the time in some zone.
        Some(("TIMESTAMP", _)) if found == 2 => {
            SqlError::unsupported(at, "TIMESTAMP with a time zone as an argument")
        }
        Some((known, expected)) => {
            let message = format!("Function {known} takes {expected}, but {found} were given");
            SqlError::invalid(at, message)
        }
        None if is_text_function(name) => {
            SqlError::invalid(at, format!("Function {name} takes arguments, but none were given"))
        }
        None => SqlError::unsupported(at, format_args!("the function {function}")),
    }
}
