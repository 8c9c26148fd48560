//! The requests that can be made. All of it is read-only.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::{StatusCode, header};
use axum::response::sse::Event;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Router, middleware};
use serde::Serialize;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::allowed_hosts::{AllowedHosts, check_host};
use super::answers::{self, json, stream, typed};
use super::gauges;
use super::lanes::Lanes;
use super::poller::{PERIOD, Poller};
use crate::jobs::SlotLine;
use crate::record::Record;
use crate::start::Start;

/// A probe is content with a poll as old as this.
const HEALTH_AGE: Duration = Duration::from_secs(10);

/// A page that was cut off comes back after this.
const RETRY_AFTER: Duration = Duration::from_secs(2);

/// Locks of one request for lanes.
const LANES_MAX: usize = 100;

/// The page's account of where it is.
#[derive(Clone, Debug)]
pub struct Page {
    pub title: String,
}

#[derive(Clone)]
struct Shared {
    page: Page,
    start: Arc<Start>,
    poller: Arc<Poller>,
    lanes: Arc<Lanes>,
    metrics_locks: usize,
}

/// A lock, and the last slots of its job, the latest first.
#[derive(Serialize)]
struct Details {
    #[serde(flatten)]
    record: Record,
    slots: Vec<SlotLine>,
}

type Names = Query<Vec<(String, String)>>;

pub fn routes(
    page: Page,
    start: Arc<Start>,
    poller: Arc<Poller>,
    lanes: Arc<Lanes>,
    allowed: AllowedHosts,
    metrics_locks: usize,
) -> Router {
    let script = |text| get(move || async move { typed("text/javascript; charset=utf-8", text) });
    let style = include_str!("page/page.css");
    let icon = include_str!("page/icon.svg");
    Router::new()
        .route("/", get(index))
        .route("/page.js", script(include_str!("page/page.js")))
        .route("/lanes.js", script(include_str!("page/lanes.js")))
        .route("/overview.js", script(include_str!("page/overview.js")))
        .route("/details.js", script(include_str!("page/details.js")))
        .route("/fleets.js", script(include_str!("page/fleets.js")))
        .route("/page.css", get(move || async move { typed("text/css; charset=utf-8", style) }))
        .route("/icon.svg", get(move || async move { typed("image/svg+xml", icon) }))
        .route("/events", get(events))
        .route("/lanes", get(wanted))
        .route("/lock", get(lock))
        .route("/metrics", get(metrics))
        .route("/healthz", get(health))
        .layer(middleware::from_fn_with_state(allowed, check_host))
        .with_state(Shared { page, start, poller, lanes, metrics_locks })
}

async fn index(State(shared): State<Shared>) -> Response {
    let title = shared.page.title.replace('&', "&amp;").replace('<', "&lt;");
    let page = include_str!("page/index.html").replace("{{title}}", &title);
    typed("text/html; charset=utf-8", page)
}

/// All that is there, and then what changes, until the viewer or this program goes.
async fn events(State(shared): State<Shared>) -> Response {
    let Some(events) = shared.poller.watch().await else {
        let retry = [(header::RETRY_AFTER, "5")];
        return (StatusCode::SERVICE_UNAVAILABLE, retry, "no more viewers now\n").into_response();
    };
    let first = tokio_stream::once(Event::default().retry(RETRY_AFTER));
    stream(first.chain(ReceiverStream::new(events)))
}

/// The lanes of the locks on a viewer's screen.
async fn wanted(State(shared): State<Shared>, Query(names): Names) -> Response {
    let names = names.into_iter().filter(|(key, _)| key == "lock").take(LANES_MAX);
    json(StatusCode::OK, &shared.lanes.want(names.map(|(_, name)| name)))
}

/// All there is to say of one lock, as of the last poll.
async fn lock(State(shared): State<Shared>, Query(names): Names) -> Response {
    let snapshot = shared.poller.poll(PERIOD).await;
    let name = names.into_iter().find_map(|(key, name)| (key == "name").then_some(name));
    match name.and_then(|name| snapshot.states.get(&name)) {
        Some(state) => {
            let slots = snapshot.jobs.get(&state.name).map(SlotLine::all).unwrap_or_default();
            json(StatusCode::OK, &Details { record: snapshot.readers.record(state), slots })
        }
        None => (StatusCode::NOT_FOUND, "no such lock\n").into_response(),
    }
}

async fn metrics(State(shared): State<Shared>) -> Response {
    let snapshot = shared.poller.poll(PERIOD).await;
    answers::metrics(gauges::text(&snapshot, shared.metrics_locks))
}

async fn health(State(shared): State<Shared>) -> Response {
    let trouble = match shared.start.trouble().await {
        Some(trouble) => Some(trouble),
        None => shared.poller.poll(HEALTH_AGE).await.trouble.clone(),
    };
    answers::health(trouble.as_deref())
}
