//! The statements that are read, and those that are refused.

use spindle_emulator::engine::{Column, Schema, Type};
use spindle_emulator::sql::parse_ddl;

#[test]
fn one_text_holds_several_statements() {
    let changes = parse_ddl(
        ";CREATE TABLE t (a INT64) PRIMARY KEY (a); # first
         ALTER TABLE t ADD COLUMN b STRING(5); /* * / second
         */
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
