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
mod tests {
    use std::time::Duration;

    use super::super::value::KeyPart;
    use super::super::{Code, Database, Mutation, TimestampBound, WriteKind};
    use super::*;

    #[test]
    fn a_version_is_kept_as_long_as_some_moment_after_the_horizon_shows_it() {
        let key = Key(vec![KeyPart::Ascending(Value::Int64(1))]);
        let at = Timestamp::from_micros;
        let mut rows = Rows::default();
        rows.write(key.clone(), Some([Value::Int64(10)].into()), at(10));
        rows.write(key.clone(), Some([Value::Int64(20)].into()), at(20));
        rows.write(key.clone(), None, at(30));

        rows.forget_before(&key, at(25));
        assert_eq!(rows.at(&key, at(15)), None);
        assert_eq!(rows.at(&key, at(25)).map(|row| row[0].clone()), Some(Value::Int64(20)));
        assert_eq!(rows.latest(&key), None);

        rows.forget_before(&key, at(30));
        assert!(rows.versions.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_deleted_row_is_forgotten_once_no_read_can_show_it() {
        let database = Database::default().with_retention(Duration::from_secs(10));
        let change = |ddl| database.change_schema(&crate::sql::parse_ddl(ddl).unwrap()).unwrap();
        change("CREATE TABLE account (id INT64 NOT NULL, balance INT64) PRIMARY KEY (id)");
        let insert = |id: i64| {
            let columns = [("id", id.into()), ("balance", 0.into())];
            Mutation::write(WriteKind::Insert, "account", columns)
        };
        database.apply(&[1, 2, 3].map(insert)).await.unwrap();
        let keys = vec![KeyRange::all()];
        database.apply(&[Mutation::Delete { table: "account".into(), keys }]).await.unwrap();
        change("CREATE INDEX by_balance ON account (balance)");
        let entries = || database.state().tables["by_balance"].rows.all_versions().count();
        assert_eq!(entries(), 3, "for reads of the past");
        for (seconds, kept) in [(9, 3), (2, 0)] {
            database.clock().advance(Duration::from_secs(seconds));
            database.read_timestamp(TimestampBound::Strong).unwrap();
            assert_eq!(database.state().tables["account"].rows.all_versions().count(), kept);
        }
        assert_eq!(entries(), 0, "of the index, either");
        let too_long_ago = TimestampBound::ExactStaleness(Duration::from_secs(11));
        let error = database.read_timestamp(too_long_ago).unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition);
    }
}
