//! A scheduled job that one node of a fleet runs, and the others skip.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Moment, StoredRow, Succession, Timestamp};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::guard::Guard;
use super::handle::Spindle;
use super::work::{self, Ended, Orders, joined};
use crate::error::{Error, Kind, ReleaseOutcome, Result};
use crate::runloop::{NotGranted, ReleaseNote};
use crate::settings::{LockBuilder, Settings};
use crate::store::{REQUEST_LIMIT, Table, despite_others};
use crate::term::{Term, say};
use crate::token::FencingToken;

/// The outcome of [`run_once`](LockBuilder::run_once).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum JobOutcome<T> {
    /// The job ran here, and returned this.
    Ran(T),
    /// The job ran here, but its release was not acknowledged within the [release
    /// limit](LockBuilder::release_limit). Others may see it as running until its time is over.
    #[non_exhaustive]
    Unreleased {
        /// What the job returned.
        returned: T,
        /// About how long others may see it as running yet.
        held_for: Duration,
    },
    /// It was not started: it runs elsewhere, or ran recently, or its last run was interrupted and
    /// its time is not over. This is that run, where the row tells.
    Skipped(Option<LastRun>),
    /// The job was not started here. The lock was won only after the start limit, and released at
    /// once, or others got in the way until then. Another node within its own limit may start it;
    /// possibly none does.
    #[non_exhaustive]
    TooLate {
        /// The time from the call.
        after: Duration,
    },
    /// It was started here and told to stop, because its time was over; with what it returned then,
    /// unless it was aborted. Another node may run it by now.
    Overran(Option<T>),
}

/// The last run of a job, as the lock's row tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LastRun {
    /// The id of the instance that ran it.
    pub by: String,
    /// Its fencing token, which is the time of its start by Spanner's clock.
    pub token: FencingToken,
    /// How it went.
    pub state: RunState,
}

/// How a run went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunState {
    /// It was started, and its time is not over: it runs, or its node has died.
    Running,
    /// The job returned.
    #[non_exhaustive]
    Finished {
        /// How long it took, in whole milliseconds.
        took: Duration,
    },
    /// The job panicked.
    Panicked,
    /// The job was aborted in the middle: the future that ran it was dropped.
    Aborted,
    /// Its time ran out before anybody said how it ended: its node died, or it overran.
    Interrupted,
}

/// Returns the last run of a job.
pub(crate) async fn last_run(table: &Table, name: &str) -> Result<Option<LastRun>> {
    table.check_lock(name)?;
    let (found, read_at) = table.read(name, REQUEST_LIMIT).await?;
    Ok(found.and_then(|full| LastRun::of(&full, read_at)))
}

