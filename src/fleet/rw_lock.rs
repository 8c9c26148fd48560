//! Many readers or one writer.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::rw::Reader;
use tokio::time::{Instant, timeout};

use super::failures::Failures;
use super::rw_guards::{ReadGuard, Reading, WriteGuard};
use crate::batch::Columns;
use crate::error::Result;
use crate::lock::{Spindle, within};
use crate::names::{check_part, readers_prefix, subject, writer_key};
use crate::runloop::{RowRole, WritersTurns};
use crate::settings::{LockBuilder, Settings};
use crate::store::Table;
use crate::store::membership::{poll, search_and_tidy, taken_until, tidy_pause};
use crate::system::{random, runtime};

/// How long a search for the rows of readers long gone may take.
const TIDY_LIMIT: Duration = Duration::from_secs(1);

/// A lock that many read under, or one writes under. A cheap clone is another handle to the same.
///
/// Each reader is an ordinary lock in a row of its own, and the writers share a row. So each has a
/// term, a token and a fence, and what a crashed process held is free once its lease is over.
///
/// # Promises
///
/// - While a write guard is valid, no other guard is, as far as locks exclude each other. A fenced
///   write of a reader commits before the next writer begins, or not at all. A writer's commits
///   before the next reader or writer begins, or not at all.
/// - A writer's token is later than those of all readers and writers before it. A reader's is later
///   than those of all writers before it.
/// - A writer that waits stops new readers, in all processes. Readers that have begun finish.
/// - The callers of one handle and its clones have their turns in the order of their calls. Readers
///   between two writers read together. A writer begins its turn once nobody reads by the same
///   [`LockTable`](crate::LockTable), and lets readers pass until then: who reads may read once more.
///
/// # Not promised
///
/// **Processes have no order.** While writers follow each other, each process lets them do so for ten
/// polls. The write that is at work then leaves the lock to the readers of all processes, for a poll and a
/// quarter. After that, writers of other processes come first. So while the same processes write, a reader
/// waits no longer than ten polls and a write. New readers then wait for the next writer. It needs the
/// same poll interval everywhere.
///
/// # Costs
///
/// A guard of either kind heartbeats as a lock does. A writer that waits reads all readers' rows once
/// per poll interval. Plan for up to a few hundred readers at a time.
///
/// ```
/// use spindle::{Database, LockTable};
/// # use spindle_emulator::Emulator;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = "projects/p/instances/i/databases/d";
/// # let emulator = Emulator::start().await?;
/// # emulator.create_database(database, LockTable::DDL).await?;
/// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
/// let catalogue = table.rw_lock("catalogue").build()?;
/// let one = catalogue.read().await?;
/// let other = catalogue.read().await?;
/// assert!(catalogue.try_write().await?.is_none());
/// one.release().await;
/// other.release().await;
///
/// let writing = catalogue.write().await?;
/// assert!(catalogue.try_read().await?.is_none());
/// // … write, under writing.fence(), until writing.cancelled() …
/// writing.release().await;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct RwLock(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) table: Arc<Table>,
    name: String,
    /// The key of the writers' row.
    pub(super) writer_row: String,
    /// The beginning of the keys of the readers' rows.
    pub(super) readers: String,
    pub(super) settings: Settings,
    lock: LockBuilder,
    /// Has the callers of a handle and its clones come in their order. A reader leaves it once it
    /// reads, a writer once it has written: one of the writers polls for all.
    pub(super) queue: Arc<tokio::sync::RwLock<()>>,
    pub(super) writers: Arc<WritersTurns>,
    /// Why the last try to begin the second term of a writer failed, if it did.
    pub(super) failures: Failures,
    /// When to search for the rows of readers long gone.
    tidy_at: Mutex<Instant>,
}

impl RwLock {
    pub(crate) fn new(name: String, mut lock: LockBuilder) -> Result<RwLock> {
        check_part("readers and writers' lock", &name)?;
        let id = lock.fix_id();
        check_part("id of a reader or writer", &id)?;
        let writer_row = writer_key(&name);
        let settings = lock.for_row(writer_row.clone()).settings()?;
        Ok(RwLock(Arc::new(Inner {
            table: Arc::clone(&lock.table),
            readers: readers_prefix(&name),
            name,
            writer_row,
            writers: Arc::new(WritersTurns::new(settings.timing.poll_interval)),
            failures: Failures::new(&settings.clock),
            settings,
            lock,
            queue: Arc::default(),
            tidy_at: Mutex::new(Instant::now()),
        })))
    }

    /// Waits until nobody writes or waits to, and begins to read.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) and [`is_schema`](crate::Error::is_schema), which only a change of
    /// the set-up can mend. Outages are waited out.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future gives up the wait. A guard that was just won is released, as by dropping
    /// it.
    pub async fn read(&self) -> Result<ReadGuard> {
        self.read_by(&self.reader()).await
    }

    /// Reads as [`read`](RwLock::read) does, but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// As `read`; and [`is_not_acquired`](crate::Error::is_not_acquired) when the time is over, with the
    /// last failure if there is one. A `limit` of zero or of more than a year is refused.
    ///
    /// # Cancellation safety
    ///
    /// As `read`.
    pub async fn read_within(&self, limit: Duration) -> Result<ReadGuard> {
        let (key, reader) = (&*self.0.writer_row, self.reader());
        let trouble = || reader.published().health_record().last_cause();
        within(limit, key, "try_read", self.read_by(&reader), trouble).await
    }

