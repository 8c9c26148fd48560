//! One task under one term: started, watched, told to stop, aborted; never left behind unsaid.

use std::pin::pin;
use std::time::Duration;

use tokio::task::{JoinError, JoinHandle};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;

use super::guard::Guard;
use super::nesting;
use crate::error::{self, Error, Kind, panic_message};
use crate::term::{Failing, Progress, Term, say};

/// A task that was aborted once its lease was over has so long to come to its next await.
const ABORT_MIN: Duration = Duration::from_secs(1);

/// The orders that may stop a task, besides the loss of its term.
#[derive(Clone, Debug, Default)]
pub struct Orders {
    /// The caller's own cancellation.
    pub cancel: CancellationToken,
    /// The instance was told to resign.
    pub resign: CancellationToken,
    /// The caller's future was dropped: the task gets no time to stop.
    pub dropped: CancellationToken,
    /// How long the task may go on without a report of its [progress](Term::progress).
    pub watchdog: Option<Duration>,
}

/// Why a task was told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its term was lost.
    Lost,
    /// By its caller.
    Cancelled,
    /// The lock is to go to another one.
    Resigned,
    /// Its caller's future was dropped, or its runtime shuts down.
    Dropped,
    /// It reported no progress.
    Stuck,
}

/// How a task ended.
pub enum Ended<T> {
    /// By itself, under a valid term.
    Returned(T),
    /// After it had been told to; with what it returned, unless it was aborted.
    Stopped(Why, Option<T>),
    /// With this message.
    Panicked(String),
    /// It was told to and aborted, and still runs.
    Unstoppable(Why, JoinHandle<T>),
}

/// Runs a task under the term of `guard` and waits for its end.
///
/// A task that is told to stop finds its term cancelled. It has the
/// [stop limit](crate::LockBuilder::stop_limit) of the lock to end, and is aborted then. Heartbeats go on
/// all the while; what becomes of the lock afterwards is the caller's to say.
///
/// # Panics
///
/// Outside of a tokio runtime.
///
/// # Cancellation safety
///
/// Dropping the future leaves the task running: fire [`Orders::dropped`] instead, and wait.
pub async fn run<T, Fut>(guard: &Guard, orders: &Orders, work: impl FnOnce(Term) -> Fut) -> Ended<T>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let stop_limit = guard.instance().settings().map(|it| it.stop_limit).unwrap_or_default();
    let stop = guard.cancellation();
    let term = guard.with_cancellation(stop.clone());
    let progress = term.reported().clone();
    let (lock, id, token) = (guard.lock(), guard.instance().id(), guard.token());
    // Whatever level of ours a subscriber shows, the lines of the task have these fields.
    let span = tracing::error_span!("term", lock, id, %token);
    let work = span.in_scope(|| work(term));
    let mut task =
        tokio::spawn(nesting::under(&guard.instance().shared().taken, work).instrument(span));
    let why = tokio::select! {
        biased;
        ended = &mut task => return by_itself(ended, guard, orders),
        () = orders.dropped.cancelled() => Why::Dropped,
        () = guard.cancelled() => Why::Lost,
        () = orders.cancel.cancelled() => Why::Cancelled,
        () = orders.resign.cancelled() => Why::Resigned,
        () = stuck(&progress, orders.watchdog) => Why::Stuck,
    };
    if why == Why::Stuck {
        say_stuck(guard, progress.silent_for());
    }
    stop.cancel();
    match wait(&mut task, guard, orders, stop_limit, why).await {
        Some(ended) => match result(ended) {
            Ok(returned) => Ended::Stopped(why, returned),
            Err(message) => Ended::Panicked(message),
        },
        None => {
            let lock = guard.lock();
            let (id, token) = (guard.instance().id(), guard.token());
            say(|| {
                tracing::error!(
                    lock,
                    id,
                    %token,
                    ?why,
                    "a task was told to stop and aborted, and still runs: it blocks its thread"
                );
            });
            Ended::Unstoppable(why, task)
        }
    }
}

