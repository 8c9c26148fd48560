//! The messages to a viewer: server-sent events of one line of JSON each.

use axum::body::Bytes;
use serde::Serialize;
use spindle::LockState;

use crate::record::{Record, is_late};

/// A lock as the page shows it: its record without what changes from poll to poll.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Shown {
    #[serde(flatten)]
    record: Record,
    late: bool,
}

impl Shown {
    pub fn new(state: &LockState, record: Record) -> Shown {
        let late = record.is_held() && is_late(state);
        let (since_ms, heartbeat_age_ms, next) = (None, None, String::new());
        Shown { record: Record { since_ms, heartbeat_age_ms, next, ..record }, late }
    }
}

/// An event as it goes over the wire; `event` has no line break, and JSON has none either.
pub fn encode(event: &str, data: &impl Serialize) -> Bytes {
    // The data that this program makes has no map with keys that JSON lacks.
    let json = serde_json::to_string(data).unwrap_or_else(|_| "null".to_string());
    Bytes::from(format!("event: {event}\ndata: {json}\n\n"))
}
