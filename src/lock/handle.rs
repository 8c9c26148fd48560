//! A handle to one instance of a lock.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use futures_channel::mpsc;
use spindle_protocol::{Seen, Succession};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::call::{NamedSuccessor, Resign};
use super::nesting::Taken;
use crate::error::{Error, Kind, Result, TermEnd};
use crate::runloop::{Command, Demand, Grant, NotGranted, RowRole, WaitMode, Waiter};
use crate::settings::{LockBuilder, Settings};
use crate::store::{Database, REQUEST_LIMIT, Table};
use crate::system::Clock;
use crate::term::{Health, Published, Silence, Term, TermWatch, check_process};
use crate::token::FencingToken;

/// One instance: it contends for one lock. A cheap clone is another handle to the same instance.
///
/// It does nothing until [`run`](Spindle::run). From then on a background loop contends for the
/// lock, keeps it with heartbeats, and gives it up when told to. The loop ends when `run`'s token
/// is cancelled or the last handle is gone.
///
/// [`acquire`](Spindle::acquire), [`try_acquire`](Spindle::try_acquire) and [`lead`](Spindle::lead)
/// start that loop themselves, and then it contends only while one of them waits or holds. One
/// instance is driven either by them or by `run`: whichever comes second is refused.
///
/// # Promises
///
/// - At any instant at most one instance's [`has_lock`](Spindle::has_lock) gives a token. This
///   holds as long as clocks run at rates within the margin and nobody edits, deletes or seizes the
///   row.
/// - Tokens strictly increase from term to term.
/// - A term that ends is announced before its lease runs out, for as long as the runtime runs.
///
/// # Not promised
///
/// A process can be paused between `has_lock` and what it does next, for longer than any lease.
/// An effect that must not happen late has to carry the token: see [`Term::fence`].
///
/// ```no_run
/// # async fn work(token: spindle::FencingToken) {}
/// # async fn service(cancel: spindle::CancellationToken) -> spindle::Result<()> {
/// use std::time::Duration;
/// use spindle::Spindle;
///
/// let lock = Spindle::new("projects/p/instances/i/databases/d", "locktable", "billing");
/// let running = lock.run(cancel.clone());
/// while !cancel.is_cancelled() {
///     if let Some(token) = lock.has_lock() {
///         work(token).await;
///     }
///     tokio::time::sleep(Duration::from_secs(1)).await;
/// }
/// running.await // once the lock is released
/// # }
/// ```
#[derive(Clone)]
pub struct Spindle(Arc<Shared>);

pub(super) struct Shared {
    pub(super) table: Arc<Table>,
    /// The settings, or the error that `run` resolves to.
    pub(super) settings: Result<Arc<Settings>>,
    pub(super) published: Arc<Published>,
    /// The loop ends with the last strong reference.
    pub(super) commands: Arc<mpsc::UnboundedSender<Command>>,
    /// Taken by what starts the loop.
    pub(super) inbox: Mutex<Option<mpsc::UnboundedReceiver<Command>>>,
    /// How the loop was started and by which process, once it was.
    pub(super) started: OnceLock<Started>,
    /// Its one permit is the right to run a task of `lead`, which that task has until it ends.
    pub(super) only_task: Arc<Semaphore>,
    pub(super) taken: Arc<Taken>,
    pub(super) role: Option<Arc<dyn RowRole>>,
}

/// The start of a loop.
pub(super) struct Started {
    pub(super) demand: Demand,
    pub(super) process_id: u32,
}

impl Spindle {
    /// Returns an instance with default settings in a database: a path, for services, or a client,
    /// for what only that client has.
    ///
    /// With a path, `projects/p/instances/i/databases/d`, the library makes its own connections, and
    /// replaces those that are dead; [`Database`] has the differences. The lease is 10 s, the id is
    /// made of host, process and a random part.
    ///
    /// Each `Spindle::new` has a connection, a batcher and a budget of requests of its own. For many
    /// locks, or other settings, make one [`LockTable`](crate::LockTable), whose
    /// [`lock`](crate::LockTable::lock)s share them.
    ///
    /// It sends nothing and doesn't fail: what is wrong with the arguments is what
    /// [`run`](Spindle::run) resolves to, and [`health`](Spindle::health) and the log tell it.
    pub fn new(
        database: impl Into<Database>,
        table: impl Into<String>,
        name: impl Into<String>,
    ) -> Spindle {
        let table = Table::new(database.into().connection(), table.into());
        let builder = LockBuilder::new(Arc::new(table), name.into());
        let settings = builder.settings();
        Spindle::from_settings(builder.table, settings)
    }

    pub(crate) fn from_settings(table: Arc<Table>, settings: Result<Settings>) -> Spindle {
        Spindle::in_role(table, settings, None)
    }

