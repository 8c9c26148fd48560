//! The schema that locks need: what a table lacks, by what Spanner says of a request, or by its
//! information schema.
//!
//! Every request names all columns that it reads or writes. So a table without one is known by
//! Spanner's refusal, and nobody asks the information schema but who looks for what is wrong.

mod columns;
mod question;

use super::connection::{Connection, REQUEST_LIMIT, TimedClient};
use crate::error::{Error, Kind, Missing, Result};
#[cfg(feature = "admin")]
pub(crate) use columns::lacking;
#[cfg(feature = "admin")]
pub(crate) use question::is_postgresql as is_postgresql_database;

pub(crate) use columns::{Found, check_columns};

/// Says what is missing, where Spanner names it.
pub(crate) fn explain(
    connection: &Connection,
    timed: &TimedClient,
    table: &str,
    error: Error,
) -> Error {
    // Spanner has refused nothing that it may have applied.
    let Some(source) = error.spanner().filter(|_| !error.is_outcome_unknown()) else {
        return error;
    };
    let message = match Missing::named_in(source) {
        Some(Missing::Session) => return connection.session_lost(timed),
        Some(Missing::Database) => {
            return Error::config(format!("database is not there: {error}"));
        }
        Some(Missing::Table) => columns::no_table(table),
        Some(Missing::Column(column)) => columns::no_column(table, &column),
        None if source.is_deserialization() => format!(
            "table `{table}` has a column of a type that locks don't take; `spindle doctor` and \
             `LockTable::check` name it, with the ALTER: {error}"
        ),
        None => return error,
    };
    Error::new(Kind::Schema(message))
}

/// Asks the information schema for the columns of a table.
pub(crate) async fn ask(connection: &Connection, table: &str) -> Result<Vec<Found>> {
    let timed = connection.client(REQUEST_LIMIT).await?;
    let found = question::ask(&timed, table).await;
    connection.ended(&timed, found.as_ref().err());
    found.map_err(|error| explain(connection, &timed, table, error))
}

/// Fails unless the columns of a table are as locks need them.
pub(crate) async fn check(connection: &Connection, table: &str) -> Result<()> {
    let found = match ask(connection, table).await {
        // A connection of our own is made anew.
        Err(error) if error.is_session_lost() => ask(connection, table).await?,
        found => found?,
    };
    check_columns(table, &found).map_err(|wrong| Error::new(Kind::Schema(wrong)))
}
