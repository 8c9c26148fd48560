//! The values of expressions.
//!
//! Evaluation reads nothing itself. Where it needs the rows of a query inside an expression, it
//! stops and says which; whoever drives it gets them and starts over. So all waiting is in one
//! place, and no rows are read, or locked, that the statement doesn't come to.

pub mod cast;

use std::cell::Cell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::ast::Comparison;
use super::error::SqlError;
use super::functions::{Code as FunctionCode, Function, number};
use super::plan::{Node, Query, Subquery, Use};
use crate::engine::{Code, Type, Value};

/// How many nodes a statement may evaluate. At this many, it would have kept its thread busy for
/// seconds.
pub const MAX_STEPS: u64 = 100_000_000;

/// About how many bytes of rows a statement may put together on its way to a result.
pub const MAX_BYTES: u64 = 400_000_000;

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

/// The rows of a query that an evaluation needs before it can go on.
#[derive(Debug)]
pub struct Missing {
    /// The query.
    pub query: Arc<Query>,
    /// The values that it gets from the query around.
    pub arguments: Vec<Value>,
    /// True if more than one row says nothing new.
    pub first_only: bool,
}

/// The result of an evaluation.
pub type Evaluated<T = Value> = Result<T, Stop>;

/// A row.
pub type Row = Vec<Value>;

/// The rows that an expression sees.
#[derive(Clone, Copy, Default)]
pub struct Rows<'a> {
    /// The row at hand.
    pub row: &'a [Value],
    /// The columns of the result, where rows are ordered.
    pub outputs: &'a [Value],
    /// The values that the query around hands in.
    pub arguments: &'a [Value],
}

/// The rows of queries inside expressions, by number of the query and what it got.
///
/// A statement sees the database as it was before it, so what was read once stays true.
type Known = BTreeMap<(usize, Vec<Value>), Arc<Vec<Row>>>;

/// The evaluation of one statement.
#[derive(Debug, Default)]
pub struct Evaluation {
    steps: Cell<u64>,
    bytes: Cell<u64>,
    known: Known,
    given: Vec<Value>,
}

impl Evaluation {
    /// Returns the evaluation of a statement that gets these values.
    pub fn new(given: Vec<Value>) -> Evaluation {
        Evaluation { given, ..Evaluation::default() }
    }

    /// Keeps the rows that were missing.
    pub fn learn(&mut self, missing: Missing, rows: Vec<Row>) {
        self.known.insert((missing.query.number, missing.arguments), Arc::new(rows));
    }

    /// Returns true if a condition holds; NULL doesn't.
    pub fn holds(&self, condition: &Node, rows: &Rows) -> Evaluated<bool> {
        Ok(matches!(self.value(condition, rows)?, Value::Bool(true)))
    }

    /// Returns the value of an expression.
    pub fn value(&self, node: &Node, rows: &Rows) -> Evaluated {
        self.count_steps(1)?;
        let at = |values: &[Value], place: usize| values.get(place).cloned().unwrap_or(Value::Null);
        match node {
            Node::Constant(value) => Ok(value.clone()),
            Node::Given(place) => Ok(at(&self.given, *place)),
            Node::Column(slot) => Ok(at(rows.row, *slot)),
            Node::Output(place) => Ok(at(rows.outputs, *place)),
            Node::Argument(place) => Ok(at(rows.arguments, *place)),
            Node::Cast { operand, target, safe } => self.cast(operand, *target, *safe, rows),
            Node::Array(element, items) => {
                Ok(Value::Array { element, values: self.values(items.iter(), rows)? })
            }
            Node::And(parts) => self.connected(parts, rows, false),
            Node::Or(parts) => self.connected(parts, rows, true),
            Node::Not(operand) => Ok(not(self.value(operand, rows)?)),
            Node::Is(operand, what) => {
                let value = self.value(operand, rows)?;
                Ok(Value::Bool(value == what.map_or(Value::Null, Value::Bool)))
            }
            Node::Compare(comparison, left, right) => {
                let (left, right) = (self.value(left, rows)?, self.value(right, rows)?);
                Ok(compare(*comparison, &left, &right))
            }
            Node::In(operand, list) => self.is_in(operand, list, rows),
            Node::Among { operand, values, or_null } => {
                Ok(is_sorted_among(&self.value(operand, rows)?, values, *or_null))
            }
            Node::InArray(pair) => self.is_in_array(pair, rows),
            Node::Between(parts) => self.between(parts, rows),
            Node::Negate(operand) => {
                let value = self.value(operand, rows)?;
                if value.is_null() { Ok(value) } else { Ok(number::negate(&[value])?) }
            }
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
            Node::Apply(function, arguments) => {
                self.applied(function, &self.values(arguments.iter(), rows)?)
            }
            Node::Chain(first, others) => {
                let mut left = self.value(first, rows)?;
                for (function, right) in others {
                    left = self.applied(function, &[left, self.value(right, rows)?])?;
                }
                Ok(left)
            }
            Node::Subquery(what, subquery) => self.subquery(what, subquery, rows),
        }
    }

