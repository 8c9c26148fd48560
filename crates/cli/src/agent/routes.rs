//! The requests that can be made, under `/v1`; `docs/agent.yaml` describes them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::{delete, get, post};
use axum::{Extension, Router, middleware};
use serde_json::{Value, json};
use spindle::{FencingToken, Spindle, Term};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::timeout;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::admission::{Admission, WITNESS, admit, name_host};
use super::claims::{Claim, Claims, HAD_NO_TERM, Heard, Wanted};
use super::deadline::Deadline;
use super::elector::Elector;
use super::event::FenceParts;
use super::holder::Holder;
use super::job_call::JobCall;
use super::probes::{self, Probes};
use super::refusal::{CLAIM_EXISTS, Refusal, Result, bad, is_ending, unavailable};
use super::request::{Acquire, LOCKS_MAX, Lead, Resign, RunOnce, WAIT_MAX, has_body, read};
use super::witness::witness;
use crate::readers::Readers;
use crate::serve::allowed_hosts::{AllowedHosts, check_host};
use crate::serve::answers::{self, json as answer};
use crate::serve::connections::are_few_files;
use crate::serve::peer::Peer;
use crate::start::Start;

/// Events that wait for a slow client, for each lock. One that is slower is taken for gone.
const BACKLOG: usize = 64;

/// A request that is repeated waits so long at least for the one before.
const JOIN_MIN: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Shared {
    pub claims: Arc<Claims>,
    pub start: Arc<Start>,
    pub probes: Arc<Probes>,
    pub elector: Option<Arc<Elector>>,
    /// Connections that may wait: one is always left for whoever lets go.
    pub waiting: Arc<Semaphore>,
    pub waiting_max: usize,
    /// The table of the locks, as processes that have the agent release for them must name it.
    pub database: Arc<str>,
    pub table: Arc<str>,
}

impl Shared {
    /// Refuses what would send requests before the table was read for the first time.
    async fn has_started(&self) -> Result<()> {
        match self.start.trouble().await {
            None => Ok(()),
            Some(trouble) => Err(unavailable("not_started", trouble)),
        }
    }

    /// Returns the term that a request of this name was granted, whose answer may be lost; nothing, if it holds nothing.
    async fn acquired_before(&self, claim: &Claim, asked: &Acquire) -> Result<Option<Term>> {
        if claim.lock != asked.lock || !claim.is_acquired() {
            return Ok(None);
        }
        // The one before may be under way.
        let Ok(term) = timeout(asked.wait.max(JOIN_MIN), claim.gains()).await else {
            let text = format!("lock `{}`: held", asked.lock);
            return Err(Refusal::new(StatusCode::CONFLICT, "held", text));
        };
        claim.heard();
        Ok(term)
    }

    /// Takes a connection that lasts, until the permit is dropped.
    pub fn waits(&self) -> Result<OwnedSemaphorePermit> {
        Arc::clone(&self.waiting).try_acquire_owned().map_err(|_| {
            let cure = if are_few_files() { "; raise the limit of open files" } else { "" };
            let text = format!("{} requests wait, the most there may be{cure}", self.waiting_max);
            unavailable("too_many_requests", text)
        })
    }
}

pub fn routes(shared: Shared, allowed: AllowedHosts, admission: Admission) -> Router {
    Router::new()
        .route("/", get(leader_of_elector))
        .route("/v1/lead", post(lead))
        .route("/v1/acquire", post(acquire))
        .route("/v1/run-once", post(run_once))
        .route("/v1/claims/{claim}/heartbeat", post(heartbeat))
        .route("/v1/claims/{claim}/resign", post(resign))
        .route("/v1/claims/{claim}", delete(release))
        .route("/v1/leader", get(leader))
        .route(WITNESS, post(witness))
        .with_state(shared.clone())
        .merge(probes::routes(shared.probes))
        .fallback(|| async { refuse(StatusCode::NOT_FOUND, "no_such_path") })
        .method_not_allowed_fallback(|| async {
            refuse(StatusCode::METHOD_NOT_ALLOWED, "no_such_method")
        })
        .layer(middleware::from_fn(has_body))
        .layer(middleware::from_fn_with_state(admission, admit))
        .layer(middleware::from_fn_with_state(allowed, check_host))
        .layer(middleware::from_fn(name_host))
}

fn refuse(status: StatusCode, code: &'static str) -> Refusal {
    Refusal::new(status, code, "docs/agent.yaml lists the requests that can be made here")
}

