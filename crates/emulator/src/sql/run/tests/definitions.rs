//! The definitions that Google's emulator refuses, with its codes.

use super::*;
use crate::engine::Database;
use crate::sql::parse_ddl;

const TABLE: &str = "CREATE TABLE T (k INT64, s STRING(MAX), n INT64,
    ts TIMESTAMP OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY (k)";

/// Returns the code with which these statements end, one after another.
fn outcome(statements: &str) -> Result<(), Code> {
    let database = Database::default();
    let changes = parse_ddl(statements).map_err(|error| error.code())?;
    database.change_schema(&changes).map_err(|error| error.code())
}

/// Returns `count` columns, `c0 INT64` first.
fn columns(count: usize) -> String {
    (0..count).map(|at| format!("c{at} INT64, ")).collect()
}

fn key(count: usize) -> String {
    (0..count).map(|at| format!("c{at}")).collect::<Vec<_>>().join(", ")
}

/// Returns tables that are interleaved in each other.
fn nested(depth: usize) -> String {
    let table = |at: usize| {
        let (columns, key) = (columns(at + 1), key(at + 1));
        let parent = at.checked_sub(1).map(|above| format!(", INTERLEAVE IN PARENT T{above}"));
        format!("CREATE TABLE T{at} ({columns}) PRIMARY KEY ({key}){};", parent.unwrap_or_default())
    };
    (0..depth).map(table).collect()
}

fn indexed(count: usize) -> String {
    let indexes = (0..count).map(|at| format!("; CREATE INDEX I{at} ON T (s)"));
    std::iter::once(TABLE.to_owned()).chain(indexes).collect()
}

#[test]
fn the_limits_of_a_schema_are_those_of_googles_emulator() {
    let long = "t".repeat(129);
    let invalid = Err(Code::InvalidArgument);
    let failed = Err(Code::FailedPrecondition);
    let wide = |count| format!("CREATE TABLE T ({}) PRIMARY KEY (c0)", columns(count));
    let keyed = |count| format!("CREATE TABLE T ({}) PRIMARY KEY ({})", columns(20), key(count));
    let by = |count: usize| format!("{}; CREATE INDEX I ON T ({})", wide(20), &key(count + 1)[4..]);
    let add = |column: &str| format!("{TABLE}; ALTER TABLE T ADD COLUMN {column} INT64");
    for (statements, expected) in [
        (keyed(16), Ok(())),
        (keyed(17), invalid),
        (by(15), Ok(())),
        (by(16), invalid),
        (wide(1_024), Ok(())),
        (wide(1_025), failed),
        (wide(1_024) + "; ALTER TABLE T ADD COLUMN x INT64", failed),
        (nested(7), Ok(())),
        (nested(8), failed),
        (indexed(128), Ok(())),
        (indexed(129), failed),
        (format!("CREATE TABLE {} (a INT64) PRIMARY KEY (a)", &long[1..]), Ok(())),
        (format!("CREATE TABLE {long} (a INT64) PRIMARY KEY (a)"), invalid),
        (format!("CREATE TABLE T ({long} INT64) PRIMARY KEY ({long})"), invalid),
        (format!("{TABLE}; CREATE INDEX {long} ON T (s)"), invalid),
        (add("_c"), Ok(())),
        (add(&long), invalid),
        (
            format!("CREATE TABLE T (a INT64, CONSTRAINT {long} CHECK (a > 0)) PRIMARY KEY (a)"),
            invalid,
        ),
    ] {
        assert_eq!(outcome(&statements), expected, "{}", &statements[..statements.len().min(300)]);
    }
}