    pub(crate) fn in_role(
        table: Arc<Table>,
        mut settings: Result<Settings>,
        role: Option<Arc<dyn RowRole>>,
    ) -> Spindle {
        if let (Ok(settings), Some(role)) = (&mut settings, &role) {
            settings.standing = role.standing();
        }
        let (commands, inbox) = mpsc::unbounded();
        let (clock, name) = match &settings {
            Ok(settings) => (settings.clock.clone(), Arc::clone(&settings.name)),
            Err(_) => (Clock::system(), "".into()),
        };
        let published = Arc::new(Published::new(clock, name, Arc::clone(&table.name)));
        if let (Ok(settings), Some(client)) = (&settings, table.spanner.connection.given_client()) {
            let silence = Silence::new(Arc::clone(client), settings.timing.lease);
            published.health_record().depends_on(silence);
        }
        let inbox = Mutex::new(Some(inbox));
        let started = OnceLock::new();
        let settings = settings.map(Arc::new);
        let only_task = Arc::new(Semaphore::new(1));
        Spindle(Arc::new(Shared {
            table,
            settings,
            published,
            commands: Arc::new(commands),
            inbox,
            started,
            only_task,
            taken: Arc::default(),
            role,
        }))
    }

    /// Returns the token of the term that this instance holds now; nothing if it doesn't hold.
    ///
    /// Local and lock-free: it compares the clock with what the last heartbeat allows. It never
    /// waits, allocates or asks Spanner. It is right at once after a pause of any length, even if
    /// the loop had no chance to notice.
    ///
    /// In a child by `fork` it goes on telling the parent's token until the deadline of the last heartbeat
    /// before the fork, and then nothing. No heartbeat of the parent reaches the child's copy.
    pub fn has_lock(&self) -> Option<FencingToken> {
        self.0.published.has_lock()
    }

    /// Returns the term that this instance holds now, with its cancellation and its fence.
    pub fn term(&self) -> Option<Term> {
        let term = self.0.published.term()?;
        (self.has_lock() == Some(term.token())).then_some(term)
    }

