//! The limits of a schema that are too large for a line of `calls.txt`, with the codes of Google's emulator.

use spindle_emulator::engine::{Code, Database, Result};
use spindle_emulator::sql::parse_ddl;

/// Executes these statements, one after another.
fn change(statements: &str) -> Result<()> {
    Database::default().change_schema(&parse_ddl(statements)?).map(drop)
}

/// Returns the code with which they end.
fn outcome(statements: &str) -> Result<(), Code> {
    change(statements).map_err(|error| error.code())
}

#[test]
fn a_table_has_1024_columns_and_128_indexes_at_most() {
    let wide = |count| {
        let columns: String = (0..count).map(|at| format!("c{at} INT64, ")).collect();
        format!("CREATE TABLE T ({columns}) PRIMARY KEY (c0)")
    };
    let indexed = |count| {
        let indexes = (0..count).map(|at| format!("; CREATE INDEX I{at} ON T (c1)"));
        std::iter::once(wide(2)).chain(indexes).collect::<String>()
    };
    let failed = Err(Code::FailedPrecondition);
    assert_eq!(outcome(&wide(1_024)), Ok(()));
    assert_eq!(outcome(&wide(1_025)), failed);
    assert_eq!(outcome(&(wide(1_024) + "; ALTER TABLE T ADD COLUMN x INT64")), failed);
    assert_eq!(outcome(&indexed(128)), Ok(()));
    assert_eq!(outcome(&indexed(129)), failed);
    let error = change(&indexed(129)).unwrap_err();
    assert!(error.message().ends_with("too many indices (limit 128 per table)."), "{error}");
}
