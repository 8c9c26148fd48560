//! Rows and roles: what a crate stands on that divides work by locks.
//!
//! `spindle-fleet` has members, shards, permits, readers and writers, and stands on this module,
//! on [`task`](crate::task) and on what every user of locks has. A crate like it
//!
//! - reads many rows at one timestamp, and polls them ([`Rows`]);
//! - edits rows on the condition that they are as it saw them ([`Rows::edit`]);
//! - takes a place in the line before a lock ([`Rows::mark`]);
//! - builds locks of names that begin with `spindle:`, which no user's lock can have
//!   ([`LockBuilder::row`](crate::LockBuilder::row)), with more conditions to begin
//!   ([`LockBuilder::build_as`](crate::LockBuilder::build_as));
//! - releases a lock for a successor ([`Guard::release_to`](crate::Guard::release_to)).
//!
//! Rules, rows and timestamps are those of the crate `spindle-protocol`. Requests go through the batcher
//! and the budget of the table: whatever such a crate does, I8 holds for the table as a whole.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use spindle_protocol::line::Place;
use spindle_protocol::{Answer, Change, Moment, StoredRow};
use tokio::runtime::Handle;
use tokio::time::timeout;

pub use crate::batch::Snapshot;
use crate::batch::{Columns, CommitOutcome, OpKind};
use crate::budget::{READ, RetryCharge, TRANSACTION};
use crate::error::Result;
use crate::names::{check_table_name, looks_like_takeover_row};
pub use crate::runloop::RowRole;
pub use crate::store::despite_others;
use crate::store::{REQUEST_LIMIT, Table};
use crate::system;
pub use crate::system::random::jittered;

/// The rows that one caller reads and edits, made by [`LockTable::rows`](crate::LockTable::rows). A clone
/// reads the same ones.
///
/// A read is a strong one, of all of them at one timestamp, within 5 s. Takeover rows are left out.
///
/// ```no_run
/// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
/// let members = table.rows().prefix("spindle:member:orders/").with_info();
/// for row in members.poll().await?.rows {
///     println!("{}: {:?}", row.key, row.info);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is read until it is asked for"]
pub struct Rows {
    table: Arc<Table>,
    keys: Vec<Arc<str>>,
    prefixes: Vec<String>,
    columns: Columns,
    /// Of polls that repeat a failure.
    charge: Arc<RetryCharge>,
    /// True if the last place in line could not be taken.
    mark_failed: Arc<AtomicBool>,
}

impl Rows {
    pub(crate) fn new(table: Arc<Table>) -> Rows {
        let (keys, prefixes, columns) = (Vec::new(), Vec::new(), Columns::ButInfo);
        Rows { table, keys, prefixes, columns, charge: Arc::default(), mark_failed: Arc::default() }
    }

    /// Reads the row of this key, too.
    pub fn key(mut self, key: impl Into<Arc<str>>) -> Rows {
        self.keys.push(key.into());
        self
    }

    /// Reads all rows, too, whose keys begin so. The prefix ends with `/`.
    pub fn prefix(mut self, prefix: impl Into<String>) -> Rows {
        self.prefixes.push(prefix.into());
        self
    }

    /// Reads the texts of the holders, which may be long.
    pub fn with_info(mut self) -> Rows {
        self.columns = Columns::All;
        self
    }

    /// Reads once, for somebody who waits for the answer.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a table that can't be; otherwise why Spanner could not be asked.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing. So for all calls here but [`edit`](Rows::edit).
    pub async fn read(&self) -> Result<Snapshot> {
        check_table_name(&self.table.name)?;
        // `0` is the character after `/`.
        let end = |prefix: &str| format!("{}0", prefix.trim_end_matches('/'));
        let range = |prefix: &String| (prefix.clone(), end(prefix));
        let (keys, ranges) = (self.keys.clone(), self.prefixes.iter().map(range).collect());
        let Snapshot { mut rows, read_at } =
            self.table.store.rows(keys, ranges, self.columns, REQUEST_LIMIT).await?;
        let is_takeover = |row: &StoredRow| row.is_takeover() && looks_like_takeover_row(&row.key);
        rows.retain(|row| !is_takeover(row));
        Ok(Snapshot { rows, read_at })
    }

