//! Versions that no read can show.

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
