//! The content of a cell.

use super::value::{Timestamp, Value};

/// The value that a [`super::Mutation`] puts into a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// This value.
    Value(Value),
    /// The timestamp of the commit, whatever it will be.
    CommitTimestamp,
}

impl Cell {
    /// Returns its value, with this timestamp for that of the commit.
    pub(super) fn into_value(self, commit: Timestamp) -> Value {
        match self {
            Cell::Value(value) => value,
            Cell::CommitTimestamp => Value::Timestamp(commit),
        }
    }
}

impl<T: Into<Value>> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::Value(value.into())
    }
}
