//! The claims of all clients: who may let go of what, and whose turn it is to end.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::StatusCode;
use axum::response::sse::Event;
use rand::RngExt as _;
use spindle::job::JobRun;
use spindle::operate::{AtExit, ExitedInstance};
use spindle::{CancellationToken, LockTable, Spindle, Term};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use super::event::{self, Ending};
use super::refusal::{CLAIM_EXISTS, Refusal, Result, bad, is_ending, unavailable};

/// The answer to a client that let go.
pub type Released = oneshot::Sender<&'static str>;

/// The answer to one that held nothing.
pub const HAD_NO_TERM: &str = "ended_before";

/// One client's claim to one lock. Only who knows its secret can let go of it.
pub struct Claim {
    pub lock: String,
    /// None for a job, which can't be resigned.
    instance: Option<Spindle>,
    orders: mpsc::Sender<Released>,
    /// When the client was heard last, by any claim of its stream.
    heard: Heard,
    term: watch::Sender<Option<Term>>,
    /// True if the client said that the run of its job has failed.
    has_failed: AtomicBool,
    /// The client's stream of events, if it has one.
    events: Option<mpsc::WeakSender<Event>>,
}

/// When a client was heard last. The claims of one stream share it, so that one heartbeat is enough.
#[derive(Clone)]
pub struct Heard(Arc<watch::Sender<Instant>>);

impl Default for Heard {
    fn default() -> Heard {
        Heard(Arc::new(watch::Sender::new(Instant::now())))
    }
}

/// The parts of a claim that its request decides.
pub struct Wanted<'a> {
    pub lock: &'a str,
    /// None for a job.
    pub instance: Option<Spindle>,
    pub events: Option<&'a mpsc::Sender<Event>>,
    /// The name that the client has chosen, if it has.
    pub secret: Option<String>,
    pub heard: &'a Heard,
}

/// A term that is renewed no more, whose client may still let go of it.
#[derive(Clone)]
struct Lapsing {
    instance: ExitedInstance,
    /// The run of a job, whose end is recorded with the release.
    run: Option<JobRun>,
    until: Instant,
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
    lapsing: HashMap<String, Lapsing>,
    counts: Counts,
}

impl Claim {
    /// Returns the term that is held now.
    pub fn term(&self) -> Option<Term> {
        let term = self.term.borrow().clone();
        term.filter(|term| term.ended().is_none() && !term.remaining().is_zero())
    }

    pub fn set_term(&self, term: Option<Term>) {
        self.term.send_replace(term);
    }

    /// Waits for a term; none if the claim ends without one.
    pub async fn gains(&self) -> Option<Term> {
        let mut term = self.term.subscribe();
        tokio::select! {
            biased;
            // The sender is right here.
            _ = term.wait_for(Option::is_some) => self.term(),
            () = self.orders.closed() => None,
        }
    }

    /// True if its client has no stream, and sends heartbeats alone.
    pub fn is_acquired(&self) -> bool {
        self.events.is_none()
    }

    pub fn is_alive(&self) -> bool {
        self.instance.as_ref().is_none_or(|lock| lock.health().is_alive())
    }

    /// Notes that the client was heard.
    pub fn heard(&self) {
        self.heard.0.send_replace(Instant::now());
    }

    /// Notes that the run of a job has failed, before it lets go.
    pub fn fails(&self) {
        self.has_failed.store(true, Ordering::Release);
    }

