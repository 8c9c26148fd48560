//! `run` with a slot: a scheduled job.

use std::error::Error;
use std::fmt;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::job::{JobOutcome, JobRun, Skip, Slot};
use spindle::{CancellationToken, LockBuilder};
use tokio::time::{Instant, sleep_until};

use super::run::{conclude, killed_by, under};
use crate::arguments::Run;
use crate::failure::{Code, Failure, Result};
use crate::jobs::JobChoices;
use crate::log;
use crate::output::printable;
use crate::signals::Signals;

/// How long the record of a command's end is waited for after a signal that asks this program to end.
const RECORD_AFTER_SIGNAL: Duration = Duration::from_secs(5);

/// A command that did not exit with 0.
#[derive(Debug)]
struct NotDone;

impl fmt::Display for NotDone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the command did not exit with 0")
    }
}

impl Error for NotDone {}

/// The course of a call, as its commands tell it.
#[derive(Clone, Default)]
struct Course(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    is_running: bool,
    /// How the last command ended.
    last: Option<Result<ExitCode>>,
}

impl Course {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begins(&self) {
        self.state().is_running = true;
    }

    /// Notes how a command ended. Returns true if the slot is done.
    fn ends(&self, ended: Result<ExitCode>) -> bool {
        let is_done = matches!(&ended, Ok(code) if *code == ExitCode::SUCCESS);
        *self.state() = State { is_running: false, last: Some(ended) };
        is_done
    }

    fn has_begun(&self) -> bool {
        let state = self.state();
        state.is_running || state.last.is_some()
    }
}

/// Runs the command once for the slot.
pub async fn run_slot(
    lock: LockBuilder,
    run: Run,
    slot: Slot,
    signals: &mut Signals,
) -> Result<ExitCode> {
    let (name, course, cancel) = (run.name.clone(), Course::default(), CancellationToken::new());
    let until = run.wait.map(|wait| Instant::now() + wait);
    let Run { retry_pause, at_most, skip_if_running, skipped_exit_code, .. } = run;
    let attempts = Some(run.attempts);
    let choices = JobChoices { attempts, retry_pause, at_most, skip_if_running };
    let job = choices.job(lock.lease(run.lease)).until(cancel.clone());
    let (forward, forwarded) = Signals::sent_on();
    let (run, forwarded) = (Arc::new(run), Arc::new(tokio::sync::Mutex::new(forwarded)));
    let told = course.clone();
    let task = move |started: JobRun| {
        let (run, forwarded, course) = (Arc::clone(&run), Arc::clone(&forwarded), told.clone());
        async move {
            let mut signals = forwarded.lock().await;
            // They came before this command, and are none of its own.
            signals.forget();
            course.begins();
            let ended = under(&started, &run, &mut signals).await;
            let is_done = course.ends(ended.and_then(|end| conclude(&run, end)));
            if is_done { Ok(()) } else { Err(NotDone) }
        }
    };
    let mut running = pin!(job.run_once(slot, task));
    let mut gives_up: Option<Instant> = None;
    let outcome = loop {
        let is_waiting = !course.has_begun();
        let limit = gives_up.or(until.filter(|_| is_waiting));
        tokio::select! {
            biased;
            outcome = &mut running => break outcome,
            () = sleep_until(limit.unwrap_or_else(Instant::now)), if limit.is_some() => {
                if gives_up.is_some() {
                    return not_recorded(&name, course.state().last.take());
                }
                return Err(Failure::new(
                    Code::NotAcquired,
                    format!("job `{name}`: --wait is over, and its slot is not recorded"),
                ));
            }
            signal = signals.next() => {
                if signal.asks_to_end() {
                    if !course.has_begun() {
                        return Ok(killed_by(signal));
                    }
                    cancel.cancel();
                    if !course.state().is_running {
                        gives_up = gives_up.or(Some(Instant::now() + RECORD_AFTER_SIGNAL));
                    }
                }
                // Nobody needs it once the last command has ended.
                let _ = forward.send(signal);
            }
        }
    };
    let last = course.state().last.take();
    concluded(&name, outcome, last, ExitCode::from(skipped_exit_code))
}

/// The code of a command whose end is not recorded: its own, if it failed.
fn not_recorded(name: &str, last: Option<Result<ExitCode>>) -> Result<ExitCode> {
    let text = format!("job `{name}`: the end of its run is not recorded");
    match last.unwrap_or(Ok(ExitCode::SUCCESS)) {
        Ok(code) if code == ExitCode::SUCCESS => Err(Failure::new(Code::Unreleased, text)),
        own => {
            log::complain(&text);
            own
        }
    }
}

fn concluded(
    name: &str,
    outcome: spindle::Result<JobOutcome<()>>,
    last: Option<Result<ExitCode>>,
    when_skipped: ExitCode,
) -> Result<ExitCode> {
    let is_cancelled = matches!(outcome, Ok(JobOutcome::Skipped { why: Skip::Cancelled, .. }));
    if is_cancelled && last.is_some() {
        // A signal has ended the call after a release that nobody acknowledged: others may run the slot once more.
        return not_recorded(name, last);
    }
    let own = || last.unwrap_or(Ok(Code::Failed.exit()));
    match outcome {
        Ok(JobOutcome::Ran(())) => own(),
        Ok(skipped @ JobOutcome::Skipped { .. }) => {
            let skipped = skipped.to_string();
            log::complain(&format!("job `{name}`: skipped: {}", printable(&skipped)));
            Ok(when_skipped)
        }
        Ok(JobOutcome::Failed { record, error, .. }) => {
            let text = format!("job `{name}`: {}", printable(&record.to_string()));
            if error.is_some() {
                log::complain(&text);
                return own();
            }
            Err(Failure::new(Code::Failed, text)
                .cure("`spindle job slots NAME` shows where it ran"))
        }
        Ok(other) => Err(Failure::new(Code::No, format!("job `{name}`: {other}"))),
        // A signal has ended the call; the command says how.
        Err(error) if error.is_task_failure() => own(),
        Err(error) => Err(error.into()),
    }
}
