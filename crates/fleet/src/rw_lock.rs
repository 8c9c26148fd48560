//! Many readers or one writer.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use spindle_protocol::rw::Reader;
use tokio::time::{Instant, timeout};

use spindle::rows::{self, Rows, runtime};
use spindle::{Acquire, LockBuilder, LockTable, Result, Spindle};

use crate::builder::{Builder, Settings, with_info};
use crate::names::{check_part, gate_key, readers_prefix, write_lock_key};
use crate::rw_guards::{ReadGuard, Reading, Reads, WriteGuard};
use crate::rw_roles::{ReaderRow, ReadersPlace};
use crate::rw_write::Writer;
use crate::tidy::{search_and_tidy, tidy_pause};

/// How long a search for the rows of readers long gone may take.
const TIDY_LIMIT: Duration = Duration::from_secs(1);

/// A lock that many read under, or one writes under. A cheap clone is another handle to the same.
///
/// Each reader is an ordinary lock in a row of its own. A writer holds two: the gate, which stops new
/// readers, and the write lock, once nobody reads any more. So each has a term, a token and a fence, and
/// what a crashed process held is free once its lease is over.
///
/// # Promises
///
/// - While a write guard is valid, no other guard is, as far as locks exclude each other. A fenced
///   write of a reader commits before the next writer begins, or not at all. A writer's commits
///   before the next reader or writer begins, or not at all.
/// - A writer's token is later than those of all readers and writers before it, and than each fenced
///   write of theirs. A reader's is later than those of all writers before it.
/// - A writer that waits stops new readers, in all processes. Readers that have begun finish.
/// - Processes have their turns in line: a writer's is its own, and all readers share one. Where somebody
///   waits, who wrote leaves the lock to who has waited longest. Readers that it is left to have two polls
///   to begin. So nobody waits for longer than the turns of those before it take.
/// - The callers of one handle and its clones have their turns in the order of their calls. Readers
///   between two writers read together. A writer begins its turn once nobody reads by the same
///   [`LockTable`](spindle::LockTable), and lets readers pass until then: beside a writer of its own
///   process alone, who reads may read once more. See [`read`](RwLock::read).
///
/// # Not promised
///
/// **The order in line is no exact one.** Who waits for less than two polls has no place in it. A process
/// that stood first and is gone costs the others two polls, once.
///
/// # Costs
///
/// A guard heartbeats as a lock does, a write guard as two. A writer that waits reads all readers' rows
/// once per poll interval. Plan for up to a few hundred readers at a time.
///
/// ```
/// use spindle::{Database, Ddl, LockTable};
/// use spindle_fleet::RwLock;
/// # use spindle_emulator::Emulator;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = "projects/p/instances/i/databases/d";
/// # let emulator = Emulator::start().await?;
/// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
/// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
/// let catalogue = RwLock::new(&table, "catalogue").build()?;
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
pub struct RwLock(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) table: String,
    pub(crate) name: String,
    pub(crate) id: String,
    pub(crate) lease: Duration,
    /// Those of all readers, and of the write lock.
    pub(crate) rows: Rows,
    /// The key of the gate, and the settings of its row and of the write lock's.
    pub(crate) key: String,
    pub(crate) gate: LockBuilder,
    pub(crate) write_lock: LockBuilder,
    lock: LockBuilder,
    /// Has the callers of a handle and its clones come in their order. A reader leaves it once it
    /// reads, a writer once it has written: one of the writers polls for all.
    pub(crate) queue: Arc<tokio::sync::RwLock<()>>,
    place: Arc<ReadersPlace>,
    /// The read guards of all handles of the table.
    pub(crate) reads: Arc<Reads>,
    /// When to search for the rows of readers long gone.
    tidy_at: Mutex<Instant>,
}

impl RwLock {
    /// Begins to describe a lock that many may read under, or one may write under.
    ///
    /// The rules for names are those of a [group](crate::Member::new). A lock by
    /// [`LockTable::lock`] of the same name is another lock.
    pub fn new(table: &LockTable, name: impl Into<String>) -> Builder<RwLock> {
        Builder::new(table, name, RwLock::build)
    }

    fn build(settings: Settings) -> Result<RwLock> {
        let Settings { table, name, mut lock, info } = settings;
        check_part("readers and writers' lock", &name)?;
        let id = lock.fix_id();
        check_part("id of a reader or writer", &id)?;
        lock = with_info(lock, info);
        let (gate, write_lock) = (lock.row(gate_key(&name)), lock.row(write_lock_key(&name)));
        let timing = gate.timing()?;
        write_lock.timing()?;
        let rows = table.rows().prefix(readers_prefix(&name));
        Ok(RwLock(Arc::new(Inner {
            table: table.name().to_string(),
            key: gate_key(&name),
            name,
            id,
            lease: timing.lease,
            place: Arc::new(ReadersPlace::new(timing.poll_interval)),
            reads: rows.shared(),
            rows,
            gate,
            write_lock,
            lock,
            queue: Arc::default(),
            tidy_at: Mutex::new(Instant::now()),
        })))
    }

