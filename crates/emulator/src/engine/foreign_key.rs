//! The demands of foreign keys on the rows that a transaction writes.

use std::collections::BTreeSet;

use super::cell::Cell;
use super::error::{Error, Result};
use super::mutation::{Mutation, Writes};
use super::schema::Schema;
use super::state::State;
use super::table::{ForeignKey, OnDelete, Table};
use super::value::{Key, KeyRange, Timestamp, Value};
use super::view::View;

/// One side of a foreign key, and the values that came or went there.
struct Side<'a> {
    /// The table that has the key.
    child: &'a Table,
    /// The table that it refers to.
    parent: &'a Table,
    key: &'a ForeignKey,
    /// Where the columns of this side are in its rows.
    positions: Vec<usize>,
    changed: BTreeSet<Vec<Value>>,
}

/// The foreign keys that concern the writes to one table.
pub(super) struct References<'a> {
    /// Where the table refers to others; values that came.
    referring: Vec<Side<'a>>,
    /// Where others refer to it; values that went.
    referred: Vec<Side<'a>>,
}

impl<'a> References<'a> {
    /// Returns those of a table, before anything is written.
    pub fn of(schema: &'a Schema, table: &'a Table) -> References<'a> {
        let side = |child: &'a Table, key: &'a ForeignKey, columns: &[String]| {
            let positions = table.positions(columns)?;
            let parent = schema.table(&key.table)?;
            Some(Side { child, parent, key, positions, changed: BTreeSet::new() })
        };
        let own = table.foreign_keys.iter().filter(|key| key.is_enforced);
        let others = schema.references_to(&table.name);
        References {
            referring: own.filter_map(|key| side(table, key, &key.columns)).collect(),
            referred: others.filter_map(|(child, key)| side(child, key, &key.referenced)).collect(),
        }
    }

    /// Returns true if the table has nothing to do with foreign keys.
    pub fn is_empty(&self) -> bool {
        self.referring.is_empty() && self.referred.is_empty()
    }

    /// Notes what is written to one row.
    pub fn note(&mut self, old: Option<&[Cell]>, new: Option<&[Cell]>) {
        let values = |row: Option<&[Cell]>, side: &Side| key_values(row?, &side.positions);
        for side in &mut self.referring {
            let (gone, come) = (values(old, side), values(new, side));
            side.changed.extend(come.filter(|come| gone.as_ref() != Some(come)));
        }
        for side in &mut self.referred {
            let (gone, come) = (values(old, side), values(new, side));
            side.changed.extend(gone.filter(|gone| come.as_ref() != Some(gone)));
        }
    }

    /// Makes sure that every reference has its row. Gives what was looked at for that.
    pub fn check(self, view: &View<'_>) -> Result<Vec<(String, KeyRange)>> {
        let mut looked_at = Vec::new();
        for side in self.referring {
            for values in &side.changed {
                if !side.is_there(view, true, values, &mut looked_at)? {
                    return Err(unresolved(side.child, side.key, values));
                }
            }
        }
        for side in self.referred {
            for values in &side.changed {
                let is_there = side.is_there(view, true, values, &mut looked_at)?;
                if !is_there && side.is_there(view, false, values, &mut looked_at)? {
                    return Err(Error::failed_precondition(format!(
                        "Foreign key `{}` constraint violation when deleting or updating \
                         referenced key `{}` in table `{}`. A row with that key exists in the \
                         referencing table `{}`.",
                        side.key.name,
                        shown(values),
                        side.parent.name,
                        side.child.name
                    )));
                }
            }
        }
        Ok(looked_at)
    }
}

impl Side<'_> {
    /// Returns true if a row has these values, on the side that is referred to or on the one that
    /// refers.
    fn is_there(
        &self,
        view: &View<'_>,
        is_referenced: bool,
        values: &[Value],
        looked_at: &mut Vec<(String, KeyRange)>,
    ) -> Result<bool> {
        let table = if is_referenced { self.parent } else { self.child };
        let Some((name, range)) =
            place(&view.state.schema, table, self.key, is_referenced, values)?
        else {
            return Ok(false);
        };
        let found = !view.keys(&name, &range, 1).is_empty();
        looked_at.push((name, range));
        Ok(found)
    }
}

