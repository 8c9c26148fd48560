//! A database, as a program uses it without a network.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::Notify;

use super::clock::{Clock, TokioClock};
use super::error::{Code, Error, Result};
use super::locks::LockTable;
use super::map_of;
use super::mutation::Mutation;
use super::read::{Read, Reading};
use super::requests::EndsWithRequest;
use super::rewrite::Rewrite;
use super::schema::{Dialect, Schema, SchemaChange};
use super::state::{State, TableData};
use super::store::Rows;
use super::transaction::{
    Committed, Handle, Outcome, ReadWriteOptions, TimestampBound, Transaction, TransactionId,
};
use super::value::{Timestamp, Value};

/// The shortest time for which old versions are kept.
const RETENTION_MIN: Duration = Duration::from_secs(1);

/// Gives out the numbers of transactions.
///
/// Databases that share one never give the same number to two transactions.
#[derive(Clone, Debug, Default)]
pub struct TransactionNumbers(Arc<AtomicU64>);

impl TransactionNumbers {
    fn next(&self) -> TransactionId {
        TransactionId(self.0.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

/// One database: its tables, their rows, and the transactions on them.
///
/// A clone is another handle on the same database. Requests may come from any number of tasks at
/// once. Dropping the future of one withdraws the request: it stops waiting, and the transaction
/// stays open with what it holds.
#[derive(Clone)]
pub struct Database {
    numbers: TransactionNumbers,
    created_at: Timestamp,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) state: Arc<Mutex<State>>,
    /// Wakes the requests that wait.
    pub(super) changed: Arc<Notify>,
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("clock", &self.clock).finish_non_exhaustive()
    }
}

impl Default for Database {
    /// An empty database on a [`TokioClock`].
    fn default() -> Database {
        Database::new(Arc::new(TokioClock::new()), TransactionNumbers::default())
    }
}

impl Database {
    /// Returns an empty database.
    pub fn new(clock: Arc<dyn Clock>, numbers: TransactionNumbers) -> Database {
        let changed = Arc::new(Notify::new());
        let state = Arc::new(Mutex::new(State::new(Arc::clone(&changed))));
        Database { numbers, created_at: clock.now(), clock, state, changed }
    }

    /// Returns the same, before it has tables, as a database of this dialect.
    #[must_use]
    pub fn with_dialect(self, dialect: Dialect) -> Database {
        self.state().schema = Arc::new(Schema::of(dialect));
        self
    }

    /// Returns the same, which keeps old versions for so long, and a second at least: a read takes its
    /// time. Cloud Spanner keeps them for an hour or more.
    #[must_use]
    pub fn with_retention(self, retention: Duration) -> Database {
        self.state().retention = retention.max(RETENTION_MIN);
        self
    }

    /// Returns how far back its versions can be read.
    pub fn retention(&self) -> Duration {
        self.state().retention
    }

    /// Returns a database of its own with the same tables and rows, in every version, on the same
    /// clock.
    ///
    /// It takes microseconds, however many rows there are. The first write to either copies the list
    /// of the writes whose old versions are kept, and the first write to a table that table.
    #[must_use]
    pub fn copy(&self) -> Database {
        let changed = Arc::new(Notify::new());
        let state = Arc::new(Mutex::new(self.state().copy(Arc::clone(&changed))));
        Database { state, changed, ..self.clone() }
    }

    /// Returns when it was created.
    pub fn created_at(&self) -> Timestamp {
        self.created_at
    }

    /// Returns the tables as they are defined now.
    pub fn schema(&self) -> Arc<Schema> {
        Arc::clone(&self.state().schema)
    }

    /// Returns the tables as a transaction sees them.
    pub fn schema_in(&self, handle: Handle) -> Arc<Schema> {
        match handle {
            Handle::ReadWrite(_) => self.schema(),
            Handle::ReadOnly(moment) => Arc::clone(self.state().schema_at(moment)),
        }
    }

