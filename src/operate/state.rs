//! The state of a lock, as its row tells it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle_protocol::line::{Place, id_of};
use spindle_protocol::{Named, Row, StoredRow, Timestamp};

use crate::names::fleet_of;
use crate::settings::LEASE_DEFAULT;
use crate::token::FencingToken;

/// A lock as it stands in the table, judged by Spanner's clock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockState {
    /// The name of the lock.
    pub name: String,
    /// The holder, or why nobody holds it.
    pub holding: Holding,
    /// The token in the row: of the term, or of the act that ended the last one.
    pub token: Option<FencingToken>,
    /// How old the last heartbeat is; nothing if the lock was released.
    pub heartbeat_age: Option<Duration>,
    /// The lease of the last holder, or for how long a successor has first refusal. Nothing if
    /// the holder is another implementation's: such a lock is judged by a lease of 10 s.
    pub lease: Option<Duration>,
    /// The holder's own text, or the mark of what ended its term: `evicted by …` or `seized by …`.
    pub info: Option<String>,
    /// The id of the contender that waits first in line, as it wrote it last: a hint, which outlasts a contender that has
    /// gone until another writes. It is `/readers` at a gate where readers wait.
    pub next: Option<String>,
    /// Since when that contender waits, by Spanner's clock.
    pub next_since: Option<DateTime<Utc>>,
    /// When Spanner read the row, by its clock.
    pub read_at: DateTime<Utc>,
    /// The row itself, from which a history goes on.
    pub(crate) row: Option<Row>,
}

/// The holder of a lock, or why nobody holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Holding {
    /// The lease of the instance of this id has not run out.
    #[non_exhaustive]
    Held {
        /// The id of the instance.
        id: String,
    },
    /// There is no row: it was never held, or the row was deleted.
    NeverHeld,
    /// The last holder let go, or it was seized.
    Released,
    /// It was released, or seized, for a named contender, which has first refusal. Where the row
    /// doesn't tell for how long, it stays so.
    #[non_exhaustive]
    Promised {
        /// The id of the contender.
        to: String,
    },
    /// The holder was evicted; contenders wait until what it may still believe in has run out.
    Evicted,
    /// The last holder let its lease run out: it crashed, hangs, or is out of contact.
    #[non_exhaustive]
    Expired {
        /// The id of the instance.
        id: String,
    },
}

impl LockState {
    /// Returns the id of the instance that holds the lock, if one does.
    pub fn holder(&self) -> Option<&str> {
        match &self.holding {
            Holding::Held { id } => Some(id),
            _ => None,
        }
    }

    /// Returns true if somebody holds the lock.
    pub fn is_held(&self) -> bool {
        matches!(self.holding, Holding::Held { .. })
    }

    /// Returns the fleet to which a row of the library's own belongs, such as
    /// `spindle:shard:orders/emails`; nothing for a lock of a user's.
    ///
    /// Its rows have this name, `/`, and the id or the number. Of readers and writers, the fleet is
    /// also the name of the writer's row.
    pub fn fleet(&self) -> Option<&str> {
        fleet_of(&self.name)
    }

    /// Returns since when the holder holds, by Spanner's clock. If nobody holds, it is when a
    /// release, an eviction or a seizure ended the last term, or when the term began that ran out.
    pub fn since(&self) -> Option<DateTime<Utc>> {
        self.token.map(FencingToken::to_datetime)
    }

    /// Returns the row as it is stored.
    pub(crate) fn stored(&self) -> Option<StoredRow> {
        let row = self.row.clone()?;
        let lease_ms = row.lease.and_then(|lease| i64::try_from(lease.as_millis()).ok());
        Some(StoredRow {
            heartbeat: Some(row.heartbeat),
            token: Some(row.token),
            writer: row.writer,
            lease_ms,
            info: self.info.clone(),
            ..StoredRow::new(&self.name)
        })
    }

    /// Returns when Spanner read the row.
    pub(crate) fn asked_at(&self) -> Timestamp {
        Timestamp(self.read_at.timestamp_nanos_opt().unwrap_or(i64::MAX))
    }

    pub(crate) fn new(name: &str, found: Option<StoredRow>, asked_at: Timestamp) -> LockState {
        let place = found.as_ref().and_then(Place::of);
        let found = found.map(|stored| (stored.row(), stored.info));
        LockState {
            next: place.as_ref().map(|place| place.id().to_string()),
            next_since: place.map(|place| DateTime::from_timestamp_nanos(place.since.0)),
            ..LockState::of(name, found, asked_at, LEASE_DEFAULT)
        }
    }

    /// Returns the state of a row with its text; `lease` is for a row that tells none.
    pub(crate) fn of(
        name: &str,
        found: Option<(Row, Option<String>)>,
        asked_at: Timestamp,
        lease: Duration,
    ) -> LockState {
        let read_at = DateTime::from_timestamp_nanos(asked_at.0);
        let never_held = LockState {
            name: name.to_string(),
            holding: Holding::NeverHeld,
            token: None,
            heartbeat_age: None,
            lease: None,
            info: None,
            next: None,
            next_since: None,
            read_at,
            row: None,
        };
        let Some((row, info)) = found else { return never_held };
        let age = asked_at.since(row.heartbeat);
        LockState {
            holding: holding(&row, asked_at, row.lease.unwrap_or(lease)),
            token: Some(FencingToken::from_timestamp(row.token)),
            heartbeat_age: (!row.is_released()).then_some(age),
            lease: row.lease,
            info,
            row: Some(row),
            ..never_held
        }
    }
}

fn holding(row: &Row, asked_at: Timestamp, lease: Duration) -> Holding {
    match row.writer.names() {
        Named::Successor(to)
            if row.is_released() && row.lease.is_none_or(|grace| row.token + grace > asked_at) =>
        {
            Holding::Promised { to: id_of(to).to_string() }
        }
        _ if row.is_released() => Holding::Released,
        Named::Term { id, .. } | Named::Stranger(id) => {
            if asked_at.since(row.heartbeat) < lease {
                Holding::Held { id: id.to_string() }
            } else {
                Holding::Expired { id: id.to_string() }
            }
        }
        Named::Nobody | Named::Successor(_) => Holding::Evicted,
    }
}
