//! Changes of tables that have rows.

use super::*;
use crate::engine::{Cell, Database, Error, Mutation, WriteKind};
use crate::sql::parse_ddl;

async fn database(ddl: &str) -> Database {
    let database = Database::default();
    change(&database, ddl).unwrap();
    database
}

fn change(database: &Database, ddl: &str) -> Result<(), Error> {
    database.change_schema(&parse_ddl(ddl)?)
}

async fn insert(database: &Database, cells: &[(&str, Value)]) -> Result<(), Error> {
    let cells = cells.iter().map(|(column, value)| (*column, Cell::Value(value.clone())));
    database.apply(&[Mutation::write(WriteKind::Insert, "t", cells)]).await.map(|_| ())
}

fn column(database: &Database, column: &str) -> Vec<String> {
    database.rows("t").unwrap().iter().map(|row| shown(&row[column])).collect()
}

fn refused<T: std::fmt::Debug>(result: Result<T, Error>) -> Code {
    result.unwrap_err().code()
}

#[tokio::test]
async fn a_length_changes_if_what_is_there_fits() {
    let database =
        database("CREATE TABLE t (k STRING(3), a ARRAY<STRING(3)>) PRIMARY KEY (k)").await;
    let list = Value::Array { element: &Type::String, values: vec!["xyz".into(), Value::Null] };
    insert(&database, &[("k", "abc".into()), ("a", list)]).await.unwrap();
    assert_eq!(
        refused(change(&database, "ALTER TABLE t ALTER COLUMN k STRING(2)")),
        Code::FailedPrecondition
    );
    assert_eq!(
        refused(change(&database, "ALTER TABLE t ALTER COLUMN a ARRAY<STRING(2)>")),
        Code::FailedPrecondition
    );
    assert_eq!(refused(insert(&database, &[("k", "abcd".into())]).await), Code::FailedPrecondition);
    change(
        &database,
        "ALTER TABLE t ALTER COLUMN K STRING(MAX); ALTER TABLE t ALTER a ARRAY<STRING(4)>",
    )
    .unwrap();
    insert(&database, &[("k", "abcd".into())]).await.unwrap();
    let schema = database.schema();
    let types: Vec<String> =
        schema.table("t").unwrap().columns.iter().map(|column| column.spanner_type()).collect();
    assert_eq!(types, ["STRING(MAX)", "ARRAY<STRING(4)>"]);
    assert_eq!(schema.table("t").unwrap().columns[0].name, "k");
}

#[tokio::test]
async fn not_null_comes_only_where_nothing_is_null_and_goes_again() {
    let database =
        database("CREATE TABLE t (k INT64, v STRING(9), l ARRAY<INT64>) PRIMARY KEY (k)").await;
    insert(&database, &[("k", 1.into())]).await.unwrap();
    let not_null = "ALTER TABLE t ALTER COLUMN v STRING(9) NOT NULL";
    assert_eq!(refused(change(&database, not_null)), Code::FailedPrecondition);
    let with_default = "ALTER TABLE t ALTER COLUMN v STRING(9) NOT NULL DEFAULT ('x')";
    assert_eq!(
        refused(change(&database, with_default)),
        Code::FailedPrecondition,
        "nothing is filled in"
    );
    let update = [("k", Cell::from(1_i64)), ("v", Cell::from("a"))];
    database.apply(&[Mutation::write(WriteKind::Update, "t", update)]).await.unwrap();
    change(&database, not_null).unwrap();
    assert_eq!(refused(insert(&database, &[("k", 2.into())]).await), Code::FailedPrecondition);
    change(&database, "ALTER TABLE t ALTER COLUMN v STRING(9)").unwrap();
    insert(&database, &[("k", 2.into())]).await.unwrap();
    for (ddl, code) in [
        ("ALTER TABLE t ALTER COLUMN k INT64 NOT NULL", Code::InvalidArgument),
        ("ALTER TABLE t ALTER COLUMN l ARRAY<INT64> NOT NULL", Code::FailedPrecondition),
        ("ALTER TABLE t ALTER COLUMN v INT64", Code::InvalidArgument),
        ("ALTER TABLE t ALTER COLUMN v BYTES(9)", Code::Unimplemented),
        ("ALTER TABLE t ALTER COLUMN v STRING(0)", Code::InvalidArgument),
        ("ALTER TABLE t ALTER COLUMN nope STRING(9)", Code::NotFound),
        ("ALTER TABLE t ALTER COLUMN v SET DEFAULT (1)", Code::InvalidArgument),
    ] {
        assert_eq!(refused(change(&database, ddl)), code, "{ddl}");
    }
}

