//! Statements that write.

use std::sync::Arc;

use super::query::{Node, Output, Query, Scan};
use crate::sql::ast::InsertMode;

/// A statement that writes.
#[derive(Clone, Debug, PartialEq)]
pub struct Write {
    /// The rows, and what is read of them.
    pub target: Target,
    /// The change to each of them.
    pub action: Action,
    /// The shown parts of each row, as it is afterwards, or as a deleted one was before.
    pub returning: Option<Vec<Output>>,
}

/// The table that a statement writes. The first slots are those of the key.
#[derive(Clone, Debug, PartialEq)]
pub struct Target {
    /// The table.
    pub scan: Scan,
    /// How many slots a row has.
    pub width: usize,
}

/// The work of a statement on its rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    /// `INSERT`
    Insert(Insertion),
    /// `UPDATE`
    Update {
        /// The condition that picks the rows.
        filter: Node,
        /// The columns, by position in the table, and what they get.
        assignments: Vec<(usize, NewValue)>,
    },
    /// `DELETE`
    Delete {
        /// The condition that picks the rows.
        filter: Node,
    },
}

/// An `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub struct Insertion {
    /// The effect on rows that are there already.
    pub mode: InsertMode,
    /// The columns that get values, by position in the table.
    pub columns: Vec<usize>,
    /// The rows.
    pub rows: InsertRows,
    /// The values of the other columns of a new row, where they aren't NULL.
    pub defaults: Vec<(usize, NewValue)>,
}

/// The rows of an `INSERT`.
#[derive(Clone, Debug, PartialEq)]
pub enum InsertRows {
    /// Written out.
    Values(Vec<Vec<NewValue>>),
    /// The result of a query.
    Query(Arc<Query>),
}

/// The new value of a column.
#[derive(Clone, Debug, PartialEq)]
pub enum NewValue {
    /// The value of the expression.
    Computed(Node),
    /// The timestamp of the commit, whatever it will be.
    CommitTimestamp,
}
