//! The values of expressions.
//!
//! Evaluation reads nothing itself. Where it needs the rows of a subquery, it stops and says which;
//! whoever drives it gets them and starts over. So all waiting is in one place, and no rows are
//! read, or locked, that the statement doesn't come to.

mod arithmetic;
pub mod cast;
mod fold;
mod function;
mod like;
mod subquery;
mod text;

use std::cell::Cell;
use std::cmp::Ordering;

use super::ast::{BinaryOp, Comparison};
use super::error::SqlError;
use super::plan::{Function, Node};
use crate::engine::{Code, Value};

pub use fold::fold;
pub use subquery::{Fetched, Missing, project, read};

/// How many nodes a statement may evaluate. At this many, it would have kept its thread busy for
/// seconds.
pub const MAX_STEPS: u64 = 100_000_000;

/// The largest STRING or BYTES that an expression can make; Spanner's limit for a value.
pub const MAX_VALUE_BYTES: usize = 10 << 20;

/// Why an evaluation ended without a value.
#[derive(Debug)]
pub enum Stop {
    /// It has none.
    Failed(SqlError),
    /// It needs rows first.
    Missing(Box<Missing>),
}

impl From<SqlError> for Stop {
    fn from(error: SqlError) -> Stop {
        Stop::Failed(error)
    }
}

/// What an evaluation comes to.
pub type Evaluated<T = Value> = Result<T, Stop>;

/// The row at hand and those of the queries around.
#[derive(Clone, Copy)]
pub struct Rows<'a> {
    row: &'a [Value],
    outer: Option<&'a Rows<'a>>,
}