/// Contends for locks, and tells of each until the client lets go or its connection ends.
async fn lead(
    State(shared): State<Shared>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let asked: Lead = read(&headers, &body)?;
    let count = asked.locks.len();
    let different = asked.locks.iter().collect::<BTreeSet<_>>().len();
    if different != count || !(1..=LOCKS_MAX).contains(&count) {
        return Err(bad(format!("locks: name 1 to {LOCKS_MAX} of them, each once")));
    }
    let heartbeat_timeout = asked.settings.heartbeat_timeout()?;
    let client = asked.settings.client(peer.as_deref())?;
    let secrets = secrets(asked.settings.claim()?, count);
    // A request that is refused ends nothing.
    let build = |name: &String| Ok(asked.settings.builder(&shared.claims.table, name)?.build()?);
    let locks = asked.locks.iter().map(build).collect::<Result<Vec<Spindle>>>()?;
    shared.has_started().await?;
    let permit = shared.waits()?;
    for secret in secrets.iter().flatten() {
        let found = shared.claims.find(secret).ok();
        shared.claims.make_room(secret, found.as_deref()).await;
    }
    let (sender, events) = mpsc::channel(BACKLOG * count);
    let (mut holders, heard) = (Vec::with_capacity(count), Heard::default());
    for (lock, secret) in locks.into_iter().zip(secrets) {
        let claimed = shared.claims.claim(Wanted {
            lock: lock.name(),
            instance: Some(lock.clone()),
            events: Some(&sender),
            secret,
            heard: &heard,
        })?;
        let holder = Holder::new(claimed, heartbeat_timeout, Some(sender.clone()));
        holders.push((holder.of(client.clone()), lock));
    }
    for (holder, lock) in holders {
        tokio::spawn(holder.contend(lock));
    }
    Ok(stream(events, permit))
}

/// The names of a stream's claims, if the client has chosen one: it stands for the only one, or begins that of each.
fn secrets(chosen: Option<&str>, count: usize) -> Vec<Option<String>> {
    let nth = |n: usize| {
        chosen.map(|name| if count == 1 { name.to_string() } else { format!("{name}.{n}") })
    };
    (1..=count).map(nth).collect()
}

/// Sends events, for as long as the client reads and any holder may tell one. The permit lasts as long.
pub fn stream(events: mpsc::Receiver<Event>, permit: OwnedSemaphorePermit) -> Response {
    answers::stream(ReceiverStream::new(events).map(move |event| {
        let _lasts = &permit;
        event
    }))
}

/// Takes a lock for a client that sends heartbeats.
async fn acquire(
    State(shared): State<Shared>,
    peer: Option<Extension<Peer>>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let asked: Acquire = read(&headers, &body)?;
    if asked.wait > WAIT_MAX {
        return Err(bad(format!("wait: at most {WAIT_MAX:?}; ask again after that")));
    }
    let lock = asked.settings.builder(&shared.claims.table, &asked.lock)?.build()?;
    let client = asked.settings.client(peer.as_deref())?;
    // Its connection lasts as long as the claim, and is the one by which the client's end is known.
    let stream_of = client.is_some().then(|| mpsc::channel(BACKLOG));
    let (sender, events) = stream_of.unzip();
    let heartbeat_timeout = asked.settings.heartbeat_timeout()?;
    let secret = asked.settings.claim()?;
    shared.has_started().await?;
    let permit = shared.waits()?;
    let may_repeat = secret.is_some() && sender.is_none();
    let mut claimed = loop {
        if let Some(secret) = secret {
            let found = shared.claims.find(secret).ok();
            if let Some(claim) = found.as_deref().filter(|_| may_repeat)
                && let Some(term) = shared.acquired_before(claim, &asked).await?
            {
                return Ok(answer(StatusCode::OK, &held(&term, Some(secret))));
            }
            shared.claims.make_room(secret, found.as_deref()).await;
        }
        let claimed = shared.claims.claim(Wanted {
            lock: &asked.lock,
            instance: Some(lock.clone()),
            events: sender.as_ref(),
            secret: secret.map(str::to_string),
            heard: &Heard::default(),
        });
        match claimed {
            // One of the same name came in between.
            Err(refusal) if may_repeat && refusal.is(CLAIM_EXISTS) => {}
            claimed => break claimed?,
        }
    };
    let acquiring = async {
        if asked.wait.is_zero() {
            return lock.try_acquire().await;
        }
        lock.acquire().within(asked.wait).await.map(Some)
    };
    let acquired = tokio::select! {
        () = shared.claims.ending.cancelled() => return Err(is_ending()),
        Some(released) = claimed.orders.recv() => {
            // It holds nothing. A client that waits no more needs no answer.
            let _ = released.send(HAD_NO_TERM);
            let text = format!("lock `{}`: the client let go", asked.lock);
            return Err(Refusal::new(StatusCode::CONFLICT, "let_go", text));
        }
        acquired = acquiring => acquired,
    };
    let Some(guard) = acquired? else {
        let holder = lock.known_leader().and_then(|state| state.holder().map(str::to_string));
        let text = format!("lock `{}`: held", asked.lock);
        let body = json!({ "error": text, "code": "held", "holder": holder });
        return Ok(answer(StatusCode::CONFLICT, &body));
    };
    let term = Term::clone(&guard);
    let held = held(&term, Some(&claimed.secret));
    claimed.claim.heard();
    claimed.claim.set_term(Some(term));
    let holder = Holder::new(claimed, heartbeat_timeout, sender).of(client);
    tokio::spawn(holder.hold_once(guard));
    Ok(match events {
        Some(events) => stream(events, permit),
        None => answer(StatusCode::OK, &held),
    })
}

