//! Running a task for as long as this instance leads.

use std::fmt;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::work::{self, Ended, Orders, Why, joined};
use crate::chance;
use crate::driver::Patience;
use crate::error::{Error, Kind, Result};
use crate::spindle::Spindle;
use crate::status::{Failing, Term, say};

/// After a failure of its task an instance pauses for so long at first, and at most, unless
/// [`LeadOptions::contend_again`] says otherwise.
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_LONGEST: Duration = Duration::from_secs(60);

/// Longer ones are mistakes.
const OPTION_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Choices of [`lead_with`](Spindle::lead_with) about a task that fails.
///
/// The default is as [`lead`](Spindle::lead): the first result ends it, an error too, and no watchdog.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `lead_with` is called"]
pub struct LeadOptions {
    contends_again: bool,
    pause_first: Duration,
    pause_longest: Duration,
    watchdog: Option<Duration>,
}

impl Default for LeadOptions {
    fn default() -> LeadOptions {
        LeadOptions {
            contends_again: false,
            pause_first: PAUSE_FIRST,
            pause_longest: PAUSE_LONGEST,
            watchdog: None,
        }
    }
}

impl LeadOptions {
    /// When the task returns an error, releases the lock, pauses, and contends again.
    ///
    /// The pause begins with `first` and doubles with each failure, up to `longest`, less a random
    /// part of up to a quarter. A task that has run for `longest` makes it begin anew. Meanwhile
    /// others may take the lock. From more than zero to a day; `first` no more than `longest`.
    ///
    /// A panic is a mistake in the code and not a failure that passes: it still ends everything.
    pub fn contend_again(mut self, first: Duration, longest: Duration) -> LeadOptions {
        (self.contends_again, self.pause_first, self.pause_longest) = (true, first, longest);
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
    /// Runs `work` while this instance holds the lock, again in each term, until it returns by
    /// itself or `cancel` is cancelled.
    ///
    /// Each time that the lock is won, `work` is called with the term and what it returns is run as
    /// a task of its own. One task at a time: the next term's doesn't start before the last one has
    /// ended.
    ///
    /// - **It returns by itself**: the lock is released, and its result returned.
    /// - **The term is lost**: the task's term is cancelled, which it should watch. It may go on
    ///   for three quarters of what is left of the lease, then it is aborted. Its result is
    ///   dropped, because another may lead by then, and the instance contends for the next term.
    /// - **`cancel` is cancelled**: the task's term is cancelled, and it has the
    ///   [stop limit](crate::LockBuilder::stop_limit) to end, then it is aborted. The lock is kept by
    ///   heartbeats until it has ended, then released.
    /// - **[`resign`](Spindle::resign)**: the same, and after a lease the instance contends again.
    /// - **It panics**: the lock is released, and the panic is an error.
    ///
    /// A task that blocks its thread can't be stopped: aborting works at an await. That is logged;
    /// then nothing is released, no heartbeat is sent any more, and the lease runs out. After a loss
    /// or a resignation the instance waits for such a task to end before it contends again. After
    /// `cancel` it is an error, at most two stop limits later.
    ///
    /// Returns what the last task returned: by itself, or after `cancel` and in time. Returns nothing
    /// if `cancel` came while no task ran, or if the task had to be aborted.
    ///
    /// To end with the first loss, cancel `cancel` where the task sees that its term is cancelled.
    ///
    /// ```no_run
    /// # async fn tick() {}
    /// # async fn bill(fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
    /// # async fn service(lock: spindle::Spindle) -> spindle::Result<()> {
    /// use spindle::{CancellationToken, Term};
    ///
    /// let shutdown = CancellationToken::new();
    /// let result = lock
    ///     .lead(shutdown, |term: Term| async move {
    ///         loop {
    ///             tokio::select! {
    ///                 () = term.cancelled() => return Ok(()),
    ///                 () = tick() => bill(term.fence()).await?,
    ///             }
    ///         }
    ///     })
    ///     .await?;
    /// result.unwrap_or(Ok(())) // without one, it was cancelled before a task returned
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// At once [`is_config`](Error::is_config) if the settings can't work or if
    /// [`run`](Spindle::run) was called on this instance. If the task panicked,
    /// [`is_panic`](Error::is_panic); if it could not be stopped on cancellation,
    /// [`is_unstoppable`](Error::is_unstoppable). An answer of Spanner is never an error here, not
    /// even a missing table or a refusal. The instance goes on trying, and says so in
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
    pub async fn lead<T, F, Fut>(&self, cancel: CancellationToken, work: F) -> Result<Option<T>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.lead_judged(LeadOptions::default(), cancel, work, |_| None).await
    }

