//! The tasks of `lead`, one after the other.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::Succession;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::handle::Spindle;
use super::lead_options::{LeadOptions, TaskResult};
use super::work::{self, Ended, Orders, Why};
use crate::error::{Error, Kind, Result, TaskError, with_causes};
use crate::runloop::WaitMode;
use crate::system::random;
use crate::term::{Failing, Term, say};

/// Runs one task after the other.
pub(super) struct Supervisor {
    lock: Spindle,
    orders: Orders,
    pauses: Pauses,
    /// True while a task that could not be stopped may still run.
    is_blocked: bool,
}

impl Supervisor {
    pub(super) fn new(lock: Spindle, orders: Orders, options: LeadOptions) -> Supervisor {
        let pauses = Pauses { next: options.pause_first, options };
        Supervisor { lock, orders, pauses, is_blocked: false }
    }

    pub(super) async fn supervise<R, F, Fut>(mut self, mut work: F) -> Result<Option<R::Value>>
    where
        F: FnMut(Term) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        self.lock.settings()?;
        loop {
            self.orders.resign = CancellationToken::new();
            let Some(only_task) = self.last_task_ends().await? else { return Ok(None) };
            let Some(guard) = self.acquire().await? else { return Ok(None) };
            let began = Instant::now();
            self.lock.published().health_record().task_runs(self.pauses.options.pause_longest);
            let work = |term| {
                let task = work(term);
                async move {
                    // Given back when the task has really ended, whoever waits for that.
                    let _only_task = only_task;
                    task.await
                }
            };
            let ended = work::run(&guard, &self.orders, work).await;
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
                    if let Why::Stuck = why {
                        back_off(&self.orders, self.pauses.next()).await;
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
        let only_task = &self.lock.shared().only_task;
        if let Ok(permit) = Arc::clone(only_task).try_acquire_owned() {
            self.is_blocked = false;
            return Ok(Some(permit));
        }
        let lock = self.lock.name().to_string();
        // Another `lead` of this instance that goes well is nothing to complain of.
        if self.is_blocked || !self.lock.published().health_record().leads_twice() {
            let what = "a task that ran under it still runs, so no other one is started";
            let (lock, what) = (lock.clone(), what.to_string());
            self.say_waits(&Error::new(Kind::Task { lock, what, source: None }));
        }
        let permit = tokio::select! {
            biased;
            permit = Arc::clone(only_task).acquire_owned() => permit.ok(),
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
        self.lock.published().health_record().failed(Failing::Task, error);
        say(|| tracing::warn!(lock, id, %error, "waits for a task that still runs"));
    }

    /// Waits for the lock; nothing if that is not wanted any more.
    async fn acquire(&self) -> Result<Option<Guard>> {
        let Orders { cancel, dropped, resign, .. } = &self.orders;
        tokio::select! {
            biased;
            () = dropped.cancelled() => return Ok(None),
            () = cancel.cancelled() => {}
            guard = self.lock.acquire_in_turn(WaitMode::Endures, Some(resign.clone())) => {
                return guard.map(Some);
            }
        }
        // The process may end next.
        self.lock.settles().await;
        Ok(None)
    }

    /// Gives the lock to others after an error of the task. Lets it rest, unless the error says
    /// that the term is over and it is.
    async fn failed(&mut self, guard: Guard, source: TaskError) -> Result<()> {
        let (lock, token) = (guard.lock().to_string(), guard.token());
        let Some(error) = released_after_error(guard, source).await else { return Ok(()) };
        let id = self.lock.id();
        if self.pauses.options.ends_on_error {
            return Err(error);
        }
        let pause = self.pauses.next();
        self.lock.published().health_record().failed(Failing::Task, &error);
        say(|| {
            tracing::warn!(lock, id, %token, %error, ?pause, "the task failed; contends again later");
        });
        back_off(&self.orders, pause).await;
        Ok(())
    }
}

/// Releases the lock after an error of its task. Returns the failure; none if the error says that the
/// term is over, and it is.
pub async fn released_after_error(guard: Guard, source: TaskError) -> Option<Error> {
    let (lock, token) = (guard.lock().to_string(), guard.token());
    let id = guard.instance().id().to_string();
    let is_lost = Error::is_of_lost_term(&*source, &lock, token);
    let error = task_failed(&lock, source);
    let release = guard.released(Succession::Anyone).await;
    // A release that is acknowledged proves that the term was not over.
    if is_lost && !release.is_acknowledged {
        say(|| tracing::info!(lock, id, %token, %error, "the task learned that its term is over"));
        return None;
    }
    Some(error)
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
pub fn say_dropped<R: TaskResult>(guard: &Guard, returned: Option<R>) {
    let (lock, token) = (guard.lock(), guard.token());
    let Some(Err(error)) = returned.map(R::into_result) else { return };
    if !Error::is_of_lost_term(&*error, lock, token) {
        let id = guard.instance().id();
        say(|| tracing::warn!(lock, id, %token, %error, "a task that was told to stop failed"));
    }
}

pub(super) fn task_failed(lock: &str, source: TaskError) -> Error {
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
        random::jittered(pause)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pauses_grow_until_a_task_has_run_for_the_longest() {
        let (first, longest) = (Duration::from_secs(1), Duration::from_secs(8));
        let options =
            LeadOptions { pause_first: first, pause_longest: longest, ..LeadOptions::default() };
        let mut pauses = Pauses { next: first, options };
        let grown: Vec<Duration> = (0..6).map(|_| pauses.next()).collect();
        assert!(grown[0] <= first && grown[5] > longest / 2, "{grown:?}");
        pauses.task_ran(longest - Duration::from_millis(1));
        assert!(pauses.next() > longest / 2, "a short run is no success");
        pauses.task_ran(longest);
        assert!(pauses.next() <= first);
    }
}