/// Waits until the task has reported no progress for as long as it may.
async fn stuck(progress: &Progress, watchdog: Option<Duration>) {
    let Some(limit) = watchdog else { return std::future::pending().await };
    loop {
        let left = limit.saturating_sub(progress.silent_for());
        if left.is_zero() {
            return;
        }
        sleep(left).await;
    }
}

fn say_stuck(guard: &Guard, silent_for: Duration) {
    let lock = guard.lock();
    let what = format!("its task has reported no progress for {silent_for:?}, and is told to stop");
    let error = Error::new(Kind::Task { lock: lock.to_string(), what, source: None });
    let (id, token) = (guard.instance().id(), guard.token());
    guard.instance().published().health_record().failed(Failing::Task, &error);
    say(|| tracing::error!(lock, id, %token, ?silent_for, %error, "a task is stuck"));
}

fn by_itself<T>(ended: Result<T, JoinError>, guard: &Guard, orders: &Orders) -> Ended<T> {
    match result(ended) {
        Err(message) => Ended::Panicked(message),
        // Its token said so at the same time: it ended because of that.
        Ok(returned) if guard.is_over() => Ended::Stopped(Why::Lost, returned),
        Ok(returned) if orders.cancel.is_cancelled() => Ended::Stopped(Why::Cancelled, returned),
        Ok(Some(returned)) => Ended::Returned(returned),
        // Nobody here has aborted it: its runtime shuts down.
        Ok(None) => Ended::Stopped(Why::Dropped, None),
    }
}

/// Waits for the end of a task that was told to stop; aborts it when its time is over.
async fn wait<T>(
    task: &mut JoinHandle<T>,
    guard: &Guard,
    orders: &Orders,
    stop_limit: Duration,
    why: Why,
) -> Option<Result<T, JoinError>> {
    {
        let mut too_late = pin!(sleep(stop_limit));
        let lost = async {
            guard.cancelled().await;
            // The rest of the lease is for what the abort itself takes.
            sleep(guard.remaining() / 4 * 3).await;
        };
        tokio::select! {
            biased;
            ended = &mut *task => return Some(ended),
            () = orders.dropped.cancelled() => {}
            () = &mut too_late, if !guard.is_over() => {}
            () = lost => {}
        }
    }
    // A caller that drops the future gives the task no time to stop.
    if !orders.dropped.is_cancelled() {
        let (lock, id, token) = (guard.lock(), guard.instance().id(), guard.token());
        say(
            || tracing::warn!(lock, id, %token, ?why, "a task was told to stop, did not, and is aborted"),
        );
    }
    task.abort();
    let abort_limit = match guard.ended() {
        Some(_) => guard.remaining().max(ABORT_MIN),
        None => stop_limit,
    };
    // An aborted task ends at its next await; one that blocks its thread has none.
    timeout(abort_limit, task).await.ok()
}

/// Returns the result of a task; nothing if it was aborted; the message if it panicked.
fn result<T>(ended: Result<T, JoinError>) -> Result<Option<T>, String> {
    match ended {
        Ok(returned) => Ok(Some(returned)),
        Err(error) => match error.try_into_panic() {
            Ok(panic) => Err(panic_message(&*panic)),
            Err(_aborted) => Ok(None),
        },
    }
}

/// Returns the result of a task that watches over others, for the lock of this name. If it panicked, that is
/// an error that [`is_panic`](Error::is_panic).
pub fn joined<T>(joined: Result<error::Result<T>, JoinError>, lock: &str) -> error::Result<T> {
    let lock = lock.to_string();
    joined.unwrap_or_else(|error| {
        Err(Error::new(match error.try_into_panic() {
            Ok(panic) => Kind::Panicked { lock, message: panic_message(&*panic) },
            Err(_) => Kind::Abandoned { lock },
        }))
    })
}
