//! Expressions.

use super::Binder;
use super::call::CURRENT_TIMESTAMP;
use super::typed::{Origin, Typed, coerced_all, parse, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::{BinaryOp, Expr, ExprKind, Literal, Select};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::params::Parameter;
use crate::sql::plan::Node;

impl Binder<'_> {
    /// Binds an expression.
    pub(super) fn expr(&mut self, expr: &Expr) -> Result<Typed> {
        let at = expr.at;
        match &expr.kind {
            ExprKind::Literal(literal) => constant(literal, at),
            ExprKind::Parameter(name) => self.parameter(name, at),
            ExprKind::Column { table, name } => self.column(table.as_deref(), name, at),
            ExprKind::And(parts) => self.connected(parts, "AND", at, Node::And),
            ExprKind::Or(parts) => self.connected(parts, "OR", at, Node::Or),
            ExprKind::Not(operand) => {
                let operand = self.operand(operand, Type::Bool, "NOT")?;
                Ok(Typed::computed(at, Type::Bool, Node::Not(Box::new(operand))))
            }
            ExprKind::Negate(operand) => self.negated(operand, at),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, at),
            ExprKind::Is { operand, what, negated } => self.is(operand, *what, *negated, at),
            ExprKind::In { operand, list, negated } => self.in_list(operand, list, *negated, at),
            ExprKind::Between { operand, low, high, negated } => {
                self.between([operand, low, high], *negated, at)
            }
            ExprKind::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), at)
            }
            ExprKind::Call { function, arguments, distinct: false } => {
                self.call(function, arguments, at)
            }
            ExprKind::Call { function, arguments, distinct: true } => {
                self.distinct_call(function, arguments, at)
            }
            ExprKind::CountRows => self.count_rows(at),
            ExprKind::Cast { operand, target, safe } => self.cast(operand, *target, *safe, at),
            ExprKind::Array { element, items } => self.array(*element, items, at),
            ExprKind::InArray { operand, array, negated } => {
                self.in_array(operand, array, *negated, at)
            }
            ExprKind::Like { operand, pattern, negated } => {
                self.like(operand, pattern, *negated, at)
            }
            ExprKind::Default => {
                Err(SqlError::invalid(at, "DEFAULT may only be used as the value of a column"))
            }
            ExprKind::Interval { .. } => Err(SqlError::unsupported(at, "INTERVAL as a value")),
            ExprKind::Exists(select) => self.exists(select, at),
        }
    }

    /// Binds several expressions.
    pub(super) fn exprs<'e>(
        &mut self,
        all: impl IntoIterator<Item = &'e Expr>,
    ) -> Result<Vec<Typed>> {
        let mut bound = Vec::new();
        for expr in all {
            bound.push(self.expr(expr)?);
        }
        Ok(bound)
    }

    /// Binds an operand that must have this type.
    pub(super) fn operand(&mut self, expr: &Expr, target: Type, operator: &str) -> Result<Node> {
        let typed = self.expr(expr)?;
        let found = typed.type_name();
        match typed.coerced(target)? {
            Some(coerced) => Ok(coerced.node),
            None => Err(no_signature(operator, found, expr.at)),
        }
    }

    fn parameter(&mut self, name: &str, at: Pos) -> Result<Typed> {
        match self.parameters.get(name) {
            None => Err(SqlError::invalid(at, format!("No parameter found for binding: {name}"))),
            Some(Parameter::Typed(value_type, value)) => Ok(Typed {
                value_type: Some(*value_type),
                ..Typed::constant(at, value.clone(), Origin::Parameter)
            }),
            Some(Parameter::Untyped(content)) => {
                Ok(Typed::constant(at, content.guess(), Origin::Untyped(content.clone())))
            }
        }
    }

    fn column(&mut self, table: Option<&str>, name: &str, at: Pos) -> Result<Typed> {
        if table.is_none()
            && let Some(output) = self.aliases.get(&name.to_ascii_lowercase())
        {
            let ambiguous = || SqlError::invalid(at, format!("Column name {name} is ambiguous"));
            return output.clone().ok_or_else(ambiguous);
        }
        let found = self.scope.column(table, name, at);
        // The one function that needs no parentheses gives way to a column of its name.
        if found.is_err() && table.is_none() && name.eq_ignore_ascii_case(CURRENT_TIMESTAMP) {
            return self.call(name, &[], at);
        }
        found
    }

    fn connected(
        &mut self,
        parts: &[Expr],
        operator: &str,
        at: Pos,
        node: fn(Vec<Node>) -> Node,
    ) -> Result<Typed> {
        let mut bound = Vec::with_capacity(parts.len());
        for part in parts {
            bound.push(self.operand(part, Type::Bool, operator)?);
        }
        Ok(Typed::computed(at, Type::Bool, node(bound)))
    }

    fn negated(&mut self, operand: &Expr, at: Pos) -> Result<Typed> {
        if let ExprKind::Literal(Literal::Integer(magnitude)) = operand.kind {
            let value = 0_i64.checked_sub_unsigned(magnitude);
            let value = value.ok_or_else(|| invalid_integer(magnitude, at))?;
            return Ok(Typed::constant(at, Value::Int64(value), Origin::Literal));
        }
        let operand = self.expr(operand)?;
        match (operand.value_type, &operand.node) {
            (Some(Type::Float64), Node::Constant(Value::Float64(value))) => {
                Ok(Typed::constant(at, Value::Float64(-value), operand.origin.of_computation()))
            }
            (Some(Type::Int64 | Type::Float64 | Type::Numeric), _) => Ok(Typed {
                node: Node::Negate(Box::new(operand.node)),
                origin: Origin::Computed,
                ..operand
            }),
            (None, _) => Ok(Typed::computed(at, Type::Int64, operand.node)),
            _ => Err(no_signature("-", operand.type_name(), at)),
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, at: Pos) -> Result<Typed> {
        let sides = self.exprs([left, right])?;
        let symbol = op.symbol();
        if let BinaryOp::Compare(comparison) = op {
            let [left, right] = pair(same_type(sides, symbol, at)?);
            let node = Node::Compare(comparison, Box::new(left), Box::new(right));
            return Ok(Typed::computed(at, Type::Bool, node));
        }
        let found = type_names(&sides);
        let no_signature = || no_signature(symbol, &found, at);
        let is_numeric = |sides: &[Typed]| match unified(sides.to_vec()) {
            Ok(Some((_, value_type))) => value_type == Some(Type::Numeric),
            _ => false,
        };
        if op == BinaryOp::Divide && !is_numeric(&sides) {
            return match coerced_all(sides, Type::Float64)? {
                Some(sides) => Ok(Typed::computed(at, Type::Float64, binary_node(op, sides))),
                None => Err(no_signature()),
            };
        }
        let (sides, value_type) = unified(sides)?.ok_or_else(no_signature)?;
        let otherwise = if op == BinaryOp::Concat { Type::String } else { Type::Int64 };
        match (op, value_type.unwrap_or(otherwise)) {
            (BinaryOp::Concat, value_type @ (Type::String | Type::Bytes))
            | (
                BinaryOp::Add | BinaryOp::Subtract | BinaryOp::Multiply,
                value_type @ (Type::Int64 | Type::Float64 | Type::Numeric),
            )
            | (BinaryOp::Divide, value_type @ Type::Numeric) => {
                Ok(Typed::computed(at, value_type, binary_node(op, sides)))
            }
            (_, value_type @ (Type::Date | Type::Timestamp)) => {
                Err(SqlError::unsupported(at, format_args!("{symbol} on {value_type}")))
            }
            _ => Err(no_signature()),
        }
    }

    fn is(&mut self, operand: &Expr, what: Option<bool>, negated: bool, at: Pos) -> Result<Typed> {
        let operand = match what {
            None => self.expr(operand)?.node,
            Some(_) => self.operand(operand, Type::Bool, "IS")?,
        };
        Ok(maybe_not(negated, Node::Is(Box::new(operand), what), at))
    }

    fn in_list(&mut self, operand: &Expr, list: &[Expr], negated: bool, at: Pos) -> Result<Typed> {
        let all = self.exprs(std::iter::once(operand).chain(list))?;
        let mut nodes = same_type(all, "IN", at)?;
        let list = nodes.split_off(1);
        let operand = nodes.pop().unwrap_or(Node::Constant(Value::Null));
        Ok(maybe_not(negated, Node::In(Box::new(operand), list), at))
    }

    fn between(&mut self, parts: [&Expr; 3], negated: bool, at: Pos) -> Result<Typed> {
        let parts = self.exprs(parts)?;
        let mut parts = same_type(parts, "BETWEEN", at)?.into_iter();
        let parts = [(); 3].map(|()| parts.next().unwrap_or(Node::Constant(Value::Null)));
        Ok(maybe_not(negated, Node::Between(Box::new(parts)), at))
    }

    fn case(
        &mut self,
        operand: Option<&Expr>,
        branches: &[(Expr, Expr)],
        otherwise: Option<&Expr>,
        at: Pos,
    ) -> Result<Typed> {
        let mut values = self.exprs(branches.iter().map(|(_, then)| then))?;
        values.push(match otherwise {
            Some(otherwise) => self.expr(otherwise)?,
            None => Typed::constant(at, Value::Null, Origin::Literal),
        });
        let found = type_names(&values);
        let (mut values, value_type) =
            unified(values)?.ok_or_else(|| no_signature("CASE", &found, at))?;
        let otherwise = values.pop().unwrap_or(Node::Constant(Value::Null));
        let whens = branches.iter().map(|(when, _)| when);
        let node = match operand {
            None => {
                let mut branches = Vec::with_capacity(values.len());
                for (when, value) in whens.zip(values) {
                    branches.push((self.operand(when, Type::Bool, "CASE")?, value));
                }
                Node::Case { branches, otherwise: Box::new(otherwise) }
            }
            Some(operand) => {
                let all = self.exprs(std::iter::once(operand).chain(whens))?;
                let mut nodes = same_type(all, "CASE", at)?;
                let branches = nodes.split_off(1).into_iter().zip(values).collect();
                let operand = Box::new(nodes.pop().unwrap_or(Node::Constant(Value::Null)));
                Node::CaseOf { operand, branches, otherwise: Box::new(otherwise) }
            }
        };
        Ok(Typed { node, value_type, origin: Origin::Computed, at })
    }

    fn exists(&mut self, select: &Select, at: Pos) -> Result<Typed> {
        if !self.aliases.is_empty() {
            return Err(SqlError::unsupported(at, "a subquery in ORDER BY"));
        }
        let query = self.query(select)?;
        Ok(Typed::computed(at, Type::Bool, Node::Exists(Box::new(query))))
    }
}