    /// Returns the database's clock.
    pub fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// Changes the schema: all of the changes, or none. Returns the timestamp from which it counts.
    ///
    /// Open read-write transactions are aborted.
    ///
    /// # Errors
    /// As [`Schema::apply`], or rows that are there don't fit the new definition of a column.
    pub fn change_schema(&self, changes: &[SchemaChange]) -> Result<Timestamp> {
        let now = self.now();
        let mut state = self.state();
        let mut schema = Schema::clone(&state.schema);
        let mut rewrite = Rewrite::new(&state, now);
        for change in changes {
            rewrite.apply(&mut schema, change)?;
        }
        let (rewritten, dropped) = rewrite.into_rows();
        state.abort_all("Transaction aborted due to a change of the schema.");
        state.tables.retain(|name, _| !dropped.contains(name));
        for table in schema.tables().chain(schema.indexes().map(|index| &index.entries)) {
            state.tables.entry(table.name.to_ascii_lowercase()).or_insert_with(|| TableData {
                rows: Rows::default(),
                locks: LockTable::new(table.primary_key.len()),
            });
        }
        let timestamp = state.replace_schema(schema, now);
        for (name, rows) in rewritten {
            if state.schema.index(&name).is_some() {
                let old = rows.keys_of_several_versions().cloned().collect::<Vec<_>>();
                old.into_iter().for_each(|key| state.note_written(&name, key, timestamp));
            }
            if let Some(table) = state.tables.get_mut(&name) {
                table.rows = rows;
            }
        }
        Ok(timestamp)
    }

    /// Begins a read-write transaction.
    pub fn begin(&self, options: &ReadWriteOptions) -> TransactionId {
        let now = self.now();
        let id = self.numbers.next();
        let mut state = self.state();
        let age = options.previous.and_then(|previous| state.age_of(previous));
        state.begin(id, Transaction::new(options.concurrency, age, now), now);
        id
    }

    /// Reads inside a read-write transaction, its own writes included.
    ///
    /// # Errors
    /// The read names something that isn't there, or the transaction is over; ABORTED if it lost to
    /// an older one.
    pub async fn read(&self, id: TransactionId, read: Read) -> Result<Vec<Vec<Value>>> {
        self.read_all(Handle::ReadWrite(id), read).await
    }

    /// Reads as of a moment, which [`Database::read_timestamp`] gives. Takes no locks.
    ///
    /// # Errors
    /// The read names something that isn't there, or the moment is too long ago.
    pub async fn read_at(&self, moment: Timestamp, read: Read) -> Result<Vec<Vec<Value>>> {
        self.read_all(Handle::ReadOnly(moment), read).await
    }

    /// Reads in a transaction of either kind.
    ///
    /// # Errors
    /// As [`Database::read`] or [`Database::read_at`].
    pub async fn read_all(&self, handle: Handle, read: Read) -> Result<Vec<Vec<Value>>> {
        let mut reading = Reading::new(read);
        let mut rows = self.read_page(handle, &mut reading).await?;
        while !reading.is_done() {
            tokio::task::yield_now().await;
            rows.extend(self.read_page(handle, &mut reading).await?);
        }
        Ok(rows)
    }

    /// Reads some more rows: none is no sign of the end.
    ///
    /// # Errors
    /// As [`Database::read_all`].
    pub async fn read_page(
        &self,
        handle: Handle,
        reading: &mut Reading,
    ) -> Result<Vec<Vec<Value>>> {
        let moment = match handle {
            Handle::ReadOnly(moment) => moment,
            Handle::ReadWrite(id) => {
                let read = |state: &mut State, now| state.try_read_page(id, reading, now);
                return self.request(id).run(read).await;
            }
        };
        self.wait_until(moment).await;
        let now = self.now();
        let mut state = self.state();
        state.check_readable(moment, now)?;
        // A commit after this gets a later timestamp, so what was read here stays as it was read.
        state.last_timestamp = state.last_timestamp.max(moment);
        state.read_page_at(reading, moment)
    }

    /// Chooses the moment of a read-only transaction.
    ///
    /// # Errors
    /// The moment is too long ago to be read.
    pub fn read_timestamp(&self, bound: TimestampBound) -> Result<Timestamp> {
        let now = self.now();
        let mut state = self.state();
        state.forget_old_versions(now);
        let strong = state.strong_timestamp(now);
        let timestamp = match bound {
            TimestampBound::Strong | TimestampBound::MaxStaleness(_) => strong,
            TimestampBound::ReadTimestamp(timestamp) => timestamp,
            TimestampBound::MinReadTimestamp(timestamp) => timestamp.max(strong),
            TimestampBound::ExactStaleness(staleness) => now.saturating_sub(staleness),
        };
        state.check_readable(timestamp, now)?;
        Ok(timestamp)
    }

    /// Writes inside a read-write transaction, as a DML statement does: later reads of the same
    /// transaction see it, everybody else once it commits.
    ///
    /// # Errors
    /// As [`Database::commit`], and like there they end the transaction.
    pub async fn write(&self, id: TransactionId, mutations: &[Mutation]) -> Result<()> {
        self.request(id).run(|state, now| state.try_write(id, mutations, now)).await
    }

