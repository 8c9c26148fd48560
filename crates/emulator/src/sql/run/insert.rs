//! `INSERT`.

use std::collections::BTreeSet;

use super::Execution;
use super::path::{Ask, read, row_at, sort_by_key};
use super::write::{Changes, key, names, overlaid};
use crate::engine::{Cell, Error, Key, KeyRange, Mutation, Result, Table, Value, WriteKind};
use crate::sql::ast::InsertMode;
use crate::sql::eval::Row;
use crate::sql::plan::{InsertRows, Insertion, Output, Target};

impl Execution<'_, '_> {
    pub(super) async fn insertions(
        &mut self,
        target: &Target,
        insertion: &Insertion,
        returning: Option<&[Output]>,
    ) -> Result<Changes> {
        let table = &target.scan.table;
        let mut rows = Vec::new();
        for mut cells in self.inserted_rows(&insertion.rows).await? {
            for (_, value) in &insertion.defaults {
                cells.push(self.cell(value, &[]).await?);
            }
            rows.push(cells);
        }
        let all: Vec<usize> = insertion
            .columns
            .iter()
            .chain(insertion.defaults.iter().map(|(position, _)| position))
            .copied()
            .collect();
        let there = match insertion.mode {
            InsertMode::Insert => Vec::new(),
            InsertMode::OrUpdate | InsertMode::OrIgnore => {
                self.rows_there(target, &all, &rows).await?
            }
        };
        let kind = match insertion.mode {
            InsertMode::OrUpdate => WriteKind::InsertOrUpdate,
            InsertMode::Insert | InsertMode::OrIgnore => WriteKind::Insert,
        };
        let mut seen = BTreeSet::new();
        let mut changes = Changes::default();
        for mut cells in rows {
            let mut stored = None;
            if insertion.mode != InsertMode::Insert {
                let key = key_of(table, &all, &cells)?;
                stored = row_at(&there, &key).cloned();
                match (insertion.mode, seen.insert(key.clone())) {
                    (InsertMode::OrUpdate, false) => {
                        return Err(Error::invalid_argument(format!(
                            "Cannot affect a row second time for key: {key}"
                        )));
                    }
                    (InsertMode::OrIgnore, is_first) if !is_first || stored.is_some() => continue,
                    _ => {}
                }
            }
            let mut written = all.as_slice();
            if stored.is_some() {
                // Of a row that is there, what isn't mentioned stays as it is, and the key is the same.
                let mentioned = |position: &usize| {
                    insertion.columns.contains(position) || table.is_key(*position)
                };
                let count = all.iter().take_while(|position| mentioned(position)).count();
                debug_assert!(!all[count..].iter().any(mentioned), "key defaults come first");
                written = &all[..count];
                cells.truncate(count);
            }
            if let Some(outputs) = returning {
                let before = stored.unwrap_or_else(|| vec![Value::Null; target.width]);
                let row = overlaid(target, before, written, &cells)?;
                changes.returned.push(self.outputs(outputs, &row, &[]).await?);
            }
            let (table, columns) = (table.name.clone(), names(table, written));
            changes.mutations.push(Mutation::Write { kind, table, columns, cells });
        }
        Ok(changes)
    }

    async fn inserted_rows(&mut self, rows: &InsertRows) -> Result<Vec<Vec<Cell>>> {
        match rows {
            InsertRows::Values(rows) => {
                let mut inserted = Vec::with_capacity(rows.len());
                for row in rows {
                    let mut cells = Vec::with_capacity(row.len());
                    for value in row {
                        cells.push(self.cell(value, &[]).await?);
                    }
                    inserted.push(cells);
                }
                Ok(inserted)
            }
            InsertRows::Query(query) => {
                let rows = self.query_rows(query, &[], false).await?;
                Ok(rows.into_iter().map(|row| row.into_iter().map(Cell::Value).collect()).collect())
            }
        }
    }

    /// Those of the rows to be inserted that are there already, as far as the statement uses them.
    async fn rows_there(
        &mut self,
        Target { scan, width }: &Target,
        columns: &[usize],
        rows: &[Vec<Cell>],
    ) -> Result<Vec<(Key, Row)>> {
        let table = &*scan.table;
        let mut keys = BTreeSet::new();
        for cells in rows {
            keys.insert(key_of(table, columns, cells)?);
        }
        let ranges: Vec<KeyRange> = keys.into_iter().map(KeyRange::prefix).collect();
        if ranges.is_empty() {
            return Ok(Vec::new());
        }
        let mut there = Vec::new();
        for read in self.access.read(read(scan, None, ranges, Ask::default())).await? {
            let mut row = vec![Value::Null; *width];
            for ((_, slot), value) in scan.used.iter().zip(read) {
                row[*slot] = value;
            }
            there.push((key(table, &row)?, row));
        }
        sort_by_key(&mut there);
        Ok(there)
    }
}

/// The key of a new row.
fn key_of(table: &Table, columns: &[usize], cells: &[Cell]) -> Result<Key> {
    let mut values = Vec::with_capacity(table.primary_key.len());
    for part in &table.primary_key {
        let place = columns.iter().position(|column| *column == part.position);
        values.push(match place.map(|place| &cells[place]) {
            Some(Cell::Value(value)) => value.clone(),
            None => Value::Null,
            Some(Cell::CommitTimestamp) => {
                return Err(Error::unimplemented(format!(
                    "a pending commit timestamp in key column {}.{} before the commit; write the \
                     row with a mutation",
                    table.name, table.columns[part.position].name
                )));
            }
        });
    }
    table.key(values)
}
