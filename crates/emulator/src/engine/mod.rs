//! The database itself: values, schema, versions, locks and transactions, without a network.
//!
//! A [`Database`] can be used directly, on any clock and any tokio runtime, also one with paused
//! time. All order is deterministic: the same requests in the same order give the same answers.
//!
//! # How transactions are kept apart
//!
//! A pessimistic read-write transaction locks the cells it reads, rows by columns. It also locks
//! the ranges it reads with the rows that aren't there yet, and keeps the locks until it ends.
//! Writes are collected and take effect in the one moment of the commit, which first makes sure
//! that nobody else holds a lock against them. So the order of the commits is an order in which the
//! transactions could have run one after another. An optimistic one locks nothing, and at its
//! commit finds out whether its reads would still give the same.
//!
//! Nobody waits for a younger transaction: the older one aborts it and goes on. A transaction's age
//! counts from the first read, write or commit of its first attempt.
//!
//! A commit's timestamp is chosen in that same moment. It is later than every timestamp that was
//! given to a commit or shown by a read before, and never before the clock, which counts in whole
//! microseconds here. So a read at a timestamp has nobody to wait for: whoever commits after it
//! commits above it.

use std::collections::BTreeMap;

mod cell;
mod check;
mod civil;
mod clock;
mod column;
mod commit;
mod constraint;
mod database;
pub(crate) mod double;
mod error;
mod foreign_key;
mod formula;
mod index;
mod json;
mod locks;
mod mutation;
mod numeric;
mod read;
mod remembered;
mod requests;
mod rewrite;
mod schema;
mod state;
mod store;
mod table;
mod touched;
mod transaction;
mod value;
mod view;

pub use cell::Cell;
pub(crate) use civil::Reader;
pub use clock::{Clock, Sleep, TokioClock};
pub use column::{BYTES_MAX_LENGTH, Column, ColumnDefault, DefaultExpression, STRING_MAX_LENGTH};
pub use commit::MUTATIONS_MAX;
pub use database::{Database, TransactionNumbers};
pub use error::{Code, Detail, Error, Result};
pub use formula::{Expression, Formula, RowExpression, Shared};
pub use index::{BoundIndex, Index, IndexColumn};
pub use json::Json;
pub use mutation::{Mutation, WriteKind};
pub use numeric::Numeric;
pub use read::{Read, Reading};
pub use schema::{Dialect, Kept, Schema, SchemaChange};
pub use state::VERSION_RETENTION;
pub use table::{Check, Constraint, ForeignKey, KeyColumn, OnDelete, Parent, Table};
pub use transaction::{
    Committed, Concurrency, Handle, IDLE_LIMIT, ReadWriteOptions, TimestampBound, TransactionId,
};
pub use value::{Date, Key, KeyPart, KeyRange, Timestamp, Type, Value};

/// Collects entries into a map, one by one. `collect` sorts them first, by code that the compiler makes
/// anew for each type.
pub(crate) fn map_of<K: Ord, V>(entries: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(entries);
    map
}
