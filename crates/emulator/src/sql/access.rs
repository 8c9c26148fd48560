//! The needs of a statement's evaluation of the database.

use std::future::Future;
use std::sync::Arc;

use crate::engine::{Mutation, Read, Result, Schema, Timestamp, Value};

/// A database as one transaction sees it.
pub trait Access: Send {
    /// The tables there are. An altered schema is another one, at another address.
    fn schema(&self) -> &Arc<Schema>;

    /// Returns the value of `CURRENT_TIMESTAMP()`. Asked once for a statement.
    fn now(&self) -> Timestamp;

    /// Reads rows, in the order of their keys, with what the transaction has written itself.
    fn read(&mut self, read: Read) -> impl Future<Output = Result<Vec<Vec<Value>>>> + Send;

    /// Writes, all or nothing. Later reads of the transaction see it.
    fn write(&mut self, mutations: Vec<Mutation>) -> impl Future<Output = Result<()>> + Send;
}
