//! Running a task for as long as this instance leads.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::handle::Spindle;
use super::work::{self, Ended, Orders, Why, joined};
use crate::error::{Error, Kind, ReleaseOutcome, Result, TaskError, with_causes};
use crate::runloop::WaitMode;
use crate::system::chance;
use crate::term::{Failing, Term, say};

/// After a failure of its task an instance pauses for so long at first, and at most, unless
/// [`LeadOptions::pauses`] says otherwise.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// Longer ones are mistakes.
const OPTION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The values that a task of [`lead`](Spindle::lead) may return: nothing, or a `Result` whose error
/// is, or can be made, a boxed [`std::error::Error`].
pub trait TaskResult: Send + 'static {
    /// The value of a task that succeeded.
    type Value: Send + 'static;

    /// Returns the value, or the error.
    #[doc(hidden)]
    fn into_result(self) -> Result<Self::Value, TaskError>;
}

impl TaskResult for () {
    type Value = ();

    fn into_result(self) -> Result<(), TaskError> {
        Ok(())
    }
}

impl<T, E> TaskResult for Result<T, E>
where
    T: Send + 'static,
    E: Into<TaskError> + Send + 'static,
{
    type Value = T;

    fn into_result(self) -> Result<T, TaskError> {
        self.map_err(Into::into)
    }
}

/// Choices of [`lead_with`](Spindle::lead_with) about a task that fails or hangs.
///
/// The default is that of [`lead`](Spindle::lead): pauses of 1 s to 60 s after errors, and no
/// watchdog.
///
/// ```
/// use std::time::Duration;
/// use spindle::LeadOptions;
///
/// let options = LeadOptions::default()
///     .pauses(Duration::from_millis(200), Duration::from_secs(10))
///     .watchdog(Duration::from_secs(300));
/// ```
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `lead_with` is called"]
pub struct LeadOptions {
    ends_on_error: bool,
    pause_first: Duration,
    pause_longest: Duration,
    watchdog: Option<Duration>,
}

impl Default for LeadOptions {
    fn default() -> LeadOptions {
        LeadOptions {
            ends_on_error: false,
            pause_first: PAUSE_FIRST,
            pause_longest: PAUSE_LONGEST,
            watchdog: None,
        }
    }
}

impl LeadOptions {
    /// Sets the pauses between an error of the task and the next attempt to lead.
    ///
    /// The pause begins with `first` and doubles with each failure, up to `longest`, less a random
    /// part of up to a quarter. A task that has run for `longest` makes it begin anew. Meanwhile
    /// others may take the lock. From more than zero to a day; `first` no more than `longest`.
    pub fn pauses(mut self, first: Duration, longest: Duration) -> LeadOptions {
        (self.pause_first, self.pause_longest) = (first, longest);
        self
    }

    /// Ends with the task's first error instead of contending again: `lead_with` returns it, with
    /// [`is_task_failure`](Error::is_task_failure).
    ///
    /// An error that says that the term was lost still ends nothing.
    pub fn end_on_error(mut self) -> LeadOptions {
        self.ends_on_error = true;
        self
    }

    /// Stops a task that has not called [`Term::progress`] for `limit`, which counts from its
    /// start.
    ///
    /// As after a cancellation, its term is cancelled and it has the stop limit to end, then it is
    /// aborted. The instance releases the lock, pauses as after an error, and contends again.
    ///
    /// From more than zero to a day; by default no watchdog. The time that the machine is
    /// suspended doesn't count.
    pub fn watchdog(mut self, limit: Duration) -> LeadOptions {
        self.watchdog = Some(limit);
        self
    }

    fn check(&self, lock: &str) -> Result<()> {
        let LeadOptions { pause_first: first, pause_longest: longest, watchdog, .. } = self;
        if first.is_zero() || first > longest || *longest > OPTION_MAX {
            return Err(Error::config(format!(
                "lock `{lock}`: pauses of {first:?} to {longest:?}; more than zero, rising, and at \
                 most {OPTION_MAX:?}"
            )));
        }
        if let Some(limit) = watchdog
            && (limit.is_zero() || *limit > OPTION_MAX)
        {
            return Err(Error::config(format!(
                "lock `{lock}`: watchdog after {limit:?}; more than zero and at most {OPTION_MAX:?}"
            )));
        }
        Ok(())
    }
}

