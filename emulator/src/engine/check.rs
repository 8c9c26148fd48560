//! What a cell can hold, and what is said when it can't.

use super::cell::Cell;
use super::column::Column;
use super::error::{Code, Error, Result};
use super::table::Table;
use super::value::{Key, Timestamp, Value};

/// Whether a column can hold this.
pub(super) fn check_cell(
    table: &Table,
    column: &Column,
    cell: &Cell,
    now: Timestamp,
) -> Result<()> {
    let Cell::Value(value) = cell else { return Ok(()) };
    let Some(value_type) = value.value_type() else {
        return match column.not_null {
            true => Err(Error::failed_precondition(format!(
                "Cannot specify a null value for column: {} in table: {}",
                column.name, table.name
            ))),
            false => Ok(()),
        };
    };
    if value_type != column.column_type {
        return Err(Error::failed_precondition(format!(
            "Could not parse {value} as {}",
            column.column_type
        )));
    }
    let limit = column.length_limit();
    let size = match value {
        Value::Array { values, .. } => {
            values.iter().map(|value| size(value, limit)).max().unwrap_or(0)
        }
        value => size(value, limit),
    };
    if size > limit {
        return Err(Error::failed_precondition(format!(
            "New value exceeds the maximum size limit for this column: {}.{}, size: {size}, limit: {limit}.",
            table.name, column.name
        )));
    }
    match value {
        Value::Timestamp(written) if column.allow_commit_timestamp && *written > now => {
            Err(in_the_future(table, column, *written))
        }
        _ => Ok(()),
    }
}

/// How long a value is, in the unit of its type; 0 where that cannot be above the limit.
fn size(value: &Value, limit: u64) -> u64 {
    match value {
        Value::String(text) if text.len() as u64 <= limit => 0,
        Value::String(text) => text.chars().count() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        _ => 0,
    }
}

pub(super) fn in_the_future(table: &Table, column: &Column, found: Timestamp) -> Error {
    Error::failed_precondition(format!(
        "Cannot write timestamps in the future, found: {found} in column: {}.{}",
        table.name, column.name
    ))
}

pub(super) fn already_exists(table: &Table, key: &Key) -> Error {
    Error::new(Code::AlreadyExists, format!("Table {}: Row {key} already exists.", table.name))
}

pub(super) fn omitted_not_null(table: &Table, column: &Column) -> Error {
    Error::failed_precondition(format!(
        "A new row in table {} does not specify a non-null value for NOT NULL column: {}",
        table.name, column.name
    ))
}

pub(super) fn commit_timestamp_not_allowed(table: &Table, column: &Column) -> Error {
    Error::failed_precondition(format!(
        "Cannot write commit timestamp because the allow_commit_timestamp column option is not set \
         to true for column {}.{}, or for all corresponding shared key columns in this table's \
         interleaved table hierarchy.",
        table.name, column.name
    ))
}
