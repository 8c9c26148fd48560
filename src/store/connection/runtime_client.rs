use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use google_cloud_spanner::client::DatabaseClient;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::time::Instant;

use super::target::Target;
use crate::batch::{Budget, Charge, Repeats};
use crate::error::Error;

/// How long a failed attempt to connect answers every caller. So there is one attempt a second,
/// however many locks ask.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// The longest silence before a client is replaced. Its channel may be dead, and it has no means of
/// its own to find out.
const SILENCE_MAX: Duration = Duration::from_secs(30);

/// The least age of a client that is replaced because its credentials failed for good.
const CREDENTIALS_PAUSE: Duration = Duration::from_secs(10);

/// Attempts to connect by all runtimes of a connection, and what they are charged to.
pub(super) type Attempts = (Arc<Repeats>, Arc<Budget>);

/// The client of one runtime, from the attempt to connect until the runtime is gone.
#[derive(Clone, Debug)]
pub(super) struct Line(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    runtime: Id,
    begun: Instant,
    /// Its sender lives in a task on that runtime, and nowhere else.
    state: watch::Receiver<State>,
    /// Since when requests have gone unanswered.
    silent_since: Mutex<Option<Instant>>,
}

#[derive(Clone, Debug)]
pub(super) enum State {
    Connecting,
    Ready(Box<DatabaseClient>),
    Failed {
        error: Error,
        at: Instant,
    },
    /// The task that keeps the client was lost with its runtime, or panicked in the client.
    Gone,
}

impl Line {
    /// Begins to connect on `runtime`.
    pub(super) fn begin(runtime: &Handle, target: Target, attempts: Attempts) -> Line {
        let (sender, state) = watch::channel(State::Connecting);
        runtime.spawn(keep(target, attempts, sender));
        let begun = Instant::now();
        Line(Arc::new(Kept { runtime: runtime.id(), begun, state, silent_since: Mutex::default() }))
    }

    pub(super) fn runtime(&self) -> Id {
        self.0.runtime
    }

    pub(super) fn is(&self, other: &Line) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns true if asking it leads to anything but an old failure.
    pub(super) fn is_of_use(&self) -> bool {
        if self.0.state.has_changed().is_err() {
            return false;
        }
        match &*self.0.state.borrow() {
            State::Failed { at, .. } => at.elapsed() < FAILED_FOR,
            _ => true,
        }
    }

    /// Waits until the attempt to connect has ended.
    pub(super) async fn settled(&self) -> State {
        let mut state = self.0.state.clone();
        match state.wait_for(|state| !matches!(state, State::Connecting)).await {
            Ok(settled) => settled.clone(),
            Err(_) => State::Gone,
        }
    }

    /// Takes note of how a request ended; whether the client is of no use any more.
    pub(super) fn is_dead_after(&self, error: Option<&Error>) -> bool {
        let mut silent_since = self.0.silent_since.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) if error.is_dead_credentials() => {
                self.0.begun.elapsed() >= CREDENTIALS_PAUSE
            }
            Some(error) if !error.is_answer() => {
                silent_since.get_or_insert_with(Instant::now).elapsed() >= SILENCE_MAX
            }
            _ => {
                *silent_since = None;
                false
            }
        }
    }
}

/// Connects, then stays for as long as the line is of use to somebody: the end of this task tells
/// that its runtime is gone.
async fn keep(target: Target, attempts: Attempts, sender: watch::Sender<State>) {
    let (repeats, budget) = attempts;
    let connected = tokio::select! {
        connected = repeats.send(&budget, Charge::Connect, target.connect()) => connected,
        () = sender.closed() => return,
    };
    sender.send_replace(match connected {
        Ok(client) => State::Ready(Box::new(client)),
        Err(error) => State::Failed { error, at: Instant::now() },
    });
    sender.closed().await;
}

#[cfg(test)]
mod tests {
    use google_cloud_gax::error::CredentialsError;
    use tokio::time::advance;

    use super::*;

    async fn line() -> Line {
        let target = Target::new(
            "projects/p/instances/i/databases/d".to_string(),
            Some("http://127.0.0.1:1".to_string()),
        );
        let attempts = (Arc::default(), Arc::new(Budget::new()));
        Line::begin(&Handle::current(), target.unwrap(), attempts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_dead_after_silence_and_any_answer_ends_the_silence() {
        let line = line().await;
        let silence = Error::timed_out("read", SILENCE_MAX);
        assert!(!line.is_dead_after(Some(&silence)));
        advance(SILENCE_MAX - Duration::from_millis(1)).await;
        assert!(!line.is_dead_after(Some(&silence)));
        assert!(!line.is_dead_after(None));
        advance(SILENCE_MAX).await;
        assert!(!line.is_dead_after(Some(&silence)), "it was heard since");
        advance(SILENCE_MAX).await;
        assert!(line.is_dead_after(Some(&silence)));
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_failed_for_good_cost_the_client_after_a_pause() {
        let line = line().await;
        let lost = |is_transient| {
            let error = CredentialsError::from_msg(is_transient, "no token");
            Error::from_read("read", google_cloud_spanner::Error::authentication(error))
        };
        assert!(!line.is_dead_after(Some(&lost(false))));
        advance(CREDENTIALS_PAUSE).await;
        assert!(!line.is_dead_after(Some(&lost(true))));
        assert!(line.is_dead_after(Some(&lost(false))));
    }
}
