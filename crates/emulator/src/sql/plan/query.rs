//! Expressions and queries, which are made of each other.

use std::sync::Arc;

use crate::engine::{BoundIndex, Table, Type, Value};
use crate::sql::ast::Comparison;
use crate::sql::functions::Function;
use crate::sql::functions::fold::Fold;

/// An expression that can be evaluated. Untyped: whoever made it has checked that.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A value.
    Constant(Value),
    /// A value that is given when the statement runs: the time, or a parameter behind it.
    Given(usize),
    /// A slot of the row at hand.
    Column(usize),
    /// A column of the result, where rows are ordered.
    Output(usize),
    /// A value that the query around hands in.
    Argument(usize),
    /// A value as one of another type.
    Cast {
        /// The value.
        operand: Box<Node>,
        /// The type.
        target: Type,
        /// True if it is NULL where that fails.
        safe: bool,
    },
    /// An array.
    Array(&'static Type, Vec<Node>),
    /// TRUE if all are.
    And(Vec<Node>),
    /// TRUE if one is.
    Or(Vec<Node>),
    /// The opposite.
    Not(Box<Node>),
    /// True if the operand is NULL (`None`) or this BOOL; never NULL.
    Is(Box<Node>, Option<bool>),
    /// A comparison of two values of one type.
    Compare(Comparison, Box<Node>, Box<Node>),
    /// True if the operand is one of the others.
    In(Box<Node>, Vec<Node>),
    /// True if the operand is one of these values.
    Among {
        /// The value to find.
        operand: Box<Node>,
        /// In order, without NULL and NaN.
        values: Arc<Vec<Value>>,
        /// True if NULL was one of them.
        or_null: bool,
    },
    /// True if the first is an element of the second, an array.
    InArray(Box<[Node; 2]>),
    /// True if the operand lies from the second to the third.
    Between(Box<[Node; 3]>),
    /// The number with the other sign.
    Negate(Box<Node>),
    /// The value of the first branch whose condition is TRUE.
    Case {
        /// Conditions and values.
        branches: Vec<(Node, Node)>,
        /// The value if there is no such branch.
        otherwise: Box<Node>,
    },
    /// The value of the first branch that equals the operand.
    CaseOf {
        /// The value to compare.
        operand: Box<Node>,
        /// The values to compare it with, and the results.
        branches: Vec<(Node, Node)>,
        /// The value if there is no such branch.
        otherwise: Box<Node>,
    },
    /// The first that is not NULL.
    Coalesce(Vec<Node>),
    /// NULL if both are equal, else the first.
    NullIf(Box<[Node; 2]>),
    /// A function of values.
    Apply(&'static Function, Vec<Node>),
    /// A function of the value so far and of the next, from left to right.
    Chain(Box<Node>, Vec<(&'static Function, Node)>),
    /// The value that comes of the rows of a query.
    Subquery(Use, Subquery),
}

/// The use that an expression makes of the rows of a query.
#[derive(Clone, Debug, PartialEq)]
pub enum Use {
    /// True if there are any.
    Exists,
    /// The only value; NULL without rows.
    Value,
    /// True if this value is among them.
    Contains(Box<Node>),
}

/// A query inside another.
#[derive(Clone, Debug, PartialEq)]
pub struct Subquery {
    /// The query.
    pub query: Arc<Query>,
    /// The values that it gets from the query around.
    pub arguments: Vec<Node>,
}

impl Node {
    /// Shows every node that this one is directly made of; of a subquery, what is handed in.
    pub fn for_each_child<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
        match self {
            Node::Constant(_)
            | Node::Given(_)
            | Node::Column(_)
            | Node::Output(_)
            | Node::Argument(_) => {}
            Node::Cast { operand, .. }
            | Node::Among { operand, .. }
            | Node::Not(operand)
            | Node::Is(operand, _)
            | Node::Negate(operand) => see(operand),
            Node::And(nodes)
            | Node::Or(nodes)
            | Node::Coalesce(nodes)
            | Node::Apply(_, nodes)
            | Node::Array(_, nodes) => nodes.iter().for_each(see),
            Node::Compare(_, left, right) => {
                see(left);
                see(right);
            }
            Node::Chain(first, others) => {
                see(first);
                others.iter().for_each(|(_, node)| see(node));
            }
            Node::In(operand, list) => {
                see(operand);
                list.iter().for_each(see);
            }
            Node::Between(nodes) => nodes.iter().for_each(see),
            Node::NullIf(nodes) | Node::InArray(nodes) => nodes.iter().for_each(see),
            Node::Case { branches, otherwise } => {
                see(otherwise);
                for (condition, value) in branches {
                    see(condition);
                    see(value);
                }
            }
            Node::CaseOf { operand, branches, otherwise } => {
                see(operand);
                see(otherwise);
                for (candidate, value) in branches {
                    see(candidate);
                    see(value);
                }
            }
            Node::Subquery(what, subquery) => {
                if let Use::Contains(operand) = what {
                    see(operand);
                }
                subquery.arguments.iter().for_each(see);
            }
        }
    }

    /// Makes the node that tells if the operand is one of these values.
    pub fn among(operand: Node, mut values: Vec<Value>) -> Node {
        let count = values.len();
        values.retain(|value| !value.is_null());
        let or_null = values.len() < count;
        // A NaN equals nothing. One of NaNs alone still knows of a NULL that it is none of them.
        let nan = |value: &Value| matches!(value, Value::Float64(value) if value.is_nan());
        if values.iter().any(nan) {
            let mut list: Vec<Node> = values.into_iter().map(Node::Constant).collect();
            list.extend(or_null.then_some(Node::Constant(Value::Null)));
            return Node::In(Box::new(operand), list);
        }
        values.sort();
        values.dedup();
        Node::Among { operand: Box::new(operand), values: Arc::new(values), or_null }
    }

    /// Makes one chain of a function of a chain and of another value, so that many of them stay flat.
    pub fn chained(self) -> Node {
        match self {
            Node::Apply(function, nodes) => match <[Node; 2]>::try_from(nodes) {
                Ok([Node::Chain(first, mut others), right]) => {
                    others.push((function, right));
                    Node::Chain(first, others)
                }
                Ok([left, right]) => Node::Chain(Box::new(left), vec![(function, right)]),
                Err(nodes) => Node::Apply(function, nodes),
            },
            other => other,
        }
    }

    /// Returns the node of conditions that all have to hold. None of its parts is such a node.
    pub fn and(conditions: Vec<Node>) -> Node {
        if !conditions.iter().any(|node| matches!(node, Node::And(_))) {
            return Node::And(conditions);
        }
        let mut parts = Vec::with_capacity(conditions.len());
        for node in conditions {
            match node {
                Node::And(inner) => parts.extend(inner),
                other => parts.push(other),
            }
        }
        Node::And(parts)
    }

    /// Returns the conditions that all have to hold for this one to.
    pub fn conjuncts(&self) -> &[Node] {
        match self {
            Node::And(parts) => parts,
            one => std::slice::from_ref(one),
        }
    }

    /// Returns true if this holds for the node or for one that it is made of.
    pub fn any(&self, holds: &impl Fn(&Node) -> bool) -> bool {
        let mut found = holds(self);
        self.for_each_child(&mut |child| found = found || child.any(holds));
        found
    }

    /// Returns true if the value may be another one each time.
    pub fn is_unsteady(&self) -> bool {
        self.any(
            &|node| matches!(node, Node::Apply(function, _) if function.name == "GENERATE_UUID"),
        )
    }
}

/// The rows of a table, and what is read of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Scan {
    /// The table.
    pub table: Arc<Table>,
    /// The columns that are read, by position in the table, and the slots they get.
    pub used: Vec<(usize, usize)>,
    /// The indexes that may be read in place of the table.
    pub indexes: Vec<Arc<BoundIndex>>,
    /// True if one of those has to be, or, if there are none, the table.
    pub is_forced: bool,
}

impl Scan {
    /// Returns the slot of a column by its position in the table; `None` if it isn't used.
    pub fn slot(&self, position: usize) -> Option<usize> {
        self.used.iter().find(|(used, _)| *used == position).map(|(_, slot)| *slot)
    }

    /// Returns the same of a column of an index.
    pub fn slot_in(&self, index: &BoundIndex, position: usize) -> Option<usize> {
        let column = index.entries.columns.get(position)?;
        self.slot(self.table.position(&column.name)?)
    }
}

/// Where rows come from.
#[derive(Clone, Debug, PartialEq)]
pub enum Source {
    /// A table.
    Table(Scan),
    /// Rows that are known without reading, such as those of `INFORMATION_SCHEMA`.
    Fixed {
        /// The rows.
        rows: Arc<Vec<Vec<Value>>>,
        /// The columns that are used, and the slots they get.
        used: Vec<(usize, usize)>,
    },
    /// The result of a query.
    Query {
        /// The query.
        subquery: Subquery,
        /// The columns that are used, and the slots they get.
        used: Vec<(usize, usize)>,
    },
}

impl Source {
    /// Returns the columns that are used, and the slots they get.
    pub fn used(&self) -> &[(usize, usize)] {
        match self {
            Source::Table(Scan { used, .. })
            | Source::Fixed { used, .. }
            | Source::Query { used, .. } => used,
        }
    }

    /// As [`Source::used`], to be set.
    pub fn used_mut(&mut self) -> &mut Vec<(usize, usize)> {
        match self {
            Source::Table(Scan { used, .. })
            | Source::Fixed { used, .. }
            | Source::Query { used, .. } => used,
        }
    }
}

/// One step of `FROM`: what comes to the rows so far.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// The rows that come to each of them.
    pub source: Source,
    /// True if a row stays, with NULLs, that nothing comes to.
    pub keeps_unmatched: bool,
    /// The condition for a pair to count.
    pub on: Option<Node>,
}

/// A query.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Query {
    /// Tells it from the other queries of its statement.
    pub number: usize,
    /// `FROM`, from left to right. Without any, there is one row.
    pub steps: Vec<Step>,
    /// How many slots a row has.
    pub width: usize,
    /// The condition for a row to count.
    pub filter: Option<Node>,
    /// Where all rows make one, the values of it; from there on, a row has a slot for each.
    pub aggregates: Option<Vec<Aggregate>>,
    /// The result's columns.
    pub outputs: Vec<Output>,
    /// The values to order by, the most important first.
    pub order: Vec<OrderBy>,
    /// How many rows to leave out.
    pub skip: u64,
    /// How many rows at most.
    pub limit: Option<u64>,
    /// True if what is read is locked as if it were written.
    pub for_update: bool,
}

/// A value made of all rows.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// The work on the values.
    pub fold: Fold,
    /// True if equal values count once.
    pub distinct: bool,
    /// The value of each row.
    pub operand: Node,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its name; empty if the query doesn't give it one.
    pub name: String,
    /// Its type.
    pub value_type: Type,
    /// How to compute it.
    pub node: Node,
}

/// One item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// The value to order by.
    pub node: Node,
    /// True if large values come first. NULL is smaller than all.
    pub descending: bool,
}
