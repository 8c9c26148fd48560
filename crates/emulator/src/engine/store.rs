//! The rows of one table, in every version that can still be read.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::Result;
use super::value::{Key, KeyRange, Timestamp, Value};

/// A row's values, in the order of the table's columns. Columns added later may be missing at the
/// end; they are NULL.
pub(super) type Row = Arc<[Value]>;

#[derive(Clone, Debug)]
struct Version {
    written_at: Timestamp,
    /// `None` where the row was deleted.
    row: Option<Row>,
}

/// The rows of one table.
#[derive(Clone, Debug, Default)]
pub(super) struct Rows {
    /// The versions of each row, oldest first. Copies of the database share them until one writes.
    versions: Arc<BTreeMap<Key, Vec<Version>>>,
}

impl Rows {
    /// Returns the row as it is now.
    pub fn latest(&self, key: &Key) -> Option<&Row> {
        self.versions.get(key)?.last()?.row.as_ref()
    }

    /// Returns the row as it was at `moment`, writes at that moment included.
    pub fn at(&self, key: &Key, moment: Timestamp) -> Option<&Row> {
        version_at(self.versions.get(key)?, moment)
    }

    /// Returns the rows of a range as they were at `moment`, by key.
    pub fn range_at<'a>(
        &'a self,
        range: &'a KeyRange,
        moment: Timestamp,
    ) -> impl Iterator<Item = (&'a Key, &'a Row)> {
        range
            .of(&self.versions)
            .filter_map(move |(key, versions)| Some((key, version_at(versions, moment)?)))
    }

    /// Returns the keys of a range that were written after `moment`.
    pub fn written_after<'a>(
        &'a self,
        range: &'a KeyRange,
        moment: Timestamp,
    ) -> impl Iterator<Item = &'a Key> {
        range
            .of(&self.versions)
            .filter(move |(_, versions)| versions.last().is_some_and(|v| v.written_at > moment))
            .map(|(key, _)| key)
    }

    /// Writes a version, newer than those there are.
    pub fn write(&mut self, key: Key, row: Option<Row>, written_at: Timestamp) {
        Arc::make_mut(&mut self.versions).entry(key).or_default().push(Version { written_at, row });
    }

    /// Forgets the versions of one row that nobody can read at `horizon` or later.
    pub fn forget_before(&mut self, key: &Key, horizon: Timestamp) {
        let Some(versions) = Arc::make_mut(&mut self.versions).get_mut(key) else { return };
        let newer = versions.partition_point(|version| version.written_at <= horizon);
        // The last version at or before the horizon is what a read at the horizon sees.
        versions.drain(..newer.saturating_sub(1));
        if let [Version { written_at, row: None }] = versions.as_slice()
            && *written_at <= horizon
        {
            Arc::make_mut(&mut self.versions).remove(key);
        }
    }

    /// Returns the keys of the rows that are there now, in order.
    pub fn keys_latest(&self) -> impl Iterator<Item = &Key> {
        let exists = |versions: &[Version]| versions.last().is_some_and(|last| last.row.is_some());
        self.versions.iter().filter(move |(_, versions)| exists(versions)).map(|(key, _)| key)
    }

    /// Returns the keys of the rows with versions that can be forgotten one day.
    pub fn keys_of_several_versions(&self) -> impl Iterator<Item = &Key> {
        self.versions.iter().filter(|(_, versions)| versions.len() > 1).map(|(key, _)| key)
    }

    /// The versions of each row, the oldest first, with the time they are from.
    pub fn all_versions(
        &self,
    ) -> impl Iterator<Item = impl Iterator<Item = (Timestamp, Option<&Row>)>> {
        self.versions.values().map(|versions| {
            versions.iter().map(|version| (version.written_at, version.row.as_ref()))
        })
    }

    /// Returns every row as it is now.
    pub fn all_latest(&self) -> impl Iterator<Item = &Row> {
        self.versions.values().filter_map(|versions| versions.last()?.row.as_ref())
    }

    /// Puts values into a column behind all that the rows have so far, in every version.
    pub fn fill_column(
        &mut self,
        position: usize,
        mut value: impl FnMut(&[Value]) -> Result<Value>,
    ) -> Result<()> {
        for version in Arc::make_mut(&mut self.versions).values_mut().flatten() {
            if let Some(row) = &version.row {
                let mut values = row.to_vec();
                values.resize(position, Value::Null);
                values.push(value(&values)?);
                version.row = Some(values.into());
            }
        }
        Ok(())
    }

    /// Removes a column from every version of every row.
    pub fn drop_column(&mut self, position: usize) {
        for version in Arc::make_mut(&mut self.versions).values_mut().flatten() {
            if let Some(row) = &version.row
                && position < row.len()
            {
                let mut values = row.to_vec();
                values.remove(position);
                version.row = Some(values.into());
            }
        }
    }
}

fn version_at(versions: &[Version], moment: Timestamp) -> Option<&Row> {
    let newer = versions.partition_point(|version| version.written_at <= moment);
    versions[..newer].last()?.row.as_ref()
}

#[cfg(test)]
#[path = "../../tests/private/engine/store.rs"]
mod tests;
