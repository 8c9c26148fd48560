//! `run`: hold a lock, and run a command under it.

use std::io;
use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use nix::sys::signal::Signal;
use spindle::job::JobOutcome;
use spindle::{
    CancellationToken, Guard, LockBuilder, LockState, LockTable, ReleaseOutcome, Spindle, Term,
};
use tokio::time::{sleep, timeout};

use super::process::{Group, exit_code};
use crate::arguments::{Common, Run};
use crate::failure::{Code, Failure, Result};
use crate::log;
use crate::output::printable;
use crate::place::Place;
use crate::signals::{Signals, asks_to_end};

/// Longer than two release limits: that of the lock, and that of an attempt under way.
const RELEASE_MAX: Duration = Duration::from_secs(15);

/// How long the rest of a command's process group has to end by itself.
const END_GROUP_LIMIT: Duration = Duration::from_secs(5);

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
    log::begin();
    let failed = |failure: Failure| failure.with_code(Code::NotStarted);
    let mut signals = Signals::listen().map_err(|error| failed(error.into()))?;
    // Says within seconds what is wrong; the connection that holds the lock heals by itself.
    let place = tokio::select! {
        place = Place::reach(common) => place.map_err(failed)?,
        signal = signals.end() => return Ok(killed_by(signal)),
    };
    let table = LockTable::new(&place.database, &place.table);
    let info = run.info.clone().unwrap_or_else(|| program(&run));
    let mut lock = table.lock(&run.name).info(info);
    if let Some(id) = &run.id {
        lock = lock.id(id);
    }
    let name = run.name.clone();
    let ended = match run.once {
        Some(span) => once(lock, run, span, signals).await,
        None => hold(lock, run, signals).await,
    };
    if timeout(RELEASE_MAX, table.all_released()).await.is_err() {
        log::complain(&format!("lock `{name}` may not be released; then its lease runs out"));
    }
    ended.map_err(|failure| match failure.code() {
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
    let end = under(&acquired, &run, &mut signals).await;
    let lost = acquired.is_cancelled();
    let release = acquired.release().await;
    if !lost && release != ReleaseOutcome::Released {
        let text = format!("lock `{}` was not released: {release:?}; its lease runs out", run.name);
        log::complain(&text);
    }
    conclude(&run, end?)
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
    mut lock: LockBuilder,
    run: Run,
    (at_least, at_most): (Duration, Duration),
    mut signals: Signals,
) -> Result<ExitCode> {
    if let Some(limit) = run.start_limit {
        lock = lock.start_limit(limit);
    }
    let name = run.name.clone();
    let (forward, mut forwarded) = Signals::sent_on();
    let begins = CancellationToken::new();
    let begun = begins.clone();
    let job = move |term: Term| async move {
        begins.cancel();
        let end = under(&term, &run, &mut forwarded).await?;
        conclude(&run, end)
    };
    let mut running = pin!(lock.run_once(at_least, at_most, job));
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut running => break outcome?,
            signal = signals.next() => {
                if begun.is_cancelled() {
                    // Nobody needs it once the command has ended.
                    let _ = forward.send(signal);
                } else if asks_to_end(signal) {
                    return Ok(killed_by(signal));
                }
            }
        }
    };
    match outcome {
        JobOutcome::Ran(code) => code,
        JobOutcome::Skipped(last) => {
            let last = last.map_or_else(|| "by another node".to_string(), |last| last.to_string());
            log::complain(&format!("job `{name}`: skipped: {last}"));
            Ok(ExitCode::SUCCESS)
        }
        JobOutcome::TooLate { after, .. } => {
            let text = format!(
                "job `{name}`: never started: the lock came only {after:.1?} after the start"
            );
            Err(Failure::new(Code::NotAcquired, text).cure("a longer --start-limit lets it run"))
        }
        _ => Err(stopped(&name, true)),
    }
}

/// Runs the command until it has ended; stops it in time if the term does first.
async fn under(term: &Term, run: &Run, signals: &mut Signals) -> Result<End> {
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
                if run.end_group {
                    end_group(&group, term, reserve(run)).await;
                }
                return Ok(End::Exited(status));
            }
            () = term.cancelled(), if !told => {
                told = true;
                group.signal(Signal::SIGTERM);
                log::complain(&format!("{}; the command gets SIGTERM", why_over(&run.name, run.once.is_some())));
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
        End::Stopped => Err(stopped(&run.name, run.once.is_some())),
        End::NotStarted(error) => {
            let command = run.command.first().map(|word| word.to_string_lossy().into_owned());
            log::complain(&format!("command `{}`: {error}", command.unwrap_or_default()));
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            Ok(ExitCode::from(if is_missing { 127 } else { 126 }))
        }
    }
}

fn stopped(name: &str, is_once: bool) -> Failure {
    let why = why_over(name, is_once);
    Failure::new(Code::Stopped, format!("{why}, so the command was stopped"))
}

/// Says why a term is over: a job's ends with its time, since it is not renewed.
fn why_over(name: &str, is_once: bool) -> String {
    if is_once {
        format!("job `{name}`: its time is over")
    } else {
        format!("lock `{name}` is lost")
    }
}

fn killed_by(signal: Signal) -> ExitCode {
    ExitCode::from(u8::try_from(128 + signal as i32).unwrap_or(u8::MAX))
}

/// The command's name for the row; its arguments may be secrets.
fn program(run: &Run) -> String {
    run.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}