impl LockBuilder {
    /// Runs `job` if no other node of the fleet does or lately did: for what a schedule starts on
    /// each of them.
    ///
    /// It polls once. If the lock is vacant, it is taken and the job run under it; otherwise
    /// nothing is done. From the start of a run the lock is kept
    ///
    /// - until the job has ended, and **at least** `at_least`, also after this process has exited.
    ///   So a node whose schedule or clock is late doesn't run it again. Make it shorter than the
    ///   period of the schedule by more than the clocks may differ, or the next run is skipped.
    /// - **at most** `at_most`: then it is free for others, also if the node has died. A job that
    ///   goes on for so long is told to stop before, by its term, and then aborted.
    ///
    /// # Promises
    ///
    /// At most one run is *started* in any `at_least`, whatever dies, if clock rates are within one
    /// per cent of each other. None is started if the node dies before; then the job is not made up
    /// for until a schedule asks again. A run whose node died in the middle is not repeated by
    /// itself either: it holds the lock until `at_most`. The next caller after that runs the job.
    /// Before it starts, it can see from [`last_run`](crate::LockTable::last_run) that the last one
    /// was interrupted.
    ///
    /// # On time, or not at all
    ///
    /// A run begins within the *start limit* after the call, by the process's own clock. The limit
    /// is a tenth of `at_least`, but from 5 s to 10 s, and at most `at_most`, unless
    /// [`start_limit`](LockBuilder::start_limit) says otherwise. Set it below an `at_least` that is
    /// shorter: a call that is answered later than `at_least` may otherwise run the job again. A
    /// lock that is won later, because Spanner's answer was lost or late, is released at once for
    /// others, and the call ends with [`TooLate`](JobOutcome::TooLate). If that happens to each
    /// node that wins, **nobody runs the job** until a schedule asks again.
    ///
    /// The call itself can take longer. It waits until it knows whether it won the lock, to release
    /// it then, but no longer than `at_most`. After the job has ended, it waits until the release is
    /// acknowledged: for as long as the row protects the run, or the [release
    /// limit](LockBuilder::release_limit) that was set.
    ///
    /// # How it is kept
    ///
    /// There are no heartbeats. From the start the row says until when it protects the run, so a
    /// failure of the connection in between is no loss. It also means that a job doesn't hear when
    /// somebody evicts it; what must not happen late has to carry its
    /// [`fence`](crate::Term::fence).
    ///
    /// The job is a task of its own, started on the runtime that this is called on. The lease, the
    /// heartbeats and the renew deadline of the settings don't count: they follow from `at_most`.
    ///
    /// ```no_run
    /// # async fn report(term: spindle::Term) -> usize { 0 }
    /// # async fn nightly(table: spindle::LockTable) -> spindle::Result<()> {
    /// use std::time::Duration;
    /// use spindle::job::JobOutcome;
    ///
    /// let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    /// let job = table.lock("nightly-report");
    /// match job.run_once(minutes(30), minutes(120), report).await? {
    ///     JobOutcome::Ran(pages) => println!("{pages} pages"),
    ///     JobOutcome::Skipped(Some(run)) => println!("skipped: {run}"),
    ///     other => println!("{other:?}"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for durations that can't work: zero, `at_least` above
    /// `at_most`, `at_most` below 100 ms or above a day, a start limit above `at_most`. The same
    /// for other settings that can't work. [`is_schema`](Error::is_schema) for a table that is missing
    /// or lacks a column. If the job panicked, [`is_panic`](Error::is_panic); if it blocks its thread
    /// past `at_most`, [`is_unstoppable`](Error::is_unstoppable). Otherwise why Spanner could not be asked; then
    /// the job was not started.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future aborts the job. A run that was started stays one: the lock is kept until
    /// `at_least` after its start.
    pub async fn run_once<T, Fut>(
        self,
        at_least: Duration,
        at_most: Duration,
        job: impl FnOnce(Term) -> Fut + Send + 'static,
    ) -> Result<JobOutcome<T>>
    where
        T: Send + 'static,
        Fut: Future<Output = T> + Send + 'static,
    {
        let (table, settings, start_limit) = self.for_one_run(at_least, at_most)?;
        let start = Start { called: settings.clock.now(), limit: start_limit };
        let (found, read_at) = read(&table, &settings.name).await?;
        let last = found.as_ref().and_then(|full| LastRun::of(full, read_at));
        if let Some(full) = &found
            && full.row().vacant_from(&settings.id, at_most) > read_at
        {
            return Ok(JobOutcome::Skipped(last));
        }
        if let Some(after) = start.is_missed(&settings) {
            return Ok(JobOutcome::TooLate { after });
        }
        if let Some(last) = last.filter(|last| last.state == RunState::Interrupted) {
            let (lock, id) = (&*settings.name, &*settings.id);
            say(|| tracing::warn!(lock, id, %last, "the last run was interrupted; runs it anew"));
        }
        // The row tells of the last run again if this one doesn't start.
        let left = found.and_then(|full| full.info).filter(|info| LastRun::parse(info).is_some());
        let name = Arc::clone(&settings.name);
        let dropped = CancellationToken::new();
        let _drop = dropped.clone().drop_guard();
        let lock = Spindle::from_settings(table, Ok(settings));
        let supervisor = tokio::spawn(supervise(lock, at_least, start, left, dropped, job));
        joined(supervisor.await, &name)
    }
}

/// Says why a run that others got in the way of was not started.
async fn not_started<T>(table: &Table, settings: &Settings, start: Start) -> Result<JobOutcome<T>> {
    let (found, read_at) = read(table, &settings.name).await?;
    Ok(match found {
        Some(full) if full.row().vacant_from(&settings.id, settings.timing.lease) > read_at => {
            JobOutcome::Skipped(LastRun::of(&full, read_at))
        }
        _ => JobOutcome::TooLate { after: settings.clock.now().since(start.called) },
    })
}