#[tokio::test]
async fn a_default_is_set_and_dropped_for_the_rows_to_come() {
    let database = database("CREATE TABLE t (k INT64, v STRING(9)) PRIMARY KEY (k)").await;
    insert(&database, &[("k", 1.into())]).await.unwrap();
    change(&database, "ALTER TABLE t ALTER COLUMN v SET DEFAULT ('d')").unwrap();
    insert(&database, &[("k", 2.into())]).await.unwrap();
    change(&database, "ALTER TABLE t ALTER COLUMN v DROP DEFAULT").unwrap();
    insert(&database, &[("k", 3.into())]).await.unwrap();
    change(&database, "ALTER TABLE t ALTER COLUMN v STRING(9) DEFAULT ('e')").unwrap();
    insert(&database, &[("k", 4.into())]).await.unwrap();
    change(&database, "ALTER TABLE t ALTER COLUMN v STRING(9)").unwrap();
    insert(&database, &[("k", 5.into())]).await.unwrap();
    assert_eq!(column(&database, "v"), ["NULL", "d", "NULL", "e", "NULL"]);
}

#[tokio::test]
async fn mutations_get_defaults_too() {
    let database = database(
        "CREATE TABLE t (k STRING(36) DEFAULT (GENERATE_UUID()), v INT64 NOT NULL DEFAULT (7),
           stamp TIMESTAMP DEFAULT (PENDING_COMMIT_TIMESTAMP()) OPTIONS (allow_commit_timestamp = true),
         ) PRIMARY KEY (k)",
    )
    .await;
    let nothing = Mutation::write(WriteKind::Insert, "t", []);
    assert_eq!(database.apply(&[nothing]).await.unwrap().mutation_count, 3, "they count");
    insert(&database, &[("v", 8.into())]).await.unwrap();
    let mut values = column(&database, "v");
    values.sort();
    assert_eq!(values, ["7", "8"]);
    assert!(!column(&database, "stamp").contains(&"NULL".to_owned()));
    let key = database.rows("t").unwrap()[0]["k"].clone();
    let write = |kind, v: Option<i64>| {
        let cells = [("k", Cell::Value(key.clone()))].into_iter();
        Mutation::write(kind, "t", cells.chain(v.map(|v| ("v", Cell::from(v)))))
    };
    let of_key = |database: &Database| {
        let rows = database.rows("t").unwrap();
        shown(&rows.iter().find(|row| row["k"] == key).unwrap()["v"])
    };
    database.apply(&[write(WriteKind::InsertOrUpdate, Some(9))]).await.unwrap();
    database.apply(&[write(WriteKind::InsertOrUpdate, None)]).await.unwrap();
    assert_eq!(of_key(&database), "9", "a row that is there keeps what it has");
    database.apply(&[write(WriteKind::Replace, None)]).await.unwrap();
    assert_eq!(of_key(&database), "7");
}

#[tokio::test]
async fn what_may_insert_names_every_column_that_cannot_be_null() {
    let database = database("CREATE TABLE t (k INT64, v INT64 NOT NULL) PRIMARY KEY (k)").await;
    insert(&database, &[("k", 1.into()), ("v", 1.into())]).await.unwrap();
    let upsert = Mutation::write(WriteKind::InsertOrUpdate, "t", [("k", Cell::from(1_i64))]);
    assert_eq!(refused(database.apply(&[upsert]).await), Code::FailedPrecondition);
}

#[tokio::test]
async fn a_new_column_is_filled_with_its_default() {
    let database = database("CREATE TABLE t (k INT64, gone INT64) PRIMARY KEY (k)").await;
    for k in 1..=2 {
        insert(&database, &[("k", k.into())]).await.unwrap();
    }
    assert_eq!(
        refused(change(&database, "ALTER TABLE t ADD COLUMN n INT64 NOT NULL")),
        Code::Unimplemented
    );
    let out_of_range = "ALTER TABLE t ADD COLUMN n INT64 DEFAULT (9223372036854775807 + 1)";
    assert_eq!(refused(change(&database, out_of_range)), Code::OutOfRange);
    let too_long = "ALTER TABLE t ADD COLUMN n STRING(1) DEFAULT ('xy')";
    assert_eq!(refused(change(&database, too_long)), Code::FailedPrecondition);
    change(
        &database,
        "ALTER TABLE t ADD COLUMN m STRING(1);
         ALTER TABLE t ADD COLUMN n INT64 NOT NULL DEFAULT (1 + 1);
         ALTER TABLE t DROP COLUMN gone;
         ALTER TABLE t ADD COLUMN id STRING(36) DEFAULT (GENERATE_UUID());
         ALTER TABLE t ALTER COLUMN n INT64 NOT NULL",
    )
    .unwrap();
    assert_eq!(
        (column(&database, "m"), column(&database, "n")),
        (vec!["NULL".to_owned(); 2], vec!["2".to_owned(); 2])
    );
    let ids = column(&database, "id");
    assert!(ids[0] != ids[1] && ids[0].len() == 36);
    let failing = "ALTER TABLE t DROP COLUMN n; ALTER TABLE t ALTER COLUMN m STRING(1) NOT NULL";
    assert_eq!(refused(change(&database, failing)), Code::FailedPrecondition);
    assert_eq!(column(&database, "n"), ["2", "2"], "all of it, or nothing");
    change(&database, "DROP TABLE t; CREATE TABLE t (k INT64 NOT NULL) PRIMARY KEY (k); ALTER TABLE t ADD COLUMN v INT64 DEFAULT (1)").unwrap();
    assert_eq!(database.rows("t").unwrap().len(), 0);
}