fn constant(literal: &Literal, at: Pos) -> Result<Typed> {
    let value = match literal {
        Literal::Null => Value::Null,
        Literal::Bool(value) => Value::Bool(*value),
        Literal::Integer(value) => {
            Value::Int64(i64::try_from(*value).map_err(|_| invalid_integer(*value, at))?)
        }
        Literal::Float(value) => Value::Float64(*value),
        Literal::Text(text) => Value::String(text.clone()),
        Literal::Bytes(bytes) => Value::Bytes(bytes.clone()),
        Literal::Typed(value_type, text) => parse(text, *value_type, at)?,
    };
    Ok(Typed::constant(at, value, Origin::Literal))
}

fn invalid_integer(magnitude: u64, at: Pos) -> SqlError {
    SqlError::invalid(at, format!("Invalid integer literal: {magnitude}"))
}

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

fn pair(nodes: Vec<Node>) -> [Node; 2] {
    let mut nodes = nodes.into_iter();
    [(); 2].map(|()| nodes.next().unwrap_or(Node::Constant(Value::Null)))
}

fn binary_node(op: BinaryOp, sides: Vec<Node>) -> Node {
    let [left, right] = pair(sides);
    Node::Binary(op, Box::new(left), Box::new(right))
}

/// What is said of comparisons of arrays and of JSON documents.
pub(super) fn not_comparable(operator: &str, value_type: Type, at: Pos) -> SqlError {
    let comparison = match operator {
        "=" | "!=" | "IN" | "CASE" | "NULLIF" => "Equality",
        other => other,
    };
    let message = format!("{comparison} is not defined for arguments of type {value_type}");
    SqlError::invalid(at, message)
}

pub(super) fn no_signature(operator: &str, types: &str, at: Pos) -> SqlError {
    let message = format!("No matching signature for {operator} for argument types: {types}");
    SqlError::invalid(at, message)
}
