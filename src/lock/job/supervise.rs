//! One call: from the first look at the slot until it is recorded.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::job::{Ending, Record, Recorded, SlotState, Step};
use spindle_protocol::{Answer, Change, Succession, Writer};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::outcome::{JobOutcome, Skip};
use super::record::SlotRecord;
use super::run::JobRun;
use super::slot::time;
use crate::error::{Error, Kind, Result, TaskError, is_fenced, with_causes};
use crate::lock::guard::Guard;
use crate::lock::handle::Spindle;
use crate::lock::lead_options::TaskResult;
use crate::lock::supervisor::task_failed;
use crate::lock::work::{self, Ended, Orders, Why};
use crate::runloop::{JobRows, Released, SlotSeen, WaitMode};
use crate::settings::Settings;
use crate::store::{REQUEST_LIMIT, Table};
use crate::system::random;
use crate::term::{Term, say};

/// The choices of one call, and what ends it.
pub(super) struct Wishes {
    pub(super) at_most: Option<Duration>,
    pub(super) skips_running: bool,
    pub(super) ahead: Duration,
    /// The caller starts nothing any more.
    pub(super) until: CancellationToken,
    /// The caller's future was dropped.
    pub(super) dropped: CancellationToken,
}

/// The starts of one call, one after the other.
pub(super) struct Supervisor {
    table: Arc<Table>,
    settings: Arc<Settings>,
    rows: Arc<JobRows>,
    wishes: Wishes,
    /// The writer of the last start of this call.
    own: Option<Writer>,
}

/// The next step after a start, or after a look at the slot.
enum Next<T> {
    Ends(JobOutcome<T>),
    /// Looks again; with how the last start of this call ended, if that was not recorded yet.
    Again(Option<Result<T>>),
}

impl Supervisor {
    pub(super) fn new(
        table: Arc<Table>,
        settings: Settings,
        rows: JobRows,
        wishes: Wishes,
    ) -> Supervisor {
        let (settings, rows) = (Arc::new(settings), Arc::new(rows));
        Supervisor { table, settings, rows, wishes, own: None }
    }

