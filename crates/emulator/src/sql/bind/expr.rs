//! Expressions.

use super::Binder;
use super::call::CURRENT_TIMESTAMP;
use super::constant::{constant, float, invalid_integer};
use super::operands::{maybe_not, no_signature, pair, same_type};
use super::typed::{Given, Inferred, Origin, Typed, type_names, unified};
use crate::engine::{Type, Value};
use crate::sql::ast::{BinaryOp, Expr, ExprKind, Literal};
use crate::sql::error::{Pos, Result, SqlError};
use crate::sql::functions;
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
            ExprKind::And(parts) => self.connected(parts, "AND", at, Node::and),
            ExprKind::Or(parts) => self.connected(parts, "OR", at, Node::Or),
            ExprKind::Not(operand) => {
                if operand.kind == ExprKind::Literal(Literal::Null) {
                    return Err(null_operand("NOT", operand.at));
                }
                let operand = self.operand(operand, Type::Bool, "NOT")?;
                Ok(Typed::computed(at, Type::Bool, Node::Not(Box::new(operand))))
            }
            ExprKind::Negate(operand) => self.negated(operand, at),
            ExprKind::Plus(operand) => self.unsigned(operand, at),
            ExprKind::Binary(op, left, right) => self.binary(*op, left, right, at),
            ExprKind::Chain(first, others) => self.chained(first, others, at),
            ExprKind::Is { operand, what, negated } => self.is(operand, *what, *negated, at),
            ExprKind::In { operand, list, negated } => self.in_list(operand, list, *negated, at),
            ExprKind::Between { operand, low, high, negated } => {
                self.between([operand, low, high], *negated, at)
            }
            ExprKind::Case { operand, branches, otherwise } => {
                self.case(operand.as_deref(), branches, otherwise.as_deref(), at)
            }
            ExprKind::Call { function, arguments, distinct } => {
                self.call(function, arguments, *distinct, at)
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
            ExprKind::Subquery { kind, query } => self.subquery_as(*kind, query, at),
            ExprKind::InQuery { operand, query, negated } => {
                self.in_query(operand, query, *negated, at)
            }
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
        let Some((place, parameter)) = self.parameters.find(name) else {
            return Err(SqlError::invalid(at, format!("No parameter found for binding: {name}")));
        };
        let given = self.now.is_none().then(|| Given { place, readings: self.readings.clone() });
        let (value, value_type) = match parameter {
            Parameter::Typed(value_type, value) => (value, value_type),
            Parameter::Untyped(sent) => {
                let (name, sent) = (name.to_ascii_lowercase(), sent.clone());
                let types = self.inferred.clone();
                let inferred = Inferred { name, place, sent, given, types };
                let node = Node::Constant(Value::Null);
                return Ok(Typed { node, value_type: None, origin: Origin::Untyped(inferred), at });
            }
        };
        let node = match given {
            None => Node::Constant(value.clone()),
            // How many elements there are says which keys to read.
            Some(_) if matches!(value_type, Type::Array(_)) => {
                return Err(SqlError::value_needed(at));
            }
            Some(given) => given.read_as(*value_type),
        };
        let (value_type, origin) = (Some(*value_type), Origin::Parameter);
        Ok(Typed { node, value_type, origin, at })
    }

    fn column(&mut self, table: Option<&str>, name: &str, at: Pos) -> Result<Typed> {
        let found = self.scope.column(table, name, at);
        // The one function that needs no parentheses gives way to a column of its name.
        let missing = found.as_ref().is_err_and(|error| error.message().starts_with("Unrecog"));
        if missing && table.is_none() && name.eq_ignore_ascii_case(CURRENT_TIMESTAMP) {
            return self.call(name, &[], false, at);
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
        if let ExprKind::Literal(Literal::Float(written)) = &operand.kind {
            return float(&format!("-{written}"), at);
        }
        let operand = self.expr(operand)?.decided()?;
        refuse_null("-", &operand)?;
        match operand.value_type {
            None | Some(Type::Int64 | Type::Float64 | Type::Numeric) => Ok(Typed {
                node: Node::Negate(Box::new(operand.node)),
                value_type: Some(operand.value_type.unwrap_or(Type::Int64)),
                origin: Origin::Computed,
                at,
            }),
            _ => Err(no_signature("-", operand.type_name(), at)),
        }
    }

    fn unsigned(&mut self, operand: &Expr, at: Pos) -> Result<Typed> {
        let operand = self.expr(operand)?.decided()?;
        refuse_null("+", &operand)?;
        match operand.value_type {
            None | Some(Type::Int64 | Type::Float64 | Type::Numeric) => Ok(operand),
            Some(found) => {
                let message = format!("Operands of + must be numeric type but was {found}");
                Err(SqlError::invalid(at, message))
            }
        }
    }

    fn binary(&mut self, op: BinaryOp, left: &Expr, right: &Expr, at: Pos) -> Result<Typed> {
        let sides = self.exprs([left, right])?;
        let symbol = op.symbol();
        for side in &sides {
            refuse_null(symbol, side)?;
        }
        if let BinaryOp::Compare(comparison) = op {
            let [left, right] = pair(same_type(sides, symbol, at)?);
            let node = Node::Compare(comparison, Box::new(left), Box::new(right));
            return Ok(Typed::computed(at, Type::Bool, node));
        }
        self.operator(symbol, sides, at)
    }

    fn chained(&mut self, first: &Expr, others: &[(BinaryOp, Expr)], at: Pos) -> Result<Typed> {
        let mut left = self.expr(first)?;
        for (op, right) in others {
            let sides = vec![left, self.expr(right)?];
            for side in &sides {
                refuse_null(op.symbol(), side)?;
            }
            left = self.operator(op.symbol(), sides, at)?;
            left.node = left.node.chained();
        }
        Ok(left)
    }

    fn operator(&mut self, symbol: &str, sides: Vec<Typed>, at: Pos) -> Result<Typed> {
        let known = functions::known(symbol).ok_or_else(|| self.unknown(symbol, at))?;
        self.applied(known, sides, at)
    }

    fn like(&mut self, operand: &Expr, pattern: &Expr, negated: bool, at: Pos) -> Result<Typed> {
        let sides = self.exprs([operand, pattern])?;
        for side in &sides {
            refuse_null("LIKE", side)?;
        }
        let bound = self.operator("LIKE", sides, at)?;
        Ok(maybe_not(negated, bound.node, at))
    }

    fn is(&mut self, operand: &Expr, what: Option<bool>, negated: bool, at: Pos) -> Result<Typed> {
        let operand = match what {
            None => self.expr(operand)?.decided()?.node,
            Some(_) => self.operand(operand, Type::Bool, "IS")?,
        };
        Ok(maybe_not(negated, Node::Is(Box::new(operand), what), at))
    }

    fn in_list(&mut self, operand: &Expr, list: &[Expr], negated: bool, at: Pos) -> Result<Typed> {
        let all = self.exprs(std::iter::once(operand).chain(list))?;
        let mut nodes = same_type(all, "IN", at)?;
        let list = nodes.split_off(1);
        let operand = nodes.pop().unwrap_or(Node::Constant(Value::Null));
        let is_constant = list.iter().all(|node| matches!(node, Node::Constant(_)));
        let node = match is_constant {
            false => Node::In(Box::new(operand), list),
            true => {
                let value = |node| match node {
                    Node::Constant(value) => value,
                    _ => Value::Null,
                };
                Node::among(operand, list.into_iter().map(value).collect())
            }
        };
        Ok(maybe_not(negated, node, at))
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
        // A condition of another type is told before a value that its type can't hold.
        let whens = branches.iter().map(|(when, _)| when);
        let mut conditions = match operand {
            None => whens
                .map(|when| self.operand(when, Type::Bool, "CASE"))
                .collect::<Result<Vec<Node>>>()?,
            Some(operand) => {
                let all = self.exprs(std::iter::once(operand).chain(whens))?;
                same_type(all, "CASE", at)?
            }
        };
        let found = type_names(&values);
        let (mut values, value_type) =
            unified(values)?.ok_or_else(|| no_signature("CASE", &found, at))?;
        let otherwise = Box::new(values.pop().unwrap_or(Node::Constant(Value::Null)));
        let node = match operand {
            None => {
                Node::Case { branches: conditions.into_iter().zip(values).collect(), otherwise }
            }
            Some(_) => {
                let branches = conditions.split_off(1).into_iter().zip(values).collect();
                let operand = Box::new(conditions.pop().unwrap_or(Node::Constant(Value::Null)));
                Node::CaseOf { operand, branches, otherwise }
            }
        };
        Ok(Typed::computed(at, value_type.unwrap_or(Type::Int64), node))
    }
}

fn null_operand(operator: &str, at: Pos) -> SqlError {
    SqlError::invalid(at, format!("Operands of {operator} cannot be literal NULL"))
}

/// Refuses the literal NULL, of which most operators make NULL.
fn refuse_null(operator: &str, operand: &Typed) -> Result<()> {
    match (&operand.origin, operand.value_type) {
        (Origin::Literal, None) => Err(null_operand(operator, operand.at)),
        _ => Ok(()),
    }
}
