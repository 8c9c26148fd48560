//! Statements on the engine's database.

use std::sync::Arc;

use super::Access;
use crate::engine::{
    Database, Error, Mutation, Read, Result, Schema, Timestamp, TransactionId, Value,
};

/// A database as one transaction sees it.
#[derive(Debug)]
pub struct InTransaction<'a> {
    database: &'a Database,
    schema: Arc<Schema>,
    transaction: Transaction,
}

#[derive(Debug)]
enum Transaction {
    ReadWrite(TransactionId),
    ReadOnly(Timestamp),
}

impl<'a> InTransaction<'a> {
    /// Returns the database as a read-write transaction sees it.
    pub fn read_write(database: &'a Database, id: TransactionId) -> InTransaction<'a> {
        let transaction = Transaction::ReadWrite(id);
        InTransaction { database, schema: database.schema(), transaction }
    }

    /// Returns the database as it was at a moment.
    pub fn read_only(database: &'a Database, moment: Timestamp) -> InTransaction<'a> {
        let transaction = Transaction::ReadOnly(moment);
        InTransaction { database, schema: database.schema_at(moment), transaction }
    }
}

impl Access for InTransaction<'_> {
    fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    fn now(&self) -> Timestamp {
        self.database.clock().now()
    }

    async fn read(&mut self, read: Read) -> Result<Vec<Vec<Value>>> {
        match self.transaction {
            Transaction::ReadWrite(id) => self.database.read(id, read).await,
            Transaction::ReadOnly(_) if read.exclusive => Err(Error::invalid_argument(
                "FOR UPDATE is only supported in a read-write transaction.",
            )),
            Transaction::ReadOnly(moment) => self.database.read_at(moment, read).await,
        }
    }

    async fn write(&mut self, mutations: Vec<Mutation>) -> Result<()> {
        match self.transaction {
            Transaction::ReadWrite(id) => self.database.write(id, &mutations).await,
            Transaction::ReadOnly(_) => Err(Error::failed_precondition(
                "DML statements can only be performed in a read-write transaction.",
            )),
        }
    }
}
