//! Schemas: how they change, and how they are reported.

use spindle_emulator::engine::{Cell, Mutation, WriteKind};

use super::*;

#[tokio::test]
async fn the_schema_grows_statement_by_statement_each_with_its_timestamp() {
    let mut office = Office::with_orders().await;
    let statements =
        ["ALTER TABLE t ADD COLUMN w INT64", "CREATE TABLE u (k DATE) PRIMARY KEY (k DESC)"];
    let operation = office.update(&statements).await.unwrap();
    let metadata = metadata(&operation);
    assert_eq!(metadata.statements, statements);
    assert_eq!(metadata.commit_timestamps.len(), 2);
    assert_eq!(metadata.database, ORDERS);
    assert_eq!(
        office.ddl().await.unwrap(),
        [
            "CREATE TABLE t (\n  k INT64 NOT NULL,\n  v STRING(10),\n  w INT64,\n) PRIMARY KEY(k)",
            "CREATE TABLE u (\n  k DATE,\n) PRIMARY KEY(k DESC)",
        ]
    );
}

#[tokio::test]
async fn the_schema_that_is_reported_makes_the_same_database_again() {
    let mut office = Office::with_orders().await;
    let more = [
        "CREATE TABLE `order` (`key` STRING(MAX)) PRIMARY KEY ()",
        "CREATE TABLE beside (k INT64 NOT NULL, CHECK (k > 0), FOREIGN KEY (k) REFERENCES t (k) NOT ENFORCED)
           PRIMARY KEY (k), INTERLEAVE IN t",
    ];
    office.update(&more).await.unwrap();
    let reported = office.ddl().await.unwrap();
    let statements: Vec<&str> = reported.iter().map(String::as_str).collect();
    office.create_database("CREATE DATABASE copy", &statements).await.unwrap();
    let schema = |name: &str| office.emulator.database(name).unwrap().schema();
    assert_eq!(schema(ORDERS), schema("projects/p/instances/orders/databases/copy"));
}

#[tokio::test]
async fn a_statement_that_cannot_succeed_is_named_and_none_is_applied() {
    let mut office = Office::with_orders().await;
    let before = office.ddl().await.unwrap();
    for (bad, expected) in [
        (TABLE, Code::FailedPrecondition),
        ("ALTER TABLE nothing ADD COLUMN w INT64", Code::NotFound),
        ("ALTER TABLE t ADD COLUMN", Code::InvalidArgument),
        ("CREATE VIEW v SQL SECURITY INVOKER AS SELECT 1", Code::Unimplemented),
        ("", Code::InvalidArgument),
    ] {
        let refused = office.update(&["CREATE TABLE u (k INT64) PRIMARY KEY (k)", bad]).await;
        let refused = refused.unwrap_err();
        assert_eq!(refused.code(), expected, "{bad}: {refused}");
        assert!(refused.message().contains(bad), "{bad}: {refused}");
    }
    assert_eq!(code(office.update(&[]).await), Code::InvalidArgument);
    assert_eq!(office.ddl().await.unwrap(), before);
}

#[tokio::test]
async fn an_update_that_the_rows_stop_keeps_what_came_before_it() {
    let mut office = Office::with_orders().await;
    let database = office.emulator.database(ORDERS).unwrap();
    let row = [("k", Cell::Value(1.into()))];
    database.apply(&[Mutation::write(WriteKind::Insert, "t", row)]).await.unwrap();

    let stopped = office.update(&[
        "CREATE TABLE before (k INT64) PRIMARY KEY (k)",
        "ALTER TABLE t ALTER COLUMN v STRING(10) NOT NULL",
        "CREATE TABLE after (k INT64) PRIMARY KEY (k)",
    ]);
    let stopped = stopped.await.unwrap();
    match stopped.result.as_ref().unwrap() {
        operation::Result::Error(error) => assert_eq!(error.code, 9, "{error:?}"),
        operation::Result::Response(_) => panic!("there is a NULL in the way"),
    }
    assert_eq!(metadata(&stopped).commit_timestamps.len(), 1);
    let schema = database.schema();
    assert!(schema.table("before").is_some() && schema.table("after").is_none());
}