/// Runs a slot of a job, unless it runs or ran elsewhere; the client does the work once it is told.
async fn run_once(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let asked: RunOnce = read(&headers, &body)?;
    if asked.settings.names_exit() {
        return Err(bad("on_exit: a run has none; its lease runs out, and others run its slot"));
    }
    let lock = asked.settings.builder(&shared.claims.table, &asked.lock)?;
    let id = lock.clone().build()?.id().to_string();
    let (job, slot) = asked.job(lock.id(&id))?;
    shared.has_started().await?;
    let permit = shared.waits()?;
    let (sender, events) = mpsc::channel(BACKLOG);
    let heartbeat_timeout = asked.settings.heartbeat_timeout()?;
    let claimed = shared.claims.claim(Wanted {
        lock: &asked.lock,
        instance: None,
        events: Some(&sender),
        secret: asked.settings.claim()?.map(str::to_string),
        heard: &Heard::default(),
    })?;
    let holder = Holder::new(claimed, heartbeat_timeout, Some(sender.clone()));
    let call = JobCall::begin(job, slot).await?;
    tokio::spawn(holder.run_once(call, id));
    Ok(stream(events, permit))
}

async fn heartbeat(State(shared): State<Shared>, Path(secret): Path<String>) -> Result<Response> {
    let claim = shared.claims.find(&secret)?;
    claim.heard();
    let mut told = match claim.term() {
        Some(term) => held(&term, None),
        None => json!({ "lock": claim.lock, "token": null }),
    };
    // For clients that read no events.
    told["ending"] = shared.claims.ending.is_cancelled().into();
    Ok(answer(StatusCode::OK, &told))
}

async fn release(
    State(shared): State<Shared>,
    Path(secret): Path<String>,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response> {
    let claim = shared.claims.find(&secret);
    for (key, outcome) in &asked {
        match (&**key, &**outcome, &claim) {
            ("outcome", "failed", Ok(claim)) => claim.fails(),
            ("outcome", "done" | "failed", _) => {}
            _ => return Err(bad("outcome: write `done` or `failed`, of the run of a job")),
        }
    }
    drop(claim);
    let is_done = !asked.iter().any(|(_, outcome)| outcome == "failed");
    let outcome = shared.claims.let_go(&secret, is_done).await?;
    Ok(answer(StatusCode::OK, &json!({ "outcome": outcome })))
}

async fn resign(
    State(shared): State<Shared>,
    Path(secret): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Result<Response> {
    let asked: Resign = read(&headers, &body)?;
    let resigned = shared.claims.find(&secret)?.resign(asked.to).await?;
    Ok(answer(StatusCode::OK, &json!({ "resigned": resigned })))
}

async fn leader(
    State(shared): State<Shared>,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response> {
    let name = asked.into_iter().find_map(|(key, name)| (key == "lock").then_some(name));
    let name = name.ok_or_else(|| bad("write /v1/leader?lock=NAME"))?;
    shared.has_started().await?;
    let table = &shared.claims.table;
    let state = table.inspect(&name).await?;
    let readers = Readers::of(table, &state).await?;
    Ok(answer(StatusCode::OK, &readers.record(&state)))
}

/// Answers as the former leader-elector sidecar did.
async fn leader_of_elector(State(shared): State<Shared>) -> Result<Response> {
    let Some(elector) = &shared.elector else {
        let text = "start with --elector NAME to have its leader told here";
        return Err(Refusal::new(StatusCode::NOT_FOUND, "no_elector", text));
    };
    Ok(answer(StatusCode::OK, &json!({ "name": elector.leader() })))
}

/// The answer about a term. Its milliseconds count from before the client sent the request.
fn held(term: &Term, claim: Option<&str>) -> Value {
    let remaining: Duration = term.remaining();
    let token: FencingToken = term.token();
    json!({
        "lock": term.lock(),
        "claim": claim,
        "token": token,
        "fence": FenceParts::of(term),
        "deadline": Deadline::of(term),
        "remaining_ms": u64::try_from(remaining.as_millis()).unwrap_or(u64::MAX),
    })
}