impl Spindle {
    /// Runs `work` while this instance holds the lock, again in each term, until it returns without
    /// an error or `cancel` is cancelled.
    ///
    /// Each time that the lock is won, `work` is called with the term, and what it returns is run
    /// as a task of its own.
    ///
    /// - **It returns an error**: the lock is released. The instance pauses, 1 s at first and up to
    ///   60 s after more failures, and contends again. If the error, or a cause of it, says that
    ///   *this term is over* ([`is_fenced`](Error::is_fenced)), that is a loss and no failure:
    ///   there is no pause. So a task may use `?` on each fenced write.
    /// - **It returns otherwise**: the lock is released, and the value returned.
    /// - **The term is lost**: the task's term is cancelled, which it should watch. It may go on
    ///   for three quarters of what is left of the lease, then it is aborted. Its result is
    ///   dropped, because another may lead by then, and the instance contends for the next term.
    /// - **`cancel` is cancelled**: the task's term is cancelled, and it has the
    ///   [stop limit](crate::LockBuilder::stop_limit) to end, then it is aborted. The lock is kept
    ///   by heartbeats until it has ended, then released.
    /// - **[`resign`](Spindle::resign)**: the same, and after a lease the instance contends again.
    /// - **It panics**: the lock is released, and the panic is an error. A panic is a mistake in
    ///   the code and not a failure that passes.
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
    /// # async fn bill(fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
    /// # async fn service(lock: spindle::Spindle) -> spindle::Result<()> {
    /// use spindle::{CancellationToken, Term};
    ///
    /// let shutdown = CancellationToken::new();
    /// let task = |term: Term| async move {
    ///     loop {
    ///         tokio::select! {
    ///             () = term.cancelled() => return Ok::<(), spindle::Error>(()),
    ///             () = tick() => bill(term.fence()).await?,
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
    /// limits later.
    ///
    /// The library sees the end of the task, not of what the task started. Code under
    /// `spawn_blocking` and tasks that were spawned run on when the task is aborted: give them the
    /// [term](Term::is_cancelled) to watch, and await them. Other instances of the lock, in this
    /// process or elsewhere, know nothing of a task that blocks here.
    ///
    /// # Errors
    ///
    /// At once [`is_config`](Error::is_config) if the settings can't work or if
    /// [`run`](Spindle::run) was called on this instance. If the task panicked,
    /// [`is_panic`](Error::is_panic); if it could not be stopped on cancellation,
    /// [`is_unstoppable`](Error::is_unstoppable); if it returned an error after `cancel`,
    /// [`is_task_failure`](Error::is_task_failure). An answer of Spanner is never an error here,
    /// not even a missing table or a refusal. The instance goes on trying, and says so in
    /// [`health`](Spindle::health) and the log.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the task, without the time to stop that `cancel` gives; the lock
    /// is released once the task has ended.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub fn lead<R, F, Fut>(
        &self,
        cancel: CancellationToken,
        work: F,
    ) -> impl Future<Output = Result<Option<R::Value>>> + Send
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        self.lead_with(LeadOptions::default(), cancel, work)
    }

    /// Leads as [`lead`](Spindle::lead) does. The `options` say what an error does, and if a task
    /// that hangs is stopped.
    ///
    /// ```no_run
    /// # async fn import(fence: spindle::Fence) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn service(lock: spindle::Spindle) -> spindle::Result<()> {
    /// use std::time::Duration;
    /// use spindle::{CancellationToken, LeadOptions, Term};
    ///
    /// let options = LeadOptions::default().watchdog(Duration::from_secs(300));
    /// let shutdown = CancellationToken::new();
    /// let task = |term: Term| async move {
    ///     while !term.is_cancelled() {
    ///         import(term.fence()).await?;
    ///         term.progress();
    ///     }
    ///     Ok::<(), std::io::Error>(())
    /// };
    /// lock.lead_with(options, shutdown, task).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lead`](Spindle::lead); [`is_config`](Error::is_config) for options that can't work;
    /// with [`end_on_error`](LeadOptions::end_on_error),
    /// [`is_task_failure`](Error::is_task_failure).
    ///
    /// # Cancellation safety
    ///
    /// As [`lead`](Spindle::lead).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    #[expect(
        clippy::manual_async_fn,
        reason = "who spawns an `async fn` proves of `R` anew that it is `Send`, which fails for errors \
                  with a lifetime"
    )]
    pub fn lead_with<R, F, Fut>(
        &self,
        options: LeadOptions,
        cancel: CancellationToken,
        work: F,
    ) -> impl Future<Output = Result<Option<R::Value>>> + Send
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        async move {
            options.check(self.name())?;
            self.settings()?;
            let leading = Leading::begin(self);
            let dropped = CancellationToken::new();
            let _drop = dropped.clone().drop_guard();
            let orders = Orders {
                cancel: cancel.clone(),
                dropped,
                watchdog: options.watchdog,
                ..Orders::default()
            };
            let supervisor = Supervisor {
                lock: self.clone(),
                orders,
                pauses: Pauses { next: options.pause_first, options },
                is_blocked: false,
            };
            let led = joined(tokio::spawn(supervisor.supervise(work)).await, self.name());
            if !cancel.is_cancelled() {
                leading.ended_by_itself(led.as_ref().err());
            }
            led
        }
    }
}

