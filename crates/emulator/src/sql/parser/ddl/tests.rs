//! The statements that are read, and those that are refused.

use super::*;
use crate::engine::{Code, Column, KeyColumn, Schema, Table, Type};

fn one(text: &str) -> SchemaChange {
    let mut changes = parse_ddl(text).unwrap();
    assert_eq!(changes.len(), 1, "{text}");
    changes.remove(0)
}

fn created(text: &str) -> Table {
    match one(text) {
        SchemaChange::CreateTable { table, .. } => table,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_lock_table_of_the_predecessors_is_understood() {
    let text = "-- for spindle
CREATE TABLE locktable (
name STRING(MAX) NOT NULL,
heartbeat TIMESTAMP OPTIONS (allow_commit_timestamp=true),
token TIMESTAMP OPTIONS (allow_commit_timestamp=true),
writer STRING(MAX),
) PRIMARY KEY (name)
";
    let stamp =
        |name: &str| Column { allow_commit_timestamp: true, ..Column::new(name, Type::Timestamp) };
    let table = Table {
        columns: vec![
            Column { not_null: true, ..Column::new("name", Type::String) },
            stamp("heartbeat"),
            stamp("token"),
            Column::new("writer", Type::String),
        ],
        primary_key: vec![KeyColumn { position: 0, descending: false }],
        ..Table::new("locktable")
    };
    assert_eq!(one(text), SchemaChange::CreateTable { table, if_not_exists: false });
}

#[test]
fn every_type_and_length_is_understood_in_any_case() {
    let table = created(
        "create table if not exists `T` (a bool, b int64 not null, c float64, d string(0x10),
         e bytes(max), f date, g timestamp options (allow_commit_timestamp = null)
        ) primary key (b desc, a asc,)",
    );
    let types: Vec<String> = table.columns.iter().map(Column::spanner_type).collect();
    let expected = ["BOOL", "INT64", "FLOAT64", "STRING(16)", "BYTES(MAX)", "DATE", "TIMESTAMP"];
    assert_eq!(types, expected);
    let key: Vec<_> =
        table.primary_key.iter().map(|part| (part.position, part.descending)).collect();
    assert_eq!(key, [(1, true), (0, false)]);
}

#[test]
fn a_key_stands_behind_the_table_or_in_its_column() {
    assert_eq!(
        created("CREATE TABLE t (a INT64 NOT NULL PRIMARY KEY, b DATE)"),
        created("CREATE TABLE t (a INT64 NOT NULL, b DATE) PRIMARY KEY (a)"),
    );
    assert_eq!(
        created("CREATE TABLE t (a INT64, b DATE, PRIMARY KEY (b DESC, a), CHECK (a > 0))"),
        created("CREATE TABLE t (a INT64, b DATE, CHECK (a > 0)) PRIMARY KEY (b DESC, a)"),
    );
    assert_eq!(created("CREATE TABLE t (a INT64) PRIMARY KEY ()").primary_key, []);
    for second in ["b DATE PRIMARY KEY", "PRIMARY KEY (a)"] {
        let text = format!("CREATE TABLE t (a INT64 PRIMARY KEY, {second})");
        let refused = parse_ddl(&text).unwrap_err().to_string();
        assert_eq!(refused, "Table t declares more than one PRIMARY KEY. [at 1:38]");
    }
}

#[test]
fn a_column_is_called_as_a_keyword_of_ddl_too() {
    let text = "CREATE TABLE t (constraint STRING(MAX), check INT64, synonym INT64, row INT64,
        CONSTRAINT c CHECK (row > 0)) PRIMARY KEY (constraint)";
    let table = created(text);
    assert_eq!((table.columns.len(), table.checks.len()), (4, 1));
}

#[test]
fn one_text_holds_several_statements() {
    let changes = parse_ddl(
        ";CREATE TABLE t (a INT64) PRIMARY KEY (a); # first
         ALTER TABLE t ADD COLUMN b STRING(5); /* second */
         ALTER TABLE t ADD c TIMESTAMP;
         ALTER TABLE t ALTER COLUMN c SET OPTIONS (allow_commit_timestamp = true);
         ALTER TABLE t DROP COLUMN b;
         DROP TABLE IF EXISTS nothing;;",
    );
    let mut schema = Schema::default();
    for change in changes.unwrap() {
        schema.apply(&change).unwrap();
    }
    let columns = &schema.table("t").unwrap().columns;
    let stamp = Column { allow_commit_timestamp: true, ..Column::new("c", Type::Timestamp) };
    assert_eq!(columns, &[Column::new("a", Type::Int64), stamp]);
    assert_eq!(parse_ddl(" -- nothing\n"), Ok(vec![]));
}

