//! The requests of clients, read within bounds of size and time.

use std::ops::RangeInclusive;
use std::time::Duration;

use axum::body::to_bytes;
use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use chrono::{DateTime, Utc};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use spindle::job::{Job, Slot};
use spindle::{LockBuilder, LockTable};
use tokio::time::timeout;

use super::admission::WITNESS;
use super::deadline::Reading;
use super::exits::Client;
use super::refusal::{Refusal, Result, bad};
use crate::arguments::slot;
use crate::jobs::JobChoices;
use crate::serve::peer::Peer;

/// Bytes of a request's body: 100 long names.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// How long a body may be in coming.
pub const BODY_LIMIT: Duration = Duration::from_secs(5);

/// The lease of a request that names none.
const LEASE: Duration = Duration::from_secs(10);

/// Locks of one connection.
pub const LOCKS_MAX: usize = 100;

/// The silence that a client may ask for: as long as a lease may be.
const HEARTBEAT_TIMEOUTS: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 60 * 60);

/// Characters of a claim's name: 128 bits take 22 of them.
const CLAIM_LENGTHS: RangeInclusive<usize> = 22..=64;

/// The longest wait of one request.
pub const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// The settings of each request for a lock.
#[derive(Debug, Deserialize)]
pub struct Settings {
    #[serde(default, deserialize_with = "duration_or_none")]
    pub lease: Option<Duration>,
    id: Option<String>,
    info: Option<String>,
    /// The claim's name, if the client chooses it: then it can ask again after a lost answer.
    claim: Option<String>,
    /// The longest silence of the client.
    #[serde(default, deserialize_with = "duration_or_none")]
    heartbeat_timeout: Option<Duration>,
    #[serde(default)]
    clock: Reading,
    /// The meaning of the client's exit; without it, that means nothing.
    on_exit: Option<OnExit>,
    /// The client's own number, which says that it has connected itself.
    pid: Option<u32>,
    /// All other fields: a misspelt one must not be passed over.
    #[serde(flatten)]
    unknown: serde_json::Map<String, serde_json::Value>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum OnExit {
    Release,
}

#[derive(Debug, Deserialize)]
pub struct Lead {
    pub locks: Vec<String>,
    #[serde(flatten)]
    pub settings: Settings,
}

#[derive(Debug, Deserialize)]
pub struct Acquire {
    pub lock: String,
    /// Zero tries once.
    #[serde(default, deserialize_with = "duration")]
    pub wait: Duration,
    #[serde(flatten)]
    pub settings: Settings,
}

#[derive(Debug, Deserialize)]
pub struct RunOnce {
    pub lock: String,
    /// The time for which the run was scheduled.
    #[serde(default, deserialize_with = "time_or_none")]
    slot: Option<DateTime<Utc>>,
    /// The period of the schedule, in its place.
    #[serde(default, deserialize_with = "duration_or_none")]
    every: Option<Duration>,
    attempts: Option<u32>,
    #[serde(default, deserialize_with = "duration_or_none")]
    retry_pause: Option<Duration>,
    #[serde(default, deserialize_with = "duration_or_none")]
    at_most: Option<Duration>,
    #[serde(default)]
    skip_if_running: bool,
    #[serde(flatten)]
    pub settings: Settings,
}

impl RunOnce {
    /// Returns the job and its slot.
    pub fn job(&self, lock: LockBuilder) -> Result<(Job, Slot)> {
        let slot = match (self.slot, self.every) {
            (Some(slot), None) => slot.into(),
            (None, Some(period)) => Slot::every(period),
            _ => return Err(bad("slot: name it, or the period of the schedule as `every`")),
        };
        let RunOnce { attempts, retry_pause, at_most, skip_if_running, .. } = *self;
        let choices = JobChoices { attempts, retry_pause, at_most, skip_if_running };
        Ok((choices.job(lock), slot))
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resign {
    pub to: Option<String>,
}

impl Settings {
    pub fn builder(&self, table: &LockTable, name: &str) -> Result<LockBuilder> {
        if let Some(field) = self.unknown.keys().next() {
            return Err(bad(format!("body: unknown field `{field}`")));
        }
        self.clock.check().map_err(bad)?;
        let mut builder = table.lock(name).lease(self.lease());
        if let Some(id) = &self.id {
            builder = builder.id(id);
        }
        if let Some(info) = &self.info {
            builder = builder.info(info);
        }
        Ok(builder)
    }

    /// Returns the name that the client has chosen for its claim. Whoever knows it may let go.
    pub fn claim(&self) -> Result<Option<&str>> {
        let is_allowed = |name: &str| {
            let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            CLAIM_LENGTHS.contains(&name.len()) && name.bytes().all(is_part)
        };
        match self.claim.as_deref() {
            Some(name) if !is_allowed(name) => Err(bad(format!(
                "claim: expected {} to {} letters, digits, `-` or `_`, drawn by chance",
                CLAIM_LENGTHS.start(),
                CLAIM_LENGTHS.end()
            ))),
            name => Ok(name),
        }
    }

    /// Returns the longest silence of a client; a lease by default.
    pub fn heartbeat_timeout(&self) -> Result<Duration> {
        if self.heartbeat_timeout.is_some_and(|named| !HEARTBEAT_TIMEOUTS.contains(&named)) {
            return Err(bad(format!(
                "heartbeat_timeout: expected {:?} to {:?}",
                HEARTBEAT_TIMEOUTS.start(),
                HEARTBEAT_TIMEOUTS.end()
            )));
        }
        Ok(self.heartbeat_timeout.unwrap_or_else(|| self.lease()))
    }

    /// Returns the client whose exit is to release, if it wants that; or why that can't be had.
    pub fn client(&self, peer: Option<&Peer>) -> Result<Option<Client>> {
        let (Some(OnExit::Release), pid) = (self.on_exit, self.pid) else {
            return match self.pid {
                Some(_) => Err(bad("pid: it goes with on_exit")),
                None => Ok(None),
            };
        };
        let pid = pid.ok_or_else(|| bad("on_exit: name the pid of the client, too"))?;
        let exit = peer.ok_or_else(|| no_socket("on_exit"))?.exit(pid).map_err(bad)?;
        Ok(Some(Client { exit, pid, lease: self.lease() }))
    }

    /// True if the client's exit is to release.
    pub fn names_exit(&self) -> bool {
        self.on_exit.is_some() || self.pid.is_some()
    }

    fn lease(&self) -> Duration {
        self.lease.unwrap_or(LEASE)
    }
}

/// Has each body here before its request is answered, once its peer is admitted. A client that sends on when this end closes
/// the connection is told of a broken one, and loses the answer.
pub async fn has_body(request: Request, next: Next) -> Response {
    if request.uri().path() == WITNESS {
        // It has no end.
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let Ok(read) = timeout(BODY_LIMIT, to_bytes(body, BODY_BYTES_MAX)).await else {
        let text = format!("body: not here within {BODY_LIMIT:?}");
        return Refusal::new(StatusCode::REQUEST_TIMEOUT, "late_body", text).into_response();
    };
    match read {
        Ok(body) => next.run(Request::from_parts(parts, body.into())).await,
        Err(error) => {
            let text = format!("body: {error}; at most {BODY_BYTES_MAX} bytes");
            Refusal::new(StatusCode::PAYLOAD_TOO_LARGE, "large_body", text).into_response()
        }
    }
}

/// Reads a body of JSON. A page of another site can't send one: its browser would ask first.
pub fn read<T: DeserializeOwned>(headers: &HeaderMap, body: &[u8]) -> Result<T> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.and_then(|kind| kind.split(';').next()).unwrap_or_default();
    if !kind.trim().eq_ignore_ascii_case("application/json") {
        let text = "send a body with Content-Type: application/json";
        return Err(Refusal::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", text));
    }
    serde_json::from_slice(body).map_err(|error| bad(format!("body: {error}")))
}

/// The refusal of what the kernel tells on a Unix socket alone.
pub fn no_socket(what: &str) -> Refusal {
    let cure = "start the agent with --socket";
    bad(format!("{what}: the kernel tells of a peer's exit on a Unix socket alone; {cure}"))
}

fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Duration, D::Error> {
    let text = String::deserialize(deserializer)?;
    humantime::parse_duration(&text).map_err(|error| {
        D::Error::custom(format!("`{text}`: {error}; write for example 500ms or 10s"))
    })
}

fn duration_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<Duration>, D::Error> {
    duration(deserializer).map(Some)
}

fn time_or_none<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<Option<DateTime<Utc>>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let time = slot(&text).map_err(|error| D::Error::custom(format!("`{text}`: {error}")))?;
    Ok(Some(time))
}