/// A call of `lead` under way, for the instance's health.
struct Leading<'a> {
    lock: &'a Spindle,
    by_itself: Option<Error>,
}

impl<'a> Leading<'a> {
    fn begin(lock: &'a Spindle) -> Leading<'a> {
        lock.published().lead_begins();
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
        self.lock.published().lead_ended(self.by_itself.take());
    }
}

/// Runs one task after the other.
struct Supervisor {
    lock: Spindle,
    orders: Orders,
    pauses: Pauses,
    /// True while a task that could not be stopped may still run.
    is_blocked: bool,
}

impl Supervisor {
    async fn supervise<R, F, Fut>(mut self, mut work: F) -> Result<Option<R::Value>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let settings = self.lock.settings()?.clone();
        let _waiter_guard = self.lock.waiter_guard();
        loop {
            self.orders.resign = CancellationToken::new();
            let Some(only_task) = self.last_task_ends().await? else { return Ok(None) };
            let Some(guard) = self.acquire().await? else { return Ok(None) };
            let began = Instant::now();
            self.lock.published().task_runs(self.pauses.options.pause_longest);
            let work = |term| {
                let task = work(term);
                async move {
                    // Given back when the task has really ended, whoever waits for that.
                    let _only_task = only_task;
                    task.await
                }
            };
            let ended = work::run(&guard, &self.orders, settings.stop_limit, work).await;
            self.pauses.task_ran(began.elapsed());
            match ended {
                Ended::Returned(returned) => match returned.into_result() {
                    Ok(value) => {
                        guard.release().await;
                        return Ok(Some(value));
                    }
                    Err(error) => self.failed(guard, error).await?,
                },
                Ended::Panicked(message) => {
                    let lock = guard.lock().to_string();
                    guard.release().await;
                    return Err(Error::new(Kind::Panicked { lock, message }));
                }
                Ended::Stopped(Why::Cancelled | Why::Dropped, returned) => {
                    return last_words(guard, returned).await;
                }
                Ended::Stopped(why, returned) => {
                    say_dropped(&guard, returned);
                    // After a loss nothing is held, and this only says so.
                    guard.release().await;
                    match why {
                        Why::Resigned => back_off(&self.orders, settings.timing.lease).await,
                        Why::Stuck => back_off(&self.orders, self.pauses.next()).await,
                        _ => {}
                    }
                }
                Ended::Unstoppable(why, _) => {
                    let lock = guard.lock().to_string();
                    guard.lapse().await;
                    if matches!(why, Why::Cancelled | Why::Dropped) {
                        return Err(Error::new(Kind::Unstoppable { lock }));
                    }
                    self.is_blocked = true;
                }
            }
        }
    }

    /// Waits until no task of this instance runs any more, also none of an earlier `lead`. Returns
    /// the right to run the next one; nothing if that is not wanted any more.
    async fn last_task_ends(&mut self) -> Result<Option<OwnedSemaphorePermit>> {
        let Orders { cancel, dropped, .. } = &self.orders;
        let only_task = self.lock.only_task();
        if let Ok(permit) = Arc::clone(&only_task).try_acquire_owned() {
            self.is_blocked = false;
            return Ok(Some(permit));
        }
        let lock = self.lock.name().to_string();
        // Another `lead` of this instance that goes well is nothing to complain of.
        if self.is_blocked || !self.lock.published().leads_twice() {
            let what = "a task that ran under it still runs, so no other one is started";
            let (lock, what) = (lock.clone(), what.to_string());
            self.say_waits(&Error::new(Kind::Task { lock, what, source: None }));
        }
        let permit = tokio::select! {
            biased;
            permit = only_task.acquire_owned() => permit.ok(),
            () = dropped.cancelled() => None,
            () = cancel.cancelled() => None,
        };
        if permit.is_none() && self.is_blocked {
            return Err(Error::new(Kind::Unstoppable { lock }));
        }
        self.is_blocked = false;
        Ok(permit)
    }

