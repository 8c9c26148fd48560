//! So many at a time: permits, each of which is a lock.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::rows::{Rows, Snapshot, jittered, runtime};
use spindle::task::say;
use spindle::testing::Clock;
use spindle::{Acquire, Error, LockBuilder, LockTable, Result};
use spindle_protocol::line::Place;
use spindle_protocol::permits::{PermitMark, TakenPermit};
use tokio::time::Instant;

use crate::builder::{Builder, Settings, with_info};
use crate::failures::Failures;
use crate::names::{check_part, number, permits_prefix};
use crate::permit::Permit;
use crate::pool::{PAUSE_FIRST, PAUSE_LONGEST, PermitSlot, Pool, Sight};

/// Each poll reads all of their rows.
const PERMITS_MAX: usize = 1_000;
/// So many permits that were seen free one caller tries before it polls anew.
const TRIES_MAX: usize = 8;

/// A semaphore in the lock table: at most so many callers in the fleet have a permit. A cheap clone
/// is another handle to the same.
///
/// Each permit is an ordinary lock, so a permit of a process that crashed is free again once its
/// lease is over.
///
/// # Promises
///
/// At most `permits` are held at the same time, as far as locks exclude each other. If processes
/// disagree about the number, the bound is the greatest that one of them names.
///
/// The callers of one handle and its clones have their turns in the order of their calls. They share their
/// polls, so that many who wait poll no more than one.
///
/// Processes have their turns, too. One whose callers found no permit at two polls stands [in
/// line](spindle::Spindle::acquire) before the one that changed hands last, and before another one that
/// changes hands after it. A permit that is given back is left to the process that stands there, for two
/// polls. So no process waits for ever, though others acquire again at once, or keep their permits.
///
/// # Not promised
///
/// **Processes have no exact order.** One that stands before several permits may be left a second one
/// when it has the first; others wait two polls for it then. So they do, once, for a process that has
/// begun to wait and is gone. Callers that only try, or wait for less than two polls, stand in no line.
///
/// ```
/// use spindle::{Database, Ddl, LockTable};
/// use spindle_fleet::Semaphore;
/// # use spindle_emulator::Emulator;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let database = "projects/p/instances/i/databases/d";
/// # let emulator = Emulator::start().await?;
/// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
/// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
/// let uploads = Semaphore::new(&table, "uploads", 2).build()?;
/// let one = uploads.acquire().await?;
/// let other = uploads.acquire().await?;
/// assert_ne!(one.number(), other.number());
/// assert!(uploads.try_acquire().await?.is_none());
///
/// // … upload, under one.fence(), until one.cancelled() …
/// one.release().await;
/// assert_eq!(uploads.available().await?, 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Semaphore(Arc<Inner>);

struct Inner {
    rows: Rows,
    name: String,
    prefix: String,
    permits: usize,
    lease: Duration,
    poll: Duration,
    lock: LockBuilder,
    pool: Pool,
    clock: Clock,
    /// The first of those that wait in this process polls for all.
    polling: tokio::sync::Mutex<()>,
    /// Polls in a row that brought nobody here a permit.
    empty_polls: AtomicU32,
    /// Of the polls by those that wait.
    polls: Failures,
    /// The last try to take a permit that failed, and when, until one succeeds.
    failed_take: Mutex<Option<(Instant, Error)>>,
}

impl Semaphore {
    /// Begins to describe a semaphore: at most `permits` callers in the fleet have one of its
    /// permits at the same time. From 1 to 1,000.
    ///
    /// The rules for names are those of a [group](crate::Member::new).
    pub fn new(table: &LockTable, name: impl Into<String>, permits: usize) -> Builder<Semaphore> {
        Builder::new(table, name, move |settings| Semaphore::build(settings, permits))
    }

    fn build(settings: Settings, permits: usize) -> Result<Semaphore> {
        let Settings { table, name, mut lock, info } = settings;
        check_part("semaphore", &name)?;
        if !(1..=PERMITS_MAX).contains(&permits) {
            let rule = format!("{permits} permits; expected 1 to {PERMITS_MAX}");
            return Err(Error::config(format!("semaphore `{name}`: {rule}")));
        }
        let id = lock.fix_id();
        let prefix = permits_prefix(&name);
        lock = with_info(lock, info);
        let timing = lock.row(format!("{prefix}{permits}")).timing()?;
        let (lease, poll, clock) =
            (timing.lease, timing.poll_interval, lock.chosen_clock().clone());
        Ok(Semaphore(Arc::new(Inner {
            rows: table.rows().prefix(&*prefix),
            name,
            prefix,
            permits,
            lease,
            poll,
            lock,
            pool: Pool::new(&id, poll),
            polling: tokio::sync::Mutex::default(),
            empty_polls: AtomicU32::new(0),
            polls: Failures::default(),
            failed_take: Mutex::default(),
            clock,
        })))
    }

