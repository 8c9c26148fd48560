//! A table's definition.

use std::cmp::Reverse;

use super::column::Column;
use super::error::{Error, Result};
use super::formula::Formula;
use super::value::{Key, KeyPart, Type, Value};

/// One column of a primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyColumn {
    /// Position in [`Table::columns`].
    pub position: usize,
    /// True if it is listed as `DESC`.
    pub descending: bool,
}

impl KeyColumn {
    /// Returns the part of a key that has this value here.
    pub fn of(&self, value: Value) -> KeyPart {
        match self.descending {
            false => KeyPart::Ascending(value),
            true => KeyPart::Descending(Reverse(value)),
        }
    }
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
    /// The constraints on each of its rows.
    pub checks: Vec<Check>,
    /// The references of its rows.
    pub foreign_keys: Vec<ForeignKey>,
    /// `ROW DELETION POLICY (…)`, which is kept and deletes nothing.
    pub row_deletion_policy: Option<String>,
}

/// `CHECK (…)`: what is not FALSE in any row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Check {
    /// The constraint's name; empty before the schema has given it one.
    pub name: String,
    /// True if whoever made it named it.
    pub is_named: bool,
    /// The condition.
    pub condition: Formula,
}

/// `FOREIGN KEY (…) REFERENCES … (…)`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKey {
    /// The constraint's name; empty before the schema has given it one.
    pub name: String,
    /// True if whoever made it named it.
    pub is_named: bool,
    /// The columns that refer.
    pub columns: Vec<String>,
    /// The table that they refer to.
    pub table: String,
    /// The columns there, in the same order.
    pub referenced: Vec<String>,
    /// The effect on a row whose reference is deleted; `None` where DDL doesn't say, which is
    /// [`OnDelete::NoAction`].
    pub on_delete: Option<OnDelete>,
    /// True if it is more than a remark: not `NOT ENFORCED`.
    pub is_enforced: bool,
}

/// A constraint of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Constraint {
    /// `CHECK`
    Check(Check),
    /// `FOREIGN KEY`
    ForeignKey(ForeignKey),
}

/// `INTERLEAVE IN`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parent {
    /// The table above.
    pub table: String,
    /// True if each row needs one above it: `INTERLEAVE IN PARENT`.
    pub is_enforced: bool,
    /// The effect on the rows below one that is deleted.
    pub on_delete: OnDelete,
}

/// The effect on rows that depend on one that is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDelete {
    /// While there are some, it cannot be deleted.
    #[default]
    NoAction,
    /// They are deleted with it.
    Cascade,
}

impl Table {
    /// Returns true if rows of the other have the same keys, and the same in these columns.
    pub(super) fn has_form_of(&self, other: &Table, columns: &[String]) -> bool {
        let types = |table: &Table| -> Vec<Option<Type>> {
            let at = |name: &String| table.position(name);
            let places = columns.iter().map(at);
            places.map(|at| at.map(|at| table.columns[at].column_type)).collect()
        };
        let key = |table: &Table| -> Vec<(String, Type, bool)> {
            let part = |part: &KeyColumn| {
                let column = &table.columns[part.position];
                (column.name.clone(), column.column_type, part.descending)
            };
            table.primary_key.iter().map(part).collect()
        };
        key(self) == key(other) && types(self) == types(other)
    }

    /// Returns a table of this name, without columns so far.
    pub fn new(name: &str) -> Table {
        Table {
            name: name.to_owned(),
            columns: Vec::new(),
            primary_key: Vec::new(),
            parent: None,
            checks: Vec::new(),
            foreign_keys: Vec::new(),
            row_deletion_policy: None,
        }
    }

    /// Returns the position of a column in [`Table::columns`], by name in any case.
    pub fn position(&self, column: &str) -> Option<usize> {
        self.columns.iter().position(|candidate| candidate.name.eq_ignore_ascii_case(column))
    }

    /// Returns the same of a column that must be there.
    ///
    /// # Errors
    /// It isn't.
    pub fn find(&self, column: &str) -> Result<usize> {
        self.position(column).ok_or_else(|| Error::column_not_found(&self.name, column))
    }

    /// Returns true if the column at this position is part of the primary key.
    pub fn is_key(&self, position: usize) -> bool {
        self.primary_key.iter().any(|part| part.position == position)
    }

    /// Returns true if nothing is to be computed or checked in its rows by themselves.
    pub(super) fn is_plain(&self) -> bool {
        self.checks.is_empty() && self.columns.iter().all(|column| column.generated.is_none())
    }

    /// Returns the positions of these columns, if all of them are there.
    pub(super) fn positions(&self, columns: &[String]) -> Option<Vec<usize>> {
        columns.iter().map(|column| self.position(column)).collect()
    }

    /// Returns the generated columns, each behind those that it is made of.
    ///
    /// # Errors
    /// Some are made of each other.
    pub(super) fn generated(&self) -> Result<Vec<usize>> {
        let mut order = Vec::new();
        let mut waiting: Vec<usize> =
            (0..self.columns.len()).filter(|at| self.columns[*at].generated.is_some()).collect();
        while !waiting.is_empty() {
            let needs_other = |at: &usize| {
                let formula = self.columns[*at].generated.as_ref();
                let mut others = waiting.iter();
                others.any(|other| formula.is_some_and(|f| f.uses(&self.columns[*other].name)))
            };
            let (later, now): (Vec<_>, Vec<_>) = waiting.iter().partition(|at| needs_other(at));
            if now.is_empty() {
                let names: Vec<&str> =
                    later.iter().map(|at: &usize| self.columns[*at].name.as_str()).collect();
                return Err(Error::failed_precondition(format!(
                    "Generated columns of table {} depend on each other: {}.",
                    self.name,
                    names.join(", ")
                )));
            }
            order.extend(now);
            waiting = later;
        }
        Ok(order)
    }

    /// Returns the generated columns that change with these, which are made of them or of what is.
    pub fn dependents(&self, positions: impl IntoIterator<Item = usize>) -> Vec<usize> {
        let mut changed: Vec<usize> = positions.into_iter().collect();
        let mut dependents = Vec::new();
        for at in self.generated().unwrap_or_default() {
            let formula = self.columns[at].generated.as_ref();
            let uses = |other: &usize| formula.is_some_and(|f| f.uses(&self.columns[*other].name));
            if changed.iter().any(uses) {
                changed.push(at);
                dependents.push(at);
            }
        }
        dependents
    }

    /// Puts into a row, which has a value for each column, what its generated columns hold.
    ///
    /// # Errors
    /// One of them has no value for this row.
    pub fn generate(&self, row: &mut [Value]) -> Result<()> {
        let order = self.generated()?;
        if order.is_empty() {
            return Ok(());
        }
        let columns = self.names_and_types();
        for at in order {
            let column = &self.columns[at];
            if let Some(formula) = &column.generated {
                row[at] = formula.value(&columns, column.column_type, row)?;
            }
        }
        Ok(())
    }

    /// Returns the columns as a formula sees them.
    pub(super) fn names_and_types(&self) -> Vec<(&str, Type)> {
        self.columns.iter().map(|column| (column.name.as_str(), column.column_type)).collect()
    }

    /// Returns the key, or the prefix of one, made of `values` in the order of the primary key.
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
            key.0.push(part.of(value));
        }
        Ok(key)
    }

    /// Returns the key of a whole row, whose values stand in the order of [`Table::columns`].
    pub fn key_of_row(&self, row: &[Value]) -> Key {
        let parts = self
            .primary_key
            .iter()
            .map(|part| part.of(row.get(part.position).cloned().unwrap_or(Value::Null)));
        Key(parts.collect())
    }
}