    /// Reads for one that polls by itself: a poll that repeats a failure waits until it is paid for (I8).
    ///
    /// # Errors
    ///
    /// As [`read`](Rows::read).
    pub async fn poll(&self) -> Result<Snapshot> {
        self.charge.send(self.table.budget(), READ, self.read()).await
    }

    /// Reads once it is paid for, in 5 s: for tidiness alone. The price is refunded with an answer.
    ///
    /// # Errors
    ///
    /// As [`read`](Rows::read), and [`is_retryable`](crate::Error::is_retryable) where all is spent.
    pub async fn search(&self) -> Result<Snapshot> {
        let doing = || format!("table `{}`: search its rows", self.table.name);
        self.table.budget().requests.tidying(doing, READ, REQUEST_LIMIT, self.read()).await
    }

    /// Makes these changes in one transaction, each on its own condition, once that is paid for, in `wait`
    /// at most. The transaction is sent once. Its price is refunded if it changed something.
    ///
    /// Returns how many rows were changed; the others were not as they had been seen. `None`: nothing was
    /// sent, as the table has spent what it may in vain (I8).
    ///
    /// # Errors
    ///
    /// The reason why Spanner could not be asked. [`is_outcome_unknown`](crate::Error::is_outcome_unknown) if
    /// the changes may be made, or will be. [`is_interrupted`](crate::Error::is_interrupted) if another
    /// transaction may be the reason.
    ///
    /// # Cancellation safety
    ///
    /// Once the transaction was sent, dropping the future leaves it open what comes of it.
    pub async fn edit(
        &self,
        changes: impl IntoIterator<Item = (Arc<str>, Change)>,
        wait: Duration,
    ) -> Result<Option<usize>> {
        let requests = &self.table.budget().requests;
        let Ok(payment) = timeout(wait, requests.paid(TRANSACTION)).await else {
            return Ok(None);
        };
        let changes: Vec<_> = changes.into_iter().collect();
        let all = changes.len();
        let verdict = self.table.store.transact(changes, REQUEST_LIMIT).await;
        match (verdict.commit, verdict.error) {
            (CommitOutcome::Applied { .. }, _) => {
                requests.refund(payment);
                Ok(Some(all - verdict.refused.iter().flatten().count()))
            }
            (CommitOutcome::Exists, _) | (_, None) => Ok(Some(0)),
            (_, Some(error)) => Err(error),
        }
    }

    /// Takes a place in the line before the lock of this key, in `limit`. It is sent once, with what other
    /// locks send just then. False if nobody knows that it arrived.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn mark(&self, key: impl Into<Arc<str>>, place: Place, limit: Duration) -> bool {
        let row = self.table.batchers.handle(&self.table.store, key.into(), system::random::draw());
        if self.mark_failed.load(Ordering::Relaxed) {
            row.repeats();
        }
        let outcome = row.send(OpKind::Change(Change::Mark { place }), limit, limit).await;
        let has_failed = matches!(outcome.answer, Answer::NotApplied | Answer::Unknown);
        self.mark_failed.store(has_failed, Ordering::Relaxed);
        !has_failed
    }

    /// Logs a warning about the lock of this key: once for all locks of the table that a cause strikes at
    /// about the same time, then once a minute at most. The line is told how many they are.
    pub fn warn(
        &self,
        cause: &'static str,
        lock: &str,
        now: Moment,
        line: impl FnOnce(usize) + Send + 'static,
    ) {
        let cause = (cause, String::new());
        self.table.warnings.warn(cause, &lock.into(), now, move |of| line(of.locks));
    }

    /// Returns what all who use the table in this process share of this type; its default, the first time.
    pub fn shared<T: Default + Send + Sync + 'static>(&self) -> Arc<T> {
        self.table.shared()
    }
}

/// Returns the tokio runtime of the caller, where `subject` can wait.
///
/// # Errors
///
/// [`is_config`](crate::Error::is_config) outside of a runtime, and on one without timers.
pub fn runtime(subject: &str) -> Result<Handle> {
    system::runtime(subject)
}

/// Draws a random number, which a simulation draws again from the same seed.
pub fn random() -> u64 {
    system::random::draw()
}
