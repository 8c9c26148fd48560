//! Statements on the engine's database.

use std::sync::Arc;

use crate::engine::{Database, Error, Handle, Mutation, Read, Result, Schema, Timestamp, Value};

/// A database as one transaction sees it.
#[derive(Debug)]
pub struct InTransaction<'a> {
    database: &'a Database,
    schema: Arc<Schema>,
    handle: Handle,
    recorded: Option<Vec<Read>>,
}

impl<'a> InTransaction<'a> {
    /// Returns the database as this transaction sees it.
    pub fn new(database: &'a Database, handle: Handle) -> InTransaction<'a> {
        let schema = database.schema_in(handle);
        InTransaction { database, schema, handle, recorded: None }
    }

    /// Records from now on what statements read.
    pub fn record(&mut self) {
        self.recorded.get_or_insert_default();
    }

    /// Returns what statements have read since [`record`](InTransaction::record), in that order.
    pub fn recorded(&self) -> &[Read] {
        self.recorded.as_deref().unwrap_or_default()
    }

    /// The tables there are. An altered schema is another one, at another address.
    pub(super) fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// Returns the value of `CURRENT_TIMESTAMP()`. Asked once for a statement.
    pub(super) fn now(&self) -> Timestamp {
        self.database.clock().now()
    }

    /// Reads rows, in the order of their keys, with what the transaction has written itself.
    pub(super) async fn read(&mut self, read: Read) -> Result<Vec<Vec<Value>>> {
        if read.exclusive && matches!(self.handle, Handle::ReadOnly(_)) {
            let message = "FOR UPDATE is only supported in a read-write transaction.";
            return Err(Error::invalid_argument(message));
        }
        if let Some(recorded) = &mut self.recorded {
            recorded.push(read.clone());
        }
        self.database.read_all(self.handle, read).await
    }

    /// Writes, all or nothing. Later reads of the transaction see it.
    pub(super) async fn write(&mut self, mutations: Vec<Mutation>) -> Result<()> {
        match self.handle {
            Handle::ReadWrite(id) => self.database.write(id, &mutations).await,
            Handle::ReadOnly(_) => Err(Error::failed_precondition(
                "DML statements can only be performed in a read-write transaction.",
            )),
        }
    }
}