async fn read(table: &Table, lock: &str) -> Result<(Option<StoredRow>, Timestamp)> {
    despite_others(|| table.read(lock, REQUEST_LIMIT)).await
}

/// When a run was asked for, and how much later it may begin.
#[derive(Clone, Copy)]
struct Start {
    called: Moment,
    limit: Duration,
}

impl Start {
    /// Returns how long ago it was asked for, if that is too long.
    fn is_missed(self, settings: &Settings) -> Option<Duration> {
        let after = settings.clock.now().since(self.called);
        (after > self.limit).then_some(after)
    }
}

async fn supervise<T, Fut>(
    lock: Spindle,
    at_least: Duration,
    start: Start,
    left: Option<String>,
    dropped: CancellationToken,
    job: impl FnOnce(Term) -> Fut + Send + 'static,
) -> Result<JobOutcome<T>>
where
    T: Send + 'static,
    Fut: Future<Output = T> + Send + 'static,
{
    let settings = lock.settings()?.clone();
    let tried = tokio::select! {
        biased;
        () = dropped.cancelled() => return Ok(JobOutcome::Skipped(None)),
        tried = lock.try_until(start.called + start.limit) => tried,
        // By then nothing of it protects anybody any more.
        () = sleep(settings.timing.lease) => {
            return Ok(JobOutcome::TooLate { after: settings.clock.now().since(start.called) });
        }
    };
    let guard = match tried {
        Ok(guard) => guard,
        // Others got in the way for as long as it could be started; the row may tell who won.
        Err(NotGranted::Failed(error)) if error.may_be_anothers() => {
            return not_started(lock.table(), &settings, start).await;
        }
        Err(NotGranted::Failed(error)) => return Err(error),
        Err(NotGranted::Occupied(by)) => {
            let run = |id| LastRun { by: id, token: by.token, state: RunState::Running };
            return Ok(JobOutcome::Skipped(by.holder.map(run)));
        }
    };
    if let Some(after) = start.is_missed(&settings) {
        give_back(guard, &settings, left, after).await;
        return Ok(JobOutcome::TooLate { after });
    }
    let run = Run { began: settings.clock.now(), at_least, settings };
    let orders = Orders { dropped, ..Orders::default() };
    // A panic before there is a task must leave its word in the row, too.
    let job = move |term| async move { job(term).await };
    match work::run(&guard, &orders, run.settings.stop_limit, job).await {
        Ended::Returned(returned) => Ok(match run.end(guard, "finished").await {
            ReleaseOutcome::Unacknowledged { held_for } => {
                JobOutcome::Unreleased { returned, held_for }
            }
            _ => JobOutcome::Ran(returned),
        }),
        Ended::Panicked(message) => {
            let lock = guard.lock().to_string();
            run.end(guard, "panicked").await;
            Err(Error::new(Kind::Panicked { lock, message }))
        }
        Ended::Stopped(_, returned) => {
            // If its time was over, there is nothing left to release.
            run.end(guard, "aborted").await;
            Ok(JobOutcome::Overran(returned))
        }
        Ended::Unstoppable(..) => {
            let lock = guard.lock().to_string();
            guard.lapse().await;
            Err(Error::new(Kind::Unstoppable { lock }))
        }
    }
}

/// Releases a lock that was won too late, as free as it was before.
async fn give_back(guard: Guard, settings: &Settings, left: Option<String>, after: Duration) {
    let (lock, id, token) = (&*settings.name, &*settings.id, guard.token());
    say(|| tracing::warn!(lock, id, %token, ?after, "a run comes too late, and is not started"));
    let release = guard.release_with(ReleaseNote { next: Succession::Anyone, info: left }).await;
    say_unless_released(settings, token, &release);
}

fn say_unless_released(settings: &Settings, token: FencingToken, release: &ReleaseOutcome) {
    let (lock, id) = (&*settings.name, &*settings.id);
    if *release != ReleaseOutcome::Released {
        say(|| tracing::warn!(lock, id, %token, ?release, "a run was not released"));
    }
}