    fn say_waits(&self, error: &Error) {
        let (lock, id) = (self.lock.name(), self.lock.id());
        self.lock.published().failed(Failing::Task, error);
        say(|| tracing::warn!(lock, id, %error, "waits for a task that still runs"));
    }

    /// Waits for the lock; nothing if that is not wanted any more.
    async fn acquire(&self) -> Result<Option<Guard>> {
        let Orders { cancel, dropped, resign, .. } = &self.orders;
        tokio::select! {
            biased;
            () = dropped.cancelled() => Ok(None),
            () = cancel.cancelled() => Ok(None),
            guard = self.lock.acquire_in_turn(WaitMode::Endures, Some(resign.clone())) => {
                guard.map(Some)
            }
        }
    }

    /// Gives the lock to others after an error of the task. Lets it rest, unless the error says
    /// that the term is over and it is.
    async fn failed(&mut self, guard: Guard, source: TaskError) -> Result<()> {
        let (lock, token) = (guard.lock().to_string(), guard.token());
        let id = self.lock.id().to_string();
        let is_lost = Error::is_of_lost_term(&*source, &lock, token);
        let error = task_failed(&lock, source);
        let release = guard.release().await;
        // A release that is acknowledged proves that the term was not over.
        if is_lost && release != ReleaseOutcome::Released {
            say(
                || tracing::info!(lock, id, %token, %error, "the task learned that its term is over"),
            );
            return Ok(());
        }
        if self.pauses.options.ends_on_error {
            return Err(error);
        }
        let pause = self.pauses.next();
        self.lock.published().failed(Failing::Task, &error);
        say(|| {
            tracing::warn!(lock, id, %token, %error, ?pause, "the task failed; contends again later");
        });
        back_off(&self.orders, pause).await;
        Ok(())
    }
}

/// Releases the lock after the last task, and returns what that one said in time.
async fn last_words<R: TaskResult>(guard: Guard, returned: Option<R>) -> Result<Option<R::Value>> {
    let (lock, token) = (guard.lock().to_string(), guard.token());
    guard.release().await;
    match returned.map(R::into_result).transpose() {
        Err(error) if Error::is_of_lost_term(&*error, &lock, token) => Ok(None),
        value => value.map_err(|source| task_failed(&lock, source)),
    }
}

/// Logs the error of a task whose result nobody gets, unless it says what is known.
fn say_dropped<R: TaskResult>(guard: &Guard, returned: Option<R>) {
    let (lock, token) = (guard.lock(), guard.token());
    let Some(Err(error)) = returned.map(R::into_result) else { return };
    if !Error::is_of_lost_term(&*error, lock, token) {
        let id = guard.instance().id();
        say(|| tracing::warn!(lock, id, %token, %error, "a task that was told to stop failed"));
    }
}

fn task_failed(lock: &str, source: TaskError) -> Error {
    let what = format!("its task failed: {}", with_causes(&*source));
    Error::new(Kind::Task { lock: lock.to_string(), what, source: Some(source) })
}

/// The pauses after failures.
struct Pauses {
    options: LeadOptions,
    next: Duration,
}

impl Pauses {
    fn next(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.options.pause_longest);
        pause.mul_f64(1.0 - chance::random::<f64>() / 4.0)
    }

    fn task_ran(&mut self, elapsed: Duration) {
        if elapsed >= self.options.pause_longest {
            self.next = self.options.pause_first;
        }
    }
}

/// Waits, so that an instance that let go doesn't win its own lock back before anyone polls.
async fn back_off(orders: &Orders, pause: Duration) {
    tokio::select! {
        biased;
        () = orders.dropped.cancelled() => {}
        () = orders.cancel.cancelled() => {}
        () = sleep(pause) => {}
    }
}
