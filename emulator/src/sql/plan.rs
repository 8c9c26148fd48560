//! Statements whose names and types are settled, ready to be evaluated.

use std::sync::Arc;

use super::ast::{BinaryOp, Comparison, InsertMode};
use crate::engine::{Table, Type, Value};

/// A statement.
#[derive(Clone, Debug, PartialEq)]
pub enum Plan {
    /// One that reads.
    Query(Query),
    /// One that writes.
    Write(Write),
}

/// An expression that can be evaluated. Untyped: whoever made it has checked that.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// A value.
    Constant(Value),
    /// A column of a row at hand.
    Column {
        /// How many queries further out the row is.
        outward: usize,
        /// Which of the columns that are read.
        index: usize,
    },
    /// A value as one of another type.
    Cast {
        /// The value.
        operand: Box<Node>,
        /// The type.
        target: Type,
        /// Whether it is NULL where that fails.
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
    /// Whether the operand is NULL (`None`) or this BOOL; never NULL.
    Is(Box<Node>, Option<bool>),
    /// A comparison of two values of one type.
    Compare(Comparison, Box<Node>, Box<Node>),
    /// Whether the operand is one of the others.
    In(Box<Node>, Vec<Node>),
    /// Whether the first is an element of the second, an array.
    InArray(Box<[Node; 2]>),
    /// Whether the operand lies from the second to the third.
    Between(Box<[Node; 3]>),
    /// Arithmetic on two numbers of one type, or `||` on two STRING or two BYTES.
    Binary(BinaryOp, Box<Node>, Box<Node>),
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
        /// What is compared.
        operand: Box<Node>,
        /// What it is compared with, and values.
        branches: Vec<(Node, Node)>,
        /// The value if there is no such branch.
        otherwise: Box<Node>,
    },
    /// The first that is not NULL.
    Coalesce(Vec<Node>),
    /// NULL if both are equal, else the first.
    NullIf(Box<[Node; 2]>),
    /// A function that is NULL if an argument is.
    Apply(Function, Vec<Node>),
    /// An expression that stands in several places.
    Shared(Arc<Node>),
    /// Whether a query has rows.
    Exists(Box<Query>),
}

impl Node {
    /// Shows every node that this one is directly made of, those of a subquery left out.
    pub fn for_each_child<'a>(&'a self, see: &mut impl FnMut(&'a Node)) {
        match self {
            Node::Constant(_) | Node::Column { .. } | Node::Exists(_) => {}
            Node::Cast { operand, .. }
            | Node::Not(operand)
            | Node::Is(operand, _)
            | Node::Negate(operand) => see(operand),
            Node::Shared(operand) => see(operand),
            Node::And(nodes)
            | Node::Or(nodes)
            | Node::Coalesce(nodes)
            | Node::Apply(_, nodes)
            | Node::Array(_, nodes) => nodes.iter().for_each(see),
            Node::Compare(_, left, right) | Node::Binary(_, left, right) => {
                see(left);
                see(right);
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
        }
    }
}

/// A function that evaluates all its arguments and is NULL if one of them is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    /// `STARTS_WITH(text, prefix)`
    StartsWith,
    /// `CONCAT(text, …)`
    Concat,
    /// `LENGTH(text)`
    Length,
    /// `TIMESTAMP_DIFF(later, earlier, unit)`
    TimestampDiff(Unit),
    /// `TIMESTAMP_ADD(timestamp, INTERVAL amount unit)`
    TimestampAdd(Unit),
    /// `TIMESTAMP_SUB(timestamp, INTERVAL amount unit)`
    TimestampSub(Unit),
    /// `TIMESTAMP(text)`
    Timestamp,
    /// `text LIKE pattern`
    Like,
    /// `ENDS_WITH(text, suffix)`
    EndsWith,
    /// `BYTE_LENGTH(text)`
    ByteLength,
    /// `LOWER(text)`
    Lower,
    /// `UPPER(text)`
    Upper,
    /// `SUBSTR(text, position, length)`
    Substr,
    /// `TRIM(text, set)`, of the start, the end or both
    Trim {
        /// Whether the start is trimmed.
        start: bool,
        /// Whether the end is trimmed.
        end: bool,
    },
    /// `REPLACE(text, from, to)`
    Replace,
    /// `STRPOS(text, part)`
    Strpos,
    /// `TO_HEX(bytes)`
    ToHex,
    /// `FROM_HEX(text)`
    FromHex,
    /// `GENERATE_UUID()`, another value each time
    GenerateUuid,
    /// `ABS(number)`
    Abs,
    /// `MOD(number, divisor)`
    Mod,
    /// `GREATEST(value, …)`
    Greatest,
    /// `LEAST(value, …)`
    Least,
    /// `ARRAY_LENGTH(array)`
    ArrayLength,
}

/// A unit of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// `NANOSECOND`
    Nanosecond,
    /// `MICROSECOND`
    Microsecond,
    /// `MILLISECOND`
    Millisecond,
    /// `SECOND`
    Second,
    /// `MINUTE`
    Minute,
    /// `HOUR`
    Hour,
    /// `DAY`, of 24 hours.
    Day,
}

