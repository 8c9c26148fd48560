//! The lock table on Spanner: connections, columns, rows, transactions; the rows of a group.

mod columns;
mod connection;
pub(crate) mod ddl;
mod many;
pub(crate) mod membership;
pub(crate) mod requests;
pub(crate) mod row;
mod stand_in;
mod table;
mod transact;

pub(crate) use columns::Need;
#[cfg(feature = "admin")]
pub(crate) use columns::{is_postgresql, is_there};
pub(crate) use connection::{Connection, REQUEST_LIMIT};
pub(crate) use row::FullRow;
#[cfg(all(feature = "__simulation", unix))]
pub(crate) use stand_in::{Answering, Leftovers, StandIn};
pub(crate) use table::{COMMIT_TIMESTAMP, Table, without_read_timestamp};
pub(crate) use transact::{PAUSE, despite_others, transact};
