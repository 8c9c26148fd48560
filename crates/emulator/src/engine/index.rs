//! Secondary indexes: tables of their own that each commit keeps in step with the rows.

use super::cell::Cell;
use super::check::check_key_length;
use super::column::Column;
use super::error::{Error, Result};
use super::table::{KeyColumn, Table};
use super::value::{Key, Timestamp, Value};

/// A column of an index's key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexColumn {
    /// Its name in the table.
    pub name: String,
    /// True if it is listed as `DESC`.
    pub descending: bool,
}

/// An index, as DDL defines it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Index {
    /// The name, in the case it was created with.
    pub name: String,
    /// The table's name.
    pub table: String,
    /// True if no two rows may have the same key.
    pub unique: bool,
    /// True if rows with NULL in the key are left out.
    pub null_filtered: bool,
    /// Its key. The table's own key stands behind it, as far as it isn't part of it.
    pub columns: Vec<IndexColumn>,
    /// Columns that it keeps besides.
    pub storing: Vec<String>,
    /// The table that it is interleaved in, which changes nothing but where it is stored.
    pub interleaved_in: Option<String>,
    /// True if it was made for a foreign key, and not by DDL of its own.
    pub is_managed: bool,
}

/// An index over the columns that its table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundIndex {
    /// Its definition.
    pub definition: Index,
    /// The index as a table: what it can be read for, and the order of its rows.
    pub entries: Table,
    /// Where in a row of the table the columns of an entry come from.
    pub(super) sources: Vec<usize>,
}

impl BoundIndex {
    /// Finds the columns of an index in its table.
    pub(super) fn new(definition: Index, table: &Table) -> Result<BoundIndex> {
        let name = &definition.name;
        let find = |column: &str| {
            let position = table.position(column);
            position.filter(|at| table.columns[*at].name == column).ok_or_else(|| {
                Error::invalid_argument(format!(
                    "Index {name} specifies key column {column} which does not exist in its base \
                     table {}.",
                    table.name
                ))
            })
        };
        if definition.columns.is_empty() {
            return Err(Error::invalid_argument(format!(
                "Index {name} does not specify any key columns."
            )));
        }
        let mut entries = Table::new(name);
        let mut sources: Vec<usize> = Vec::new();
        let key =
            definition.columns.iter().map(|column| Ok((find(&column.name)?, column.descending)));
        for part in key.collect::<Result<Vec<_>>>()? {
            if sources.contains(&part.0) {
                return Err(Error::invalid_argument(format!(
                    "Index {name} specifies key column {} more than once.",
                    table.columns[part.0].name
                )));
            }
            if !table.columns[part.0].column_type.is_comparable() {
                return Err(Error::failed_precondition(format!(
                    "Cannot reference {} {} in the creation of index {name}.",
                    table.columns[part.0].column_type, table.columns[part.0].name
                )));
            }
            entries.add_key_column(&table.columns[part.0], part.1);
            sources.push(part.0);
        }
        for part in &table.primary_key {
            if !sources.contains(&part.position) {
                entries.add_key_column(&table.columns[part.position], part.descending);
                sources.push(part.position);
            }
        }
        check_key_length("Index", &entries)?;
        let own_key = &sources[..definition.columns.len()];
        let is_table_key = |at: &usize| table.is_key(*at) && !own_key.contains(at);
        let stored = definition.storing.iter().map(|column| find(column));
        let stored = stored.collect::<Result<Vec<_>>>()?;
        if let Some(at) = stored.iter().find(|at| is_table_key(at)) {
            return Err(Error::failed_precondition(format!(
                "Index {name} specifies stored column {} which is a key of table {}.",
                table.columns[*at].name, table.name
            )));
        }
        for position in stored {
            if sources.contains(&position) {
                return Err(Error::invalid_argument(format!(
                    "Index {name} specifies stored column {} which is a key of the index, or \
                     stored already.",
                    table.columns[position].name
                )));
            }
            entries.columns.push(plain(&table.columns[position]));
            sources.push(position);
        }
        Ok(BoundIndex { definition, entries, sources })
    }

    /// Returns the key of the row that an entry is of.
    pub(crate) fn row_key(&self, table: &Table, entry: &Key) -> Result<Key> {
        let value = |part: &KeyColumn| {
            let at = self.sources.iter().position(|source| *source == part.position);
            at.and_then(|at| entry.values().nth(at)).cloned().unwrap_or(Value::Null)
        };
        table.key(table.primary_key.iter().map(value))
    }

    /// Returns true if the index uses a column of its table.
    pub(super) fn uses(&self, column: &str) -> bool {
        let key = self.definition.columns.iter().map(|column| &column.name);
        key.chain(&self.definition.storing).any(|name| name.eq_ignore_ascii_case(column))
    }

    /// Returns how many parts its own key has.
    pub fn key_parts(&self) -> usize {
        self.definition.columns.len()
    }

    /// Returns the entry for a row of the table, with its key; `None` where NULL keeps it out. A
    /// commit timestamp that isn't known yet counts as this one.
    pub(super) fn entry(&self, row: &[Cell], commit: Timestamp) -> Option<(Key, Vec<Cell>)> {
        let cells: Vec<Cell> = self.sources.iter().map(|at| row[*at].clone()).collect();
        let values: Vec<Value> = cells.iter().map(|cell| cell.clone().into_value(commit)).collect();
        if self.definition.null_filtered && values[..self.key_parts()].iter().any(Value::is_null) {
            return None;
        }
        Some((self.entries.key_of_row(&values), cells))
    }
}

/// A column as an index has it, which copies what its table holds.
fn plain(column: &Column) -> Column {
    Column { default: None, generated: None, ..column.clone() }
}

impl Table {
    fn add_key_column(&mut self, column: &Column, descending: bool) {
        self.primary_key.push(KeyColumn { position: self.columns.len(), descending });
        self.columns.push(plain(column));
    }
}
