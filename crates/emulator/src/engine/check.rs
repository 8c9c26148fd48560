//! The values that a cell can hold, and the error when it can't.

use super::cell::Cell;
use super::column::{Column, check_column};
use super::error::{Code, Error, Result};
use super::table::{Check, Table};
use super::value::{Key, Timestamp, Type, Value};

/// Checks that a column can hold this.
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

pub(super) fn written_and_deleted(table: &Table, key: &Key) -> Error {
    Error::failed_precondition(format!(
        "Cannot write and delete the row with key {key} in the foreign key referenced table {} \
         within the same transaction.",
        table.name
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

/// The most columns of a table.
const COLUMNS_MAX: usize = 1_024;
/// The most columns of a key.
const KEY_COLUMNS_MAX: usize = 16;
/// The longest name, in characters.
const NAME_MAX: usize = 128;

/// Refuses the name of a column, which may begin in any way.
fn check_column_name(name: &str) -> Result<()> {
    match (1..=NAME_MAX).contains(&name.chars().count()) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!("Column name not valid: {name}."))),
    }
}

/// Refuses a name that no `kind` of thing can have.
pub(super) fn check_schema_name(kind: &str, name: &str) -> Result<()> {
    let is_name = |part: &str| {
        let first = part.chars().next();
        first.is_some_and(|first| first != '_' && !first.is_ascii_digit())
            && part.chars().count() <= NAME_MAX
    };
    match name.split('.').all(is_name) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!("{kind} name not valid: {name}."))),
    }
}

/// Refuses a key of too many columns; those of an index have the key of its table behind them.
pub(super) fn check_key_length(kind: &str, entries: &Table) -> Result<()> {
    let count = entries.primary_key.len();
    match count <= KEY_COLUMNS_MAX {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "{kind} {} has too many keys ({count}); the limit is {KEY_COLUMNS_MAX}.",
            entries.name
        ))),
    }
}

/// Refuses a table that cannot be.
pub(super) fn check_table(table: &Table) -> Result<()> {
    if table.columns.len() > COLUMNS_MAX {
        return Err(Error::failed_precondition(format!(
            "Table {} has too many columns; the limit is {COLUMNS_MAX}.",
            table.name
        )));
    }
    check_key_length("Table", table)?;
    for (position, column) in table.columns.iter().enumerate() {
        if table.position(&column.name) != Some(position) {
            return Err(duplicate_column(&table.name, &column.name));
        }
        check_column_name(&column.name)?;
        check_column(&table.name, column)?;
    }
    for (index, part) in table.primary_key.iter().enumerate() {
        if part.position >= table.columns.len() {
            return Err(Error::invalid_argument(format!(
                "Table {} references a key column that it does not have.",
                table.name
            )));
        }
        let column = &table.columns[part.position];
        if !column.column_type.is_comparable() {
            return Err(Error::invalid_argument(format!(
                "Column {}.{} has type {}, but is part of the primary key.",
                table.name, column.name, column.column_type
            )));
        }
        if table.primary_key[..index].iter().any(|other| other.position == part.position) {
            return Err(Error::invalid_argument(format!(
                "Table {} references key column {} more than once.",
                table.name, table.columns[part.position].name
            )));
        }
    }
    for position in table.generated()? {
        let column = &table.columns[position];
        if table.is_key(position) {
            return Err(Error::unimplemented(format!(
                "Not supported here: the generated column {}.{} in the primary key",
                table.name, column.name
            )));
        }
        let Some(formula) = &column.generated else { continue };
        let stamped = |other: &&Column| other.allow_commit_timestamp && formula.uses(&other.name);
        if let Some(other) = table.columns.iter().find(stamped) {
            return Err(Error::failed_precondition(format!(
                "Cannot use commit timestamp column `{}` as a dependency of a materialized \
                 generated column.",
                other.name
            )));
        }
        formula.check(&table.names_and_types(), column.column_type).map_err(|error| {
            let (table, name, reason) = (&table.name, &column.name, error.message());
            Error::new(
                error.code(),
                format!(
                    "Error parsing the definition of generated column `{table}`.`{name}`: {reason}"
                ),
            )
        })?;
    }
    table.checks.iter().try_for_each(|check| check_condition(table, check))
}

/// Refuses a constraint that cannot be.
fn check_condition(table: &Table, check: &Check) -> Result<()> {
    let used = |column: &&Column| check.condition.uses(&column.name);
    let mut columns = table.columns.iter().filter(used);
    if let Some(column) = columns.clone().find(|column| column.allow_commit_timestamp) {
        return Err(Error::invalid_argument(format!(
            "Column `{}` has option commit_timestamp, which is not supported in check constraint.",
            column.name
        )));
    }
    check.condition.check(&table.names_and_types(), Type::Bool).map_err(|error| {
        let (text, name, reason) = (check.condition.text(), &check.name, error.message());
        let table = &table.name;
        Error::new(
            error.code(),
            format!(
                "Error parsing expression '{text}' from check constraint '{name}' in table \
                 '{table}': {reason}"
            ),
        )
    })?;
    match columns.any(|column| depends_on_written(table, column)) {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "Check constraint `{}`.`{}` does not use any non generated column. Expression: '{}'. \
             A check constraint expression requires at least one non-generated column as \
             dependency.",
            table.name,
            check.name,
            check.condition.text()
        ))),
    }
}

/// Returns true if a column is written, or made of one that is. The formulas of a table that was
/// checked so far make no circle.
fn depends_on_written(table: &Table, column: &Column) -> bool {
    column.generated.as_ref().is_none_or(|formula| {
        let used = |other: &&Column| formula.uses(&other.name);
        table.columns.iter().filter(used).any(|other| depends_on_written(table, other))
    })
}

/// Checks that a row, which has a value for each column, satisfies the constraints of its table.
pub(super) fn check_row(table: &Table, key: &Key, row: &[Value]) -> Result<()> {
    if table.checks.is_empty() {
        return Ok(());
    }
    let columns = table.names_and_types();
    for check in &table.checks {
        if check.condition.value(&columns, Type::Bool, row)? == Value::Bool(false) {
            return Err(Error::new(
                Code::OutOfRange,
                format!(
                    "Check constraint `{}`.`{}` is violated for key {key}",
                    table.name, check.name
                ),
            ));
        }
    }
    Ok(())
}

pub(super) fn duplicate_column(table: &str, column: &str) -> Error {
    Error::failed_precondition(format!("Duplicate column name {table}.{column}."))
}
