//! The content of a cell.

use super::value::Value;

/// The value that a [`super::Mutation`] puts into a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    /// This value.
    Value(Value),
    /// The timestamp of the commit, whatever it will be.
    CommitTimestamp,
}

impl<T: Into<Value>> From<T> for Cell {
    fn from(value: T) -> Cell {
        Cell::Value(value.into())
    }
}