impl<'a> Rows<'a> {
    /// No row but this.
    pub fn only(row: &'a [Value]) -> Rows<'a> {
        Rows { row, outer: None }
    }

    /// This row, inside those.
    pub fn inside(row: &'a [Value], outer: &'a Rows<'a>) -> Rows<'a> {
        Rows { row, outer: Some(outer) }
    }

    fn column(&self, outward: usize, index: usize) -> Value {
        let mut rows = self;
        for _ in 0..outward {
            let Some(outer) = rows.outer else { return Value::Null };
            rows = outer;
        }
        rows.row.get(index).cloned().unwrap_or(Value::Null)
    }
}

/// The evaluation of one statement.
#[derive(Debug, Default)]
pub struct Evaluation {
    steps: Cell<u64>,
    /// The rows that subqueries have asked for so far.
    pub fetched: Fetched,
}

impl Evaluation {
    /// Whether a condition holds; NULL doesn't.
    pub fn holds(&self, condition: &Node, rows: &Rows) -> Evaluated<bool> {
        Ok(matches!(self.value(condition, rows)?, Value::Bool(true)))
    }

    /// The value of an expression.
    pub fn value(&self, node: &Node, rows: &Rows) -> Evaluated {
        self.count_steps(1)?;
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Column { outward, index } => Ok(rows.column(*outward, *index)),
            Node::Shared(node) => self.value(node, rows),
            Node::Cast { operand, target, safe } => {
                let value = self.value(operand, rows)?;
                match cast::cast(value, *target) {
                    Err(error) if *safe && error.code() == Code::OutOfRange => Ok(Value::Null),
                    other => Ok(other?),
                }
            }
            Node::Array(element, items) => {
                Ok(Value::Array { element, values: self.values(items, rows)? })
            }
            Node::And(parts) => self.connected(parts, rows, false),
            Node::Or(parts) => self.connected(parts, rows, true),
            Node::Not(operand) => Ok(match self.value(operand, rows)? {
                Value::Bool(value) => Value::Bool(!value),
                other => other,
            }),
            Node::Is(operand, what) => {
                let value = self.value(operand, rows)?;
                Ok(Value::Bool(value == what.map_or(Value::Null, Value::Bool)))
            }
            Node::Compare(comparison, left, right) => {
                let (left, right) = (self.value(left, rows)?, self.value(right, rows)?);
                Ok(compare(*comparison, &left, &right))
            }
            Node::In(operand, list) => self.is_in(operand, list, rows),
            Node::InArray(pair) => {
                let (operand, array) = (self.value(&pair[0], rows)?, self.value(&pair[1], rows)?);
                match array {
                    Value::Array { values, .. } => Ok(is_among(&operand, values)),
                    // An array that is NULL has no elements.
                    _ => Ok(Value::Bool(false)),
                }
            }
            Node::Between(parts) => self.between(parts, rows),
            Node::Binary(op, left, right) => {
                let (left, right) = (self.value(left, rows)?, self.value(right, rows)?);
                self.binary(*op, left, right)
            }
            Node::Negate(operand) => Ok(arithmetic::negate(self.value(operand, rows)?)?),
            Node::Case { branches, otherwise } => self.case(branches, otherwise, rows),
            Node::CaseOf { operand, branches, otherwise } => {
                self.case_of(operand, branches, otherwise, rows)
            }
            Node::Coalesce(nodes) => self.coalesce(nodes, rows),
            Node::NullIf(pair) => {
                let [value, unwanted] = [self.value(&pair[0], rows)?, self.value(&pair[1], rows)?];
                let equal = compare(Comparison::Equal, &value, &unwanted) == Value::Bool(true);
                Ok(if equal { Value::Null } else { value })
            }
            Node::Apply(function, arguments) => self.apply(*function, arguments, rows),
            Node::Exists(query) => self.exists(query, rows).map(Value::Bool),
        }
    }

    fn count_steps(&self, taken: u64) -> Evaluated<()> {
        let steps = self.steps.get().saturating_add(taken);
        self.steps.set(steps);
        match steps > MAX_STEPS {
            true => Err(Stop::Failed(SqlError::unplaced(
                Code::ResourceExhausted,
                format!("The statement takes more than {MAX_STEPS} steps to evaluate"),
            ))),
            false => Ok(()),
        }
    }

    /// AND, which `false` decides, or OR, which `true` decides.
    fn connected(&self, parts: &[Node], rows: &Rows, decisive: bool) -> Evaluated {
        let mut unknown = false;
        for part in parts {
            match self.value(part, rows)? {
                Value::Bool(value) if value == decisive => return Ok(Value::Bool(decisive)),
                Value::Bool(_) => {}
                _ => unknown = true,
            }
        }
        Ok(if unknown { Value::Null } else { Value::Bool(!decisive) })
    }

    fn is_in(&self, operand: &Node, list: &[Node], rows: &Rows) -> Evaluated {
        let operand = self.value(operand, rows)?;
        let mut result = Value::Bool(false);
        for candidate in list {
            let candidate = self.value(candidate, rows)?;
            match compare(Comparison::Equal, &operand, &candidate) {
                Value::Bool(true) => return Ok(Value::Bool(true)),
                Value::Bool(false) => {}
                _ => result = Value::Null,
            }
        }
        Ok(result)
    }

    fn values(&self, nodes: &[Node], rows: &Rows) -> Evaluated<Vec<Value>> {
        let mut values = Vec::with_capacity(nodes.len());
        for node in nodes {
            values.push(self.value(node, rows)?);
        }
        Ok(values)
    }

    fn between(&self, parts: &[Node; 3], rows: &Rows) -> Evaluated {
        let operand = self.value(&parts[0], rows)?;
        let above = compare(Comparison::GreaterOrEqual, &operand, &self.value(&parts[1], rows)?);
        let below = compare(Comparison::LessOrEqual, &operand, &self.value(&parts[2], rows)?);
        Ok(match (above, below) {
            (Value::Bool(true), Value::Bool(true)) => Value::Bool(true),
            (Value::Bool(false), _) | (_, Value::Bool(false)) => Value::Bool(false),
            _ => Value::Null,
        })
    }

    fn binary(&self, op: BinaryOp, left: Value, right: Value) -> Evaluated {
        match op {
            BinaryOp::Concat => Ok(text::concat(&[left, right])?),
            _ => Ok(arithmetic::binary(op, left, right)?),
        }
    }

    fn case(&self, branches: &[(Node, Node)], otherwise: &Node, rows: &Rows) -> Evaluated {
        for (condition, value) in branches {
            if self.holds(condition, rows)? {
                return self.value(value, rows);
            }
        }
        self.value(otherwise, rows)
    }

    fn case_of(
        &self,
        operand: &Node,
        branches: &[(Node, Node)],
        otherwise: &Node,
        rows: &Rows,
    ) -> Evaluated {
        let operand = self.value(operand, rows)?;
        for (candidate, value) in branches {
            let candidate = self.value(candidate, rows)?;
            if compare(Comparison::Equal, &operand, &candidate) == Value::Bool(true) {
                return self.value(value, rows);
            }
        }
        self.value(otherwise, rows)
    }

    fn coalesce(&self, nodes: &[Node], rows: &Rows) -> Evaluated {
        for node in nodes {
            let value = self.value(node, rows)?;
            if !value.is_null() {
                return Ok(value);
            }
        }
        Ok(Value::Null)
    }

    fn apply(&self, function: Function, arguments: &[Node], rows: &Rows) -> Evaluated {
        let values = self.values(arguments, rows)?;
        if values.iter().any(Value::is_null) {
            return Ok(Value::Null);
        }
        self.count_steps(function::cost(function, &values))?;
        Ok(function::apply(function, &values)?)
    }
}

fn is_among(operand: &Value, values: Vec<Value>) -> Value {
    let mut result = Value::Bool(false);
    for value in values {
        match compare(Comparison::Equal, operand, &value) {
            Value::Bool(true) => return Value::Bool(true),
            Value::Bool(false) => {}
            _ => result = Value::Null,
        }
    }
    result
}

/// What SQL says of two values of one type: NULL if one is, and nothing holds of a NaN but that it
/// is different.
pub fn compare(comparison: Comparison, left: &Value, right: &Value) -> Value {
    let order = match (left, right) {
        (Value::Null, _) | (_, Value::Null) => return Value::Null,
        (Value::Float64(left), Value::Float64(right)) => left.partial_cmp(right),
        _ => Some(left.cmp(right)),
    };
    Value::Bool(match (comparison, order) {
        (Comparison::NotEqual, order) => order != Some(Ordering::Equal),
        (_, None) => false,
        (Comparison::Equal, Some(order)) => order.is_eq(),
        (Comparison::Less, Some(order)) => order.is_lt(),
        (Comparison::LessOrEqual, Some(order)) => order.is_le(),
        (Comparison::Greater, Some(order)) => order.is_gt(),
        (Comparison::GreaterOrEqual, Some(order)) => order.is_ge(),
    })
}
