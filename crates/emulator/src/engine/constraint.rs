//! The consequences of the rows that a transaction writes: entries of indexes, and what the schema
//! doesn't allow.

use super::cell::Cell;
use super::check::check_row;
use super::error::{Code, Error, Result};
use super::foreign_key::References;
use super::index::BoundIndex;
use super::locks::Lock;
use super::mutation::{At, Moved, RowWrite, Writes, check_key_size};
use super::state::State;
use super::table::{OnDelete, Table};
use super::value::{Key, KeyRange, Timestamp, Value};
use super::view::View;

/// The consequences of some writes.
#[derive(Default)]
pub(super) struct Consequences {
    /// The entries of indexes that come and go.
    pub entries: Writes,
    /// The locks that the commit needs for those.
    pub locks: Vec<(String, Lock)>,
    /// How many entries of indexes come and go; one that is replaced does both.
    pub changed_entries: usize,
    /// The locks of the reads that the checks made.
    pub reads: Vec<(String, Lock)>,
}

impl State {
    /// Finds out what follows from `written`, laid over `below` and the rows that are there.
    pub fn consequences(
        &self,
        written: &Writes,
        below: Option<&Writes>,
        at: At,
    ) -> Result<Consequences> {
        let (base, timestamp) = (at.base, at.commit_timestamp());
        let mut found = Consequences::default();
        let mut references = Vec::new();
        let layers: Vec<&Writes> = [written].into_iter().chain(below).collect();
        let before = View { state: self, layers: &layers[1..], base };
        let after = View { state: self, layers: &layers, base };
        for (name, writes) in written {
            let Some(table) = self.schema.table(name) else { continue };
            let indexes: Vec<_> = self.schema.indexes_of(name).collect();
            let has_children = self.schema.children_of(name).next().is_some();
            let mut keys = References::of(&self.schema, table);
            let is_alone = indexes.is_empty() && !has_children && table.parent.is_none();
            if is_alone && keys.is_empty() && table.is_plain() {
                continue;
            }
            for key in writes.keys() {
                let old = before.row(table, name, key)?;
                let new = after.row(table, name, key)?;
                if let Some(row) = &new {
                    let values: Vec<Value> =
                        row.iter().map(|cell| cell.clone().into_value(timestamp)).collect();
                    check_row(table, key, &values)?;
                }
                keys.note(old.as_deref(), new.as_deref());
                if old.is_none() && new.is_some() {
                    found.reads.extend(self.check_parent(table, key, &after)?);
                }
                if old.is_some() && new.is_none() {
                    let children: Vec<&Table> = self.schema.children_of(&table.name).collect();
                    let range = KeyRange::prefix(key.clone());
                    found.reads.extend(check_children(table, &children, &range, &after)?);
                }
                for index in &indexes {
                    change_entry(index, old.as_deref(), new.as_deref(), timestamp, &mut found)?;
                }
            }
            references.push(keys);
        }
        self.check_unique(below, base, &mut found)?;
        let with_entries: Vec<&Writes> =
            [written, &found.entries].into_iter().chain(below).collect();
        let view = View { state: self, layers: &with_entries, base };
        for keys in references {
            let ranges = keys.check(&view)?.into_iter();
            found.reads.extend(ranges.map(|(name, range)| (name, Lock::existence(range))));
        }
        Ok(found)
    }

    /// Makes sure that no two rows have the same key in a unique index.
    fn check_unique(
        &self,
        below: Option<&Writes>,
        base: Timestamp,
        found: &mut Consequences,
    ) -> Result<()> {
        let layers: Vec<&Writes> = [&found.entries].into_iter().chain(below).collect();
        let view = View { state: self, layers: &layers, base };
        for (name, entries) in &found.entries {
            let Some(index) = self.schema.index(name).filter(|index| index.definition.unique)
            else {
                continue;
            };
            for (key, write) in entries {
                if matches!(write, RowWrite::Deleted) {
                    continue;
                }
                let range = KeyRange::prefix(Key(key.0[..index.key_parts()].to_vec()));
                found.reads.push((name.clone(), Lock::existence(range.clone())));
                if view.keys(name, &range, 2).len() > 1 {
                    return Err(Error::new(
                        Code::AlreadyExists,
                        format!(
                            "UNIQUE violation on index {}, duplicate key: {} in this transaction.",
                            index.definition.name, range.start
                        ),
                    ));
                }
            }
        }
        Ok(())
    }