    /// Counts what was done.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED once it is too much.
    pub fn count_steps(&self, taken: u64) -> Evaluated<()> {
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

    /// Counts the bytes of a row that is kept until the statement is done, or for long.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED once they are too many.
    pub fn count_bytes(&self, kept: &[Value]) -> Evaluated<()> {
        let own = size_of::<Row>() + size_of_val(kept);
        let row = own + kept.iter().map(Value::size).sum::<usize>();
        let bytes = self.bytes.get().saturating_add(row as u64);
        self.bytes.set(bytes);
        match bytes > MAX_BYTES {
            true => Err(Stop::Failed(SqlError::unplaced(
                Code::ResourceExhausted,
                format!("The statement keeps more than {MAX_BYTES} bytes of rows"),
            ))),
            false => Ok(()),
        }
    }

    /// Returns the rows of a query inside an expression.
    pub fn rows_of(
        &self,
        subquery: &Subquery,
        first_only: bool,
        rows: &Rows,
    ) -> Evaluated<Arc<Vec<Row>>> {
        let place = (subquery.query.number, self.values(subquery.arguments.iter(), rows)?);
        if let Some(known) = self.known.get(&place) {
            return Ok(Arc::clone(known));
        }
        let (query, arguments) = (Arc::clone(&subquery.query), place.1);
        Err(Stop::Missing(Box::new(Missing { query, arguments, first_only })))
    }

    fn subquery(&self, what: &Use, subquery: &Subquery, rows: &Rows) -> Evaluated {
        let found = |first_only| self.rows_of(subquery, first_only, rows);
        let first = |row: &Row| row.first().cloned().unwrap_or(Value::Null);
        match what {
            Use::Exists => Ok(Value::Bool(!found(true)?.is_empty())),
            Use::Value => match found(false)?.as_slice() {
                [] => Ok(Value::Null),
                [row] => Ok(first(row)),
                _ => Err(Stop::Failed(SqlError::unplaced(
                    Code::InvalidArgument,
                    "A scalar subquery returned more than one row.",
                ))),
            },
            Use::Contains(operand) => {
                let operand = self.value(operand, rows)?;
                let values = found(false)?;
                self.count_steps(values.len() as u64)?;
                Ok(is_among(&operand, values.iter().filter_map(|row| row.first())))
            }
        }
    }

    fn cast(&self, operand: &Node, target: Type, safe: bool, rows: &Rows) -> Evaluated {
        match cast::cast(self.value(operand, rows)?, target) {
            Err(error) if safe && error.code() == Code::OutOfRange => Ok(Value::Null),
            other => Ok(other?),
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
        // All are evaluated, whichever it is.
        Ok(is_among(&operand, self.values(list.iter(), rows)?.iter()))
    }

    fn is_in_array(&self, pair: &[Node; 2], rows: &Rows) -> Evaluated {
        let (operand, array) = (self.value(&pair[0], rows)?, self.value(&pair[1], rows)?);
        // An array that is NULL has no elements.
        let Value::Array { values, .. } = array else { return Ok(Value::Bool(false)) };
        self.count_steps(values.len() as u64)?;
        Ok(is_among(&operand, values.iter()))
    }

    /// Returns the value of each of these expressions.
    pub fn values<'n>(
        &self,
        nodes: impl ExactSizeIterator<Item = &'n Node>,
        rows: &Rows,
    ) -> Evaluated<Vec<Value>> {
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

    fn applied(&self, function: &Function, values: &[Value]) -> Evaluated {
        self.count_steps(function.cost(values))?;
        match function.code {
            FunctionCode::Strict(_) if values.iter().any(Value::is_null) => Ok(Value::Null),
            FunctionCode::Strict(code) | FunctionCode::Plain(code) => Ok(code(values)?),
            _ => Err(Stop::Failed(SqlError::unplaced(
                Code::Internal,
                format!("{} was not bound to what computes it", function.name),
            ))),
        }
    }
}

fn not(value: Value) -> Value {
    match value {
        Value::Bool(value) => Value::Bool(!value),
        other => other,
    }
}

fn is_among<'v>(operand: &Value, values: impl Iterator<Item = &'v Value>) -> Value {
    let mut result = Value::Bool(false);
    for value in values {
        match compare(Comparison::Equal, operand, value) {
            Value::Bool(true) => return Value::Bool(true),
            Value::Bool(false) => {}
            _ => result = Value::Null,
        }
    }
    result
}

/// As [`is_among`], of values in order, without NULL and NaN.
fn is_sorted_among(operand: &Value, values: &[Value], or_null: bool) -> Value {
    let found = values.binary_search(operand).is_ok();
    match (found, or_null || operand.is_null()) {
        (true, _) => Value::Bool(true),
        (false, true) if !values.is_empty() || or_null => Value::Null,
        (false, _) => Value::Bool(false),
    }
}

/// Compares two values of one type as SQL does: NULL if one is, and a NaN is only different from
/// any value.
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
