//! A job, and how it is run.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::LEASE_MAX;
use spindle_protocol::job::{Asked, Runner};
use tokio_util::sync::CancellationToken;

use super::outcome::JobOutcome;
use super::run::JobRun;
use super::slot::Slot;
use super::supervise::{Supervisor, Wishes};
use crate::error::{Error, Result};
use crate::lock::lead_options::TaskResult;
use crate::lock::work::joined;
use crate::names::job_key;
use crate::runloop::JobRows;
use crate::settings::{LockBuilder, check_limit};
use crate::system::runtime;

const ATTEMPTS: u32 = 3;
const ATTEMPTS_MAX: u32 = 1_000;
const RETRY_PAUSE: Duration = Duration::from_secs(10);
const AHEAD: Duration = Duration::from_secs(10 * 60);

/// A job: a lock under which each slot of a schedule is run once, and tried again where that fails.
///
/// Made by [`LockBuilder::job`], with the settings of that lock: its lease, id and intervals. It can run
/// one slot after the other.
///
/// # Promises
///
/// - A slot is started at most [`attempts`](Job::attempts) times, and never by two terms at once.
/// - It is started again only while no record of its end was committed. With `attempts(1)` it is started
///   at most once.
/// - A slot that is started after a later one: never. Slots only go up.
/// - **Exactly once** holds for what the task writes in the transaction that
///   [records the end](JobRun::finish_in).
///
/// # Not promised
///
/// **Somebody must call.** Nothing is made up for: a slot for which no node calls is missed, and so is one
/// whose callers are all gone before it is recorded. Of two slots that wait, the later may go first; the
/// older is superseded then. For a backfill call the slots in ascending order, one after the other.
///
/// **Where nothing is recorded, it is repeated.** A node that dies after the work, or whose answer is lost,
/// has its slot started again. So what the task does outside of the transaction that records the end can
/// happen as often as `attempts` says. What must not happen late carries the [fence](crate::Term::fence).
///
/// # How it is kept
///
/// The record is a row of its own, `spindle:job:<name>`. The commit that begins a term counts the start in
/// it, and the commit that releases the term records the end. Evicting or seizing the lock, and removing
/// its row, leave it. [`LockTable::job`](crate::LockTable::job) and
/// [`jobs`](crate::LockTable::jobs) show it, and [`remove_job`](crate::LockTable::remove_job) forgets it.
#[derive(Clone, Debug)]
#[must_use = "a job does nothing until `run_once` is called"]
pub struct Job {
    lock: LockBuilder,
    attempts: u32,
    retry_pause: Duration,
    at_most: Option<Duration>,
    ahead: Duration,
    skips_running: bool,
    until: CancellationToken,
}

impl LockBuilder {
    /// Makes a job of this lock: see [`Job`] for its promises.
    ///
    /// ```no_run
    /// # async fn report(run: spindle::job::JobRun) -> std::io::Result<usize> { Ok(0) }
    /// # async fn nightly(table: spindle::LockTable) -> spindle::Result<()> {
    /// use std::time::Duration;
    /// use spindle::job::{JobOutcome, Slot};
    ///
    /// let hourly = Duration::from_secs(3_600);
    /// let job = table.lock("hourly-report").job().attempts(2).at_most(hourly / 2);
    /// match job.run_once(Slot::every(hourly), report).await? {
    ///     JobOutcome::Ran(pages) => println!("{pages} pages"),
    ///     skipped_or_failed => println!("{skipped_or_failed}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn job(self) -> Job {
        Job {
            lock: self,
            attempts: ATTEMPTS,
            retry_pause: RETRY_PAUSE,
            at_most: None,
            ahead: AHEAD,
            skips_running: false,
            until: CancellationToken::new(),
        }
    }

    /// Runs a slot of this job by the defaults of [`Job`]: [`Job::run_once`] has the rules.
    ///
    /// # Errors
    ///
    /// As [`Job::run_once`].
    ///
    /// # Cancellation safety
    ///
    /// As [`Job::run_once`].
    pub fn run_once<S, F, Fut, R>(
        self,
        slot: S,
        task: F,
    ) -> impl Future<Output = Result<JobOutcome<R::Value>>> + Send + use<S, F, Fut, R>
    where
        S: Into<Slot>,
        F: FnMut(JobRun) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        self.job().run_once(slot, task)
    }
}

impl Job {
    /// Sets how many times a slot may be started, by all nodes together; 3 by default, from 1 to 1,000.
    ///
    /// A start counts in the commit that begins it, so that neither many nodes that wait nor a task that
    /// kills its node go beyond. Nodes that name different numbers keep to the lowest of those that have
    /// come so far.
    pub fn attempts(mut self, attempts: u32) -> Job {
        self.attempts = attempts;
        self
    }

    /// Sets the pause after the first failure of a slot, 10 s by default; it doubles with each failure.
    ///
    /// It counts from the commit that records the failure, by Spanner's clock. Of a run whose node died it
    /// counts from its start, and the lease has to run out as well. From zero to a day.
    pub fn retry_pause(mut self, pause: Duration) -> Job {
        self.retry_pause = pause;
        self
    }

    /// Sets how long a run may take; without it, as long as it does. From more than zero to a year.
    ///
    /// As after a lost term, the run's term is cancelled then, it has the
    /// [stop limit](LockBuilder::stop_limit) to end, and it is aborted. That is a failure.
    pub fn at_most(mut self, limit: Duration) -> Job {
        self.at_most = Some(limit);
        self
    }

