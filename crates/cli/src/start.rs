//! The start of a command that runs on: it waits for Spanner, for credentials and for the metadata server.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::arguments::Common;
use crate::failure::{Failure, Result};
use crate::log::complain;
use crate::place::Place;

/// The first pause after an attempt that failed; each one is twice as long as the one before.
const PAUSE_MIN: Duration = Duration::from_millis(100);

/// The longest pause. So a command works soon after Spanner has come.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// From one line of the log to the next.
const SAY_EVERY: Duration = Duration::from_secs(60);

/// What is known of Spanner since the start of this program.
pub struct Start(watch::Sender<State>);

enum State {
    /// The first attempt is under way.
    Tries,
    /// Why the table could not be read yet.
    Waits(String),
    Reached,
}

/// The outcome of a wait that has a limit.
pub enum Waited {
    /// The table can be read, after so long a wait: zero if the first attempt succeeded.
    Reached(Duration),
    /// The limit is over, and this is why the last attempt failed.
    Over(Failure),
}

/// Returns true for the first failure of an outage, and then once a minute. `said` is when it was true last.
pub fn is_to_be_said(said: &mut Option<Instant>) -> bool {
    let is_due = said.is_none_or(|at| at.elapsed() >= SAY_EVERY);
    if is_due {
        *said = Some(Instant::now());
    }
    is_due
}

impl Start {
    pub fn new() -> Start {
        Start(watch::Sender::new(State::Tries))
    }

    /// Returns why nothing works yet, once the first attempt is over; none once the table was read.
    pub async fn trouble(&self) -> Option<String> {
        let mut state = self.0.subscribe();
        let known = state.wait_for(|state| !matches!(state, State::Tries)).await;
        match &*known.ok()? {
            State::Waits(why) => Some(format!("waits for Spanner: {why}")),
            State::Tries | State::Reached => None,
        }
    }

    /// Tries once to read the table, and says why it can't be read yet. Fails only for what no wait cures.
    /// Cancellation safe.
    pub async fn attempt(&self, common: &Common) -> Result<Option<Failure>> {
        match Place::answering(common).await {
            Ok(_) => {
                self.set(State::Reached);
                Ok(None)
            }
            Err(failure) => {
                self.set(State::Waits(failure.message().to_string()));
                if failure.passes() { Ok(Some(failure)) } else { Err(failure) }
            }
        }
    }

    /// Goes on after the first attempt until the table can be read, for so long at most. Fails only for
    /// what no wait cures. Cancellation safe.
    pub async fn wait(
        &self,
        common: &Common,
        first: Option<Failure>,
        limit: Duration,
    ) -> Result<Waited> {
        let Some(mut failure) = first else { return Ok(Waited::Reached(Duration::ZERO)) };
        let began = Instant::now();
        let left = || limit.saturating_sub(began.elapsed());
        let mut pause = PAUSE_MIN;
        let mut said: Option<Instant> = None;
        while !left().is_zero() {
            if is_to_be_said(&mut said) {
                complain(&format!("waits for Spanner: {failure}"));
            }
            sleep(pause.min(left())).await;
            pause = (pause * 2).min(PAUSE_MAX);
            match timeout(left(), self.attempt(common)).await {
                Ok(Ok(None)) => {
                    complain(&format!("Spanner answers, after {:.1?}", began.elapsed()));
                    return Ok(Waited::Reached(began.elapsed()));
                }
                Ok(Ok(Some(again))) => failure = again,
                Ok(Err(lasting)) => return Err(lasting),
                // The limit is over, and the attempt before says more.
                Err(_) => {}
            }
        }
        Ok(Waited::Over(failure))
    }

    fn set(&self, state: State) {
        self.0.send_replace(state);
    }
}
