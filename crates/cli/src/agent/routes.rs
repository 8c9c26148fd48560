//! The requests that can be made, under `/v1`; `docs/agent.yaml` describes them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{delete, get, post};
use axum::{Router, middleware};
use serde_json::{Value, json};
use spindle::{FencingToken, LockState, Term};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::admission::{Admission, admit};
use super::claims::Claims;
use super::deadline::Deadline;
use super::elector::Elector;
use super::event::FenceParts;
use super::probes::{self, Probes};
use super::request::{
    Acquire, LOCKS_MAX, Lead, Refusal, Resign, Result, RunOnce, WAIT_MAX, bad, json as answer, read,
};
use crate::record::Record;
use crate::serve::door::{Door, guard};

/// Events that wait for a slow client, for each lock. One that is slower is taken for gone.
const BACKLOG: usize = 64;

#[derive(Clone)]
pub struct Shared {
    pub claims: Arc<Claims>,
    pub probes: Arc<Probes>,
    pub elector: Option<Arc<Elector>>,
}

pub fn routes(shared: Shared, door: Door, admission: Admission) -> Router {
    Router::new()
        .route("/", get(leader_of_elector))
        .route("/v1/lead", post(lead))
        .route("/v1/acquire", post(acquire))
        .route("/v1/run-once", post(run_once))
        .route("/v1/claims/{claim}/heartbeat", post(heartbeat))
        .route("/v1/claims/{claim}/resign", post(resign))
        .route("/v1/claims/{claim}", delete(release))
        .route("/v1/leader", get(leader))
        .with_state(shared.clone())
        .merge(probes::routes(shared.probes))
        .layer(middleware::from_fn_with_state(admission, admit))
        .layer(middleware::from_fn_with_state(door, guard))
}

/// Contends for locks, and tells of each until the client lets go or its connection ends.
async fn lead(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response> {
    let mut asked: Lead = read(&headers, body).await?;
    let count = asked.locks.len();
    asked.locks.sort();
    asked.locks.dedup();
    if asked.locks.len() != count || !(1..=LOCKS_MAX).contains(&count) {
        return Err(bad(format!("locks: name 1 to {LOCKS_MAX} of them, each once")));
    }
    let patience = asked.settings.patience(true)?;
    let (sender, events) = mpsc::channel(BACKLOG * count);
    let mut holders = Vec::with_capacity(count);
    for name in &asked.locks {
        let lock = asked.settings.builder(&shared.claims.table, name)?.build()?;
        let holder = shared.claims.claim(name, Some(lock.clone()), Some(sender.clone()))?;
        holders.push((holder.patience(patience), lock));
    }
    for (holder, lock) in holders {
        tokio::spawn(holder.contend(lock));
    }
    Ok(stream(events))
}

fn stream(events: mpsc::Receiver<Bytes>) -> Response {
    let body = Body::from_stream(ReceiverStream::new(events).map(Ok::<_, Infallible>));
    ([(header::CONTENT_TYPE, "text/event-stream")], body).into_response()
}

/// Takes a lock for a client that sends heartbeats.
async fn acquire(State(shared): State<Shared>, headers: HeaderMap, body: Body) -> Result<Response> {
    let asked: Acquire = read(&headers, body).await?;
    if asked.wait > WAIT_MAX {
        return Err(bad(format!("wait: at most {WAIT_MAX:?}; ask again after that")));
    }
    let lock = asked.settings.builder(&shared.claims.table, &asked.lock)?.build()?;
    let holder = shared.claims.claim(&asked.lock, Some(lock.clone()), None)?;
    let holder = holder.patience(asked.settings.patience(false)?);
    let acquiring = async {
        if asked.wait.is_zero() {
            return lock.try_acquire().await;
        }
        lock.acquire_within(asked.wait).await.map(Some)
    };
    let acquired = tokio::select! {
        () = shared.claims.over.cancelled() => Ok(None),
        acquired = acquiring => acquired,
    };
    let Some(guard) = acquired? else {
        let holder = lock.known_leader().and_then(|state| state.holder().map(str::to_string));
        let body = json!({ "error": format!("lock `{}`: held", asked.lock), "holder": holder });
        return Ok(answer(StatusCode::CONFLICT, &body));
    };
    let term = Term::clone(&guard);
    let held = held(&term, Some(&holder.secret));
    holder.claim.heard();
    shared.claims.set_term(&holder.claim, Some(term));
    tokio::spawn(holder.hold_once(guard));
    Ok(answer(StatusCode::OK, &held))
}

/// Runs a job unless another node does, or lately did; the client runs it once it is told.
async fn run_once(
    State(shared): State<Shared>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let asked: RunOnce = read(&headers, body).await?;
    let mut lock = asked.settings.builder(&shared.claims.table, &asked.lock)?;
    if let Some(limit) = asked.start_limit {
        lock = lock.start_limit(limit);
    }
    let (sender, events) = mpsc::channel(BACKLOG);
    let holder = shared.claims.claim(&asked.lock, None, Some(sender))?;
    let holder = holder.patience(asked.settings.patience(true)?);
    tokio::spawn(holder.run_once(lock, asked.at_least, asked.at_most));
    Ok(stream(events))
}

async fn heartbeat(State(shared): State<Shared>, Path(secret): Path<String>) -> Result<Response> {
    let claim = shared.claims.find(&secret)?;
    claim.heard();
    Ok(answer(
        StatusCode::OK,
        &match claim.term() {
            Some(term) => held(&term, None),
            None => json!({ "lock": claim.lock, "token": null }),
        },
    ))
}

async fn release(State(shared): State<Shared>, Path(secret): Path<String>) -> Result<Response> {
    let outcome = shared.claims.find(&secret)?.let_go().await;
    Ok(answer(StatusCode::OK, &json!({ "outcome": outcome })))
}

async fn resign(
    State(shared): State<Shared>,
    Path(secret): Path<String>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response> {
    let asked: Resign = read(&headers, body).await?;
    let resigned = shared.claims.find(&secret)?.resign(asked.to).await?;
    Ok(answer(StatusCode::OK, &json!({ "resigned": resigned })))
}

async fn leader(
    State(shared): State<Shared>,
    Query(asked): Query<Vec<(String, String)>>,
) -> Result<Response> {
    let name = asked.into_iter().find_map(|(key, name)| (key == "lock").then_some(name));
    let name = name.ok_or_else(|| bad("write /v1/leader?lock=NAME"))?;
    let state: LockState = shared.claims.table.inspect(&name).await?;
    Ok(answer(StatusCode::OK, &Record::new(&state)))
}

/// Answers as the former leader-elector sidecar did.
async fn leader_of_elector(State(shared): State<Shared>) -> Result<Response> {
    let Some(elector) = &shared.elector else {
        let text = "start with --elector NAME to have its leader told here".to_string();
        return Err(Refusal(StatusCode::NOT_FOUND, text));
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
