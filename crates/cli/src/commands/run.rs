//! `run`: hold a lock, and run a command under it.

use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use spindle::{Guard, LockBuilder, LockState, LockTable, ReleaseOutcome, Spindle, Term};
use tokio::time::{sleep, timeout};

use super::process::{Group, exit_code, not_started};
use super::run_slot::run_slot;
use crate::arguments::{Common, Run};
use crate::failure::{Code, Failure, Result};
use crate::log;
use crate::output::printable;
use crate::place::database;
use crate::record::in_words;
use crate::signals::{Caught, Signals};
use crate::start::{Start, Waited};

/// How long the rest of a command's process group has to end by itself.
const END_GROUP_LIMIT: Duration = Duration::from_secs(5);

/// How long an attempt under way may take to be resolved and released.
const RELEASE_MAX: Duration = Duration::from_secs(15);

/// How long a release is waited for after a signal that asks this program to end.
const RELEASE_AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// How long the library leaves a job to stop, unless the lease is shorter.
const STOP_LIMIT: Duration = Duration::from_secs(5);

/// How the command ended.
pub(super) enum End {
    /// By itself.
    Exited(ExitStatus),
    /// After it was told to stop because the lock was lost.
    Stopped,
    /// It could not be started.
    NotStarted(ExitCode),
}

pub async fn run(common: &Common, run: Run) -> Result<ExitCode> {
    log::begin();
    let failed = |failure: Failure| failure.with_code(Code::NotStarted);
    let mut signals = Signals::listen_to_all().map_err(|error| failed(error.into()))?;
    // The connection that holds the lock is one of its own, which heals by itself.
    let (start, limit) = (Start::new(), patience(&run));
    let reaching = async {
        let first = start.attempt(common).await?;
        start.wait(common, first, limit).await
    };
    let reached = tokio::select! {
        reached = reaching => reached.map_err(failed)?,
        signal = signals.end() => return Ok(killed_by(signal)),
    };
    let waited = match reached {
        Waited::Reached(waited) => waited,
        Waited::Over(failure) if limit.is_zero() => return Err(failed(failure)),
        Waited::Over(failure) => return Err(not_reached(&run, limit, &failure)),
    };
    let run = after(run, waited);
    let table = LockTable::new(&database(common).map_err(failed)?, &common.table);
    let info = run.info.clone().unwrap_or_else(|| program(&run));
    let mut lock = table.lock(&run.name).info(info);
    if let Some(id) = &run.id {
        lock = lock.id(id);
    }
    let name = run.name.clone();
    let ended = match run.slot() {
        Some(slot) => run_slot(lock, run, slot, &mut signals).await,
        None => hold(lock, run, &mut signals).await,
    };
    // What was held is released by now. An attempt may be under way.
    if timeout(RELEASE_MAX, table.all_released()).await.is_err() {
        log::complain(&format!("lock `{name}` may not be released; then its lease runs out"));
    }
    ended.map_err(|failure| match failure.code() {
        Code::NotAcquired | Code::Failed | Code::Stopped | Code::Unreleased => failure,
        _ => failed(failure),
    })
}

/// Returns how long the run waits for Spanner, if it isn't there: as long as it would for the lock.
fn patience(run: &Run) -> Duration {
    if run.try_only { Duration::ZERO } else { run.wait.unwrap_or(Duration::MAX) }
}

/// Returns the run with what is left of its limit after a wait for Spanner.
fn after(mut run: Run, waited: Duration) -> Run {
    if !waited.is_zero() {
        let left = |limit: Duration| limit.saturating_sub(waited).max(Duration::from_millis(1));
        run.wait = run.wait.map(left);
    }
    run
}

fn not_reached(run: &Run, limit: Duration, failure: &Failure) -> Failure {
    let what = if run.slot().is_some() { "job" } else { "lock" };
    let text = format!("{what} `{}`: Spanner was not reached within {limit:?}", run.name);
    Failure::new(Code::NotAcquired, format!("{text}: {failure}"))
}

async fn hold(lock: LockBuilder, run: Run, signals: &mut Signals) -> Result<ExitCode> {
    let lock = lock.lease(run.lease).build()?;
    let acquired = tokio::select! {
        acquired = acquire(&lock, &run) => acquired?,
        signal = signals.end() => return Ok(killed_by(signal)),
    };
    let end = under(&acquired, &run, signals).await;
    let (lost, left) = (acquired.is_cancelled(), acquired.remaining());
    let released = tokio::select! {
        biased;
        release = acquired.release() => release,
        () = told_to_end(signals) => return unreleased(&run.name, left, conclude(&run, end?)),
    };
    match released {
        ReleaseOutcome::Unacknowledged { held_for, .. } => {
            return unreleased(&run.name, held_for, conclude(&run, end?));
        }
        ReleaseOutcome::EndedBefore(end) if !lost => {
            log::complain(&format!("lock `{}` was lost at the end: {end:?}", run.name));
        }
        _ => {}
    }
    conclude(&run, end?)
}