    /// Waits until this caller has a permit, however long that takes.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) and [`is_schema`](Error::is_schema), which only a change of
    /// the set-up can mend. Outages and refusals are waited out, and logged each minute.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future gives up the wait. A permit that was just won is released, as by dropping
    /// it.
    pub fn acquire(&self) -> Acquire<Permit> {
        let (this, waits, began) = (self.clone(), self.clone(), Instant::now());
        let waiting = async move { waits.acquire_in_turn().await };
        let trouble = move || {
            // One from before says nothing of this wait.
            let take = || this.failed_take().clone().filter(|(at, _)| *at >= began);
            this.0.polls.last().or_else(|| take().map(|(_, error)| error))
        };
        Acquire::new(self.key(), "try_acquire", waiting, trouble)
    }

    async fn acquire_in_turn(&self) -> Result<Permit> {
        runtime(&format!("semaphore `{}`", self.0.name))?;
        let waiter = self.0.pool.enqueue();
        let mut tries = 0;
        loop {
            waiter.turn_comes().await;
            let Some(slot) = self.0.pool.pick() else {
                self.poll_when_due().await?;
                continue;
            };
            waiter.steps_out();
            let number = slot.number;
            match self.take(slot).await {
                Ok(Some(permit)) => return Ok(permit),
                Ok(None) => {
                    tries += 1;
                    if tries % TRIES_MAX == 0 {
                        // The knowledge is old.
                        self.0.pool.forget();
                    }
                    self.mark(self.0.pool.lost_race(self.0.clock.now(), number));
                }
                Err(error) if error.is_config() || error.is_schema() => return Err(error),
                Err(error) => {
                    *self.failed_take() = Some((Instant::now(), error));
                    self.0.pool.take_failed(self.0.clock.now(), number);
                }
            }
        }
    }

    /// Polls once, and takes a permit if one is free; nothing if all are taken, or callers of this
    /// process wait for one.
    ///
    /// # Errors
    ///
    /// As `acquire`, and the reason why Spanner could not be asked.
    ///
    /// # Cancellation safety
    ///
    /// As `acquire`.
    pub async fn try_acquire(&self) -> Result<Option<Permit>> {
        let (sight, _) = self.poll().await?;
        if self.0.pool.is_awaited() {
            return Ok(None);
        }
        self.0.pool.seen(&sight);
        // If several are taken by then, the knowledge is old.
        for _ in 0..TRIES_MAX {
            let Some(slot) = self.0.pool.pick() else { return Ok(None) };
            if let Some(permit) = self.take(slot).await? {
                return Ok(Some(permit));
            }
        }
        self.0.pool.forget();
        Ok(None)
    }

