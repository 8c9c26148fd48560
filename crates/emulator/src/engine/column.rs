//! A column's definition.

use std::sync::Arc;

use super::cell::Cell;
use super::error::{Error, Result};
use super::formula::{Expression, Formula, Shared};
use super::value::{Timestamp, Type};

/// The longest `STRING(n)`, in characters, and what `STRING(MAX)` means.
pub const STRING_MAX_LENGTH: u64 = 2_621_440;
/// The longest `BYTES(n)`, in bytes, and what `BYTES(MAX)` means.
pub const BYTES_MAX_LENGTH: u64 = 10_485_760;

/// A column of a [`super::Table`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The name, in the case it was created with.
    pub name: String,
    /// The type of its values.
    pub column_type: Type,
    /// The `n` of `STRING(n)` (in characters) or `BYTES(n)` (in bytes), also of an array's elements;
    /// `None` for `MAX` and for types without a length.
    pub max_length: Option<u64>,
    /// True if NULL is refused.
    pub not_null: bool,
    /// The option of that name: whether the commit timestamp may be written here.
    pub allow_commit_timestamp: bool,
    /// The value in a new row that says nothing of it; without one, NULL.
    pub default: Option<ColumnDefault>,
    /// `AS (…) STORED`: what it holds in each row, which nobody else writes.
    pub generated: Option<Formula>,
}

impl Column {
    /// Returns a nullable column without a limit of its own.
    pub fn new(name: impl Into<String>, column_type: Type) -> Column {
        Column {
            name: name.into(),
            column_type,
            max_length: None,
            not_null: false,
            allow_commit_timestamp: false,
            default: None,
            generated: None,
        }
    }

    /// Returns the type as DDL and `information_schema` write it: `STRING(MAX)`, `ARRAY<INT64>`.
    pub fn spanner_type(&self) -> String {
        let element = self.column_type.element();
        let scalar = element.unwrap_or(self.column_type);
        let scalar = match (scalar, self.max_length) {
            (Type::String | Type::Bytes, None) => format!("{scalar}(MAX)"),
            (Type::String | Type::Bytes, Some(length)) => format!("{scalar}({length})"),
            _ => scalar.to_string(),
        };
        match element {
            Some(_) => format!("ARRAY<{scalar}>"),
            None => scalar,
        }
    }

    /// Returns the type as the PostgreSQL dialect writes it: `character varying(8)`, `bigint`.
    pub fn postgresql_type(&self) -> String {
        let name = match self.column_type {
            Type::Timestamp if self.allow_commit_timestamp => "spanner.commit_timestamp",
            Type::Timestamp => "timestamp with time zone",
            Type::String => "character varying",
            Type::Int64 => "bigint",
            Type::Float64 => "double precision",
            Type::Bool => "boolean",
            Type::Bytes => "bytea",
            Type::Date => "date",
            // No such column can be made.
            other => other.name(),
        };
        match self.max_length {
            Some(length) => format!("{name}({length})"),
            None => name.to_owned(),
        }
    }

    /// Returns the longest value, or element, that the column can hold, in the unit of its type.
    pub(super) fn length_limit(&self) -> u64 {
        self.max_length.unwrap_or(match self.column_type.element().unwrap_or(self.column_type) {
            Type::String => STRING_MAX_LENGTH,
            _ => BYTES_MAX_LENGTH,
        })
    }
}

/// An expression that gives a column of new rows its value.
pub trait DefaultExpression: Expression {
    /// Checks that the column can have it for its default.
    ///
    /// # Errors
    /// Its value doesn't fit the column.
    fn check(&self, column: &Column) -> Result<()>;

    /// As a column's definition shows it.
    fn definition(&self) -> String {
        format!("DEFAULT ({})", self.text())
    }

    /// Returns the reason why it has no value here, if there is one.
    fn lack(&self) -> Option<&str> {
        None
    }

    /// Its value for a new row, at this moment.
    ///
    /// # Errors
    /// It has none.
    fn value(&self, column: &Column, now: Timestamp) -> Result<Cell>;
}

/// `DEFAULT (…)`.
pub type ColumnDefault = Shared<dyn DefaultExpression>;

impl ColumnDefault {
    /// Returns the default that an expression gives.
    pub fn new(expression: impl DefaultExpression + 'static) -> ColumnDefault {
        Shared(Arc::new(expression))
    }
}

/// Checks that a table can have this column.
pub(super) fn check_column(table: &str, column: &Column) -> Result<()> {
    let longest = match column.column_type.element().unwrap_or(column.column_type) {
        Type::String => STRING_MAX_LENGTH,
        Type::Bytes => BYTES_MAX_LENGTH,
        _ => 0,
    };
    if let Some(length) = column.max_length
        && !(1..=longest).contains(&length)
    {
        return Err(Error::invalid_argument(format!(
            "Invalid length for column: {table}.{}, found: {length}.",
            column.name
        )));
    }
    if column.allow_commit_timestamp && column.column_type != Type::Timestamp {
        return Err(Error::failed_precondition(format!(
            "Option: allow_commit_timestamp is not allowed on column: {table}.{}, which is of type {}.",
            column.name, column.column_type
        )));
    }
    if column.generated.is_some() && (column.default.is_some() || column.allow_commit_timestamp) {
        return Err(Error::failed_precondition(format!(
            "Column {table}.{} with a DEFAULT value cannot be a generated column and vice versa.",
            column.name
        )));
    }
    column.default.as_ref().map_or(Ok(()), |default| default.check(column))
}