    /// Leads as [`lead`](Spindle::lead) does, for a task that may fail. The `options` say what an
    /// error does, and if a task that hangs is stopped.
    ///
    /// ```no_run
    /// # async fn import(fence: spindle::Fence) -> Result<(), std::io::Error> { Ok(()) }
    /// # async fn service(lock: spindle::Spindle) -> spindle::Result<()> {
    /// use std::time::Duration;
    /// use spindle::{CancellationToken, LeadOptions, Term};
    ///
    /// let options = LeadOptions::default()
    ///     .contend_again(Duration::from_secs(1), Duration::from_secs(60))
    ///     .watchdog(Duration::from_secs(300));
    /// let shutdown = CancellationToken::new();
    /// lock.lead_with(options, shutdown, |term: Term| async move {
    ///     while !term.has_ended() {
    ///         import(term.fence()).await?;
    ///         term.progress();
    ///     }
    ///     Ok::<(), std::io::Error>(())
    /// })
    /// .await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`lead`](Spindle::lead); and [`is_config`](Error::is_config) for options that can't work.
    ///
    /// # Cancellation safety
    ///
    /// As [`lead`](Spindle::lead).
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn lead_with<T, E, F, Fut>(
        &self,
        options: LeadOptions,
        cancel: CancellationToken,
        work: F,
    ) -> Result<Option<Result<T, E>>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send + 'static,
        T: Send + 'static,
        E: fmt::Display + Send + 'static,
    {
        options.check(self.name())?;
        let contends_again = options.contends_again;
        let judge = move |returned: &Result<T, E>| {
            returned.as_ref().err().filter(|_| contends_again).map(ToString::to_string)
        };
        self.lead_judged(options, cancel, work, judge).await
    }

    /// `judge` gives the reason why the instance has to contend again after what a task returned.
    async fn lead_judged<T, F, Fut>(
        &self,
        options: LeadOptions,
        cancel: CancellationToken,
        work: F,
        judge: impl Fn(&T) -> Option<String> + Send + 'static,
    ) -> Result<Option<T>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.settings()?;
        let dropped = CancellationToken::new();
        let _drop = dropped.clone().drop_guard();
        let orders = Orders { cancel, dropped, watchdog: options.watchdog, ..Orders::default() };
        let supervisor = Supervisor {
            lock: self.clone(),
            orders,
            pauses: Pauses { next: options.pause_first, options },
        };
        joined(tokio::spawn(supervisor.supervise(work, judge)).await, self.name())
    }
}

/// Runs one task after the other.
struct Supervisor {
    lock: Spindle,
    orders: Orders,
    pauses: Pauses,
}

impl Supervisor {
    async fn supervise<T, F, Fut>(
        mut self,
        mut work: F,
        judge: impl Fn(&T) -> Option<String> + Send + 'static,
    ) -> Result<Option<T>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let settings = self.lock.settings()?.clone();
        let name = self.lock.name().to_string();
        let _wish = self.lock.wish();
        loop {
            self.orders.resign = CancellationToken::new();
            let Some(guard) = self.acquire().await? else { return Ok(None) };
            let began = Instant::now();
            self.lock.published().task_runs(self.pauses.options.pause_longest);
            let ended = work::run(&guard, &self.orders, settings.stop_limit, &mut work).await;
            self.pauses.task_ran(began.elapsed());
            match ended {
                Ended::Returned(returned) => {
                    let Some(error) = judge(&returned) else {
                        guard.release().await;
                        return Ok(Some(returned));
                    };
                    self.failed(guard, error).await;
                }
                Ended::Panicked(message) => {
                    guard.release().await;
                    return Err(Error::new(Kind::Panicked { lock: name, message }));
                }
                Ended::Stopped(Why::Cancelled | Why::Dropped, returned) => {
                    guard.release().await;
                    return Ok(returned);
                }
                // Nothing is held now; dropping the guard only says so.
                Ended::Stopped(Why::Lost, _) => {}
                Ended::Stopped(Why::Resigned, _) => {
                    guard.release().await;
                    back_off(&self.orders, settings.timing.lease).await;
                }
                Ended::Stopped(Why::Stuck, _) => {
                    guard.release().await;
                    back_off(&self.orders, self.pauses.next()).await;
                }
                Ended::Unstoppable(Why::Cancelled | Why::Dropped, _) => {
                    guard.lapse().await;
                    return Err(Error::new(Kind::Unstoppable { lock: name }));
                }
                Ended::Unstoppable(Why::Lost | Why::Resigned | Why::Stuck, task) => {
                    guard.lapse().await;
                    if !has_ended(task, &self.orders).await {
                        return Err(Error::new(Kind::Unstoppable { lock: name }));
                    }
                }
            }
        }
    }

    /// Waits for the lock; nothing if that is not wanted any more.
    async fn acquire(&self) -> Result<Option<Guard>> {
        let Orders { cancel, dropped, resign, .. } = &self.orders;
        tokio::select! {
            biased;
            () = dropped.cancelled() => Ok(None),
            () = cancel.cancelled() => Ok(None),
            guard = self.lock.acquire_in_turn(Patience::Endures, Some(resign.clone())) => {
                guard.map(Some)
            }
        }
    }

    /// Gives the lock to others after an error of the task, and lets it rest.
    async fn failed(&mut self, guard: Guard, error: String) {
        let (lock, token) = (guard.lock().to_string(), guard.token());
        let pause = self.pauses.next();
        let what = format!("its task failed: {error}");
        self.lock
            .published()
            .failed(Failing::Task, &Error::new(Kind::Task { lock: lock.clone(), what }));
        let id = self.lock.id();
        say(|| {
            tracing::warn!(lock, id, %token, error, ?pause, "the task failed; contends again later");
        });
        guard.release().await;
        back_off(&self.orders, pause).await;
    }
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

/// Waits for a task that could not be stopped; false if that is not wanted any more.
async fn has_ended<T>(task: JoinHandle<T>, orders: &Orders) -> bool {
    tokio::select! {
        biased;
        // How it ended is of no use to anybody.
        _ = task => true,
        () = orders.dropped.cancelled() => false,
        () = orders.cancel.cancelled() => false,
    }
}
