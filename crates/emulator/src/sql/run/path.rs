//! How the rows of a table are found: by its own key, or by that of an index.

use super::Execution;
use crate::engine::{BoundIndex, Error, Key, KeyRange, Read, Result, Table};
use crate::sql::eval::{Row, Rows};
use crate::sql::keys;
use crate::sql::plan::{Node, Scan};

/// The access path to some rows.
pub(super) struct Path<'q> {
    /// The index that is read; without one, the table is.
    pub index: Option<&'q BoundIndex>,
    /// The keys to read, for each of the rows that they may depend on.
    pub ranges: Vec<Vec<KeyRange>>,
}

/// The other demands on a read.
#[derive(Clone, Copy, Default)]
pub(super) struct Ask {
    /// At most this many rows.
    pub limit: Option<usize>,
    /// True if what is read is locked as if it were written.
    pub exclusive: bool,
}

impl Execution<'_, '_> {
    /// Finds the path that leaves out most of the rows that `conditions` don't let through.
    pub(super) async fn path<'q>(
        &mut self,
        scan: &'q Scan,
        conditions: &[&Node],
        known: &[usize],
        rows: &[Row],
        arguments: &[crate::engine::Value],
    ) -> Result<Path<'q>> {
        let is_known = |slot| known.contains(&slot);
        let ranges = |index, row, evaluation: &_| {
            let seen = Rows { row, arguments, outputs: &[] };
            keys::ranges((scan, index), conditions, &is_known, evaluation, &seen)
        };
        let paths = paths(scan, conditions)?;
        let Some((first, others)) = rows.split_first() else {
            return Ok(Path { index: paths[0], ranges: Vec::new() });
        };
        // The first row speaks for all of them.
        let mut best = (0, Path { index: paths[0], ranges: Vec::new() });
        for index in paths {
            let found = self.evaluate(|evaluation| ranges(index, first, evaluation)).await?;
            let strength = strength(scan, index, &found);
            if best.1.ranges.is_empty() || strength > best.0 {
                best = (strength, Path { index, ranges: vec![found] });
            }
            if strength == NEAREST {
                break;
            }
        }
        let (_, mut path) = best;
        for row in others {
            let found = self.evaluate(|evaluation| ranges(path.index, row, evaluation)).await?;
            path.ranges.push(found);
        }
        Ok(path)
    }

    /// Returns the rows in these ranges of the table, with their keys.
    pub(super) async fn rows_with_keys(
        &mut self,
        scan: &Scan,
        keys: Vec<KeyRange>,
        ask: Ask,
    ) -> Result<Vec<(Key, Row)>> {
        let mut read = read(scan, None, keys, ask);
        read.columns.extend(key_names(&scan.table));
        let mut rows = Vec::new();
        for mut row in self.access.read(read).await? {
            let key = scan.table.key(row.split_off(scan.used.len()))?;
            rows.push((key, row));
        }
        Ok(rows)
    }

    /// Returns the rows in these ranges of an index, with their keys there. Columns that the index
    /// doesn't keep come from the table, as does everything that is to be locked as if it were
    /// written.
    pub(super) async fn rows_by_index(
        &mut self,
        scan: &Scan,
        index: &BoundIndex,
        keys: Vec<KeyRange>,
        ask: Ask,
    ) -> Result<Vec<(Key, Row)>> {
        let (table, entries) = (&scan.table, &index.entries);
        let keeps_all = has_all(scan, Some(index), ask);
        let mut read = read(scan, Some(index), keys, ask);
        if !keeps_all {
            read.columns.clear();
        }
        let kept = read.columns.len();
        read.columns.extend(key_names(entries));
        let mut found = Vec::new();
        for mut row in self.access.read(read).await? {
            let key = entries.key(row.split_off(kept))?;
            found.push((key, row));
        }
        if keeps_all {
            return Ok(found);
        }
        let mut places = Vec::with_capacity(found.len());
        for (entry, _) in found {
            let key = index.row_key(table, &entry)?;
            places.push((entry, key));
        }
        let keys = places.iter().map(|(_, key)| KeyRange::prefix(key.clone())).collect();
        let mut rows = self.rows_with_keys(scan, keys, Ask { limit: None, ..ask }).await?;
        sort_by_key(&mut rows);
        let row = |(entry, key): (Key, Key)| Some((entry, row_at(&rows, &key)?.clone()));
        Ok(places.into_iter().filter_map(row).collect())
    }
}

