//! A transaction's view of the rows while it writes.

use std::collections::BTreeSet;

use super::cell::Cell;
use super::error::Result;
use super::mutation::{RowWrite, Writes, cells_of};
use super::state::{State, TableData};
use super::table::Table;
use super::value::{Key, KeyRange, Timestamp};

/// The rows of a database under layers of what a transaction has written, the latest first.
pub(super) struct View<'a> {
    pub state: &'a State,
    pub layers: &'a [&'a Writes],
    pub base: Timestamp,
}

impl<'a> View<'a> {
    /// Returns a row, with what its generated columns hold.
    pub fn row(&self, table: &Table, name: &str, key: &Key) -> Result<Option<Vec<Cell>>> {
        let stored = self.state.tables.get(name).and_then(|data| data.rows.at(key, self.base));
        let write = self.layers.iter().find_map(|layer| layer.get(name)?.get(key));
        match write {
            Some(write) => write.over(table, stored),
            None => Ok(stored.map(|row| cells_of(table, row))),
        }
    }

    /// Returns true if there is a row of this key.
    pub fn exists(&self, name: &str, key: &Key) -> bool {
        match self.layers.iter().find_map(|layer| layer.get(name)?.get(key)) {
            Some(write) => !matches!(write, RowWrite::Deleted),
            None => self
                .state
                .tables
                .get(name)
                .is_some_and(|data| data.rows.at(key, self.base).is_some()),
        }
    }

    /// Returns the keys of the rows of a range; no more than `most`, if there are so many.
    pub fn keys(&self, name: &str, range: &'a KeyRange, most: usize) -> Vec<Key> {
        let stored = |data: &'a TableData| data.rows.range_at(range, self.base).map(|(key, _)| key);
        let stored = self.state.tables.get(name).into_iter().flat_map(stored);
        let buffered = self.layers.iter().filter_map(|layer| layer.get(name));
        let buffered = buffered.flat_map(|writes| range.of(writes)).map(|(key, _)| key);
        let mut found = BTreeSet::new();
        for key in stored.chain(buffered) {
            if !found.contains(key) && self.exists(name, key) {
                found.insert(key.clone());
                if found.len() == most {
                    break;
                }
            }
        }
        found.into_iter().collect()
    }
}
