//! Running a task for as long as this instance leads.

use tokio_util::sync::CancellationToken;

use super::call::Lead;
use super::handle::Spindle;
use super::lead_options::{LeadOptions, TaskResult};
use super::supervisor::Supervisor;
use super::work::{Orders, joined};
use crate::error::{Error, Kind};
use crate::system::runtime;
use crate::term::{Term, say};

impl Spindle {
    /// Runs `work` while this instance holds the lock, again in each term, until it returns without
    /// an error or `cancel` is cancelled.
    ///
    /// Each time that the lock is won, `work` is called with the term, and what it returns is run
    /// as a task of its own. Nothing happens before the future is polled, other than with
    /// [`run`](Spindle::run): await it, or spawn a task that does and has a clone of this handle.
    ///
    /// - **It returns an error**: the lock is released. The instance pauses, 1 s at first and up to
    ///   60 s after more failures, and contends again. The error, or a cause of it, may say that
    ///   *this term is over*, whatever its type ([`is_fenced`](crate::is_fenced)). That is a loss and no
    ///   failure: there is no pause. So a task may use `?` on each fenced write.
    /// - **It returns otherwise**: the lock is released, and the value returned.
    /// - **The term is lost**: the task's term is cancelled, which it should watch. It may go on
    ///   for three quarters of what is left of the lease, then it is aborted. Its result is
    ///   dropped, because another may lead by then, and the instance contends for the next term.
    /// - **`cancel` is cancelled**: the task's term is cancelled, and it has the
    ///   [stop limit](crate::LockBuilder::stop_limit) to end, then it is aborted. The lock is kept
    ///   by heartbeats until it has ended, then released. Where no task runs, an attempt to take the lock
    ///   that is under way is resolved first, for a release limit at most: the process may end next.
    /// - **[`resign`](Spindle::resign)**: the same, and after a lease the instance contends again.
    /// - **It panics**: the lock is released, and the panic is an error. A panic is a mistake in
    ///   the code and not a failure that passes.
    ///
    /// The [`Lead`] has choices about an error, and about a task that hangs.
    ///
    /// Returns the value of the last task: it returned by itself, or after `cancel` and in time.
    /// Returns nothing if `cancel` came while no task ran, or if the task had to be aborted.
    ///
    /// A `lead` that ends although nobody cancelled it is logged at WARN. The instance isn't
    /// [ready](crate::health::Health::is_ready) from then on, until something wants the lock again.
    /// To end with the first loss, cancel `cancel` where the task sees that its term is cancelled.
    ///
    /// ```no_run
    /// # async fn tick() {}
    /// # use spindle::google_cloud_spanner::client::DatabaseClient;
    /// # async fn bill(client: &DatabaseClient, fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
    /// # async fn service(lock: spindle::Spindle, client: DatabaseClient) -> spindle::Result<()> {
    /// use spindle::{CancellationToken, Term};
    ///
    /// let shutdown = CancellationToken::new();
    /// let task = move |term: Term| {
    ///     let client = client.clone(); // for this term; the next one needs its own
    ///     async move {
    ///         loop {
    ///             tokio::select! {
    ///                 () = term.cancelled() => return Ok::<(), spindle::Error>(()),
    ///                 () = tick() => bill(&client, term.fence()).await?,
    ///             }
    ///         }
    ///     }
    /// };
    /// lock.lead(shutdown, task).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # A task that blocks
    ///
    /// A task that blocks its thread can't be stopped: aborting works at an await. That is logged;
    /// then nothing is released, no heartbeat is sent any more, and **the lease runs out while the
    /// task still works**. So another process may lead beside it: only its fence stops its writes.
    /// In this instance no second task starts beside it, neither in the next term nor by a later
    /// call of `lead`. That waits until the blocked task has ended, contends no sooner, and says so
    /// in [`health`](Spindle::health). After `cancel` such a task is an error, at most two stop
    /// limits later, or a second after its lease.
    ///
    /// The library sees the end of the task, not of what the task started. Code under
    /// `spawn_blocking` and tasks that were spawned run on when the task is aborted: give them the
    /// [term](Term::is_cancelled) to watch, and await them. Other instances of the lock, in this
    /// process or elsewhere, know nothing of a task that blocks here.
    ///
    /// # Errors
    ///
    /// At once [`is_config`](Error::is_config) if the settings can't work or if
    /// [`run`](Spindle::run) was called on this instance, for choices that can't work, or if a task of
    /// `lead` calls it on the instance that it leads by. If the task panicked,
    /// [`is_panic`](Error::is_panic); if it could not be stopped on cancellation,
    /// [`is_unstoppable`](Error::is_unstoppable); if it returned an error after `cancel`,
    /// or with [`end_on_error`](Lead::end_on_error), [`is_task_failure`](Error::is_task_failure). An answer of Spanner is never an error here,
    /// not even a missing table or a refusal. The instance goes on trying, and says so in
    /// [`health`](Spindle::health) and the log.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the task, without the time to stop that `cancel` gives; the lock
    /// is released once the task has ended.
    pub fn lead<R, F, Fut>(&self, cancel: CancellationToken, work: F) -> Lead<R::Value>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let lock = self.clone();
        Lead::new(|options: LeadOptions| async move {
            options.check(lock.name())?;
            lock.settings()?;
            lock.refuse_under_lead("lead")?;
            let runtime = runtime(&format!("lock `{}`", lock.name()))?;
            let leading = Leading::begin(&lock);
            let dropped = CancellationToken::new();
            let _drop = dropped.clone().drop_guard();
            let orders = Orders {
                cancel: cancel.clone(),
                dropped,
                watchdog: options.watchdog,
                ..Orders::default()
            };
            let supervisor = Supervisor::new(lock.clone(), orders, options);
            let led = joined(runtime.spawn(supervisor.supervise(work)).await, lock.name());
            if !cancel.is_cancelled() {
                leading.ended_by_itself(led.as_ref().err());
            }
            led
        })
    }
}

/// A call of `lead` under way, for the instance's health.
struct Leading<'a> {
    lock: &'a Spindle,
    by_itself: Option<Error>,
}

impl<'a> Leading<'a> {
    fn begin(lock: &'a Spindle) -> Leading<'a> {
        lock.published().health_record().lead_begins();
        Leading { lock, by_itself: None }
    }

    /// Notes why it ended: by an error, or else because the task returned.
    fn ended_by_itself(mut self, error: Option<&Error>) {
        // Such a call was refused, and harms nobody who has the lock.
        if error.is_some_and(Error::is_config) {
            return;
        }
        let (lock, id) = (self.lock.name(), self.lock.id());
        let returned = || {
            let what = "`lead` has ended, because its task returned; nothing here contends any more \
                        until `lead` is called again";
            Error::new(Kind::Task { lock: lock.to_string(), what: what.to_string(), source: None })
        };
        let reason = error.cloned().unwrap_or_else(returned);
        say(|| tracing::warn!(lock, id, %reason, "lead has ended by itself"));
        self.by_itself = Some(reason);
    }
}

impl Drop for Leading<'_> {
    fn drop(&mut self) {
        self.lock.published().health_record().lead_ended(self.by_itself.take());
        self.lock.refresh_gauges();
    }
}
