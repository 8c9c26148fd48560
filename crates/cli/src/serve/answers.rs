//! The forms of answers, here and of the agent.

use std::convert::Infallible;
use std::time::Duration;

use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tokio_stream::{Stream, StreamExt as _};

use crate::output::{escaped, printable};

/// From one comment of a stream to the next: some clients take silence for an end.
const QUIET_MAX: Duration = Duration::from_secs(15);

pub fn typed(kind: &'static str, text: impl Into<Body>) -> Response {
    ([(header::CONTENT_TYPE, kind)], text.into()).into_response()
}

pub fn json(status: StatusCode, thing: &impl Serialize) -> Response {
    match serde_json::to_string(thing) {
        // A person may read it in a terminal.
        Ok(text) => (status, typed("application/json", escaped(&text) + "\n")).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

pub fn metrics(text: String) -> Response {
    typed("text/plain; version=0.0.4; charset=utf-8", text)
}

/// The answer to a probe: well, or what is wrong.
pub fn health(trouble: Option<&str>) -> Response {
    match trouble {
        None => "ok\n".into_response(),
        Some(trouble) => {
            (StatusCode::SERVICE_UNAVAILABLE, format!("{}\n", printable(trouble))).into_response()
        }
    }
}

/// A server-sent event of one line of JSON.
pub fn event(name: &str, data: &impl Serialize) -> Event {
    // The data that this program makes has no map with keys that JSON lacks.
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_string());
    Event::default().event(name).data(json)
}

pub fn stream(events: impl Stream<Item = Event> + Send + 'static) -> Response {
    let events = events.map(Ok::<_, Infallible>);
    Sse::new(events).keep_alive(KeepAlive::new().interval(QUIET_MAX)).into_response()
}