    /// Returns the subject of its errors.
    pub(crate) fn subject(&self) -> String {
        format!("readers and writers' lock `{}`", self.0.name)
    }

    /// Waits until nobody writes or waits to, and begins to read.
    ///
    /// # Errors
    ///
    /// [`is_config`](spindle::Error::is_config) and [`is_schema`](spindle::Error::is_schema), which only a change of
    /// the set-up can mend. Outages are waited out.
    ///
    /// # Deadlock
    ///
    /// A task that has a read guard and asks for another one may wait for ever: for a writer of another
    /// process, which waits for the first guard. Nobody reads or writes meanwhile. Pass the guard on
    /// instead, or limit the wait by [`within`](Acquire::within).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future gives up the wait. A guard that was just won is released, as by dropping
    /// it.
    pub fn read(&self) -> Acquire<ReadGuard> {
        let this = self.clone();
        let instance: Arc<OnceLock<Spindle>> = Arc::default();
        let tried = Arc::clone(&instance);
        let waiting = async move {
            let reader = this.reader()?;
            let reader = instance.get_or_init(|| reader);
            this.read_by(reader).await
        };
        let trouble = move || tried.get()?.health().trouble.map(|trouble| trouble.error);
        Acquire::new(&*self.0.key, "try_read", waiting, trouble)
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
        runtime(&self.subject())?;
        let Ok(_turn) = self.0.queue.try_read() else { return Ok(None) };
        self.tidy_now_and_then().await;
        let guard = self.reader()?.try_acquire().await?;
        Ok(guard.map(|guard| ReadGuard::new(guard, self.reading())))
    }

    /// Stops new readers as soon as no other writes, waits until the others have finished, and begins
    /// to write.
    ///
    /// Readers of this process, by the same [`LockTable`](spindle::LockTable), go first, and new ones are
    /// stopped only when none of them is left. So readers that overlap without end keep a writer of their
    /// own process waiting: limit the wait by [`within`](Acquire::within).
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
    pub fn write(&self) -> Acquire<WriteGuard> {
        let this = self.clone();
        let instances: Arc<OnceLock<Arc<Writer>>> = Arc::default();
        let tried = Arc::clone(&instances);
        let waiting = async move {
            let writer = this.writer()?;
            let writer = instances.get_or_init(|| writer);
            this.write_by(writer).await
        };
        let trouble = move || tried.get()?.trouble();
        Acquire::new(&*self.0.key, "try_write", waiting, trouble)
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
        runtime(&self.subject())?;
        if self.reads_here() {
            return Ok(None);
        }
        let Ok(turn) = Arc::clone(&self.0.queue).try_write_owned() else { return Ok(None) };
        let Inner { rows, key, lease, .. } = &*self.0;
        let found = rows.clone().key(&**key).read().await?;
        if found.rows.iter().any(|full| full.row().taken_until(*lease, found.read_at).is_some()) {
            return Ok(None);
        }
        let writer = self.writer()?;
        let Some(gate) = writer.gate.try_acquire().await? else { return Ok(None) };
        let guard = self.write_lock(&writer, &gate)?.try_acquire().await?;
        Ok(guard.map(|guard| WriteGuard::new(guard, gate, turn)))
    }

    /// Returns the name of the lock.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Reads by this instance, in its turn among the callers of this handle.
    async fn read_by(&self, reader: &Spindle) -> Result<ReadGuard> {
        runtime(&self.subject())?;
        let _turn = self.0.queue.read().await;
        self.tidy_now_and_then().await;
        Ok(ReadGuard::new(reader.acquire().await?, self.reading()))
    }

    /// Returns an instance for a row that nobody has had.
    fn reader(&self) -> Result<Spindle> {
        let Inner { name, id, key, lease, lock, place, .. } = &*self.0;
        let own = format!("{}{id}-{:016x}", readers_prefix(name), rows::random());
        let view = Reader::new([key.clone(), write_lock_key(name)], &**id, *lease);
        lock.row(own).build_as(Arc::new(ReaderRow::new(view, Arc::clone(place))))
    }

    fn reading(&self) -> Reading {
        Reading::new(&self.0.reads, &self.0.name)
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
        let tidying = search_and_tidy(&self.0.rows, self.0.lease);
        // For tidiness alone: it must not keep a reader waiting for long.
        // Boxed: it is seldom under way, and every `read` would keep room for it.
        let _ = timeout(TIDY_LIMIT, Box::pin(tidying)).await;
    }
}

impl fmt::Debug for RwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { table, name, id, .. } = &*self.0;
        let mut lock = f.debug_struct("RwLock");
        lock.field("table", table).field("name", name).field("id", id);
        lock.finish_non_exhaustive()
    }
}