    /// Commits a read-write transaction. When this returns, the clock has passed the timestamp.
    ///
    /// Committing again answers the same again.
    ///
    /// # Errors
    /// A mutation that cannot be applied, which ends the transaction without any of its writes;
    /// ABORTED if it lost to another one.
    ///
    /// # Cancellation safety
    /// Dropped while it waits for locks, the transaction is still open; dropped later, it has
    /// committed.
    pub async fn commit(&self, id: TransactionId, mutations: &[Mutation]) -> Result<Committed> {
        let request = self.request(id);
        let committed = request.run(|state, now| state.try_commit(id, mutations, now)).await?;
        self.wait_until(committed.timestamp).await;
        Ok(committed)
    }

    /// Commits mutations in a transaction of their own.
    ///
    /// # Errors
    /// As [`Database::commit`].
    pub async fn apply(&self, mutations: &[Mutation]) -> Result<Committed> {
        let id = self.begin(&ReadWriteOptions::default());
        // Nobody else knows of the transaction, so it must not outlive this request.
        let _ends_with_this = EndsWithRequest { database: self, id };
        self.commit(id, mutations).await
    }

    /// Ends a read-write transaction without its writes. One that has ended so or failed, or isn't
    /// known, is no error.
    ///
    /// # Errors
    /// The transaction has committed.
    pub fn rollback(&self, id: TransactionId) -> Result<()> {
        self.state().roll_back(id)
    }

    /// Returns true if this transaction has committed.
    pub fn has_committed(&self, id: TransactionId) -> bool {
        self.state().has_committed(id)
    }

    /// Ends a read-write transaction with this error, which its later requests get. It returns true
    /// if it was still open. One that has committed stays so.
    pub fn fail(&self, id: TransactionId, error: Error) -> bool {
        let mut state = self.state();
        if state.has_committed(id) {
            return false;
        }
        let open = state.open_transaction(id, self.now()).is_ok();
        state.finish(id, Outcome::Failed(error));
        open
    }

    /// Commits nothing because the commit was wrong before it got here. It ends the transaction
    /// with this error, unless it is over already, and returns the answer to a commit of it.
    ///
    /// # Errors
    /// Always, unless the transaction has committed before.
    pub fn fail_commit(&self, id: TransactionId, error: Error) -> Result<Committed> {
        let now = self.now();
        let mut state = self.state();
        if let Some(committed) = state.committed(id)? {
            return Ok(committed);
        }
        state.open_transaction(id, now)?;
        state.finish(id, Outcome::CommitFailed(error.clone()));
        Err(error)
    }

    /// Refuses a transaction that has ended, as a read in it would.
    ///
    /// # Errors
    /// The transaction is not open, or isn't known.
    pub fn check_open(&self, id: TransactionId) -> Result<()> {
        let now = self.now();
        self.state().open_transaction(id, now).map(drop)
    }

    /// Returns true if this transaction is open and has read or written anything.
    pub fn has_worked(&self, id: TransactionId) -> bool {
        let state = self.state();
        state.open.get(&id).is_some_and(|transaction| {
            !(transaction.locked.is_empty()
                && transaction.reads.is_empty()
                && transaction.writes.rows.is_empty())
        })
    }

    /// Returns true if this transaction is over because it lost to another one or was idle for too
    /// long.
    pub fn was_aborted(&self, id: TransactionId) -> bool {
        let state = self.state();
        match state.ended(id).map(|ended| &ended.outcome) {
            Some(Outcome::Failed(error) | Outcome::CommitFailed(error)) => {
                error.code() == Code::Aborted
            }
            _ => false,
        }
    }

    /// Removes every row in every version, as if the disk had been lost; the tables stay. Open
    /// read-write transactions are aborted.
    pub fn lose_rows(&self) {
        let mut state = self.state();
        state.abort_all("Transaction aborted because the data was lost.");
        state.tables.values_mut().for_each(|table| table.rows = Rows::default());
    }

    /// Ends every read-write transaction with ABORTED, as a restart of the server does, or a drop.
    pub fn abort_all(&self) {
        self.state().abort_all(
            "Transaction aborted because the server was restarted, or the database dropped.",
        );
    }

    /// Returns the rows of a table as they are now, by column name: a look from outside any
    /// transaction.
    ///
    /// # Errors
    /// There is no such table.
    pub fn rows(&self, table: &str) -> Result<Vec<BTreeMap<String, Value>>> {
        let state = self.state();
        let columns = &state.table(table)?.0.columns;
        let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
        let mut reading = Reading::new(Read::all(table, names.iter().map(String::as_str)));
        let mut rows = Vec::new();
        while !reading.is_done() {
            rows.extend(state.read_page_at(&mut reading, Timestamp::MAX)?);
        }
        Ok(rows.into_iter().map(|row| map_of(names.iter().cloned().zip(row))).collect())
    }
}
