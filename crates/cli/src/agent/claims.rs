//! The claims of all clients: who may let go of what, and whose turn it is to end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use axum::response::sse::Event;
use rand::RngExt as _;
use spindle::{CancellationToken, LockTable, Spindle, Term};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::event::Ending;
use super::request::{Refusal, Result};
use crate::serve::answers;

/// The answer to a client that let go.
pub type Released = oneshot::Sender<&'static str>;

/// One client's claim to one lock. Only who knows its secret can let go of it.
pub struct Claim {
    pub lock: String,
    /// None for a job, which can't be resigned.
    instance: Option<Spindle>,
    orders: mpsc::Sender<Released>,
    /// When the client was heard last.
    heard: watch::Sender<Instant>,
    term: Mutex<Option<Term>>,
    /// True if the client said that the run of its job has failed.
    has_failed: AtomicBool,
    /// The client's stream of events, if it has one.
    events: Option<mpsc::WeakSender<Event>>,
}

/// A claim as its holder has it: the secret, and the ends of what its client sends.
pub struct Claimed {
    pub claims: Arc<Claims>,
    pub claim: Arc<Claim>,
    pub secret: String,
    pub orders: mpsc::Receiver<Released>,
    pub heard: watch::Receiver<Instant>,
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.claims.forget(&self.secret);
    }
}

/// Counts since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub gained: u64,
    pub lost: u64,
    pub released: u64,
    pub lapsed: u64,
    pub exited: u64,
    /// Instances of processes that hold for themselves, at present.
    pub watched: u64,
}

pub struct Claims {
    pub table: LockTable,
    claims_max: usize,
    inner: Mutex<Inner>,
    /// How many there are.
    count: watch::Sender<usize>,
    /// Fires when the agent is told to end: nothing is contended for from then on.
    pub ending: CancellationToken,
    /// Fires when the agent gives up whatever was not let go.
    pub over: CancellationToken,
}

#[derive(Default)]
struct Inner {
    claims: HashMap<String, Arc<Claim>>,
    counts: Counts,
}

impl Claim {
    /// Returns the term that is held now.
    pub fn term(&self) -> Option<Term> {
        let term = self.term.lock().unwrap_or_else(PoisonError::into_inner).clone();
        term.filter(|term| term.ended().is_none() && !term.remaining().is_zero())
    }

    pub fn set_term(&self, term: Option<Term>) {
        *self.term.lock().unwrap_or_else(PoisonError::into_inner) = term;
    }

    pub fn is_alive(&self) -> bool {
        self.instance.as_ref().is_none_or(|lock| lock.health().is_alive())
    }

    /// Notes that the client was heard.
    pub fn heard(&self) {
        self.heard.send_replace(Instant::now());
    }

    /// Notes that the run of a job has failed, before it lets go.
    pub fn fails(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Lets go, and says what came of it.
    pub async fn let_go(&self) -> &'static str {
        let (released, outcome) = oneshot::channel();
        if self.orders.send(released).await.is_err() {
            return "ended_before";
        }
        outcome.await.unwrap_or("ended_before")
    }

    /// Gives up the term, and goes on contending. False if there was none.
    pub async fn resign(&self, to: Option<String>) -> Result<bool> {
        let Some(lock) = &self.instance else {
            let text = format!("lock `{}`: a run can't be resigned, only ended", self.lock);
            return Err(Refusal(StatusCode::BAD_REQUEST, text));
        };
        let resign = lock.resign();
        Ok(match to {
            None => resign.await?,
            Some(id) => resign.to(id).await?,
        })
    }
}

pub fn is_ending() -> Refusal {
    Refusal(StatusCode::SERVICE_UNAVAILABLE, "the agent is about to end".to_string())
}

impl Claims {
    pub fn new(table: LockTable, claims_max: usize) -> Claims {
        Claims {
            table,
            claims_max,
            inner: Mutex::default(),
            count: watch::Sender::new(0),
            ending: CancellationToken::new(),
            over: CancellationToken::new(),
        }
    }

    /// Makes a claim, which lasts until its record is dropped.
    pub fn claim(
        self: &Arc<Claims>,
        lock: &str,
        instance: Option<Spindle>,
        events: Option<&mpsc::Sender<Event>>,
    ) -> Result<Claimed> {
        let secret = format!("{:032x}", rand::rng().random::<u128>());
        let (orders, ordered) = mpsc::channel(1);
        let (heard, hears) = watch::channel(Instant::now());
        let claim = Arc::new(Claim {
            lock: lock.to_string(),
            instance,
            orders,
            heard,
            term: Mutex::default(),
            has_failed: AtomicBool::new(false),
            events: events.map(mpsc::Sender::downgrade),
        });
        let mut inner = self.inner();
        let refuse = |text| Err(Refusal(StatusCode::SERVICE_UNAVAILABLE, text));
        if self.ending.is_cancelled() {
            return Err(is_ending());
        }
        if inner.claims.len() >= self.claims_max {
            return refuse(format!("{} locks are claimed, the most there may be", self.claims_max));
        }
        inner.claims.insert(secret.clone(), Arc::clone(&claim));
        self.count.send_replace(inner.claims.len());
        Ok(Claimed { claims: Arc::clone(self), claim, secret, orders: ordered, heard: hears })
    }

    pub fn find(&self, secret: &str) -> Result<Arc<Claim>> {
        self.inner().claims.get(secret).cloned().ok_or_else(|| {
            let text = "claim: there is none of this name; it was released, or it has lapsed";
            Refusal(StatusCode::NOT_FOUND, text.to_string())
        })
    }

    pub fn all(&self) -> Vec<Arc<Claim>> {
        self.inner().claims.values().cloned().collect()
    }

    pub fn counts(&self) -> Counts {
        self.inner().counts
    }

    pub fn counted(&self, count: impl FnOnce(&mut Counts)) {
        count(&mut self.inner().counts);
    }

    /// Notes so many more, or fewer, instances of processes whose exit is waited for.
    pub fn watched(&self, more: i64) {
        self.counted(|counts| counts.watched = counts.watched.saturating_add_signed(more));
    }

    fn forget(&self, secret: &str) {
        let mut inner = self.inner();
        inner.claims.remove(secret);
        self.count.send_replace(inner.claims.len());
    }

    /// Accepts no claim any more, and tells every client that the agent is to end.
    pub fn end(&self) {
        {
            // No claim is made beside this.
            let _inner = self.inner();
            self.ending.cancel();
        }
        for claim in self.all() {
            let events = claim.events.as_ref().and_then(mpsc::WeakSender::upgrade);
            // A client that doesn't read is about to be cut off anyway.
            events.map(|events| {
                events.try_send(answers::event("ending", &Ending { lock: &claim.lock }))
            });
        }
    }

    /// Waits until no claim is left. Cancellation safe.
    pub async fn none_left(&self) {
        // The sender is right here.
        let _ = self.count.subscribe().wait_for(|count| *count == 0).await;
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
