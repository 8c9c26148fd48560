//! `INFORMATION_SCHEMA`: the schema as rows.

use super::ast::TableName;
use super::error::SqlError;
use crate::engine::{Column, Schema, Table, Type, Value};

/// What the schema is called, in any case.
pub const NAME: &str = "INFORMATION_SCHEMA";

/// A table of `INFORMATION_SCHEMA`.
pub struct View {
    /// Its columns.
    pub columns: Vec<(String, Type)>,
    /// Its rows, by name of what they describe.
    pub rows: Vec<Vec<Value>>,
}

const TABLES: &[(&str, Type)] = &[
    ("TABLE_CATALOG", Type::String),
    ("TABLE_SCHEMA", Type::String),
    ("TABLE_NAME", Type::String),
    ("TABLE_TYPE", Type::String),
    ("PARENT_TABLE_NAME", Type::String),
    ("ON_DELETE_ACTION", Type::String),
    ("SPANNER_STATE", Type::String),
    ("INTERLEAVE_TYPE", Type::String),
    ("ROW_DELETION_POLICY_EXPRESSION", Type::String),
];

const COLUMNS: &[(&str, Type)] = &[
    ("TABLE_CATALOG", Type::String),
    ("TABLE_SCHEMA", Type::String),
    ("TABLE_NAME", Type::String),
    ("COLUMN_NAME", Type::String),
    ("ORDINAL_POSITION", Type::Int64),
    ("COLUMN_DEFAULT", Type::String),
    ("DATA_TYPE", Type::String),
    ("IS_NULLABLE", Type::String),
    ("SPANNER_TYPE", Type::String),
    ("IS_GENERATED", Type::String),
    ("GENERATION_EXPRESSION", Type::String),
    ("IS_STORED", Type::String),
    ("SPANNER_STATE", Type::String),
];

const COLUMN_OPTIONS: &[(&str, Type)] = &[
    ("TABLE_CATALOG", Type::String),
    ("TABLE_SCHEMA", Type::String),
    ("TABLE_NAME", Type::String),
    ("COLUMN_NAME", Type::String),
    ("OPTION_NAME", Type::String),
    ("OPTION_TYPE", Type::String),
    ("OPTION_VALUE", Type::String),
];

/// The table of this name, in any case, for the tables of `schema`.
///
/// The tables of `INFORMATION_SCHEMA` itself are not among its rows.
pub fn view(name: &str, schema: &Schema) -> Option<View> {
    let (columns, rows) = match name.to_ascii_uppercase().as_str() {
        "TABLES" => (TABLES, schema.tables().map(table_row).collect()),
        "COLUMNS" => (COLUMNS, column_rows(schema, column_row)),
        "COLUMN_OPTIONS" => {
            let mut rows = column_rows(schema, option_row);
            rows.retain(|row| !row.is_empty());
            (COLUMN_OPTIONS, rows)
        }
        _ => return None,
    };
    let columns = columns.iter().map(|(name, value_type)| ((*name).to_owned(), *value_type));
    Some(View { columns: columns.collect(), rows })
}

/// Other tables of `INFORMATION_SCHEMA` may exist in Spanner, so this one isn't called missing.
pub fn missing(name: &TableName) -> SqlError {
    SqlError::unsupported(name.at, format_args!("{NAME}.{}", name.name))
}

fn column_rows(schema: &Schema, row: fn(&Table, usize, &Column) -> Vec<Value>) -> Vec<Vec<Value>> {
    let columns = |table: &'_ Table| -> Vec<Vec<Value>> {
        let columns = table.columns.iter().enumerate();
        columns.map(|(position, column)| row(table, position, column)).collect()
    };
    schema.tables().flat_map(columns).collect()
}

fn table_row(table: &Table) -> Vec<Value> {
    vec![
        "".into(),
        "".into(),
        table.name.as_str().into(),
        "BASE TABLE".into(),
        Value::Null,
        Value::Null,
        "COMMITTED".into(),
        Value::Null,
        Value::Null,
    ]
}

fn column_row(table: &Table, position: usize, column: &Column) -> Vec<Value> {
    let ordinal = i64::try_from(position + 1).unwrap_or(i64::MAX);
    vec![
        "".into(),
        "".into(),
        table.name.as_str().into(),
        column.name.as_str().into(),
        ordinal.into(),
        column.default.as_ref().map(|default| default.text()).into(),
        Value::Null,
        if column.not_null { "NO" } else { "YES" }.into(),
        column.spanner_type().into(),
        "NEVER".into(),
        Value::Null,
        Value::Null,
        "COMMITTED".into(),
    ]
}

fn option_row(table: &Table, _: usize, column: &Column) -> Vec<Value> {
    if !column.allow_commit_timestamp {
        return Vec::new();
    }
    vec![
        "".into(),
        "".into(),
        table.name.as_str().into(),
        column.name.as_str().into(),
        "allow_commit_timestamp".into(),
        "BOOL".into(),
        "TRUE".into(),
    ]
}
