//! The effect of a change of the schema on the rows that are there.

use std::collections::{BTreeSet, HashMap};

use super::cell::Cell;
use super::check::{check_cell, check_row};
use super::column::Column;
use super::error::{Error, Result};
use super::foreign_key::unresolved;
use super::index::BoundIndex;
use super::mutation::cells_of;
use super::schema::{Schema, SchemaChange};
use super::state::State;
use super::store::{Row, Rows};
use super::table::{Constraint, Table};
use super::value::{Key, Timestamp, Value};

/// The rows of the tables that some changes touch, as they will be. The state keeps its own until
/// all the changes have turned out well.
pub(super) struct Rewrite<'a> {
    state: &'a State,
    now: Timestamp,
    rows: HashMap<String, Rows>,
    dropped: BTreeSet<String>,
}

impl<'a> Rewrite<'a> {
    pub fn new(state: &'a State, now: Timestamp) -> Rewrite<'a> {
        Rewrite { state, now, rows: HashMap::new(), dropped: BTreeSet::new() }
    }

    /// Applies one change to the schema and to the rows.
    pub fn apply(&mut self, schema: &mut Schema, change: &SchemaChange) -> Result<()> {
        let place = |schema: &Schema, table: &str, column: &str| {
            schema.table(table).and_then(|table| table.position(column))
        };
        let indexes = |schema: &Schema| -> BTreeSet<String> {
            schema.indexes().map(|index| index.definition.name.to_ascii_lowercase()).collect()
        };
        let before = indexes(schema);
        match change {
            SchemaChange::DropColumn { table, column } => {
                let position = place(schema, table, column);
                schema.apply(change)?;
                if let Some(position) = position {
                    self.rows_of(table).drop_column(position);
                }
            }
            SchemaChange::DropTable { table, .. } => {
                schema.apply(change)?;
                self.drop(table);
            }
            SchemaChange::AddColumn { table, column, .. } => {
                let is_new = place(schema, table, &column.name).is_none();
                schema.apply(change)?;
                if let Some(table) = is_new.then(|| schema.table(table)).flatten() {
                    self.fill(table, column)?;
                }
            }
            SchemaChange::AlterColumn { table, column } => {
                schema.apply(change)?;
                if let Some(table) = schema.table(table) {
                    self.check(table, &column.name, Timestamp::MAX)?;
                }
            }
            SchemaChange::SetAllowCommitTimestamp { table, column, allow: true } => {
                schema.apply(change)?;
                if let Some(table) = schema.table(table) {
                    self.check(table, column, self.now)?;
                }
            }
            _ => schema.apply(change)?,
        }
        let after = indexes(schema);
        before.difference(&after).for_each(|index| self.drop(index));
        for index in after.difference(&before).filter_map(|index| schema.index(index)) {
            self.build(schema, index)?;
        }
        if let SchemaChange::AddConstraint { table, constraint } = change
            && let Some(table) = schema.table(table)
        {
            self.check_constraint(schema, table, constraint)?;
        }
        Ok(())
    }

    fn drop(&mut self, name: &str) {
        let name = name.to_ascii_lowercase();
        self.rows.insert(name.clone(), Rows::default());
        self.dropped.insert(name);
    }

    /// Finds out whether the rows that are there satisfy a new constraint.
    fn check_constraint(
        &mut self,
        schema: &Schema,
        table: &Table,
        constraint: &Constraint,
    ) -> Result<()> {
        let rows = self.rows_of(&table.name).clone();
        let full = |row: &Row| {
            let mut row = row.to_vec();
            row.resize(table.columns.len(), Value::Null);
            row
        };
        match constraint {
            Constraint::Check(_) => rows.all_latest().try_for_each(|row| {
                let row = full(row);
                check_row(table, &table.key_of_row(&row), &row)
            }),
            Constraint::ForeignKey(_) => {
                let Some(key) = table.foreign_keys.last().filter(|key| key.is_enforced) else {
                    return Ok(());
                };
                let Some(above) = schema.table(&key.table) else { return Ok(()) };
                let values = |table: &Table, columns: &[String], row: &Row| {
                    let positions = table.positions(columns)?;
                    let value = |at: usize| row.get(at).filter(|value| !value.is_null()).cloned();
                    positions.into_iter().map(value).collect::<Option<Vec<Value>>>()
                };
                let referenced = self.rows_of(&above.name).clone();
                let mut there = BTreeSet::new();
                there.extend(
                    referenced.all_latest().filter_map(|row| values(above, &key.referenced, row)),
                );
                let mut referring =
                    rows.all_latest().filter_map(|row| values(table, &key.columns, row));
                match referring.find(|values| !there.contains(values)) {
                    None => Ok(()),
                    Some(missing) => Err(unresolved(table, key, &missing)),
                }
            }
        }
    }

    /// Returns the rows that replace those of the state, by the table's name in lower case. With
    /// them come the names of tables and indexes that were dropped.
    pub fn into_rows(self) -> (HashMap<String, Rows>, BTreeSet<String>) {
        (self.rows, self.dropped)
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
                let entry = row.and_then(|row| index.entry(&cells_of(table, row), written_at));
                if entry == last {
                    continue;
                }
                if let Some((key, _)) = last {
                    entries.write(key, None, written_at);
                }
                if let Some((key, cells)) = &entry {
                    let value = |cell: &Cell| cell.clone().into_value(written_at);
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
        let position = table.columns.len() - 1;
        if column.generated.is_some() {
            return self.rows_of(&table.name).fill_column(position, |row| {
                let mut row = row.to_vec();
                row.push(Value::Null);
                table.generate(&mut row)?;
                let value = std::mem::replace(&mut row[position], Value::Null);
                check_cell(table, column, &Cell::Value(value.clone()), Timestamp::MAX)?;
                Ok(value)
            });
        }
        let Some(default) = &column.default else { return Ok(()) };
        let now = self.now;
        let value = |_: &[Value]| default.value(column, now).map(|cell| cell.into_value(now));
        check_cell(table, column, &Cell::Value(value(&[])?), now)?;
        self.rows_of(&table.name).fill_column(position, value)
    }

    /// Finds out whether the rows that are there fit a column's new definition. One with commit timestamps
    /// can hold none after `latest`.
    fn check(&mut self, table: &Table, column: &str, latest: Timestamp) -> Result<()> {
        let Some(position) = table.position(column) else { return Ok(()) };
        for row in self.rows_of(&table.name).all_latest() {
            let value = row.get(position).cloned().unwrap_or(Value::Null);
            check_cell(table, &table.columns[position], &Cell::Value(value), latest)?;
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
