//! The dialect POSTGRESQL: its tables, and the queries that mean the same in both.

use spindle_emulator::engine::{Code, Column, Dialect, Schema};
use spindle_emulator::sql::{Result, check_query, parse_ddl_in};

fn schema(text: &str) -> Result<Schema> {
    let mut schema = Schema::of(Dialect::PostgreSql);
    for change in parse_ddl_in(Dialect::PostgreSql, text)? {
        schema.apply(&change).unwrap();
    }
    Ok(schema)
}

#[test]
fn types_have_the_names_of_the_dialect_and_keys_are_not_null() {
    let schema = schema(
        "CREATE TABLE Jobs (\"Name\" varchar(8), n bigint, b boolean NOT NULL, f float8,
         x bytea, d date, t timestamptz, s SPANNER.COMMIT_TIMESTAMP, PRIMARY KEY (\"Name\"));
         ALTER TABLE jobs ADD COLUMN IF NOT EXISTS more text; ALTER TABLE jobs DROP COLUMN d",
    );
    let schema = schema.unwrap();
    let table = schema.table("jobs").unwrap();
    assert_eq!((table.name.as_str(), table.columns[0].name.as_str()), ("jobs", "Name"));
    assert!(table.columns[0].not_null && table.columns[2].not_null);
    let types: Vec<_> = table.columns.iter().map(Column::postgresql_type).collect();
    let expected = [
        "character varying(8)",
        "bigint",
        "boolean",
        "double precision",
        "bytea",
        "timestamp with time zone",
        "spanner.commit_timestamp",
        "character varying",
    ];
    assert_eq!(types, expected);
}

#[test]
fn what_is_not_known_is_named() {
    for (text, said) in [
        ("CREATE TABLE t (k text, n numeric, PRIMARY KEY (k))", "the type numeric"),
        ("CREATE TABLE t (k text, n bigint[], PRIMARY KEY (k))", "the type of an array"),
        ("CREATE TABLE t (k text PRIMARY KEY DEFAULT 'a')", "DEFAULT"),
        ("CREATE INDEX i ON t (k)", "this statement in the dialect POSTGRESQL"),
        ("ALTER TABLE t ALTER COLUMN k TYPE text", "ALTER"),
    ] {
        let error = schema(text).unwrap_err();
        assert_eq!(error.code(), Code::Unimplemented, "{text}: {error}");
        assert!(error.to_string().contains(said), "{text}: {error}");
    }
    for text in [
        "CREATE TABLE t (k text PRIMARY KEY, v text PRIMARY KEY)",
        "CREATE TABLE `t` (k text PRIMARY KEY)",
        "CREATE TABLE t (k text)",
        "SELECT 1",
    ] {
        assert_eq!(schema(text).unwrap_err().code(), Code::InvalidArgument, "{text}");
    }
}

#[test]
fn only_a_query_that_means_the_same_in_both_dialects_is_run() {
    let same = "SELECT column_name FROM information_schema.columns WHERE
                LOWER(table_name) = 'jobs' AND table_schema IN ('', 'public')";
    assert_eq!(check_query(same), Ok(()));
    for other in ["SELECT \"a\"", "SELECT 1/2", "SELECT '\\n'", "SELECT length('a')", "SELECT $1"] {
        assert!(check_query(other).is_err(), "{other}");
    }
    // Quotes in a text, an operator, a comment in a comment: GoogleSQL reads each otherwise.
    for other in ["SELECT '''a'''", "SELECT 1 # 2", "SELECT 1 /* /* */ + 1 -- */"] {
        assert!(check_query(other).is_err(), "{other}");
    }
}
