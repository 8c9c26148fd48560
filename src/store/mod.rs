//! The lock table on Spanner: connections, rows, transactions, the schema; the rows of a group.

mod connection;
mod database;
mod ddl;
pub(crate) mod requests;
pub(crate) mod row;
pub(crate) mod schema;
mod spanner;
mod table;
mod transact;

pub(crate) use connection::REQUEST_LIMIT;
pub use database::Database;
pub use ddl::Ddl;
pub(crate) use spanner::{all_columns, read_rows, without_read_timestamp};
pub(crate) use table::Table;
pub use transact::despite_others;
pub(crate) use transact::{PAUSE, transact};
