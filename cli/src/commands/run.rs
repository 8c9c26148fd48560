//! `run`: hold a lock, and run a command under it.

use std::io;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use spindle::{
    Guard, JobOutcome, LockBuilder, LockState, LockTable, ReleaseOutcome, Spindle, Term,
};
use tokio::time::sleep;

use super::process::{Group, Signals, exit_code};
use crate::arguments::{Common, Run};
use crate::failure::{Code, Failure, Result};
use crate::output::printable;
use crate::place::Place;

/// How the command ended.
enum End {
    /// By itself.
    Exited(ExitStatus),
    /// After it was told to stop because the lock was lost.
    Stopped,
    /// It could not be started.
    NotStarted(io::Error),
}

pub async fn run(common: &Common, run: Run) -> Result<ExitCode> {
    let failed = |failure: Failure| failure.with_code(Code::NotStarted);
    let signals = Signals::listen().map_err(|error| failed(error.into()))?;
    // Says within seconds what is wrong; the connection that holds the lock heals by itself.
    let place = Place::reach(common).await.map_err(failed)?;
    let table = LockTable::connect(&place.database, &place.table);
    let info = run.info.clone().unwrap_or_else(|| program(&run));
    let mut lock = table.lock(&run.name).info(info);
    if let Some(id) = &run.id {
        lock = lock.id(id);
    }
    match run.once {
        Some(span) => once(lock, run, span, signals).await,
        None => hold(lock, run, signals).await,
    }
    .map_err(|failure| match failure.code() {
        Code::NotAcquired | Code::Stopped => failure,
        _ => failed(failure),
    })
}

async fn hold(lock: LockBuilder, run: Run, mut signals: Signals) -> Result<ExitCode> {
    let lock = lock.lease(run.lease).build()?;
    let acquired = tokio::select! {
        acquired = acquire(&lock, &run) => acquired?,
        signal = signals.end() => return Ok(killed_by(signal)),
    };
    let end = under(&acquired, &run, signals).await?;
    let lost = acquired.has_ended();
    let release = acquired.release().await;
    if !lost && release != ReleaseOutcome::Released {
        eprintln!("spindle: lock `{}` was not released: {release:?}; its lease runs out", run.name);
    }
    conclude(&run, end)
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
    lock.acquire_within(limit).await.map_err(|error| {
        if error.is_not_acquired() {
            Failure::new(Code::NotAcquired, error.to_string())
        } else {
            error.into()
        }
    })
}

async fn once(
    lock: LockBuilder,
    run: Run,
    (at_least, at_most): (Duration, Duration),
    signals: Signals,
) -> Result<ExitCode> {
    let name = run.name.clone();
    let job = move |term: Term| async move {
        let end = under(&term, &run, signals).await?;
        conclude(&run, end)
    };
    match lock.run_once(at_least, at_most, job).await? {
        JobOutcome::Ran(code) => code,
        JobOutcome::Skipped(last) => {
            let last = last.map_or_else(|| "by another node".to_string(), |last| last.to_string());
            eprintln!("spindle: job `{name}`: skipped: {}", printable(&last));
            Ok(ExitCode::SUCCESS)
        }
        _ => Err(stopped(&name)),
    }
}

/// Runs the command until it has ended; stops it in time if the term does first.
async fn under(term: &Term, run: &Run, mut signals: Signals) -> Result<End> {
    let mut group = match Group::start(&run.command, term.lock(), term.token()) {
        Ok(group) => group,
        Err(error) => return Ok(End::NotStarted(error)),
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
                return Ok(End::Exited(status));
            }
            () = term.cancelled(), if !told => {
                told = true;
                eprintln!("spindle: lock `{}` is lost; the command gets SIGTERM", run.name);
                group.signal(Signal::SIGTERM);
            }
            () = almost_over(term, reserve(run)), if told => {
                group.signal(Signal::SIGKILL);
                group.wait().await?;
                return Ok(End::Stopped);
            }
            signal = signals.next() => group.signal(signal),
        }
    }
}

/// How long before the end of the lease the command is killed at the latest.
fn reserve(run: &Run) -> Duration {
    let lease = run.once.map_or(run.lease, |(_, at_most)| at_most);
    (lease / 50).clamp(Duration::from_millis(10), Duration::from_millis(200))
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

fn conclude(run: &Run, end: End) -> Result<ExitCode> {
    match end {
        End::Exited(status) => Ok(ExitCode::from(exit_code(status))),
        End::Stopped => Err(stopped(&run.name)),
        End::NotStarted(error) => {
            let command = run.command.first().map(|word| word.to_string_lossy().into_owned());
            eprintln!("spindle: command `{}`: {error}", command.unwrap_or_default());
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            Ok(ExitCode::from(if is_missing { 127 } else { 126 }))
        }
    }
}

fn stopped(name: &str) -> Failure {
    Failure::new(Code::Stopped, format!("lock `{name}`: lost, so the command was stopped"))
}

fn killed_by(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX))
}

/// The command's name for the row; its arguments may be secrets.
fn program(run: &Run) -> String {
    run.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}