    /// Asks Spanner whether this instance holds the lock, and gives the token if it does.
    ///
    /// It was true when Spanner read the row, and the lease had not run out when the answer came.
    /// It says nothing of the next instant; only a fenced write does.
    ///
    /// # Errors
    ///
    /// [`is_fenced`](Error::is_fenced) if this instance doesn't hold; [`is_config`](Error::is_config) in
    /// a child by `fork` of the process that holds; otherwise why Spanner could not be asked within
    /// 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn verify(&self) -> Result<FencingToken> {
        self.check_process()?;
        let not_held = || Error::new(Kind::NotHeld { lock: self.name().to_string() });
        let term = self.term().ok_or_else(not_held)?;
        let (found, _) = self.0.table.read(self.name(), REQUEST_LIMIT).await?;
        let found = found.map(|full| full.row());
        let token = term.token();
        let ours = found.as_ref().is_some_and(|row| {
            row.token == token.to_timestamp() && row.writer == *term.writer() && !row.is_released()
        });
        if !ours {
            let (lock, end) = (self.name().to_string(), TermEnd::superseded(found.map(Seen::from)));
            return Err(Error::new(Kind::Fenced { lock, token, end }));
        }
        // The answer may have taken longer than the lease.
        if self.has_lock() == Some(token) { Ok(token) } else { Err(not_held()) }
    }

    /// Returns a reader of the gains and losses of this instance.
    pub fn watch(&self) -> TermWatch {
        self.0.published.watch()
    }

    /// Gives up the term, if there is one, and backs off for a lease before contending again. True
    /// if there was a term to give up.
    ///
    /// False also if a task of [`lead`](Spindle::lead) can't be stopped: its lease runs out instead.
    ///
    /// Calls of [`acquire`](Spindle::acquire) and [`lead`](Spindle::lead) wait out that lease, and
    /// [`try_acquire`](Spindle::try_acquire) finds the lock occupied. Another instance may take it at
    /// once, one of this process too.
    ///
    /// A guard of this instance loses its term with that, at once. A task of
    /// [`lead`](Spindle::lead) is told to stop first, and the lock given up once it has ended. So a task
    /// that calls this itself selects between the answer and the end of its term.
    ///
    /// [`has_lock`](Spindle::has_lock) is empty before the release is sent. The future resolves
    /// when the release was acknowledged, or the release limit has passed.
    ///
    /// ```no_run
    /// # async fn drain(lock: spindle::Spindle) -> spindle::Result<()> {
    /// lock.resign().await?; // for whoever comes next
    /// lock.resign().to("node-2").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) if no instance can have the id of the
    /// [successor](Resign::to), or for a [grace](Resign::grace) that can't be.
    ///
    /// # Cancellation safety
    ///
    /// Once polled, the resignation goes on whether or not the future is dropped.
    pub fn resign(&self) -> Resign {
        let lock = self.clone();
        Resign::new(|chosen: NamedSuccessor| async move {
            let refused = |rule| Error::config(format!("lock `{}`: {rule}", lock.name()));
            let NamedSuccessor { id, grace } = chosen.checked().map_err(refused)?;
            let Some(id) = id else { return Ok(lock.resign_for(Succession::Anyone).await) };
            let grace = grace.unwrap_or(lock.settings()?.timing.lease);
            Ok(lock.resign_for(Succession::Successor { id, grace }).await)
        })
    }

    /// Fails in a child by `fork` of the process in which the loop runs: nothing would answer there.
    fn check_process(&self) -> Result<()> {
        self.0.started.get().map_or(Ok(()), |started| {
            check_process(started.process_id, || format!("lock `{}`: its loop", self.name()))
        })
    }

    /// Returns true if a loop of this process was started, which answers.
    fn has_loop(&self) -> bool {
        self.0.started.get().is_some() && self.check_process().is_ok()
    }

    /// Asks the loop for the lock; dropping the future withdraws that.
    pub(crate) async fn ask(
        &self,
        mode: WaitMode,
        resign: Option<CancellationToken>,
    ) -> Result<Grant, NotGranted> {
        self.start_on_demand()?;
        self.check_process()?;
        let (reply, answer) = oneshot::channel();
        let waiter = Waiter { mode, resign, reply };
        let gone = || Error::new(Kind::Abandoned { lock: self.name().to_string() });
        if self.0.commands.unbounded_send(Command::Waiter(waiter)).is_err() {
            return Err(gone().into());
        }
        answer.await.unwrap_or_else(|_| Err(gone().into()))
    }

    /// Has the loop set its gauges anew, if there is one.
    pub(crate) fn refresh_gauges(&self) {
        if self.0.started.get().is_some() {
            // A loop that is gone has no gauges.
            let _ = self.0.commands.unbounded_send(Command::Measure);
        }
    }

    /// Waits until an attempt of a caller that is gone is resolved, and what it won released; for a release
    /// limit at most.
    pub(crate) async fn settles(&self) {
        let Ok(Settings { timing, .. }) = self.settings() else { return };
        if !self.has_loop() {
            return;
        }
        let (done, settled) = oneshot::channel();
        if self.0.commands.unbounded_send(Command::Settle { done }).is_ok() {
            // Dropped, as every answer is.
            let _ = timeout(timing.release_limit, settled).await;
        }
    }

    pub(crate) async fn resign_for(&self, next: Succession) -> bool {
        // Without a loop nothing is held, and nothing would answer.
        if !self.has_loop() {
            return false;
        }
        let (done, resigned) = oneshot::channel();
        if self.0.commands.unbounded_send(Command::Resign { next, done }).is_err() {
            return false;
        }
        resigned.await.unwrap_or(false)
    }

    /// Returns the instance's health, for probes; [`Health`] says which of its values suits which.
    /// Local, and never waits for Spanner.
    pub fn health(&self) -> Health {
        self.settings().map_or_else(Health::of_wrong_settings, |_| self.0.published.health())
    }

    /// Returns how this instance is called in the table and in logs; empty if its settings can't
    /// work.
    pub fn id(&self) -> &str {
        self.0.settings.as_ref().map_or("", |settings| &settings.id)
    }

    /// Returns the name of the lock; empty if its settings can't work.
    pub fn name(&self) -> &str {
        self.0.settings.as_ref().map_or("", |settings| &settings.name)
    }

    pub(super) fn shared(&self) -> &Shared {
        &self.0
    }

    pub(crate) fn table(&self) -> &Table {
        &self.0.table
    }

    pub(crate) fn published(&self) -> &Published {
        &self.0.published
    }

    pub(crate) fn settings(&self) -> Result<&Settings> {
        self.0.settings.as_deref().map_err(Error::clone)
    }
}

impl LockBuilder {
    /// Checks the settings and makes the instance; nothing is sent before
    /// [`run`](Spindle::run).
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for settings that can't work; the text names the rule.
    ///
    /// ```no_run
    /// # fn main() -> Result<(), spindle::Error> {
    /// use std::time::Duration;
    /// use spindle::{Database, LockTable};
    ///
    /// let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    /// let lock = table.lock("billing").lease(Duration::from_secs(5)).id("node-1").build()?;
    ///
    /// let refused = table.lock("billing").lease(Duration::ZERO).build().unwrap_err();
    /// assert!(refused.is_config());
    /// # Ok(())
    /// # }
    /// ```
    pub fn build(self) -> Result<Spindle> {
        let settings = self.settings()?;
        Ok(Spindle::from_settings(self.table, Ok(settings)))
    }

