//! The table of locks as users call it: each call hands on to the module that does the work.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "admin")]
use google_cloud_spanner::client::{DatabaseAdmin, Spanner};

#[cfg(feature = "__simulation")]
use crate::batch::Store;
#[cfg(feature = "__simulation")]
use crate::budget::Budget;
use crate::error::Result;
use crate::job::{JobRun, JobState};
use crate::operate::{self, AtExit, Evict, ExitedInstance, History, LockList, LockState, Observer};
use crate::rows::Rows;
use crate::settings::{Defaults, LockBuilder};
use crate::store::{Database, Ddl, Table};
use crate::system::Clock;
use crate::term::TableHealth;

/// A table of locks in a Spanner database: the root of everything here. Cheap to clone.
///
/// Making one sends nothing and can't fail. [`lock`](LockTable::lock) makes instances that
/// contend; the other methods need no instance.
///
/// ```no_run
/// # async fn example() -> spindle::Result<()> {
/// use spindle::{Database, LockTable};
///
/// let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
/// table.check().await?; // the table is there, and has the columns that it needs
/// let lock = table.lock("billing").build()?;
/// println!("{} would lead", lock.id());
/// if let Some(leader) = table.inspect("billing").await?.holder() {
///     println!("{leader} leads");
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct LockTable(Arc<Table>, Defaults);