    /// Returns the number of permits that are free now: one strong read.
    ///
    /// # Errors
    ///
    /// The reason why Spanner could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn available(&self) -> Result<usize> {
        let (sight, _) = self.poll().await?;
        Ok(sight.free.len() + sight.promised.len())
    }

    /// Returns the number of all permits.
    pub fn permits(&self) -> usize {
        self.0.permits
    }

    /// Returns the name of the semaphore.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Tries the permit; nothing if it is taken.
    async fn take(&self, mut slot: PermitSlot) -> Result<Option<Permit>> {
        let key = format!("{}{}", self.0.prefix, slot.number);
        let lock = self.0.lock.row(key).in_pool(self.0.pool.nonce());
        let lock = lock.repeats(self.is_in_trouble()).build()?;
        let Some(guard) = lock.try_acquire().await? else { return Ok(None) };
        slot.is_taken();
        self.0.empty_polls.store(0, Ordering::Relaxed);
        *self.failed_take() = None;
        Ok(Some(Permit::new(guard, slot)))
    }

    /// Polls when it is time, or once a permit is given back here. The first of those that wait does so
    /// for all.
    async fn poll_when_due(&self) -> Result<()> {
        let _polling = self.0.polling.lock().await;
        if !self.0.pool.is_empty() {
            // Another one has polled meanwhile.
            return Ok(());
        }
        let begun = self.0.pool.poll_begins().await;
        let polled = self.0.rows.poll().await;
        let (now, polled) = (self.0.clock.now(), polled.map(|found| self.sight(&found)));
        let pause = match polled {
            Ok((sight, next)) => {
                let (lock, failures) = (self.key(), self.0.polls.end());
                if failures > 0 {
                    say(|| tracing::info!(lock, failures, "the permits can be read again"));
                }
                self.mark(self.0.pool.polled(now, sight));
                if self.0.pool.is_empty() {
                    self.0.empty_polls.store(0, Ordering::Relaxed);
                    next.min(self.0.poll)
                } else {
                    self.longer_pause(PAUSE_FIRST)
                }
            }
            Err(error) if error.is_config() || error.is_schema() => return Err(error),
            Err(error) => {
                self.0.polls.failed(&error);
                let lock: Arc<str> = self.key().into();
                let line = move |locks| tracing::warn!(locks, lock = &*lock, %error, "the permits can't be read");
                self.0.rows.warn("the permits can't be read", self.key(), now, line);
                self.0.pool.failed(now);
                self.longer_pause(self.0.poll)
            }
        };
        self.0.pool.poll_ends(begun, jittered(pause));
        Ok(())
    }

    /// Takes a place in line before a permit. Nobody waits for the answer, and nothing is repeated.
    fn mark(&self, mark: Option<PermitMark>) {
        let Some(PermitMark { number, place }) = mark else { return };
        let (this, key) = (self.clone(), format!("{}{number}", self.0.prefix));
        tokio::spawn(async move {
            let Inner { rows, pool, poll, clock, .. } = &*this.0;
            // No two of a pool are on their way.
            if !rows.mark(key, place, (*poll).max(Duration::from_secs(1))).await {
                pool.failed(clock.now());
            }
        });
    }

    /// Returns what a poll shows, and how long it is until the next lease or promise is over.
    async fn poll(&self) -> Result<(Sight, Duration)> {
        Ok(self.sight(&self.0.rows.read().await?))
    }

    fn sight(&self, found: &Snapshot) -> (Sight, Duration) {
        let mut is_free = vec![true; self.0.permits];
        let (mut promised, mut taken, mut next) = (Vec::new(), Vec::new(), Duration::MAX);
        for full in &found.rows {
            let number = full.key.strip_prefix(&self.0.prefix).and_then(number);
            let Some(number) = number.filter(|number| *number < self.0.permits) else { continue };
            let row = full.row();
            let Some(until) = row.taken_until(self.0.lease, found.read_at) else { continue };
            is_free[number] = false;
            if self.0.pool.is_promised(&row) {
                promised.push(number);
                continue;
            }
            taken.push(TakenPermit { number, token: row.token, next: Place::of(full) });
            next = next.min(until.since(found.read_at));
        }
        let numbers = (0..self.0.permits).filter(|number| is_free[*number]);
        let sight = Sight { read_at: found.read_at, free: numbers.collect(), promised, taken };
        (sight, next.saturating_add(Duration::from_millis(1)))
    }

    /// Returns a pause that doubles with each poll that brought nothing: up to a poll, or to 10 s
    /// if something fails.
    fn longer_pause(&self, first: Duration) -> Duration {
        let empty_polls = self.0.empty_polls.fetch_add(1, Ordering::Relaxed).min(10);
        let longest =
            if self.is_in_trouble() { PAUSE_LONGEST.max(self.0.poll) } else { self.0.poll };
        (first * 2_u32.pow(empty_polls)).min(longest.max(first))
    }

    fn is_in_trouble(&self) -> bool {
        self.0.polls.last().is_some() || self.failed_take().is_some()
    }

    fn failed_take(&self) -> MutexGuard<'_, Option<(Instant, Error)>> {
        self.0.failed_take.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what its lines of the log name.
    fn key(&self) -> &str {
        self.0.prefix.trim_end_matches('/')
    }
}

impl fmt::Debug for Semaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { rows, name, permits, .. } = &*self.0;
        let mut semaphore = f.debug_struct("Semaphore");
        semaphore.field("rows", rows).field("name", name).field("permits", permits);
        semaphore.finish_non_exhaustive()
    }
}