    /// Sets how far ahead of Spanner's clock a slot may be, 10 minutes by default: it is waited for. One
    /// that is further ahead is refused: a node whose clock is a year fast must not record that year.
    pub fn ahead_limit(mut self, limit: Duration) -> Job {
        self.ahead = limit;
        self
    }

    /// Returns at once if the slot runs elsewhere, or a slot before it does.
    ///
    /// By default such a call waits until the slot is recorded, or open again: so a node that is there heals
    /// the crash of another one.
    pub fn skip_if_running(mut self) -> Job {
        self.skips_running = true;
        self
    }

    /// Starts nothing any more once `cancel` is cancelled, and ends the call: for a process that is told to
    /// end.
    ///
    /// A call that waits is [skipped](super::Skip::Cancelled). A run goes on to its end, which is recorded:
    /// its task may watch `cancel` itself, and return an error to leave the slot to others at once. That
    /// error is the call's then.
    pub fn until(mut self, cancel: CancellationToken) -> Job {
        self.until = cancel;
        self
    }

    /// Runs `task` for this slot, unless it is recorded already; waits until it is recorded.
    ///
    /// The task runs under an ordinary term, which heartbeats renew. It is called again for each start
    /// of the slot that this call makes.
    ///
    /// - **It returns** `()` or `Ok(…)`: the slot is recorded as done, in the commit that releases the lock.
    /// - **It returns an error or panics**: the failure is recorded there. The slot is open again after the
    ///   [pause](Job::retry_pause), for this call and for others. If no attempt is left, it is recorded as
    ///   failed, and the log has a line at ERROR.
    /// - **The term is lost**: the run's term is cancelled, and it has three quarters of what is left of the
    ///   lease to end. Others start the slot once the lease is over.
    /// - **The slot is ahead of Spanner's clock**: it is waited for, or refused beyond the
    ///   [limit](Job::ahead_limit).
    ///
    /// Outages of Spanner are waited out. The job is a task of its own, started on the runtime that this is
    /// called on.
    ///
    /// ```
    /// # use spindle_emulator::Emulator;
    /// use std::time::SystemTime;
    /// use spindle::job::{JobOutcome, Skip};
    /// use spindle::{Database, Ddl, LockTable};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
    /// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
    /// let slot = SystemTime::now();
    /// let ran = table.lock("report").run_once(slot, async |_run| Ok::<_, std::io::Error>(7)).await?;
    /// assert!(matches!(ran, JobOutcome::Ran(7)));
    /// // Every other node skips it, however late its schedule is.
    /// let late = table.lock("report").run_once(slot, async |_run| ()).await?;
    /// assert!(matches!(late, JobOutcome::Skipped { why: Skip::Done, .. }), "{late}");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for settings and slots that can't work, for a slot that is too far
    /// ahead of Spanner's clock, and for a record that this version can't read.
    /// [`is_schema`](Error::is_schema) for a table that is missing or lacks a column.
    /// [`is_unstoppable`](Error::is_unstoppable) if the task blocks its thread and can't be stopped: its
    /// lease is left to run out, and the start has failed.
    /// [`is_task_failure`](Error::is_task_failure) if the task failed after it had recorded that the slot is
    /// done, or after the call was told to [end](Job::until).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the task. Its start has failed then, and others may start the slot after
    /// the pause.
    pub fn run_once<S, F, Fut, R>(
        &self,
        slot: S,
        task: F,
    ) -> impl Future<Output = Result<JobOutcome<R::Value>>> + Send + use<S, F, Fut, R>
    where
        S: Into<Slot>,
        F: FnMut(JobRun) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let (job, slot) = (self.clone(), slot.into());
        // The future is a named one, so that whatever the task returns may cross threads.
        async move { job.run(slot, task).await }
    }

    async fn run<F, Fut, R>(self, slot: Slot, task: F) -> Result<JobOutcome<R::Value>>
    where
        F: FnMut(JobRun) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let settings = self.lock.job_settings()?;
        let name = Arc::clone(&settings.name);
        let asked = self.asked(&name, slot)?;
        runtime(&format!("job `{name}`"))?;
        let runner = Runner::new(job_key(&name), &settings.id, settings.timing.lease, asked);
        let dropped = CancellationToken::new();
        let _drop = dropped.clone().drop_guard();
        let table = Arc::clone(&self.lock.table);
        let Job { at_most, skips_running, ahead, until, .. } = self;
        let wishes = Wishes { at_most, skips_running, ahead, until, dropped };
        let supervisor = Supervisor::new(table, settings, JobRows::new(runner), wishes);
        joined(tokio::spawn(supervisor.supervise(task)).await, &name)
    }

    fn asked(&self, name: &str, slot: Slot) -> Result<Asked> {
        let refuse = |rule: String| Err(Error::config(format!("job `{name}`: {rule}")));
        let Job { attempts, retry_pause: pause, at_most, ahead, .. } = *self;
        if !(1..=ATTEMPTS_MAX).contains(&attempts) {
            return refuse(format!("{attempts} attempts; expected 1 to {ATTEMPTS_MAX}"));
        }
        if pause > LEASE_MAX {
            return refuse(format!("retry pause {pause:?}; at most {LEASE_MAX:?}"));
        }
        let year = LEASE_MAX * 366;
        if let Some(Err(rule)) = at_most.map(|limit| check_limit("`at_most`", limit, year)) {
            return refuse(rule);
        }
        let slot = slot.checked(name)?;
        Ok(Asked { slot, attempts, pause, ahead })
    }
}
