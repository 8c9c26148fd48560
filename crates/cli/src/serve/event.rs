//! The messages to a viewer: server-sent events of one line of JSON each.

use axum::body::Bytes;
use serde::Serialize;
use spindle::LockState;

use crate::record::{Record, is_late};

/// A lock as the page shows it: what changes only when there is something to see.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    name: String,
    /// The fleet that the row belongs to.
    fleet: Option<String>,
    state: &'static str,
    holder: Option<String>,
    reserved_for: Option<String>,
    since: Option<String>,
    token: Option<String>,
    lease_ms: Option<u128>,
    info: Option<String>,
    late: bool,
}

impl Shown {
    pub fn new(state: &LockState, record: Record) -> Shown {
        Shown {
            late: record.is_held() && is_late(state),
            name: record.name,
            fleet: record.fleet,
            state: record.state,
            holder: record.holder,
            reserved_for: record.reserved_for,
            since: record.since,
            token: record.token,
            lease_ms: record.lease_ms,
            info: record.info,
        }
    }
}

/// An event as it goes over the wire; `event` has no line break, and JSON has none either.
pub fn encode(event: &str, data: &impl Serialize) -> Bytes {
    // The data that this program makes has no map with keys that JSON lacks.
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_string());
    Bytes::from(format!("event: {event}\ndata: {json}\n\n"))
}
