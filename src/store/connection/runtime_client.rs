use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use google_cloud_spanner::client::DatabaseClient;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::time::Instant;

use super::target::REQUEST_LIMIT;
use crate::budget::{Budget, Payment};
use crate::error::{Error, Result};

/// How long a failed attempt to connect answers every caller. So there is one attempt a second,
/// however many locks ask.
const FAILED_FOR: Duration = Duration::from_secs(1);

/// The client rounds a request's limit down, to what its header can say.
const ROUNDED: Duration = Duration::from_millis(10);

/// The least age of a client that is replaced because of its credentials.
const CREDENTIALS_PAUSE: Duration = Duration::from_secs(10);

/// Attempts to connect by all runtimes of a connection, and what they are charged to.
#[derive(Debug)]
pub(super) struct Attempts {
    has_failed: AtomicBool,
    budget: Arc<Budget>,
}

/// The client of one runtime, from the attempt to connect until the runtime is gone: a flow.
#[derive(Clone, Debug)]
pub(super) struct RuntimeClient(Arc<Kept>);

#[derive(Debug)]
struct Kept {
    runtime: Id,
    begun: Instant,
    /// Its sender lives in a task on that runtime, and nowhere else.
    state: watch::Receiver<State>,
    heard_at: Mutex<Option<Instant>>,
    price: Option<Arc<Price>>,
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

impl Attempts {
    pub(super) fn new(budget: &Arc<Budget>) -> Arc<Attempts> {
        Arc::new(Attempts { has_failed: AtomicBool::new(false), budget: Arc::clone(budget) })
    }

    /// Connects where there is no client. One attempt that repeats no failure waits for nothing: many
    /// runtimes may begin at once.
    pub(super) async fn first(
        self: Arc<Attempts>,
        connecting: impl Future<Output = Result<DatabaseClient>>,
    ) -> Result<DatabaseClient> {
        let payment = match self.has_failed.load(Ordering::Relaxed) {
            true => Some(self.budget.connects.paid(1).await),
            false => self.budget.connects.pay(1),
        };
        let connected = connecting.await;
        self.has_failed.store(connected.is_err(), Ordering::Relaxed);
        if let Some(payment) = payment.filter(|_| connected.is_ok()) {
            self.budget.connects.refund(payment);
        }
        connected
    }
}

/// The price of a client that was begun beside a silent one, until the new one is heard: a server that takes
/// connections and says nothing on them would be asked for one after another.
#[derive(Debug)]
struct Price {
    budget: Arc<Budget>,
    payment: Mutex<Option<Payment>>,
}

impl Price {
    async fn pay(&self) {
        let payment = self.budget.connects.paid(1).await;
        *self.payment() = Some(payment);
    }

    fn refund(&self) {
        if let Some(payment) = self.payment().take() {
            self.budget.connects.refund(payment);
        }
    }