    pub fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Acquire)
    }

    /// Lets go, and says what came of it, once the claim is gone; nothing, if it ended otherwise.
    async fn let_go(&self) -> Option<&'static str> {
        let (released, outcome) = oneshot::channel();
        self.orders.send(released).await.ok()?;
        let outcome = outcome.await.ok();
        // Its name is free again by then.
        self.orders.closed().await;
        outcome
    }

    /// Gives up the term, and goes on contending. False if there was none.
    pub async fn resign(&self, to: Option<String>) -> Result<bool> {
        let Some(lock) = &self.instance else {
            let text = format!("lock `{}`: a run can't be resigned, only ended", self.lock);
            return Err(bad(text));
        };
        let resign = lock.resign();
        Ok(match to {
            None => resign.await?,
            Some(id) => resign.to(id).await?,
        })
    }
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
    pub fn claim(self: &Arc<Claims>, wanted: Wanted<'_>) -> Result<Claimed> {
        let Wanted { lock, instance, events, secret, heard } = wanted;
        let secret = secret.unwrap_or_else(|| format!("{:032x}", rand::rng().random::<u128>()));
        let (orders, ordered) = mpsc::channel(1);
        let hears = heard.0.subscribe();
        let claim = Arc::new(Claim {
            lock: lock.to_string(),
            instance,
            orders,
            heard: heard.clone(),
            term: watch::Sender::default(),
            has_failed: AtomicBool::new(false),
            events: events.map(mpsc::Sender::downgrade),
        });
        let mut inner = self.inner();
        if self.ending.is_cancelled() {
            return Err(is_ending());
        }
        if inner.claims.len() >= self.claims_max {
            let max = self.claims_max;
            let text = format!("{max} locks are claimed, the most that --locks-max allows");
            return Err(unavailable("too_many_claims", text));
        }
        if inner.claims.contains_key(&secret) {
            let text = "claim: there is one of this name already";
            return Err(Refusal::new(StatusCode::CONFLICT, CLAIM_EXISTS, text));
        }
        inner.claims.insert(secret.clone(), Arc::clone(&claim));
        self.count.send_replace(inner.claims.len());
        Ok(Claimed { claims: Arc::clone(self), claim, secret, orders: ordered, heard: hears })
    }

    pub fn find(&self, secret: &str) -> Result<Arc<Claim>> {
        self.inner().claims.get(secret).cloned().ok_or_else(|| {
            let text = "claim: there is none of this name; it was released, or it has lapsed";
            Refusal::new(StatusCode::NOT_FOUND, "no_such_claim", text)
        })
    }

    /// Lets go for a client, and says what came of it: also of a term that is renewed no more, until its lease is over.
    /// The late end of a run is `done`, or it has failed.
    pub async fn let_go(&self, secret: &str, is_done: bool) -> Result<&'static str> {
        let found = self.find(secret);
        match self.end_claim(found.as_deref().ok(), secret, is_done).await {
            Some(outcome) => Ok(outcome),
            None => found.map(|_| HAD_NO_TERM),
        }
    }

    /// Ends what the client had under this name when its claim was looked for: who asks for it anew has stopped its
    /// work. A claim that was made since is another request's, and stays.
    pub async fn make_room(&self, secret: &str, found: Option<&Claim>) {
        // A lease that can't be released runs out. Nobody says that a run is done.
        let _ = self.end_claim(found, secret, false).await;
    }

    /// Ends a claim, or a term under its name that is renewed no more, and says what came of it; nothing, if neither is.
    async fn end_claim(
        &self,
        claim: Option<&Claim>,
        secret: &str,
        is_done: bool,
    ) -> Option<&'static str> {
        let told = match claim {
            Some(claim) => claim.let_go().await,
            None => None,
        };
        if told.is_some_and(|told| told != HAD_NO_TERM) {
            return told;
        }
        let lapsing = self.inner().lapsing.get(secret).cloned();
        let Some(lapsing) = lapsing.filter(|lapsing| lapsing.until > Instant::now()) else {
            return told;
        };
        let run = lapsing.run.as_ref().map(|run| (run, is_done));
        // Here the client may be gone. It may ask once more, and so it may after an answer that says nothing.
        let outcome = match self.table.release_left(&lapsing.instance, run).await {
            AtExit::Released(_) => "released",
            AtExit::Lapses(_) | AtExit::HasNone => HAD_NO_TERM,
            AtExit::Unknown(_) => return Some("unacknowledged"),
        };
        let mut inner = self.inner();
        inner.counts.released += u64::from(outcome == "released");
        if inner.lapsing.get(secret).is_some_and(|it| it.instance == lapsing.instance) {
            inner.lapsing.remove(secret);
        }
        Some(outcome)
    }

    /// Notes a term that is renewed no more, for its client to let go of.
    pub fn lapses(&self, secret: &str, term: &Term, run: Option<JobRun>) {
        let Some(instance) = ExitedInstance::holder_of(term) else { return };
        let now = Instant::now();
        let mut inner = self.inner();
        inner.lapsing.retain(|_, lapsing| lapsing.until > now);
        if inner.lapsing.len() < self.claims_max {
            let until = now + term.remaining();
            inner.lapsing.insert(secret.to_string(), Lapsing { instance, run, until });
        }
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
                events.try_send(event::event("ending", &Ending { lock: &claim.lock }))
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
