//! A table's definition.

use std::cmp::Reverse;

use super::column::Column;
use super::error::{Error, Result};
use super::value::{Key, KeyPart, Value};

/// One column of a primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Position in [`Table::columns`].
    pub position: usize,
    /// Whether it is listed as `DESC`.
    pub descending: bool,
}

/// A table's definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The name, in the case it was created with.
    pub name: String,
    /// The columns, in the order they were created.
    pub columns: Vec<Column>,
    /// The primary key; empty for a table of at most one row.
    pub primary_key: Vec<KeyColumn>,
    /// The table that it is interleaved in.
    pub parent: Option<Parent>,
}

/// `INTERLEAVE IN`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The table above.
    pub table: String,
    /// Whether each row needs one above it: `INTERLEAVE IN PARENT`.
    pub is_enforced: bool,
    /// What happens to the rows below one that is deleted.
    pub on_delete: OnDelete,
}

/// What becomes of rows that depend on one that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// While there are some, it cannot be deleted.
    #[default]
    NoAction,
    /// They are deleted with it.
    Cascade,
}

impl Table {
    /// A table of this name, without columns so far.
    pub fn new(name: &str) -> Table {
        Table { name: name.to_owned(), columns: Vec::new(), primary_key: Vec::new(), parent: None }
    }

    /// The position of a column in [`Table::columns`], by name in any case.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|candidate| candidate.name.eq_ignore_ascii_case(column))
    }

    /// Whether the column at this position is part of the primary key.
    pub fn is_key(&self, position: usize) -> bool {
        self.primary_key.iter().any(|part| part.position == position)
    }

    /// The key, or the prefix of one, made of `values` in the order of the primary key.
    ///
    /// # Errors
    /// More values than the key has parts.
    pub fn key(&self, values: impl IntoIterator<Item = Value>) -> Result<Key> {
        let mut key = Key::default();
        for value in values {
            let Some(part) = self.primary_key.get(key.0.len()) else {
                return Err(Error::failed_precondition(format!(
                    "Wrong number of key parts for {}. Expected {} key parts, found more.",
                    self.name,
                    self.primary_key.len(),
                )));
            };
            key.0.push(match part.descending {
                false => KeyPart::Ascending(value),
                true => KeyPart::Descending(Reverse(value)),
            });
        }
        Ok(key)
    }

    /// The key of a whole row, whose values stand in the order of [`Table::columns`].
    pub fn key_of_row(&self, row: &[Value]) -> Key {
        let parts = self.primary_key.iter().map(|part| {
            let value = row.get(part.position).cloned().unwrap_or(Value::Null);
            match part.descending {
                false => KeyPart::Ascending(value),
                true => KeyPart::Descending(Reverse(value)),
            }
        });
        Key(parts.collect())
    }
}