impl LockTable {
    /// Returns the statement that creates the table, or those that add what an old one lacks. Any name will
    /// do instead of `locktable`.
    ///
    /// A statement has no semicolon, as Google's clients take it; several are parted by semicolons. Other
    /// implementations of the same table share the first four columns, and don't mind the others:
    /// `lease_ms` is the holder's own lease, `info` what the holder says of itself, `displaced` the token
    /// that its term displaced, `next` who waits for it first. A table needs all of them, and so does a role that uses it.
    ///
    /// ```
    /// use spindle::{Ddl, LockTable};
    ///
    /// let jobs = LockTable::ddl(Ddl::GoogleSql).replace("locktable", "jobs");
    /// assert!(jobs.starts_with("CREATE TABLE jobs ("));
    /// ```
    pub const fn ddl(ddl: Ddl) -> &'static str {
        ddl.text()
    }

    /// Returns the lock table `table` of a database: a path, for services, or a client, for what only
    /// that client has.
    ///
    /// With a path, `projects/p/instances/i/databases/d`, the library makes its own connections, and
    /// replaces those that are dead. With a client, the locks share its channels and its session with
    /// the service, and end with them: [`Database`] has the differences, and takes an endpoint.
    ///
    /// All that is made from one table shares one batcher and one budget of requests (I8). So make
    /// one table for all locks of a process, and clone it.
    ///
    /// Nothing is sent. [`build`](crate::LockBuilder::build) and every call refuse a path, or a name of
    /// a table, that can't be one.
    pub fn new(database: impl Into<Database>, table: impl Into<String>) -> LockTable {
        let table = Table::new(database.into().connection(), table.into());
        LockTable(Arc::new(table), Defaults::default())
    }

    /// Sets the id of all that is made from this handle and its clones: how this process is called in rows
    /// and logs. A builder may set another one.
    ///
    /// By default it is that of the environment variable `SPINDLE_ID`, if it is set; otherwise each
    /// instance has one of its own, `host-pid-random`. Where the variable has no id that can be,
    /// [`build`](LockBuilder::build) says so.
    ///
    /// ```
    /// use std::time::Duration;
    /// use spindle::LockTable;
    ///
    /// # fn main() -> spindle::Result<()> {
    /// let table = LockTable::new("projects/p/instances/i/databases/d", "locktable")
    ///     .id("pod-1")
    ///     .lease(Duration::from_secs(5));
    /// assert_eq!(table.lock("billing").build()?.id(), "pod-1");
    /// assert_eq!(table.lock("mail").id("mailer").build()?.id(), "mailer");
    /// # Ok(())
    /// # }
    /// ```
    pub fn id(mut self, id: impl Into<String>) -> LockTable {
        self.1.id = Some(id.into());
        self
    }

    /// Sets the lease of all that is made from this handle and its clones; 10 s by default. A builder may
    /// set another one: see [`LockBuilder::lease`].
    pub fn lease(mut self, lease: Duration) -> LockTable {
        self.1.lease = Some(lease);
        self
    }

    /// Sets the clock of all that is made from this handle and its clones; for tests on virtual time, with
    /// [`Clock::runtime`].
    pub fn clock(mut self, clock: Clock) -> LockTable {
        self.1.clock = Some(clock);
        self
    }

    /// Begins to describe an instance that contends for the lock `name`.
    pub fn lock(&self, name: impl Into<String>) -> LockBuilder {
        LockBuilder::new(Arc::clone(&self.0), name.into()).with_defaults(&self.1)
    }

    /// Returns the name of the table.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Returns the rows of the table, none of which is chosen so far: for crates that build on locks.
    pub fn rows(&self) -> Rows {
        Rows::new(Arc::clone(&self.0))
    }

    /// Returns the last slots of the [job](crate::LockBuilder::job) `name`; nothing if none was started so
    /// far.
    ///
    /// # Errors
    ///
    /// As [`inspect`](LockTable::inspect).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn job(&self, name: &str) -> Result<Option<JobState>> {
        operate::job(&self.0, name).await
    }

    /// Lists all [jobs](crate::LockBuilder::job) of the table with their last slots, in the order of their
    /// names. Each 100 jobs are two strong reads: of their rows, then of their locks'.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// for job in table.jobs().await? {
    ///     if let Some(last) = job.last {
    ///         println!("{}: {last}, took {:?}", job.name, last.took());
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a table that can't be; otherwise why a page could not be
    /// read within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn jobs(&self) -> Result<Vec<JobState>> {
        operate::jobs(&self.0).await
    }

    /// Forgets the record of a [job](crate::LockBuilder::job) that doesn't run; true if there was one. Its
    /// lock stays.
    ///
    /// A slot that was run may be run again from then on, if somebody calls for it. It is for jobs that are
    /// no more, and for a record that names a slot which nobody meant.
    ///
    /// # Errors
    ///
    /// [`is_not_vacant`](crate::Error::is_not_vacant) while it runs. Otherwise as
    /// [`remove`](LockTable::remove).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the record was removed.
    pub async fn remove_job(&self, name: &str) -> Result<bool> {
        operate::remove_job(&self.0, name).await
    }

    /// Everything about one lock: who holds it, under which token, since when it was heard of,
    /// and what stands in the way of the next.
    ///
    /// One strong read; a second, of the same instant, where the lock has a row.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a name that no lock can have; otherwise why
    /// Spanner could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn inspect(&self, name: &str) -> Result<LockState> {
        operate::inspect(&self.0, name).await
    }

    /// Lists all locks of the table, in the order of their names; takeover rows are not among them.
    ///
    /// Nothing is sent before the first [`next`](LockList::next).
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut locks = table.list();
    /// while let Some(lock) = locks.next().await? {
    ///     println!("{}: {:?}", lock.name, lock.holding);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn list(&self) -> LockList {
        LockList::new(Arc::clone(&self.0))
    }

    /// Watches who leads, without contending.
    ///
    /// Nothing is sent before the first [`next`](Observer::next).
    pub fn observe(&self, name: impl Into<String>) -> Observer {
        Observer::new(Arc::clone(&self.0), name.into())
    }

    /// Returns the terms of the lock `name` so far, the latest first, by stale reads of its row.
    ///
    /// No history table is needed: a read just before a term's token shows the row as the term
    /// before left it. Spanner keeps old versions for an hour, unless the database's
    /// `version_retention_period` says otherwise. Nothing is sent before the first
    /// [`next`](History::next).
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut history = table.history("billing");
    /// while let Some(term) = history.next().await? {
    ///     println!("{} from {} to {:?}: {:?}", term.holder, term.token.to_datetime(), term.end, term.cause);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn history(&self, name: impl Into<String>) -> History {
        History::new(Arc::clone(&self.0), name.into())
    }

    /// Returns the terms of a lock so far, the latest first, beginning with `latest`.
    /// That is not read again, so no read is a strong one.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut locks = table.list();
    /// while let Some(lock) = locks.next().await? {
    ///     let latest = table.history_from(&lock).next().await?;
    ///     println!("{}: {latest:?}", lock.name);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn history_from(&self, latest: &LockState) -> History {
        History::new(Arc::clone(&self.0), latest.name.clone()).begun_by(latest)
    }

    /// Ends the holder's term, gracefully. At its next heartbeat the holder learns that it is
    /// deposed, and nobody takes over before its lease has run out.
    ///
    /// So at any instant at most one instance still believes that it holds. From now on the
    /// evicted term's fenced writes are refused. The evicted instance contends again like any
    /// other. [`Evict::at_once`] seizes the lock instead, and [`Evict::to`] gives it to one contender.
    ///
    /// The lock may change hands between a look and this call. So name the term that is meant, by
    /// [`Evict::if_holder`] and [`Evict::if_token`].
    ///
    /// Nothing is sent before it is awaited. It gives the holder whose term it was; nothing if the
    /// row names no one, in which case only a seizure has anything to do. The column `info` then reads
    /// `evicted by …: …`.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let seen = table.inspect("jobs").await?;
    /// if let (Some(holder), Some(token)) = (seen.holder(), seen.token) {
    ///     // Not the instance that has come after it meanwhile.
    ///     table.evict("jobs").if_holder(holder).if_token(token).reason("bad deploy").await?;
    /// }
    /// table.evict("mail").to("node-2").by("alice").reason("node-1 hangs").await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_other_term`](crate::Error::is_other_term) if the row says something else than what was
    /// expected; the text tells who holds now. [`is_config`](crate::Error::is_config) for a name that
    /// no lock can have, an id that no instance can have, or a mark
    /// that can't work. [`is_outcome_unknown`](crate::Error::is_outcome_unknown) if no answer came,
    /// where [`inspect`](LockTable::inspect) tells. Otherwise the reason why it could not be done
    /// within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the term was ended.
    pub fn evict(&self, name: impl Into<String>) -> Evict {
        Evict::new(Arc::clone(&self.0), name.into())
    }

    /// Deletes the row of a lock that nobody needs any more, and its takeover rows. Says whether there
    /// was a row.
    ///
    /// A lock has one takeover row at most, and one more for each lock row that was deleted by hand, or
    /// takeover that another implementation left. They go also where there is no row, up to 1,000 at a
    /// call.
    ///
    /// Only a vacant lock's: never held, released, or expired by Spanner's clock and its holder's
    /// own lease. A lock stays as it is if it is held, evicted and not yet run out, or promised to
    /// a successor. So does an unreleased one whose row tells no lease, as another implementation's: nobody can say whether its holder still
    /// believes in it. All of it is one transaction, which looks at the row again.
    ///
    /// Contenders may run: one that finds no row makes a new one, under a token that is later than
    /// any before. The record of a [job](crate::LockBuilder::job) stays: [`remove_job`](LockTable::remove_job) forgets it.
    ///
    /// A row-deletion policy (TTL) on the lock table is no substitute. It deletes by age whatever
    /// the lock's holding is. So it can end a term whose holder is paused or out of contact.
    ///
    /// # Errors
    ///
    /// [`is_not_vacant`](crate::Error::is_not_vacant) for a lock that is not vacant.
    /// [`is_config`](crate::Error::is_config) for a name that no lock can have.
    /// [`is_outcome_unknown`](crate::Error::is_outcome_unknown) if no answer came. Otherwise the
    /// reason why it could not be done within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the row was deleted.
    pub async fn remove(&self, name: &str) -> Result<bool> {
        operate::remove(&self.0, name).await
    }

    /// Checks once that the table can be reached, is as it should be, and can be written. It is for
    /// services that would rather fail at start than go on trying.
    ///
    /// Writes nothing that stays. It asks if reads tell their time, and asks the information
    /// schema. It reads and writes as a holder does, and reads the whole table, 100 rows at a time.
    ///
    /// Returns the locks whose holder has not written its lease: it is another implementation's. While there
    /// is one, all instances must use the same lease as that.
    ///
    /// # Errors
    ///
    /// The error names what exactly is wrong. [`is_schema`](crate::Error::is_schema) means the
    /// table or a column, with the statement that mends it. [`is_config`](crate::Error::is_config)
    /// means a malformed name or endpoint, or a database that is not there. So, too, does a server
    /// without read timestamps, on which no lock can be taken. [`is_denied`](crate::Error::is_denied) means
    /// permissions or credentials. The others are
    /// [`is_session_lost`](crate::Error::is_session_lost), and an outage, said after 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn check(&self) -> Result<Vec<String>> {
        self.0.check().await
    }

    /// Returns a client for administration, which goes over REST.
    ///
    /// Where `SPANNER_EMULATOR_HOST` and `SPANNER_EMULATOR_REST_HOST` are set, it goes to the
    /// second, which is `HOST:PORT`. Otherwise it goes where Google's client goes by itself: to the
    /// endpoint of `spanner`, with port 9020 instead of an emulator's 9010. Sends nothing.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for an address or credentials that can't work.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    #[cfg(feature = "admin")]
    pub async fn admin(spanner: &Spanner) -> Result<DatabaseAdmin> {
        operate::admin(spanner).await
    }

    /// Makes the table in `database` unless there is a table of that name; true if there was none.
    ///
    /// `database` is `projects/P/instances/I/databases/D`, the one that this table is reached in.
    /// The statement is that of [`ddl`](LockTable::ddl), for PostgreSQL where the database is
    /// of that dialect, which its information schema tells. A table that is there already is left
    /// as it is, whatever its columns: [`check`](LockTable::check) says what is wrong with it.
    /// Spanner takes seconds to a minute for a new table.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a table name that is no identifier, before
    /// anything is sent; [`is_denied`](crate::Error::is_denied) without the permission to change
    /// the schema; otherwise what Spanner said. Where nothing answers, the error comes after 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the table is made: Spanner goes on by itself.
    /// Calling again is harmless.
    ///
    /// ```no_run
    /// use spindle::{Database, LockTable};
    /// use spindle::google_cloud_spanner::client::Spanner;
    ///
    /// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
    /// let spanner = Spanner::builder().build().await?;
    /// let database = "projects/p/instances/i/databases/d";
    /// let table = LockTable::new(database, "locktable");
    /// table.create(&LockTable::admin(&spanner).await?, database).await?;
    /// table.check().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "admin")]
    pub async fn create(&self, admin: &DatabaseAdmin, database: &str) -> Result<bool> {
        operate::create(&self.0, admin, database).await
    }

    /// Adds the columns that the table lacks, and names them. Instances that wait for them begin within
    /// seconds.
    ///
    /// # Errors
    ///
    /// As [`create`](LockTable::create). [`is_schema`](crate::Error::is_schema) for a table that is
    /// not there, or is wrong otherwise.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open which columns are added: Spanner goes on by itself.
    #[cfg(feature = "admin")]
    pub async fn upgrade(
        &self,
        admin: &DatabaseAdmin,
        database: &str,
    ) -> Result<Vec<&'static str>> {
        operate::upgrade(&self.0, admin, database).await
    }

    /// Has the agent of this host release what this process holds as soon as the kernel says that the process is gone:
    /// the path is that of [`spindle agent`](https://github.com/spindle-lock/spindle/blob/main/docs/agent.md)`
    /// --socket`. Without it a crash costs the lease.
    ///
    /// ```
    /// # use spindle::LockTable;
    /// let database = "projects/p/instances/i/databases/d";
    /// let table = LockTable::new(database, "locktable").release_on_exit("/run/spindle/agent.sock");
    /// ```
    ///
    /// Two signs count together: the process and all its threads have ended, and nobody keeps its stream to the agent.
    /// The stream is inherited. So a child that works on keeps it open, and the lease runs out instead. A
    /// term that is younger than its lease is never released. It is Linux alone, from 6.5 on; the agent
    /// refuses the stream elsewhere.
    ///
    /// It costs Spanner nothing. Each instance is registered before its first attempt to take the lock, which waits 50 ms
    /// for that at most. Where no agent listens, or one of another table, the log warns once, and
    /// [`health`](crate::Spindle::health) says so by [`Failing::Agent`](crate::health::Failing::Agent). The locks work as
    /// ever meanwhile, and the library tries again, at last once a minute. A client that was
    /// [given](Database) doesn't tell its database, so that no agent is asked.
    ///
    /// # Promises
    ///
    /// Those of a release: [`has_lock`](crate::Spindle::has_lock) in one process, ordered tokens, fenced writes. With this,
    /// `has_lock` is empty in a child by `fork`; each call asks for the process's number, some 170 ns.
    ///
    /// # Not promised
    ///
    /// That the effects of the process have ended. Children that have closed the socket, or that were started before it was
    /// opened, bytes in flight, and writes without a fence may come after the next leader's.
    pub fn release_on_exit(self, socket: impl Into<PathBuf>) -> LockTable {
        self.0.release_on_exit(socket.into());
        self
    }

    /// Releases what instances of processes that are gone still hold: for the agent, which knows that they are.
    #[doc(hidden)]
    pub async fn release_exited(&self, gone: &[ExitedInstance]) -> Vec<AtExit> {
        operate::release_exited(&self.0, gone).await
    }

    /// Releases what an instance of this process left to its lease: for the agent, whose client lets go late. The run of
    /// a job is recorded as done, or as failed.
    #[doc(hidden)]
    pub async fn release_left(
        &self,
        instance: &ExitedInstance,
        run: Option<(&JobRun, bool)>,
    ) -> AtExit {
        let record = run.map(|(run, is_done)| run.ends(is_done));
        operate::release_left(&self.0, instance, record).await
    }

    /// Returns the health of all that this table runs in this process, for one probe of a service with many
    /// locks. Local, and never waits for Spanner.
    pub fn health(&self) -> TableHealth {
        self.0.instances.health()
    }

    /// Waits until all instances of this table in this process have ended and have released what
    /// they held: for the end of a process.
    ///
    /// An instance ends once its last handle is gone. Drop guards, permits, members and instances
    /// before, or cancel their runs. This waits for those that still live, be it for ever. An
    /// attempt to take the lock that is still under way is resolved first: after an
    /// [`acquire`](crate::Spindle::acquire) whose time is over, or a dropped
    /// [`run_once`](crate::job::Job::run_once). If the process exits without this wait, such an
    /// attempt may leave the lock held for a lease.
    ///
    /// Each instance takes no longer than its [release limit](crate::LockBuilder::release_limit), which
    /// is a lease by default.
    ///
    /// ```no_run
    /// # async fn tool(table: spindle::LockTable) -> spindle::Result<()> {
    /// use std::time::Duration;
    ///
    /// let lock = table.lock("migration").build()?;
    /// if let Ok(guard) = lock.acquire().within(Duration::from_secs(2)).await {
    ///     // …
    ///     guard.release().await;
    /// }
    /// drop(lock);
    /// table.all_released().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn all_released(&self) {
        self.0.loops.closed().await;
    }

    /// Returns a table whose rows are in the store that is made with its budget.
    #[cfg(feature = "__simulation")]
    pub(crate) fn on(make: impl FnOnce(&Arc<Budget>) -> Arc<dyn Store>) -> LockTable {
        // Nothing is ever sent there.
        let nowhere = Database::from("projects/p/instances/i/databases/d");
        LockTable::in_store(Table::new(nowhere.connection(), "locktable".to_string()), make)
    }

    /// Returns the same table with a batcher and a store of its own, as another runtime has it.
    #[cfg(feature = "__simulation")]
    pub(crate) fn on_another_runtime(
        &self,
        make: impl FnOnce(&Arc<Budget>) -> Arc<dyn Store>,
    ) -> LockTable {
        let connection = self.0.spanner.connection.clone();
        LockTable::in_store(Table::new(connection, "locktable".to_string()), make)
    }

    #[cfg(feature = "__simulation")]
    fn in_store(table: Table, make: impl FnOnce(&Arc<Budget>) -> Arc<dyn Store>) -> LockTable {
        let store = make(table.spanner.connection.budget());
        LockTable(Arc::new(Table { store, ..table }), Defaults::default())
    }

    #[cfg(feature = "__simulation")]
    pub(crate) fn table(&self) -> &Arc<Table> {
        &self.0
    }
}