/// Where the rows are that have these values on one side of a foreign key.
fn place(
    schema: &Schema,
    table: &Table,
    key: &ForeignKey,
    is_referenced: bool,
    values: &[Value],
) -> Result<Option<(String, KeyRange)>> {
    let Some(finder) = schema.finder(table, key, is_referenced) else { return Ok(None) };
    let range = KeyRange::prefix(finder.key(values.iter().cloned())?);
    Ok(Some((finder.name.to_ascii_lowercase(), range)))
}

/// The values of these columns, unless one is NULL: then the row refers to nothing.
fn key_values(row: &[Cell], positions: &[usize]) -> Option<Vec<Value>> {
    let value = |at: &usize| match row.get(*at)? {
        Cell::Value(value) if !value.is_null() => Some(value.clone()),
        _ => None,
    };
    positions.iter().map(value).collect()
}

/// The error of a row with these values, to which no row that it refers to belongs.
pub(super) fn unresolved(child: &Table, key: &ForeignKey, values: &[Value]) -> Error {
    Error::failed_precondition(format!(
        "Foreign key `{}` constraint violation on table `{}`. Cannot find referenced key `{}` in table `{}`.",
        key.name,
        child.name,
        shown(values),
        key.table
    ))
}

fn shown(values: &[Value]) -> Key {
    Key(values.iter().cloned().map(super::value::KeyPart::Ascending).collect())
}

impl State {
    /// Returns the rows that are deleted together with the rows of some ranges, by foreign keys
    /// that cascade.
    pub fn cascades_of(
        &self,
        table: &Table,
        ranges: &[KeyRange],
        layers: &[&Writes],
        base: Timestamp,
    ) -> Result<Vec<Mutation>> {
        let view = View { state: self, layers, base };
        let name = table.name.to_ascii_lowercase();
        let mut mutations = Vec::new();
        let cascades = |key: &ForeignKey| key.on_delete == Some(OnDelete::Cascade);
        for (child, key) in self.schema.references_to(&table.name).filter(|(_, k)| cascades(k)) {
            let (Some(referenced), Some(referring)) =
                (table.positions(&key.referenced), child.positions(&key.columns))
            else {
                continue;
            };
            let mut doomed = Vec::new();
            for range in ranges {
                for gone in view.keys(&name, range, usize::MAX) {
                    let row = view.row(table, &name, &gone)?;
                    let Some(values) = row.and_then(|row| key_values(&row, &referenced)) else {
                        continue;
                    };
                    doomed.extend(self.referring_rows(&view, child, key, (&referring, &values))?);
                }
            }
            if !doomed.is_empty() {
                let keys = doomed.into_iter().map(KeyRange::prefix).collect();
                mutations.push(Mutation::Delete { table: child.name.clone(), keys });
            }
        }
        Ok(mutations)
    }

    /// The keys of the rows of `child` that have these values.
    fn referring_rows(
        &self,
        view: &View<'_>,
        child: &Table,
        key: &ForeignKey,
        (positions, values): (&[usize], &[Value]),
    ) -> Result<Vec<Key>> {
        let name = child.name.to_ascii_lowercase();
        let Some((finder, range)) = place(&self.schema, child, key, false, values)? else {
            return Ok(Vec::new());
        };
        let entries = View { ..*view }.keys(&finder, &range, usize::MAX);
        let mut candidates = BTreeSet::new();
        match self.schema.index(&finder) {
            None => candidates.extend(entries),
            Some(index) => {
                for entry in &entries {
                    candidates.insert(index.row_key(child, entry)?);
                }
            }
        }
        // The earlier writes of this statement are in no index yet.
        candidates.extend(
            view.layers
                .first()
                .and_then(|layer| layer.get(&name))
                .into_iter()
                .flat_map(|d| d.keys())
                .cloned(),
        );
        let mut found = Vec::new();
        for candidate in candidates {
            let row = view.row(child, &name, &candidate)?;
            if row.and_then(|row| key_values(&row, positions)).as_deref() == Some(values) {
                found.push(candidate);
            }
        }
        Ok(found)
    }

    /// Returns the columns whose values others refer to by keys that cascade.
    pub fn cascading_columns(&self, table: &Table) -> Vec<usize> {
        let keys = self.schema.references_to(&table.name).map(|(_, key)| key);
        let cascades = keys.filter(|key| key.on_delete == Some(OnDelete::Cascade));
        cascades.filter_map(|key| table.positions(&key.referenced)).flatten().collect()
    }
}