    /// Makes sure that one mutation leaves the rows of interleaved tables with their parents. The
    /// rows that go with their parent are those of mutations of their own.
    pub fn check_interleaved(
        &self,
        table: &Table,
        moved: &Moved,
        layers: &[&Writes],
        base: Timestamp,
    ) -> Result<()> {
        let after = View { state: self, layers, base };
        if let Some(key) = &moved.come {
            self.check_parent(table, key, &after)?;
        }
        let stays = |child: &&Table| {
            child.parent.as_ref().is_some_and(|parent| parent.on_delete != OnDelete::Cascade)
        };
        let children: Vec<&Table> = self.schema.children_of(&table.name).filter(stays).collect();
        for range in &moved.gone {
            check_children(table, &children, range, &after)?;
        }
        Ok(())
    }

    /// Returns what was read to find the parent of a row.
    fn check_parent(
        &self,
        table: &Table,
        key: &Key,
        after: &View<'_>,
    ) -> Result<Option<(String, Lock)>> {
        let Some(parent) = table.parent.as_ref().filter(|parent| parent.is_enforced) else {
            return Ok(None);
        };
        let Some(above) = self.schema.table(&parent.table) else { return Ok(None) };
        let name = above.name.to_ascii_lowercase();
        let above_key = Key(key.0[..above.primary_key.len()].to_vec());
        if !after.exists(&name, &above_key) {
            return Err(Error::new(
                Code::NotFound,
                format!(
                    "Insert failed because key was not found in parent table:  Parent Table: {}  \
                     Child Table: {}  Key: {above_key}",
                    above.name, table.name
                ),
            ));
        }
        Ok(Some((name, Lock::existence(KeyRange::prefix(above_key)))))
    }

    /// Returns the tables whose rows go with a row of this one.
    pub fn cascades_to<'a>(&'a self, table: &'a str) -> impl Iterator<Item = &'a Table> {
        let cascades = |table: &&Table| {
            table.parent.as_ref().is_some_and(|parent| parent.on_delete == OnDelete::Cascade)
        };
        self.schema.children_of(table).filter(cascades)
    }
}

/// Makes sure that no row of these tables is in a range of keys of their parent's rows that go away.
/// Returns what was read to find out.
fn check_children(
    table: &Table,
    children: &[&Table],
    range: &KeyRange,
    after: &View<'_>,
) -> Result<Vec<(String, Lock)>> {
    let mut reads = Vec::with_capacity(children.len());
    for child in children {
        let name = child.name.to_ascii_lowercase();
        if let Some(Key(parts)) = after.keys(&name, range, 2).first() {
            let key = Key(parts[..table.primary_key.len()].to_vec());
            return Err(Error::failed_precondition(format!(
                "Delete failed because one or more keys exist within the child table:  Parent \
                 Table: {}  Child Table: {}  Key: {key}",
                table.name, child.name
            )));
        }
        reads.push((name, Lock::existence(range.clone())));
    }
    Ok(reads)
}

fn change_entry(
    index: &BoundIndex,
    old: Option<&[Cell]>,
    new: Option<&[Cell]>,
    commit_timestamp: Timestamp,
    found: &mut Consequences,
) -> Result<()> {
    let old = old.and_then(|row| index.entry(row, commit_timestamp));
    let new = new.and_then(|row| index.entry(row, commit_timestamp));
    if old == new {
        return Ok(());
    }
    if let Some((key, _)) = &new {
        let values: Vec<Value> = key.values().cloned().collect();
        check_key_size("index", &index.definition.name, &values)?;
    }
    let name = index.definition.name.to_ascii_lowercase();
    let gone = old.map(|(key, _)| (key, RowWrite::Deleted));
    let come = new.map(|(key, cells)| (key, RowWrite::Row(cells)));
    for (key, write) in gone.into_iter().chain(come) {
        let lock = Lock::rows(KeyRange::prefix(key.clone()), index.entries.columns.len());
        found.locks.push((name.clone(), lock));
        found.entries.entry(name.clone()).or_default().insert(key, write);
        found.changed_entries += 1;
    }
    Ok(())
}
