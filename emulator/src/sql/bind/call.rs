//! Calls of functions.

use super::Binder;
use super::expr::no_signature;
use super::typed::{Origin, Typed, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::{Expr, ExprKind};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::plan::{Function, Node, Unit};

/// The function whose value only the commit knows.
pub(super) const PENDING_COMMIT_TIMESTAMP: &str = "PENDING_COMMIT_TIMESTAMP";

impl Binder<'_> {
    pub(super) fn call(&mut self, function: &str, arguments: &[Expr], at: Pos) -> Result<Typed> {
        let name = function.to_ascii_uppercase();
        match (name.as_str(), arguments) {
            ("COUNT", [operand]) => self.count(Some(operand), at),
            ("CURRENT_TIMESTAMP", []) => {
                let now = Value::Timestamp(self.now);
                Ok(Typed::constant(at, now, Origin::Computed))
            }
            (PENDING_COMMIT_TIMESTAMP, []) => Err(SqlError::invalid(
                at,
                "The PENDING_COMMIT_TIMESTAMP() function may only be used as a value for INSERT or \
                 UPDATE of an appropriately typed column",
            )),
            ("IF", [condition, then, otherwise]) => {
                self.conditional(condition, then, otherwise, at)
            }
            ("COALESCE", [_, ..]) | ("IFNULL", [_, _]) => {
                let (nodes, value_type) = self.one_type(&name, arguments, at)?;
                let node = Node::Coalesce(nodes);
                Ok(Typed { node, value_type, origin: Origin::Computed, at })
            }
            ("NULLIF", [_, _]) => {
                let (nodes, value_type) = self.one_type(&name, arguments, at)?;
                let mut nodes = nodes.into_iter();
                let pair = [(); 2].map(|()| nodes.next().unwrap_or(Node::Constant(Value::Null)));
                let node = Node::NullIf(Box::new(pair));
                Ok(Typed { node, value_type, origin: Origin::Computed, at })
            }
            ("STARTS_WITH", [_, _]) => {
                let nodes = self.texts(&name, arguments, at)?.0;
                Ok(Typed::computed(at, Type::Bool, Node::Apply(Function::StartsWith, nodes)))
            }
            ("CONCAT", [_, ..]) => {
                let (nodes, value_type) = self.texts(&name, arguments, at)?;
                Ok(Typed::computed(at, value_type, Node::Apply(Function::Concat, nodes)))
            }
            ("LENGTH", [_]) => {
                let nodes = self.texts(&name, arguments, at)?.0;
                Ok(Typed::computed(at, Type::Int64, Node::Apply(Function::Length, nodes)))
            }
            ("TIMESTAMP", [text]) => self.timestamp(text, at),
            ("TIMESTAMP_DIFF", [later, earlier, unit]) => {
                let unit = unit_of(unit)?;
                let nodes = vec![
                    self.operand(later, Type::Timestamp, &name)?,
                    self.operand(earlier, Type::Timestamp, &name)?,
                ];
                let node = Node::Apply(Function::TimestampDiff(unit), nodes);
                Ok(Typed::computed(at, Type::Int64, node))
            }
            ("TIMESTAMP_ADD" | "TIMESTAMP_SUB", [timestamp, interval]) => {
                self.shifted(&name, timestamp, interval, at)
            }
            _ => Err(unknown_call(function, &name, arguments.len(), at)),
        }
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

    fn one_type(
        &mut self,
        name: &str,
        arguments: &[Expr],
        at: Pos,
    ) -> Result<(Vec<Node>, Option<Type>)> {
        let arguments = self.exprs(arguments)?;
        let found = type_names(&arguments);
        unified(arguments)?.ok_or_else(|| no_signature(name, &found, at))
    }

    /// Arguments that are all STRING or all BYTES.
    fn texts(&mut self, name: &str, arguments: &[Expr], at: Pos) -> Result<(Vec<Node>, Type)> {
        let arguments = self.exprs(arguments)?;
        let found = type_names(&arguments);
        match unified(arguments)? {
            Some((nodes, None)) => Ok((nodes, Type::String)),
            Some((nodes, Some(value_type @ (Type::String | Type::Bytes)))) => {
                Ok((nodes, value_type))
            }
            _ => Err(no_signature(name, &found, at)),
        }
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
    ("CURRENT_TIMESTAMP", "no arguments"),
    (PENDING_COMMIT_TIMESTAMP, "no arguments"),
    ("IF", "three arguments"),
    ("COALESCE", "at least one argument"),
    ("IFNULL", "two arguments"),
    ("NULLIF", "two arguments"),
    ("STARTS_WITH", "two arguments"),
    ("CONCAT", "at least one argument"),
    ("LENGTH", "one argument"),
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
        None => SqlError::unsupported(at, format_args!("the function {function}")),
    }
}