/// Waits for a signal that asks this program to end, and leaves the release some time after it.
async fn told_to_end(signals: &mut Signals) {
    signals.end().await;
    sleep(RELEASE_AFTER_SIGNAL).await;
}

/// Says what others see of a lock that could not be released. The command's own failure goes first.
fn unreleased(name: &str, held_for: Duration, ended: Result<ExitCode>) -> Result<ExitCode> {
    let held_for = in_words(held_for);
    let text = format!("lock `{name}` was not released: others see it as held for {held_for} yet");
    match ended {
        Ok(code) if code == ExitCode::SUCCESS => Err(Failure::new(Code::Unreleased, text)),
        ended => {
            log::complain(&text);
            ended
        }
    }
}

async fn acquire(lock: &Spindle, run: &Run) -> Result<Guard> {
    if run.try_only || run.wait == Some(Duration::ZERO) {
        return match lock.try_acquire().await? {
            Some(guard) => Ok(guard),
            None => {
                let why = match lock.known_leader().as_ref().and_then(LockState::holder) {
                    Some(holder) => format!("held by `{}`", printable(holder)),
                    None => {
                        "not free yet: `spindle show` says for whom, and until when".to_string()
                    }
                };
                let text = format!("lock `{}`: {why}", run.name);
                Err(Failure::new(Code::NotAcquired, text))
            }
        };
    }
    let Some(limit) = run.wait else { return Ok(lock.acquire().await?) };
    lock.acquire().within(limit).await.map_err(|error| {
        if error.is_not_acquired() {
            Failure::new(Code::NotAcquired, error.to_string())
        } else {
            error.into()
        }
    })
}

/// Runs the command until it has ended; stops it in time if the term does first.
pub(super) async fn under(term: &Term, run: &Run, signals: &mut Signals) -> Result<End> {
    let mut group = match Group::start(&run.command, term.lock(), term.token()) {
        Ok(group) => group,
        Err(error) => return Ok(End::NotStarted(not_started(&run.command, &error))),
    };
    let mut told = false;
    loop {
        tokio::select! {
            biased;
            status = group.wait() => {
                let status = status?;
                if told {
                    // A process that it started may have outlived it.
                    group.signal(Signal::SIGKILL);
                    return Ok(End::Stopped);
                }
                if run.end_group {
                    end_group(&group, term, reserve(run)).await;
                }
                return Ok(End::Exited(status));
            }
            () = term.cancelled(), if !told => {
                told = true;
                group.signal(Signal::SIGTERM);
                log::complain(&format!("{}; the command gets SIGTERM", why_over(run)));
            }
            () = stops(term, run), if told => {
                group.signal(Signal::SIGKILL);
                group.wait().await?;
                return Ok(End::Stopped);
            }
            signal = signals.next() => group.signal(signal.passed_on()),
        }
    }
}

/// Ends what a command left running.
async fn end_group(group: &Group, term: &Term, reserve: Duration) {
    group.signal(Signal::SIGTERM);
    tokio::select! {
        biased;
        () = group.gone() => return,
        () = sleep(END_GROUP_LIMIT) => {}
        () = almost_over(term, reserve) => {}
    }
    group.signal(Signal::SIGKILL);
}

/// How long before the end of the lease the command is killed at the latest.
fn reserve(run: &Run) -> Duration {
    (run.lease / 50).clamp(Duration::from_millis(10), Duration::from_millis(200))
}

/// Waits until a command that was told to stop is to be killed: before the lease ends, and before a job that
/// has taken too long is given up, whose lease goes on.
async fn stops(term: &Term, run: &Run) {
    let limit =
        if run.at_most.is_some() { STOP_LIMIT.min(run.lease) / 5 * 4 } else { Duration::MAX };
    tokio::select! {
        () = almost_over(term, reserve(run)) => {}
        () = sleep(limit) => {}
    }
}

/// Looks at the clock often, because timers stand still while the machine is suspended.
async fn almost_over(term: &Term, reserve: Duration) {
    loop {
        let left = term.remaining().saturating_sub(reserve);
        if left.is_zero() {
            return;
        }
        sleep(left.min(Duration::from_millis(50))).await;
    }
}

pub(super) fn conclude(run: &Run, end: End) -> Result<ExitCode> {
    match end {
        End::Exited(status) => Ok(ExitCode::from(exit_code(status))),
        End::Stopped => {
            let text = format!("{}, so the command was stopped", why_over(run));
            Err(Failure::new(Code::Stopped, text))
        }
        End::NotStarted(code) => Ok(code),
    }
}

/// Says why a term is over.
fn why_over(run: &Run) -> String {
    let name = &run.name;
    match run.at_most {
        Some(limit) => format!("lock `{name}` is lost, or its job has taken {limit:?}"),
        None => format!("lock `{name}` is lost"),
    }
}

pub(super) fn killed_by(signal: Caught) -> ExitCode {
    ExitCode::from(signal.exit_code())
}

/// The command's name for the row; its arguments may be secrets.
fn program(run: &Run) -> String {
    run.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}
