//! The requests of clients, read within bounds of size and time.

use std::ops::RangeInclusive;
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use spindle::job::{Job, Slot};
use spindle::{LockBuilder, LockTable};
use tokio::time::timeout;

use super::deadline::Reading;
use super::exits::Client;
use crate::arguments::slot;
use crate::jobs::JobChoices;
use crate::serve::answers::json;
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

/// The longest wait of one request.
pub const WAIT_MAX: Duration = Duration::from_secs(60 * 60);

/// A refusal, with its status.
#[derive(Debug)]
pub struct Refusal(pub StatusCode, pub String);

pub type Result<T> = std::result::Result<T, Refusal>;

/// The settings of each request for a lock.
#[derive(Debug, Deserialize)]
pub struct Settings {
    #[serde(default, deserialize_with = "duration_or_none")]
    pub lease: Option<Duration>,
    id: Option<String>,
    info: Option<String>,
    /// The longest silence of a client that sends heartbeats.
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

    /// Returns the longest silence of a client; by default a lease where it has no connection.
    pub fn heartbeat_timeout(&self, has_connection: bool) -> Result<Option<Duration>> {
        if self.heartbeat_timeout.is_some_and(|named| !HEARTBEAT_TIMEOUTS.contains(&named)) {
            return Err(bad(format!(
                "heartbeat_timeout: expected {:?} to {:?}",
                HEARTBEAT_TIMEOUTS.start(),
                HEARTBEAT_TIMEOUTS.end()
            )));
        }
        Ok(self.heartbeat_timeout.or((!has_connection).then(|| self.lease())))
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

/// Reads a body of JSON. A page of another site can't send one: its browser would ask first.
pub async fn read<T: DeserializeOwned>(headers: &HeaderMap, body: Body) -> Result<T> {
    let kind = headers.get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    if kind.is_none_or(|kind| kind.split(';').next() != Some("application/json")) {
        let text = "send a body with Content-Type: application/json";
        return Err(Refusal(StatusCode::UNSUPPORTED_MEDIA_TYPE, text.to_string()));
    }
    let Ok(read) = timeout(BODY_LIMIT, to_bytes(body, BODY_BYTES_MAX)).await else {
        let text = format!("body: not here within {BODY_LIMIT:?}");
        return Err(Refusal(StatusCode::REQUEST_TIMEOUT, text));
    };
    let bytes = read.map_err(|error| {
        let text = format!("body: {error}; at most {BODY_BYTES_MAX} bytes");
        Refusal(StatusCode::PAYLOAD_TOO_LARGE, text)
    })?;
    serde_json::from_slice(&bytes).map_err(|error| bad(format!("body: {error}")))
}

/// The refusal of what the kernel tells on a Unix socket alone.
pub fn no_socket(what: &str) -> Refusal {
    let cure = "start the agent with --socket";
    bad(format!("{what}: the kernel tells of a peer's exit on a Unix socket alone; {cure}"))
}

pub fn bad(text: impl Into<String>) -> Refusal {
    Refusal(StatusCode::BAD_REQUEST, text.into())
}

/// The library or Spanner is the reason.
impl From<spindle::Error> for Refusal {
    fn from(error: spindle::Error) -> Refusal {
        let status = match &error {
            error if error.is_config() => StatusCode::BAD_REQUEST,
            error if error.is_not_acquired() => StatusCode::CONFLICT,
            _ => StatusCode::BAD_GATEWAY,
        };
        Refusal(status, error.to_string())
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        json(self.0, &serde_json::json!({ "error": self.1 }))
    }
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
