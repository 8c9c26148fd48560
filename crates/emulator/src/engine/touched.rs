//! The rows that one transaction may not both write and delete.

use std::collections::BTreeSet;

use super::check::written_and_deleted;
use super::error::Result;
use super::table::Table;
use super::value::{Key, KeyRange};

/// The rows of one table that a transaction has written and deleted, if others refer to the table by
/// keys that cascade. Spanner lets no row be both, in either order and whether it was there or not.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    /// The rows that got a value to which others may refer.
    written: BTreeSet<Key>,
    /// Ranges in order, apart from each other.
    deleted: Vec<KeyRange>,
}

impl Touched {
    /// Notes a row that gets a value to which others may refer.
    pub fn write(&mut self, table: &Table, key: &Key) -> Result<()> {
        let next = self.deleted.partition_point(|range| range.end <= *key);
        if self.deleted.get(next).is_some_and(|range| range.contains(key)) {
            return Err(written_and_deleted(table, key));
        }
        self.written.insert(key.clone());
        Ok(())
    }

    /// Notes that the rows of a range go.
    pub fn delete(&mut self, table: &Table, range: &KeyRange) -> Result<()> {
        if let Some(key) =
            self.written.range(&range.start..).next().filter(|key| range.contains(key))
        {
            return Err(written_and_deleted(table, key));
        }
        let first = self.deleted.partition_point(|known| known.end < range.start);
        let behind = self.deleted.partition_point(|known| known.start <= range.end);
        let mut whole = range.clone();
        if let (Some(met), Some(last)) =
            (self.deleted[first..behind].first(), self.deleted[first..behind].last())
        {
            whole.start = whole.start.min(met.start.clone());
            whole.end = whole.end.max(last.end.clone());
        }
        self.deleted.splice(first..behind, [whole]);
        Ok(())
    }
}