#[test]
fn what_is_not_supported_is_named_with_its_place() {
    for (text, error) in [
        ("CREATE INDEX i ON t (a) WHERE a IS NOT NULL", "WHERE [at 1:25]"),
        ("CREATE TABLE s.t (a INT64) PRIMARY KEY (a)", "the named schema s [at 1:14]"),
        ("CREATE TABLE t (a UUID) PRIMARY KEY (a)", "the type UUID [at 1:19]"),
        ("CREATE TABLE t (a x.Y) PRIMARY KEY (a)", "the type of a proto [at 1:20]"),
        ("CREATE TABLE t (a ARRAY<STRUCT<b INT64>>) PRIMARY KEY (a)", "the type STRUCT [at 1:25]"),
        (
            "CREATE TABLE t (a ARRAY<FLOAT64>(vector_length=>2)) PRIMARY KEY ()",
            "the length of a vector [at 1:33]",
        ),
        (
            "CREATE TABLE t (a INT64, b INT64 AS (a)) PRIMARY KEY (a)",
            "a generated column that is not STORED [at 1:34]",
        ),
        ("ALTER TABLE t ALTER COLUMN a ALTER IDENTITY", "ALTER COLUMN … ALTER [at 1:28]"),
        (
            "CREATE TABLE t (a INT64) PRIMARY KEY (a),\n ROW DELETION POLICY (x)",
            "ROW DELETION POLICY [at 2:2]",
        ),
        ("CREATE OR REPLACE VIEW v", "CREATE OR REPLACE [at 1:1]"),
        ("CREATE SEARCH INDEX i ON t (a)", "CREATE SEARCH [at 1:1]"),
        ("CREATE VIEW v SQL SECURITY INVOKER AS SELECT 1", "CREATE VIEW [at 1:1]"),
        ("CREATE CHANGE STREAM s FOR ALL", "CREATE CHANGE [at 1:1]"),
        ("CREATE SEQUENCE s", "CREATE SEQUENCE [at 1:1]"),
        ("CREATE QUEUE q (a INT64) PRIMARY KEY (a)", "CREATE QUEUE [at 1:1]"),
        (
            "ALTER DATABASE d SET OPTIONS (version_retention_period = '7d')",
            "the database option version_retention_period [at 1:31]",
        ),
    ] {
        let found = parse_ddl(text).unwrap_err();
        assert_eq!(found.code(), Code::Unimplemented, "{text}");
        assert_eq!(found.to_string(), format!("Not supported here: {error}"), "{text}");
    }
}

#[test]
fn what_is_no_ddl_is_a_syntax_error_at_its_place() {
    for (text, error) in [
        ("SELECT 1", "Unexpected keyword SELECT [at 1:1]"),
        ("CREATE TABLE t", "Expected \"(\" but got end of statement [at 1:15]"),
        ("CREATE TABLE t (a STRING) PRIMARY KEY (a)", "Expected \"(\" but got \")\" [at 1:25]"),
        (
            "CREATE TABLE t (a INT64)",
            "Expected keyword PRIMARY KEY but got end of statement [at 1:25]",
        ),
        (
            "CREATE TABLE select (a INT64) PRIMARY KEY (a)",
            "Expected an identifier but got keyword SELECT [at 1:14]",
        ),
        (
            "CREATE TABLE t (a TIMESTAMP OPTIONS (allow_commit_timestamp=true,)) PRIMARY KEY (a)",
            "Expected keyword allow_commit_timestamp but got \")\" [at 1:66]",
        ),
        (
            "DROP TABLE t DROP TABLE u",
            "Expected end of statement but got identifier \"DROP\" [at 1:14]",
        ),
    ] {
        let found = parse_ddl(text).unwrap_err();
        assert_eq!(found.code(), Code::InvalidArgument, "{text}");
        assert_eq!(found.to_string(), format!("Syntax error: {error}"), "{text}");
    }
    let missing = parse_ddl("CREATE TABLE t (a INT64) PRIMARY KEY (b)").unwrap_err();
    let message = "Table t references nonexistent key column b.";
    assert_eq!((missing.code(), missing.to_string().as_str()), (Code::FailedPrecondition, message));
}
