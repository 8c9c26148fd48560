//! A schema as the DDL that makes it again.

use std::fmt::Write;

use crate::engine::{Column, Schema, Table};
use crate::sql::is_reserved;

/// The statements that make these tables, one for each, without `;`.
pub(super) fn statements(schema: &Schema) -> Vec<String> {
    schema.tables().map(create_table).collect()
}

fn create_table(table: &Table) -> String {
    let mut text = format!("CREATE TABLE {} (\n", name(&table.name));
    for column in &table.columns {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "  {},", definition(column));
    }
    let key = table.primary_key.iter().map(|part| {
        let name = name(&table.columns[part.position].name);
        if part.descending { format!("{name} DESC") } else { name }
    });
    let key: Vec<String> = key.collect();
    let _ = write!(text, ") PRIMARY KEY({})", key.join(", "));
    text
}

fn definition(column: &Column) -> String {
    let mut text = format!("{} {}", name(&column.name), column.spanner_type());
    if column.not_null {
        text.push_str(" NOT NULL");
    }
    if let Some(default) = &column.default {
        let _ = write!(text, " DEFAULT ({})", default.text());
    }
    if column.allow_commit_timestamp {
        text.push_str(" OPTIONS (\n    allow_commit_timestamp = true\n  )");
    }
    text
}

/// A name as a statement can hold it.
fn name(name: &str) -> String {
    let plain = name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.chars().all(|next| next.is_ascii_alphanumeric() || next == '_');
    match plain && !is_reserved(name) {
        true => name.to_owned(),
        false => format!("`{}`", name.replace('\\', "\\\\").replace('`', "\\`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::parse_ddl;

    fn schema(text: &str) -> Schema {
        let mut schema = Schema::default();
        for change in parse_ddl(text).unwrap() {
            schema.apply(&change).unwrap();
        }
        schema
    }

    #[test]
    fn a_table_is_printed_as_cloud_spanner_prints_it() {
        let schema = schema(
            "create table t (k int64 not null, s string(5), b bytes(max) not null,
             `at` timestamp options (allow_commit_timestamp=true)) primary key (k, s desc);",
        );
        let text = "CREATE TABLE t (
  k INT64 NOT NULL,
  s STRING(5),
  b BYTES(MAX) NOT NULL,
  `at` TIMESTAMP OPTIONS (
    allow_commit_timestamp = true
  ),
) PRIMARY KEY(k, s DESC)";
        assert_eq!(statements(&schema), [text]);
    }

    #[test]
    fn what_is_printed_makes_the_same_schema_again() {
        let before = schema(
            "CREATE TABLE `select` (`from` INT64 NOT NULL, g FLOAT64, d DATE, n BOOL) PRIMARY KEY (`from` DESC);
             CREATE TABLE wide (n NUMERIC NOT NULL DEFAULT ( 1.5 ), j JSON,
               a ARRAY<STRING(5)> DEFAULT (['x', NULL]), t TIMESTAMP
               DEFAULT (PENDING_COMMIT_TIMESTAMP()) OPTIONS (allow_commit_timestamp = true),
             ) PRIMARY KEY (n);
             CREATE TABLE one (value STRING(MAX)) PRIMARY KEY ();
             CREATE TABLE grown (k INT64) PRIMARY KEY (k);
             ALTER TABLE grown ADD COLUMN at_ TIMESTAMP;
             ALTER TABLE grown ADD COLUMN gone INT64;
             ALTER TABLE grown DROP COLUMN gone;
             ALTER TABLE grown ALTER COLUMN at_ SET OPTIONS (allow_commit_timestamp = true)",
        );
        assert_eq!(schema(&statements(&before).join(";\n")), before);
    }
}