impl Unit {
    /// Every unit.
    pub const ALL: [Unit; 7] = [
        Unit::Nanosecond,
        Unit::Microsecond,
        Unit::Millisecond,
        Unit::Second,
        Unit::Minute,
        Unit::Hour,
        Unit::Day,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanosecond => "NANOSECOND",
            Unit::Microsecond => "MICROSECOND",
            Unit::Millisecond => "MILLISECOND",
            Unit::Second => "SECOND",
            Unit::Minute => "MINUTE",
            Unit::Hour => "HOUR",
            Unit::Day => "DAY",
        }
    }

    /// Its length.
    pub fn nanos(self) -> i128 {
        match self {
            Unit::Nanosecond => 1,
            Unit::Microsecond => 1_000,
            Unit::Millisecond => 1_000_000,
            Unit::Second => 1_000_000_000,
            Unit::Minute => 60_000_000_000,
            Unit::Hour => 3_600_000_000_000,
            Unit::Day => 86_400_000_000_000,
        }
    }
}

/// Where rows come from, and what is read of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Source {
    /// Whose rows.
    pub relation: Relation,
    /// The columns that are read, by position in the relation.
    pub used: Vec<usize>,
}

/// What has rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Relation {
    /// A table.
    Table(Table),
    /// Something that is known without reading, such as `INFORMATION_SCHEMA`.
    Fixed(Vec<Vec<Value>>),
}

/// A query.
#[derive(Clone, Debug, PartialEq)]
pub struct Query {
    /// Tells it from the other queries of its statement.
    pub number: usize,
    /// Without one, there is one row without columns.
    pub source: Option<Source>,
    /// Which rows count.
    pub filter: Option<Node>,
    /// What is made of all rows, if that makes them one row.
    pub aggregates: Option<Vec<Aggregate>>,
    /// The result's columns. With `aggregates`, they see those as their columns.
    pub outputs: Vec<Output>,
    /// What to order by, the most important first; like `outputs`.
    pub order: Vec<OrderBy>,
    /// How many rows to leave out.
    pub skip: u64,
    /// How many rows at most.
    pub limit: Option<u64>,
}

/// A value made of all rows. NULLs don't count.
#[derive(Clone, Debug, PartialEq)]
pub struct Aggregate {
    /// What is done with the values.
    pub fold: Fold,
    /// Whether equal values count once.
    pub distinct: bool,
    /// The value of each row.
    pub operand: Node,
}

/// What an [`Aggregate`] does with the values of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// How many there are.
    Count,
    /// Their sum.
    Sum,
    /// The least.
    Min,
    /// The greatest.
    Max,
}

/// A column of a result.
#[derive(Clone, Debug, PartialEq)]
pub struct Output {
    /// Its name; empty if the query doesn't give it one.
    pub name: String,
    /// Its type; `None` for a NULL that could have any.
    pub value_type: Option<Type>,
    /// How to compute it.
    pub node: Node,
}

/// One item of `ORDER BY`.
#[derive(Clone, Debug, PartialEq)]
pub struct OrderBy {
    /// What to order by.
    pub node: Node,
    /// Whether large values come first.
    pub descending: bool,
    /// Whether NULLs come first.
    pub nulls_first: bool,
}

/// A statement that writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// `INSERT`
    Insert(Insertion),
    /// `UPDATE`
    Update {
        /// Which rows, and what is read of them; the key comes first.
        source: Source,
        /// Which rows.
        filter: Node,
        /// The columns, by position in the table, and what they get.
        assignments: Vec<(usize, NewValue)>,
        /// What is shown of each row, as it is afterwards.
        returning: Option<Vec<Output>>,
    },
    /// `DELETE`
    Delete {
        /// Which rows, and what is read of them; the key comes first.
        source: Source,
        /// Which rows.
        filter: Node,
        /// What is shown of each row, as it was before.
        returning: Option<Vec<Output>>,
    },
}

/// An `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insertion {
    /// The table, and what of the new rows is shown; the key comes first.
    pub source: Source,
    /// What becomes of rows that are there already.
    pub mode: InsertMode,
    /// Which columns get values, by position in the table.
    pub columns: Vec<usize>,
    /// The rows.
    pub rows: InsertRows,
    /// What the other columns of a new row get, where it isn't NULL.
    pub defaults: Vec<(usize, NewValue)>,
    /// What is shown of each row.
    pub returning: Option<Vec<Output>>,
}

/// The rows of an `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertRows {
    /// Written out.
    Values(Vec<Vec<NewValue>>),
    /// The result of a query.
    Query(Box<Query>),
}

/// What a column gets.
#[derive(Clone, Debug, PartialEq)]
pub enum NewValue {
    /// What the expression says.
    Computed(Node),
    /// The timestamp of the commit, whatever it will be.
    CommitTimestamp,
}
