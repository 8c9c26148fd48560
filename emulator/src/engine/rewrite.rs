//! What a change of the schema does to the rows that are there.

use std::collections::BTreeMap;

use super::cell::Cell;
use super::check::check_cell;
use super::column::Column;
use super::error::{Error, Result};
use super::index::BoundIndex;
use super::mutation::cells_of;
use super::schema::{Schema, SchemaChange};
use super::state::State;
use super::store::Rows;
use super::table::Table;
use super::value::{Key, Timestamp, Value};

/// The rows of the tables that some changes touch, as they will be; the state keeps its own until
/// all the changes have turned out well.
pub(super) struct Rewrite<'a> {
    state: &'a State,
    now: Timestamp,
    rows: BTreeMap<String, Rows>,
}

impl<'a> Rewrite<'a> {
    pub fn new(state: &'a State, now: Timestamp) -> Rewrite<'a> {
        Rewrite { state, now, rows: BTreeMap::new() }
    }

    /// Applies one change to the schema and to the rows.
    pub fn apply(&mut self, schema: &mut Schema, change: &SchemaChange) -> Result<()> {
        let place = |schema: &Schema, table: &str, column: &str| {
            schema.table(table).and_then(|table| table.position(column))
        };
        match change {
            SchemaChange::DropColumn { table, column } => {
                let position = place(schema, table, column);
                schema.apply(change)?;
                if let Some(position) = position {
                    self.rows_of(table).drop_column(position);
                }
                Ok(())
            }
            SchemaChange::DropTable { table, .. } => {
                schema.apply(change)?;
                self.rows.insert(table.to_ascii_lowercase(), Rows::default());
                Ok(())
            }
            SchemaChange::CreateIndex { index, .. } => {
                let is_new = schema.index(&index.name).is_none();
                schema.apply(change)?;
                match schema.index(&index.name).filter(|_| is_new) {
                    Some(index) => self.build(schema, index),
                    None => Ok(()),
                }
            }
            SchemaChange::DropIndex { index, .. } => {
                schema.apply(change)?;
                self.rows.insert(index.to_ascii_lowercase(), Rows::default());
                Ok(())
            }
            SchemaChange::AddColumn { table, column, .. } => {
                let is_new = place(schema, table, &column.name).is_none();
                schema.apply(change)?;
                match is_new.then(|| schema.table(table)).flatten() {
                    Some(table) => self.fill(table, column),
                    None => Ok(()),
                }
            }
            SchemaChange::AlterColumn { table, column } => {
                schema.apply(change)?;
                match schema.table(table) {
                    Some(table) => self.check(table, &column.name),
                    None => Ok(()),
                }
            }
            _ => schema.apply(change),
        }
    }

    /// The rows that replace those of the state, by the table's name in lower case.
    pub fn into_rows(self) -> BTreeMap<String, Rows> {
        self.rows
    }

    fn rows_of(&mut self, table: &str) -> &mut Rows {
        let name = table.to_ascii_lowercase();
        let stored = self.state.tables.get(&name);
        self.rows
            .entry(name)
            .or_insert_with(|| stored.map(|table| table.rows.clone()).unwrap_or_default())
    }

    /// Makes the entries of a new index, for every version of the rows that are there.
    fn build(&mut self, schema: &Schema, index: &BoundIndex) -> Result<()> {
        let Some(table) = schema.table(&index.definition.table) else { return Ok(()) };
        let mut entries = Rows::default();
        for versions in self.rows_of(&table.name).all_versions() {
            let mut last = None;
            for (written_at, row) in versions {
                let value = |cell: &Cell| match cell {
                    Cell::Value(value) => value.clone(),
                    Cell::CommitTimestamp => Value::Timestamp(written_at),
                };
                let entry = row.and_then(|row| index.entry(&cells_of(table, row), value));
                if entry == last {
                    continue;
                }
                if let Some((key, _)) = last {
                    entries.write(key, None, written_at);
                }
                if let Some((key, cells)) = &entry {
                    let row = cells.iter().map(value).collect();
                    entries.write(key.clone(), Some(row), written_at);
                }
                last = entry;
            }
        }
        if index.definition.unique {
            check_unique(index, &entries)?;
        }
        self.rows.insert(index.definition.name.to_ascii_lowercase(), entries);
        Ok(())
    }

    /// Gives the rows that are there what new ones get in this column, which is the last one.
    fn fill(&mut self, table: &Table, column: &Column) -> Result<()> {
        let Some(default) = &column.default else { return Ok(()) };
        let now = self.now;
        let value = || {
            Ok::<_, Error>(match default.value(column, now)? {
                Cell::Value(value) => value,
                Cell::CommitTimestamp => Value::Timestamp(now),
            })
        };
        check_cell(table, column, &Cell::Value(value()?), now)?;
        let position = table.columns.len() - 1;
        self.rows_of(&table.name).fill_column(position, value)
    }

    /// Finds out whether the rows that are there fit a column's new definition.
    fn check(&mut self, table: &Table, column: &str) -> Result<()> {
        let Some(position) = table.position(column) else { return Ok(()) };
        for row in self.rows_of(&table.name).all_latest() {
            let value = row.get(position).cloned().unwrap_or(Value::Null);
            check_cell(table, &table.columns[position], &Cell::Value(value), Timestamp::MAX)?;
        }
        Ok(())
    }
}

fn check_unique(index: &BoundIndex, entries: &Rows) -> Result<()> {
    let mut last = None;
    for key in entries.keys_latest() {
        let own = &key.0[..index.key_parts()];
        if last == Some(own) {
            return Err(Error::failed_precondition(format!(
                "Found uniqueness violation on index {}, duplicate key: {}.",
                index.definition.name,
                Key(own.to_vec())
            )));
        }
        last = Some(own);
    }
    Ok(())
}
