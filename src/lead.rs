//! Running a task for as long as this instance leads.

use tokio::task::{JoinError, JoinHandle};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Kind, Result};
use crate::spindle::Spindle;
use crate::status::Term;
use crate::work::{self, Ended, Orders, Why};

/// How [`lead`](Spindle::lead) ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Led<T> {
    /// The task returned by itself, under a valid term.
    Returned(T),
    /// It was cancelled: with what the task returned then, if there was one and it ended in time.
    Cancelled(Option<T>),
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
    /// - **The term is lost**: the task's term is cancelled, which it should watch; it may go on for
    ///   three quarters of what is left of the lease, then it is aborted. What it returns is dropped,
    ///   because another may lead by then, and the instance contends for the next term.
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
    /// To end with the first loss, cancel `cancel` where the task sees that its term is cancelled.
    ///
    /// ```no_run
    /// # async fn tick() {}
    /// # async fn bill(fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
    /// # async fn service(lock: spindle::Spindle) -> spindle::Result<()> {
    /// use spindle::{CancellationToken, Led, Term};
    ///
    /// let shutdown = CancellationToken::new();
    /// let led = lock
    ///     .lead(shutdown, |term: Term| async move {
    ///         loop {
    ///             tokio::select! {
    ///                 () = term.cancelled() => return Ok(()),
    ///                 () = tick() => bill(term.fence()).await?,
    ///             }
    ///         }
    ///     })
    ///     .await?;
    /// match led {
    ///     Led::Returned(result) | Led::Cancelled(Some(result)) => result,
    ///     _ => Ok(()),
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`acquire`](Spindle::acquire). [`is_panic`](Error::is_panic) if the task panicked,
    /// [`is_unstoppable`](Error::is_unstoppable) if it could not be stopped on cancellation.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the task, without the time to stop that `cancel` gives; the lock
    /// is released once the task has ended.
    ///
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub async fn lead<T, F, Fut>(&self, cancel: CancellationToken, work: F) -> Result<Led<T>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.settings()?;
        let dropped = CancellationToken::new();
        let _drop = dropped.clone().drop_guard();
        let supervisor = tokio::spawn(supervise(self.clone(), cancel, dropped, work));
        joined(supervisor.await, self.name())
    }
}

/// What a task that watches over another one came to.
pub(crate) fn joined<T>(joined: Result<Result<T>, JoinError>, lock: &str) -> Result<T> {
    let lock = lock.to_string();
    joined.unwrap_or_else(|error| {
        Err(Error::new(match error.try_into_panic() {
            Ok(panic) => Kind::Panicked { lock, message: work::message(&*panic) },
            Err(_) => Kind::Abandoned { lock },
        }))
    })
}

async fn supervise<T, F, Fut>(
    lock: Spindle,
    cancel: CancellationToken,
    dropped: CancellationToken,
    mut work: F,
) -> Result<Led<T>>
where
    F: FnMut(Term) -> Fut + Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    let settings = lock.settings()?.clone();
    loop {
        let resign = CancellationToken::new();
        let guard = tokio::select! {
            biased;
            () = dropped.cancelled() => return Ok(Led::Cancelled(None)),
            () = cancel.cancelled() => return Ok(Led::Cancelled(None)),
            guard = lock.acquire_in_turn(Some(resign.clone())) => guard?,
        };
        let orders = Orders { cancel: cancel.clone(), resign, dropped: dropped.clone() };
        let name = || lock.name().to_string();
        match work::run(&guard, &orders, settings.stop_limit, &mut work).await {
            Ended::Returned(returned) => {
                guard.release().await;
                return Ok(Led::Returned(returned));
            }
            Ended::Panicked(message) => {
                guard.release().await;
                return Err(Error::new(Kind::Panicked { lock: name(), message }));
            }
            Ended::Stopped(Why::Cancelled | Why::Dropped, returned) => {
                guard.release().await;
                return Ok(Led::Cancelled(returned));
            }
            // Nothing is held any more; dropping the guard says no more than that.
            Ended::Stopped(Why::Lost, _) => {}
            Ended::Stopped(Why::Resigned, _) => {
                guard.release().await;
                stand_aside(&orders, settings.timing.lease).await;
            }
            Ended::Unstoppable(Why::Cancelled | Why::Dropped, _) => {
                guard.lapse().await;
                return Err(Error::new(Kind::Unstoppable { lock: name() }));
            }
            Ended::Unstoppable(Why::Lost | Why::Resigned, task) => {
                guard.lapse().await;
                if !has_ended(task, &orders).await {
                    return Err(Error::new(Kind::Unstoppable { lock: name() }));
                }
            }
        }
    }
}

/// Who resigned doesn't win its own lock back before anyone looks.
async fn stand_aside(orders: &Orders, lease: std::time::Duration) {
    tokio::select! {
        () = orders.dropped.cancelled() => {}
        () = orders.cancel.cancelled() => {}
        () = sleep(lease) => {}
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