    /// Checks the settings, and makes an instance whose row has this [role](crate::rows::RowRole).
    ///
    /// # Errors
    ///
    /// As [`build`](LockBuilder::build).
    pub fn build_as(self, role: Arc<dyn RowRole>) -> Result<Spindle> {
        let settings = self.settings()?;
        Ok(Spindle::in_role(self.table, Ok(settings), Some(role)))
    }
}

impl fmt::Debug for Spindle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Spindle")
            .field("table", &self.0.table.name)
            .field("name", &self.name())
            .field("id", &self.id())
            .field("token", &self.has_lock())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Database, LockTable};

    const DATABASE: &str = "projects/p/instances/i/databases/d";

    fn table() -> LockTable {
        LockTable::new(DATABASE, "locktable")
    }

    fn refusal(builder: LockBuilder) -> String {
        let error = builder.build().unwrap_err();
        assert!(error.is_config(), "{error}");
        error.to_string()
    }

    #[test]
    fn names_that_look_like_takeover_rows_are_refused() {
        for name in ["job_1795000000123456000", "_1234567890123456", "a_b_12345678901234567890"] {
            assert!(refusal(table().lock(name)).contains("reserved"), "{name}");
        }
        assert!(refusal(table().lock("spindle:member:a/b")).contains("reserved"));
        assert!(refusal(table().lock("")).contains("empty"));
        assert!(refusal(table().lock("x".repeat(5_000))).contains("bytes"));
    }

    #[test]
    fn usual_and_unusual_names_are_accepted() {
        let long = "n".repeat(1_000);
        let names = ["job", "job_1", "job_daily", "shard_0", "o'brien", "line\nbreak", &long];
        for name in names.into_iter().chain(["job_123456789012345", "job_123456789012345678901"]) {
            assert!(table().lock(name).build().is_ok(), "{name}");
        }
    }

    #[test]
    fn a_table_name_is_an_identifier() {
        for name in ["", "1table", "lock table", "t;drop", "a.b.c", "`t`", "lock-table"] {
            let table = LockTable::new(DATABASE, name);
            assert!(refusal(table.lock("job")).contains("identifier"), "{name}");
        }
        assert!(LockTable::new(DATABASE, "my_schema.locktable").lock("job").build().is_ok());
    }

    #[test]
    fn a_database_name_or_an_endpoint_that_cannot_work_is_refused_here() {
        let refused = refusal(LockTable::new("mydb", "locktable").lock("job"));
        assert!(refused.contains("`mydb`"), "{refused}");
        let table = LockTable::new(Database::at("localhost:9010", DATABASE), "locktable");
        assert!(refusal(table.lock("job")).contains("no scheme"));
    }

    #[test]
    fn what_a_table_sets_is_the_default_of_all_that_is_made_from_it() {
        let table = table().id("pod-1").lease(Duration::ZERO);
        assert!(refusal(table.lock("job")).contains("lock `job`: lease 0ns"));
        let lock = || table.lock("job").lease(Duration::from_secs(5));
        assert_eq!(lock().build().unwrap().id(), "pod-1");
        assert_eq!(lock().id("other").build().unwrap().id(), "other");
    }

    #[test]
    fn timings_that_cannot_work_are_refused_naming_the_rule() {
        let lock = || table().lock("job").lease(Duration::from_secs(10));
        let seconds = Duration::from_secs;
        for (builder, rule) in [
            (lock().lease(Duration::from_millis(99)), "lease"),
            (lock().lease(Duration::MAX), "lease"),
            (lock().heartbeat_interval(Duration::from_millis(5_001)), "heartbeat interval"),
            (lock().heartbeat_interval(Duration::ZERO), "heartbeat interval"),
            (lock().renew_deadline(seconds(3)), "renew deadline"),
            (lock().renew_deadline(Duration::from_millis(9_900)), "renew deadline"),
            (lock().clock_drift_margin(seconds(5)), "clock drift margin"),
            (lock().clock_drift_margin(seconds(3)), "renew deadline"),
            (lock().poll_interval(Duration::ZERO), "poll interval"),
            (lock().release_limit(Duration::ZERO), "release limit"),
            (lock().stop_limit(Duration::ZERO), "stop limit"),
            (lock().stop_limit(Duration::MAX), "stop limit"),
            (lock().id(""), "id"),
            (lock().id("a\nb"), "id"),
            (lock().id(">a"), "id"),
            (lock().info("i".repeat(4_097)), "info"),
        ] {
            let refused = refusal(builder);
            assert!(refused.contains(&format!("lock `job`: {rule}")), "{refused}");
        }
        assert!(lock().heartbeat_interval(seconds(5)).build().is_ok());
        assert!(lock().lease(Duration::from_millis(100)).build().is_ok());
    }
}