/// Puts rows in the order of their keys, for [`row_at`].
pub(super) fn sort_by_key(rows: &mut [(Key, Row)]) {
    rows.sort_by(|(left, _), (right, _)| left.cmp(right));
}

/// Finds the row of a key among rows in order.
pub(super) fn row_at<'r>(rows: &'r [(Key, Row)], key: &Key) -> Option<&'r Row> {
    let at = rows.binary_search_by(|(own, _)| own.cmp(key)).ok()?;
    Some(&rows[at].1)
}

fn key_names(table: &Table) -> impl Iterator<Item = String> {
    table.primary_key.iter().map(|part| table.columns[part.position].name.clone())
}

/// Returns true if an index keeps all that a scan uses.
pub(super) fn covers(index: &BoundIndex, scan: &Scan) -> bool {
    let mut used = scan.used.iter().filter_map(|(position, _)| scan.table.columns.get(*position));
    used.all(|column| index.entries.position(&column.name).is_some())
}

/// Returns true if the read of an index, or of the table itself, is all that a scan needs.
pub(super) fn has_all(scan: &Scan, index: Option<&BoundIndex>, ask: Ask) -> bool {
    index.is_none_or(|index| !ask.exclusive && covers(index, scan))
}

/// Returns the paths that show every row that passes `conditions`: the table first, then the
/// indexes.
///
/// # Errors
/// The index that the statement demands is none of them.
pub(super) fn paths<'q>(
    scan: &'q Scan,
    conditions: &[&Node],
) -> Result<Vec<Option<&'q BoundIndex>>> {
    let mut paths = Vec::new();
    if !scan.is_forced || scan.indexes.is_empty() {
        paths.push(None);
    }
    for index in scan.indexes.iter().map(|index| &**index) {
        match hidden_column(scan, index, conditions) {
            None => paths.push(Some(index)),
            Some(column) if scan.is_forced => {
                return Err(Error::invalid_argument(format!(
                    "The null filtered index {} cannot answer this query: it leaves out rows with \
                     NULL in {column}, which no condition excludes.",
                    index.definition.name
                )));
            }
            Some(_) => {}
        }
    }
    Ok(paths)
}

/// The strength of the whole key of a row, or of no keys at all.
const NEAREST: usize = usize::MAX;

/// Returns how much a path leaves out with these ranges.
pub(super) fn strength(scan: &Scan, index: Option<&BoundIndex>, ranges: &[KeyRange]) -> usize {
    match keys::strength(ranges) {
        // Nothing is nearer than the whole key of a row.
        most if index.is_none() && most == 2 * scan.table.primary_key.len() => NEAREST,
        strength => strength,
    }
}

/// A column for whose NULLs a NULL_FILTERED index leaves out rows that the query may need.
fn hidden_column<'q>(scan: &Scan, index: &'q BoundIndex, conditions: &[&Node]) -> Option<&'q str> {
    if !index.definition.null_filtered {
        return None;
    }
    let own = index.entries.columns.iter().take(index.key_parts()).enumerate();
    let mut may_be_missing = own.filter(|(_, column)| !column.not_null);
    let hidden = may_be_missing.find(|(position, _)| {
        let slot = scan.slot_in(index, *position);
        !slot.is_some_and(|slot| keys::excludes_null(conditions, slot))
    });
    hidden.map(|(_, column)| column.name.as_str())
}

/// Returns how to get the rows in these ranges of an index, or of the table itself, as far as a
/// scan uses them.
pub(super) fn read(scan: &Scan, index: Option<&BoundIndex>, keys: Vec<KeyRange>, ask: Ask) -> Read {
    let Table { name, columns, .. } = &*scan.table;
    let used = scan.used.iter().filter_map(|(position, _)| columns.get(*position));
    Read {
        table: name.clone(),
        index: index.map(|index| index.entries.name.clone()),
        columns: used.map(|column| column.name.clone()).collect(),
        keys,
        limit: ask.limit,
        exclusive: ask.exclusive,
    }
}