    pub(super) async fn supervise<R, F, Fut>(mut self, task: F) -> Result<JobOutcome<R::Value>>
    where
        F: FnMut(JobRun) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let mut last = None;
        let task = Arc::new(Mutex::new(task));
        loop {
            if self.wishes.until.is_cancelled() {
                return self.cancelled(last).await;
            }
            // By an instance of its own each time, which knows nothing of a term that was lost.
            self.rows.anew();
            let role: Arc<JobRows> = Arc::clone(&self.rows);
            let settings = Ok((*self.settings).clone());
            let lock = Spindle::in_role(Arc::clone(&self.table), settings, Some(role));
            let decides = |seen: &SlotSeen| self.ends_the_wait(seen);
            let seen = tokio::select! {
                biased;
                () = self.wishes.dropped.cancelled() => return Err(self.abandoned()),
                () = self.wishes.until.cancelled() => {
                    lock.settles().await;
                    continue;
                }
                guard = lock.acquire_in_turn(WaitMode::Waits, None) => Err(guard?),
                seen = self.rows.decided(decides) => Ok(seen),
            };
            let next = match seen {
                Err(guard) => self.run(guard, &task).await?,
                Ok(seen) => {
                    drop(lock);
                    self.follow(seen, last.take()).await?
                }
            };
            last = match next {
                Next::Ends(outcome) => return Ok(outcome),
                Next::Again(last) => last,
            };
        }
    }

    /// Returns true for what keeps an instance from waiting for the lock.
    fn ends_the_wait(&self, seen: &SlotSeen) -> bool {
        match seen.step {
            Step::Start | Step::Ours => false,
            // A term of this call that is still owed its lease is none of another.
            Step::Runs => self.wishes.skips_running && !self.is_own(seen),
            _ => true,
        }
    }

    fn is_own(&self, seen: &SlotSeen) -> bool {
        let by = seen.record.as_ref().map(|(record, _)| &record.by);
        by.is_some() && by == self.own.as_ref()
    }

    /// Does what follows for a slot that is not to be started now.
    async fn follow<T>(&self, seen: SlotSeen, last: Option<Result<T>>) -> Result<Next<T>> {
        let name = &*self.settings.name;
        let is_running = seen.step == Step::Runs;
        let record = seen.record.as_ref().map(|(it, row)| SlotRecord::last(it, row, is_running));
        let skipped = |why, record| Ok(Next::Ends(JobOutcome::Skipped { why, record }));
        match (seen.step, record) {
            (Step::Wait(left), _) => {
                // All that wait for it wake at the same time.
                let spread = random::jittered(self.settings.timing.jitter());
                self.pause(left + spread).await;
                Ok(Next::Again(last))
            }
            (Step::Lost, _) => {
                self.give_up(seen).await;
                Ok(Next::Again(last))
            }
            (Step::Done, record) => match last.filter(|_| self.is_own(&seen)) {
                Some(Ok(returned)) => Ok(Next::Ends(JobOutcome::Ran(returned))),
                Some(Err(error)) if !leaves_it_open(&error) => Err(error),
                _ => skipped(Skip::Done, record),
            },
            (Step::Failed, Some(record)) => {
                let error = last.filter(|_| self.is_own(&seen)).and_then(Result::err);
                if let (Some(error), Some((record, _))) = (&error, &seen.record) {
                    self.say_failed(record, Some(error));
                }
                Ok(Next::Ends(JobOutcome::Failed { record, error }))
            }
            (Step::Superseded, record) => skipped(Skip::Superseded, record),
            (Step::Runs, record) => skipped(Skip::Running, record),
            (Step::Ahead(by), _) => {
                let (slot, most) = (time(seen.slot), self.wishes.ahead);
                Err(Error::config(format!(
                    "job `{name}`: slot {slot} is {by:?} ahead of Spanner's clock; at most {most:?}"
                )))
            }
            (Step::Unreadable, _) => {
                let key = self.rows.key();
                Err(Error::config(format!(
                    "job `{name}`: row `{key}` has no record that this version knows; \
                     `LockTable::remove_job` or `spindle job rm {name}` removes it"
                )))
            }
            // Nobody ends the wait for these.
            (Step::Start | Step::Ours | Step::Failed, _) => Ok(Next::Again(last)),
        }
    }

    /// Records the slot as failed. Whatever comes of it, the next look tells.
    async fn give_up(&self, SlotSeen { lock, record, .. }: SlotSeen) {
        let Some((record, seen)) = record else { return };
        let lock = (self.settings.name.to_string(), lock);
        let (key, fails) = (self.rows.key(), Change::FailSlot { seen, lock });
        let (outcome, _) = self.table.carry_out(&key, fails, REQUEST_LIMIT).await;
        match outcome.answer {
            Answer::Applied { .. } => self.say_failed(&record, None),
            _ => self.pause(random::jittered(self.settings.timing.poll_interval)).await,
        }
    }

    async fn pause(&self, pause: Duration) {
        tokio::select! {
            () = self.wishes.dropped.cancelled() => {}
            () = self.wishes.until.cancelled() => {}
            () = self.settings.clock.sleep(pause) => {}
        }
    }

    /// Runs the task once.
    async fn run<R, F, Fut>(&mut self, guard: Guard, task: &Arc<Mutex<F>>) -> Result<Next<R::Value>>
    where
        F: FnMut(JobRun) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: TaskResult,
    {
        let begun = self.rows.begun();
        let run = JobRun::new(Term::clone(&guard), begun, self.rows.key());
        self.own = Some(guard.writer().clone());
        let ended = self.run_under(&guard, task, &run).await;
        let ended = match ended {
            Ended::Returned(returned) => {
                returned.into_result().map_err(|source| task_failed(&self.settings.name, source))
            }
            Ended::Panicked(message) => {
                let lock = guard.lock().to_string();
                Err(Error::new(Kind::Panicked { lock, message }))
            }
            Ended::Stopped(Why::Cancelled, _) => {
                let limit = self.wishes.at_most.unwrap_or_default();
                Err(self.failed(format!("its task took longer than {limit:?}"), None))
            }
            Ended::Stopped(Why::Dropped, _) => {
                guard.release().await;
                return Err(self.abandoned());
            }
            Ended::Stopped(_, returned) => match returned.map(R::into_result) {
                // It may have recorded the end itself.
                Some(Ok(returned)) => Ok(returned),
                Some(Err(source)) => Err(self.failed(with_causes(&*source), Some(source))),
                None => {
                    let (lock, token) = (guard.lock().to_string(), guard.token());
                    Err(Error::new(Kind::Ended { lock, token, end: guard.ended().cloned() }))
                }
            },
            Ended::Unstoppable(..) => {
                let lock = guard.lock().to_string();
                guard.lapse().await;
                return Err(Error::new(Kind::Unstoppable { lock }));
            }
        };
        if run.lapses() {
            guard.lapse().await;
            return Ok(Next::Again(Some(ended)));
        }
        self.rows.ends(if ended.is_ok() { Ending::Done } else { Ending::Failed });
        let token = guard.token();
        let Released { outcome: release, is_acknowledged } =
            guard.released(Succession::Anyone).await;
        match ended {
            Ok(returned) if is_acknowledged => Ok(Next::Ends(JobOutcome::Ran(returned))),
            // The next look tells if it was recorded.
            ended => {
                let (job, id) = (&*self.settings.name, &*self.settings.id);
                let (slot, start) = (time(begun.0), begun.1);
                let error = ended.as_ref().err().map(ToString::to_string).unwrap_or_default();
                say(|| {
                    tracing::warn!(job, id, %slot, start, %token, ?release, error, "a run of a job is not known to be done");
                });
                Ok(Next::Again(Some(ended)))
            }
        }
    }

    async fn run_under<R, F, Fut>(
        &self,
        guard: &Guard,
        task: &Arc<Mutex<F>>,
        run: &JobRun,
    ) -> Ended<R>
    where
        F: FnMut(JobRun) -> Fut + Send + 'static,
        Fut: Future<Output = R> + Send + 'static,
        R: Send + 'static,
    {
        let (cancel, dropped) = (CancellationToken::new(), self.wishes.dropped.clone());
        let orders = Orders { cancel: cancel.clone(), dropped, ..Orders::default() };
        let over = async {
            match self.wishes.at_most {
                Some(limit) => sleep(limit).await,
                None => std::future::pending().await,
            }
            cancel.cancel();
            std::future::pending().await
        };
        let (task, run) = (Arc::clone(task), run.clone());
        let work = move |term| async move {
            let run = run.under(term);
            // A panic before there is a future is one of the task, too.
            let running = (task.lock().unwrap_or_else(PoisonError::into_inner))(run);
            running.await
        };
        let running = work::run(guard, &orders, work);
        tokio::select! {
            ended = running => ended,
            never = over => never,
        }
    }

    /// Ends a call that was told to end.
    async fn cancelled<T>(&self, last: Option<Result<T>>) -> Result<JobOutcome<T>> {
        let skipped = JobOutcome::Skipped { why: Skip::Cancelled, record: None };
        let Some(returned) = last.transpose()? else { return Ok(skipped) };
        let is_recorded = self.is_recorded().await;
        Ok(if is_recorded { JobOutcome::Ran(returned) } else { skipped })
    }

    /// Looks once whether the last start of this call is recorded as done.
    async fn is_recorded(&self) -> bool {
        let limit = self.settings.timing.release_limit.min(REQUEST_LIMIT);
        let Ok((found, _)) = self.table.read(&self.rows.key(), limit).await else { return false };
        let row = found.map(|found| found.row());
        let Recorded::Slot(record) = Recorded::by(row.as_ref()) else { return false };
        record.state == SlotState::Done && Some(&record.by) == self.own.as_ref()
    }

    fn say_failed(&self, record: &Record, error: Option<&Error>) {
        let (job, id) = (&*self.settings.name, &*self.settings.id);
        let (slot, starts) = (time(record.slot), record.starts);
        let error = error.map(ToString::to_string).unwrap_or_default();
        say(
            || tracing::error!(job, id, %slot, starts, error, "a slot of a job is recorded as failed"),
        );
    }

    fn failed(&self, what: String, source: Option<TaskError>) -> Error {
        Error::new(Kind::Task { lock: self.settings.name.to_string(), what, source })
    }

    fn abandoned(&self) -> Error {
        Error::new(Kind::Abandoned { lock: self.settings.name.to_string() })
    }
}

/// Returns true for an error that doesn't say if the task's own end was recorded.
fn leaves_it_open(error: &Error) -> bool {
    is_fenced(error) || error.cause::<Error>().is_some_and(Error::is_outcome_unknown)
}
