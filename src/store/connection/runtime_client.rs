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

/// How long a client's requests go unanswered before it is replaced. Its channel may be dead, and it
/// has no means of its own to find out.
const UNANSWERED_MAX: Duration = Duration::from_secs(30);

/// The least age of a client that is replaced because its credentials failed for good.
const CREDENTIALS_PAUSE: Duration = Duration::from_secs(10);

/// Attempts to connect by all runtimes of a connection, and what they are charged to.
pub(super) type Attempts = (Arc<Repeats>, Arc<Budget>);

/// The client of one runtime, from the attempt to connect until the runtime is gone.
#[derive(Clone, Debug)]
pub(super) struct RuntimeClient(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    runtime: Id,
    begun: Instant,
    /// Its sender lives in a task on that runtime, and nowhere else.
    state: watch::Receiver<State>,
    /// Since when requests have gone unanswered.
    unanswered_since: Mutex<Option<Instant>>,
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

impl RuntimeClient {
    /// Begins to connect on `runtime`.
    pub(super) fn begin(runtime: &Handle, target: Target, attempts: Attempts) -> RuntimeClient {
        let (sender, state) = watch::channel(State::Connecting);
        runtime.spawn(keep(target, attempts, sender));
        let begun = Instant::now();
        RuntimeClient(Arc::new(Kept {
            runtime: runtime.id(),
            begun,
            state,
            unanswered_since: Mutex::default(),
        }))
    }

    pub(super) fn runtime(&self) -> Id {
        self.0.runtime
    }

    pub(super) fn is(&self, other: &RuntimeClient) -> bool {
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

    /// Takes note of how a request ended; true if the client is of no use any more.
    pub(super) fn is_dead_after(&self, error: Option<&Error>) -> bool {
        let mut unanswered_since =
            self.0.unanswered_since.lock().unwrap_or_else(PoisonError::into_inner);
        match error {
            Some(error) if error.is_dead_credentials() => {
                self.0.begun.elapsed() >= CREDENTIALS_PAUSE
            }
            Some(error) if !error.is_answer() => {
                unanswered_since.get_or_insert_with(Instant::now).elapsed() >= UNANSWERED_MAX
            }
            _ => {
                *unanswered_since = None;
                false
            }
        }
    }
}

/// Connects, then stays for as long as the client is of use to somebody: the end of this task tells
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

    async fn client() -> RuntimeClient {
        let target = Target::new(
            "projects/p/instances/i/databases/d".to_string(),
            Some("http://127.0.0.1:1".to_string()),
        );
        let attempts = (Arc::default(), Arc::new(Budget::new()));
        RuntimeClient::begin(&Handle::current(), target.unwrap(), attempts)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_dead_after_a_time_without_answers_and_any_answer_ends_that() {
        let client = client().await;
        let no_answer = Error::timed_out("read", UNANSWERED_MAX);
        assert!(!client.is_dead_after(Some(&no_answer)));
        advance(UNANSWERED_MAX - Duration::from_millis(1)).await;
        assert!(!client.is_dead_after(Some(&no_answer)));
        assert!(!client.is_dead_after(None));
        advance(UNANSWERED_MAX).await;
        assert!(!client.is_dead_after(Some(&no_answer)), "it has answered since");
        advance(UNANSWERED_MAX).await;
        assert!(client.is_dead_after(Some(&no_answer)));
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_failed_for_good_cost_the_client_after_a_pause() {
        let client = client().await;
        let lost = |is_transient| {
            let error = CredentialsError::from_msg(is_transient, "no token");
            Error::from_read("read", google_cloud_spanner::Error::authentication(error))
        };
        assert!(!client.is_dead_after(Some(&lost(false))));
        advance(CREDENTIALS_PAUSE).await;
        assert!(!client.is_dead_after(Some(&lost(true))));
        assert!(client.is_dead_after(Some(&lost(false))));
    }
}
