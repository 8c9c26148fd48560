//! The statements that are read, and those that are refused.

use super::*;
use crate::engine::{Column, KeyColumn, Schema, Table, Type};

fn one(text: &str) -> SchemaChange {
    let mut changes = parse_ddl(text).unwrap();
    assert_eq!(changes.len(), 1, "{text}");
    changes.remove(0)
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