    fn payment(&self) -> MutexGuard<'_, Option<Payment>> {
        self.payment.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RuntimeClient {
    /// Begins to connect on `runtime`.
    pub(super) fn begin(
        runtime: &Handle,
        connecting: impl Future<Output = Result<DatabaseClient>> + Send + 'static,
    ) -> RuntimeClient {
        RuntimeClient::at_price(None, runtime, connecting)
    }

    /// Begins to connect on `runtime` beside a client that is silent, once that is paid for.
    pub(super) fn beside(
        budget: &Arc<Budget>,
        runtime: &Handle,
        connecting: impl Future<Output = Result<DatabaseClient>> + Send + 'static,
    ) -> RuntimeClient {
        let (budget, payment) = (Arc::clone(budget), Mutex::default());
        let price = Arc::new(Price { budget, payment });
        let pays = Arc::clone(&price);
        RuntimeClient::at_price(Some(price), runtime, async move {
            pays.pay().await;
            connecting.await
        })
    }

    fn at_price(
        price: Option<Arc<Price>>,
        runtime: &Handle,
        connecting: impl Future<Output = Result<DatabaseClient>> + Send + 'static,
    ) -> RuntimeClient {
        let (sender, state) = watch::channel(State::Connecting);
        runtime.spawn(keep(connecting, sender));
        let begun = Instant::now();
        RuntimeClient(Arc::new(Kept {
            runtime: runtime.id(),
            begun,
            state,
            heard_at: Mutex::default(),
            price,
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

    /// Returns when a request was last answered.
    pub(super) fn heard_at(&self) -> Option<Instant> {
        *self.0.heard_at.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes note of how a request ended, which had all the time between these moments; true if the
    /// client is of no use any more.
    ///
    /// The batcher replaces a client that falls silent. Without one, as for operator calls, a call that
    /// met silence all its time and had the client to itself gives the next a new client.
    pub(super) fn is_dead_after(
        &self,
        error: Option<&Error>,
        (sent, deadline): (Instant, Instant),
    ) -> bool {
        let now = Instant::now();
        match error {
            Some(error) if error.is_dead_credentials() => {
                self.0.begun.elapsed() >= CREDENTIALS_PAUSE
            }
            Some(error) if !error.is_answer() => {
                let had_time = now + ROUNDED >= deadline && deadline - sent >= REQUEST_LIMIT;
                let is_silent = self.heard_at().is_none_or(|at| at <= sent);
                // One is its connection's, and one the request's.
                had_time && is_silent && Arc::strong_count(&self.0) <= 2
            }
            _ => {
                let mut heard_at = self.0.heard_at.lock().unwrap_or_else(PoisonError::into_inner);
                *heard_at = Some(now);
                self.0.price.iter().for_each(|price| price.refund());
                false
            }
        }
    }
}

/// Connects, then stays for as long as the client is of use to somebody: the end of this task tells
/// that its runtime is gone.
async fn keep(
    connecting: impl Future<Output = Result<DatabaseClient>>,
    sender: watch::Sender<State>,
) {
    let connected = tokio::select! {
        connected = connecting => connected,
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
    use google_cloud_gax::error::rpc::{Code, Status};
    use tokio::time::advance;

    use super::*;

    /// A client that never gets there.
    async fn client() -> RuntimeClient {
        RuntimeClient::begin(&Handle::current(), std::future::pending())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_on_which_a_call_met_nothing_but_silence_is_dead_unless_others_wait_for_it() {
        let (client, sent) = (client().await, Instant::now());
        let of_call = client.clone();
        let no_answer = Error::timed_out("read", REQUEST_LIMIT);
        let time = (sent, sent + REQUEST_LIMIT);
        advance(REQUEST_LIMIT).await;
        let of_another = client.clone();
        assert!(!of_call.is_dead_after(Some(&no_answer), time), "another request waits for it");
        drop(of_another);
        assert!(of_call.is_dead_after(Some(&no_answer), time));
        assert!(!of_call.is_dead_after(Some(&no_answer), (sent, sent + REQUEST_LIMIT * 2)));
        assert!(!of_call.is_dead_after(None, time));
        assert!(!of_call.is_dead_after(Some(&no_answer), time), "it has answered since");
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_failed_for_good_cost_the_client_after_a_pause() {
        let (client, now) = (client().await, Instant::now());
        let lost = |is_transient| {
            let error = CredentialsError::from_msg(is_transient, "no token");
            Error::from_read("read", google_cloud_spanner::Error::authentication(error))
        };
        assert!(!client.is_dead_after(Some(&lost(false)), (now, now)));
        advance(CREDENTIALS_PAUSE).await;
        assert!(!client.is_dead_after(Some(&lost(true)), (now, now)));
        assert!(client.is_dead_after(Some(&lost(false)), (now, now)));
        let refused = Status::default().set_code(Code::Unauthenticated);
        let refused = Error::from_read("read", google_cloud_spanner::Error::service(refused));
        assert!(client.is_dead_after(Some(&refused), (now, now)), "the token may have expired");
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_beside_a_silent_client_are_two_then_one_a_second() {
        let (budget, runtime) = (Arc::new(Budget::new()), Handle::current());
        let (start, mut made) = (Instant::now(), 0);
        while start.elapsed() < Duration::from_secs(10) && made < 100 {
            let connecting = async { Err(Error::timed_out("connect", REQUEST_LIMIT)) };
            let attempt = RuntimeClient::beside(&budget, &runtime, connecting);
            if tokio::time::timeout(Duration::from_millis(70), attempt.settled()).await.is_ok() {
                made += 1;
            }
        }
        assert!((11..=12).contains(&made), "{made}");
    }

    #[tokio::test(start_paused = true)]
    async fn clients_beside_silent_ones_that_are_heard_wait_for_no_other() {
        let (budget, runtime) = (Arc::new(Budget::new()), Handle::current());
        let start = Instant::now();
        for _ in 0..100 {
            let (connects, connected) = tokio::sync::oneshot::channel();
            let connecting = async move {
                connects.send(()).unwrap();
                std::future::pending().await
            };
            let client = RuntimeClient::beside(&budget, &runtime, connecting);
            connected.await.unwrap();
            assert!(!client.is_dead_after(None, (start, start)));
        }
        assert_eq!(start.elapsed(), Duration::ZERO);
    }
}