    /// Polls once, and begins to read if nobody writes or waits to; nothing otherwise, or if a writer
    /// of this process waits.
    ///
    /// # Errors
    ///
    /// As `read`, and the reason why Spanner could not be asked.
    ///
    /// # Cancellation safety
    ///
    /// As `read`.
    pub async fn try_read(&self) -> Result<Option<ReadGuard>> {
        runtime(&subject(&self.0.writer_row))?;
        let Ok(_turn) = self.0.queue.try_read() else { return Ok(None) };
        self.tidy_now_and_then().await;
        let guard = self.reader().try_acquire().await?;
        Ok(guard.map(|guard| ReadGuard::new(guard, self.reading())))
    }

    /// Stops new readers as soon as no other writes, waits until the others have finished, and begins
    /// to write.
    ///
    /// Readers of this process, by the same [`LockTable`](crate::LockTable), go first, and new ones are
    /// stopped only when none of them is left. So readers that overlap without end keep a writer of their
    /// own process waiting: limit the wait by [`write_within`](RwLock::write_within).
    ///
    /// If this process dies while it waits, readers go on once its lease is over.
    ///
    /// # Errors
    ///
    /// As [`read`](RwLock::read).
    ///
    /// # Deadlock
    ///
    /// A task that has a read guard and asks to write waits for itself, for ever. Release the read guard
    /// first.
    ///
    /// # Cancellation safety
    ///
    /// As `read`. Readers go on once the release has arrived.
    pub async fn write(&self) -> Result<WriteGuard> {
        let (writer, row) = self.writer();
        self.write_by(&writer, &row).await
    }

    /// Writes as [`write`](RwLock::write) does, but waits no longer than `limit`.
    ///
    /// # Errors
    ///
    /// As `write`; and [`is_not_acquired`](crate::Error::is_not_acquired) when the time is over, with the
    /// last failure if there is one. A `limit` of zero or of more than a year is refused.
    ///
    /// # Cancellation safety
    ///
    /// As `write`.
    pub async fn write_within(&self, limit: Duration) -> Result<WriteGuard> {
        let (key, (writer, row)) = (&*self.0.writer_row, self.writer());
        let failures = &self.0.failures;
        let trouble =
            || failures.last().or_else(|| writer.published().health_record().last_cause());
        within(limit, key, "try_write", self.write_by(&writer, &row), trouble).await
    }

    /// Polls once, and begins to write if nobody reads or writes. Returns nothing otherwise, or if a
    /// caller of this process waits, or the lock is left to readers.
    ///
    /// It stops no readers unless the poll shows none.
    ///
    /// # Errors
    ///
    /// As `write`, and the reason why Spanner could not be asked.
    ///
    /// # Cancellation safety
    ///
    /// As `write`.
    pub async fn try_write(&self) -> Result<Option<WriteGuard>> {
        runtime(&subject(&self.0.writer_row))?;
        if self.reads_here() {
            return Ok(None);
        }
        let Ok(turn) = Arc::clone(&self.0.queue).try_write_owned() else { return Ok(None) };
        self.0.writers.begins();
        let Inner { table, writer_row, readers, settings, .. } = &*self.0;
        let found = poll(table, &[writer_row], &[readers], Columns::ButInfo).await?;
        let lease = settings.timing.lease;
        if found.rows.iter().any(|full| taken_until(&full.row(), lease, found.read_at).is_some()) {
            return Ok(None);
        }
        let (writer, row) = self.writer();
        let Some(guard) = writer.try_acquire().await? else { return Ok(None) };
        let term = self.second(&guard, &row, false).await?;
        Ok(term.map(|term| WriteGuard::new(guard, term, turn)))
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Reads by this instance, in its turn among the callers of this handle.
    async fn read_by(&self, reader: &Spindle) -> Result<ReadGuard> {
        runtime(&subject(&self.0.writer_row))?;
        let _turn = self.0.queue.read().await;
        self.tidy_now_and_then().await;
        Ok(ReadGuard::new(reader.acquire().await?, self.reading()))
    }

    /// Returns an instance for a row that nobody has had.
    fn reader(&self) -> Spindle {
        let Inner { table, writer_row, readers, settings, lock, .. } = &*self.0;
        let (id, lease) = (&settings.id, settings.timing.lease);
        let key = format!("{readers}{id}-{:016x}", random::draw::<u64>());
        let reader = Reader::new(&**writer_row, &**id, lease);
        let row_role = RowRole::Reader(Arc::new(Mutex::new(reader)));
        let settings = lock.for_row(key).settings();
        Spindle::in_role(Arc::clone(table), settings, row_role)
    }

    fn reading(&self) -> Reading {
        Reading::new(&self.0.table, &self.0.writer_row)
    }

    /// Deletes the rows of readers that are long gone, now and then; a writer would delete them as
    /// well.
    async fn tidy_now_and_then(&self) {
        let now = Instant::now();
        {
            let mut tidy_at = self.0.tidy_at.lock().unwrap_or_else(PoisonError::into_inner);
            if now < *tidy_at {
                return;
            }
            *tidy_at = now + tidy_pause();
        }
        let Inner { table, readers, settings, .. } = &*self.0;
        let tidying = search_and_tidy(table, readers, settings.timing.lease);
        // For tidiness alone: it must not keep a reader waiting for long.
        // Boxed: it is seldom under way, and every `read` would keep room for it.
        let _ = timeout(TIDY_LIMIT, Box::pin(tidying)).await;
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { table, name, settings, .. } = &*self.0;
        let mut lock = f.debug_struct("RwLock");
        lock.field("table", &table.name).field("name", name).field("id", &settings.id);
        lock.finish_non_exhaustive()
    }
}
