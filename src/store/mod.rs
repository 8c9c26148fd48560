//! The lock table on Spanner: connections, columns, rows, transactions; the rows of a group.

mod columns;
mod connection;
mod database;
pub(crate) mod ddl;
pub(crate) mod membership;
pub(crate) mod requests;
pub(crate) mod row;
mod spanner;
mod table;
mod transact;

#[cfg(feature = "admin")]
pub(crate) use columns::{is_postgresql, is_there};
pub(crate) use connection::REQUEST_LIMIT;
pub use database::Database;
pub(crate) use spanner::{read_rows, without_read_timestamp};
pub(crate) use table::Table;
pub(crate) use transact::{PAUSE, despite_others, transact};