/// A run that was started.
struct Run {
    began: Moment,
    at_least: Duration,
    settings: Settings,
}

impl Run {
    /// Releases the lock, reserved for no one until `at_least` after the start of the run.
    async fn end(&self, guard: Guard, how: &str) -> ReleaseOutcome {
        let took = self.settings.clock.now().since(self.began);
        let token = guard.token();
        let id = &*self.settings.id;
        let next = left_after(self.at_least, took);
        let info = format!("run {token} {how} {}ms {id}", took.as_millis());
        let note = ReleaseNote { next, info: Some(info) };
        let release = guard.release_with(note).await;
        say_unless_released(&self.settings, token, &release);
        release
    }
}

impl LastRun {
    fn of(full: &StoredRow, read_at: Timestamp) -> Option<LastRun> {
        let row = &full.row();
        if row.is_released() {
            return full.info.as_deref().and_then(LastRun::parse);
        }
        // A run sends no heartbeats: whoever has sent one holds the lock otherwise.
        let lease = row.lease.filter(|_| row.heartbeat == row.token)?;
        let state = if read_at.since(row.heartbeat) < lease {
            RunState::Running
        } else {
            RunState::Interrupted
        };
        let by = row.writer.id()?.to_string();
        Some(LastRun { by, token: FencingToken::from_timestamp(row.token), state })
    }

    /// Reads what the end of a run left in the row.
    pub(crate) fn parse(info: &str) -> Option<LastRun> {
        let mut words = info.strip_prefix("run ")?.splitn(4, ' ');
        let token = words.next()?.parse().ok()?;
        let how = words.next()?;
        let took = words.next()?.strip_suffix("ms")?.parse().ok()?;
        let by = words.next()?.to_string();
        let state = match how {
            "finished" => RunState::Finished { took: Duration::from_millis(took) },
            "panicked" => RunState::Panicked,
            "aborted" => RunState::Aborted,
            _ => return None,
        };
        Some(LastRun { by, token, state })
    }
}

impl fmt::Display for LastRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let LastRun { by, token, state } = self;
        match state {
            RunState::Running => write!(f, "runs on `{by}` under token {token}"),
            RunState::Finished { took } => {
                write!(f, "finished on `{by}` under token {token} after {took:?}")
            }
            RunState::Panicked => write!(f, "panicked on `{by}` under token {token}"),
            RunState::Aborted => write!(f, "was aborted on `{by}` under token {token}"),
            RunState::Interrupted => write!(f, "was interrupted on `{by}` under token {token}"),
        }
    }
}

/// Returns for whom the lock is left after a run that took so long.
fn left_after(at_least: Duration, took: Duration) -> Succession {
    // The start was committed before the run began, and the grace counts from the commit of the
    // release. So it comes out long enough if the clock here runs no more than 1 % fast.
    match at_least.saturating_sub(took) {
        Duration::ZERO => Succession::Anyone,
        rest => Succession::Cooldown { rest: rest + took / 100 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_leaves_the_lock_alone_long_enough_though_its_clock_was_one_percent_fast() {
        let at_least = Duration::from_secs(3_600);
        for minutes in [1, 10, 59] {
            let took = Duration::from_secs(minutes * 60);
            // A clock that is 1 % fast has counted more than Spanner's.
            let really_took = took.mul_f64(1.0 / 1.01);
            let Succession::Cooldown { rest } = left_after(at_least, took) else {
                panic!("nobody may take it yet");
            };
            assert!(really_took + rest >= at_least, "after {minutes} min: {rest:?}");
        }
        assert_eq!(left_after(at_least, at_least), Succession::Anyone);
    }

    #[test]
    fn what_a_run_leaves_in_the_row_is_read_again() {
        let run = LastRun::parse("run 1795000000123456000 finished 1250ms node a").unwrap();
        assert_eq!(run.by, "node a");
        assert_eq!(run.state, RunState::Finished { took: Duration::from_millis(1_250) });
        for info in ["", "http://10.0.0.1", "run", "run x finished 1ms a", "run 1 went 1ms a"] {
            assert_eq!(LastRun::parse(info), None, "{info}");
        }
    }
}
