//! `run`: hold a lock, and run a command under it.

use std::pin::pin;
use std::process::{ExitCode, ExitStatus};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::signal::Signal;
use spindle::job::JobOutcome;
use spindle::{
    CancellationToken, Guard, LockBuilder, LockState, LockTable, ReleaseOutcome, Spindle, Term,
};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::process::{Group, exit_code, not_started};
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

/// How the command ended.
enum End {
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
    let ended = match run.once {
        Some(span) => once(lock, run, span, &mut signals).await,
        None => hold(lock, run, &mut signals).await,
    };
    // What was held is released by now. An attempt may be under way.
    if timeout(RELEASE_MAX, table.all_released()).await.is_err() {
        log::complain(&format!("lock `{name}` may not be released; then its lease runs out"));
    }
    ended.map_err(|failure| match failure.code() {
        Code::NotAcquired | Code::Stopped | Code::Unreleased => failure,
        _ => failed(failure),
    })
}

/// Returns how long the run waits for Spanner, if it isn't there: as long as it would for the lock.
fn patience(run: &Run) -> Duration {
    match (run.try_only, run.once) {
        (true, _) => Duration::ZERO,
        (false, Some(span)) => start_limit(run, span),
        (false, None) => run.wait.unwrap_or(Duration::MAX),
    }
}

/// Returns the start limit of a job, which is the library's own unless another one is named.
fn start_limit(run: &Run, (at_least, at_most): (Duration, Duration)) -> Duration {
    let usual = (at_least / 10).clamp(Duration::from_secs(5), Duration::from_secs(10));
    run.start_limit.unwrap_or(usual.min(at_most))
}

/// Returns the run with what is left of its limits after a wait for Spanner.
fn after(mut run: Run, waited: Duration) -> Run {
    if waited.is_zero() {
        return run;
    }
    let left = |limit: Duration| limit.saturating_sub(waited).max(Duration::from_millis(1));
    run.wait = run.wait.map(left);
    run.start_limit = run.once.map(|span| left(start_limit(&run, span)));
    run
}

fn not_reached(run: &Run, limit: Duration, failure: &Failure) -> Failure {
    let what = if run.once.is_some() { "job" } else { "lock" };
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
    signals: &mut Signals,
) -> Result<ExitCode> {
    if let Some(limit) = run.start_limit {
        lock = lock.start_limit(limit);
    }
    let name = run.name.clone();
    let (forward, mut forwarded) = Signals::sent_on();
    let begun = CancellationToken::new();
    // Set once the command has ended: what is left of the time then, and when that was.
    let left = Arc::<OnceLock<(Duration, Instant)>>::default();
    let (begins, ends) = (begun.clone(), Arc::clone(&left));
    let job = move |term: Term| async move {
        begins.cancel();
        let end = under(&term, &run, &mut forwarded).await;
        // Nobody else sets it.
        let _ = ends.set((term.remaining(), Instant::now()));
        conclude(&run, end?)
    };
    let mut running = pin!(lock.run_once(at_least, at_most, job));
    let mut told: Option<Instant> = None;
    let outcome = loop {
        let gives_up = told.map_or_else(Instant::now, |told| told + RELEASE_AFTER_SIGNAL);
        tokio::select! {
            biased;
            outcome = &mut running => break outcome?,
            () = sleep_until(gives_up), if told.is_some() => {
                let (left, at) = left.get().copied().unwrap_or((Duration::ZERO, gives_up));
                let held_for = left.saturating_sub(at.elapsed());
                return unreleased(&name, held_for, Ok(ExitCode::SUCCESS));
            }
            signal = signals.next() => {
                if left.get().is_some() {
                    told = told.or_else(|| signal.asks_to_end().then(Instant::now));
                } else if begun.is_cancelled() {
                    // Nobody needs it once the command has ended.
                    let _ = forward.send(signal);
                } else if signal.asks_to_end() {
                    return Ok(killed_by(signal));
                }
            }
        }
    };
    match outcome {
        JobOutcome::Ran(code) => code,
        JobOutcome::Unreleased { returned, held_for, .. } => unreleased(&name, held_for, returned),
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
                log::complain(&format!("{}; the command gets SIGTERM", why_over(&run.name, run.once.is_some())));
            }
            () = almost_over(term, reserve(run)), if told => {
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
        End::NotStarted(code) => Ok(code),
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

fn killed_by(signal: Caught) -> ExitCode {
    ExitCode::from(signal.exit_code())
}

/// The command's name for the row; its arguments may be secrets.
fn program(run: &Run) -> String {
    run.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default()
}
