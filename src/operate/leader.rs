//! Who holds a lock.

use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle_protocol::Observation;

use super::inspect::read_state;
use super::state::{LockState, Standing};
use crate::error::Result;
use crate::spanner::{LockTable, Table};
use crate::spindle::Spindle;
use crate::token::FencingToken;

impl LockTable {
    /// Who holds the lock `name` now; nothing if it is vacant: never held, released, or expired
    /// by Spanner's clock.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a name that no lock can have; otherwise why
    /// Spanner could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn leader(&self, name: &str) -> Result<Option<Leader>> {
        leader_in(self.table(), name).await
    }
}

impl Spindle {
    /// Who holds the lock now, whichever instance it is. As [`LockTable::leader`].
    ///
    /// # Errors
    ///
    /// Why Spanner could not be asked within 5 s.
    pub async fn leader(&self) -> Result<Option<Leader>> {
        self.settings()?;
        leader_in(self.table(), self.name()).await
    }

    /// Who holds the lock as far as this instance knows, without a request: itself, or whom its last
    /// poll saw; nothing if that poll saw nobody, or if the lease that it saw has run out since.
    ///
    /// It may be wrong by a poll interval and a request, longer while Spanner can't be reached.
    /// [`info`](Leader::info) is another's only in [`leader`](Spindle::leader): polls don't read it.
    pub fn known_leader(&self) -> Option<Leader> {
        let settings = self.settings().ok()?;
        let lease = settings.timing.lease;
        let Some(term) = self.term() else { return self.polled_leader(lease) };
        Some(Leader {
            id: settings.id.to_string(),
            token: term.token(),
            info: settings.info.clone(),
            lease: Some(lease),
            heartbeat_age: lease.saturating_sub(term.remaining()),
        })
    }

    /// Who held at the last poll, unless the lease that it saw has run out since.
    fn polled_leader(&self, lease: Duration) -> Option<Leader> {
        let (Observation { row, read_at }, age) = self.published().polled()?;
        let row = row.filter(|row| !row.is_released())?;
        let heartbeat_age = read_at.since(row.heartbeat) + age;
        (heartbeat_age < row.lease.unwrap_or(lease)).then_some(())?;
        Some(Leader {
            id: row.writer.id()?.to_string(),
            token: FencingToken::from_timestamp(row.token),
            info: None,
            lease: row.lease,
            heartbeat_age,
        })
    }
}

async fn leader_in(table: &Table, name: &str) -> Result<Option<Leader>> {
    let LockState { standing, token, info, lease, heartbeat_age, .. } =
        read_state(table, name).await?;
    let (Standing::Held { id }, Some(token), Some(heartbeat_age)) =
        (standing, token, heartbeat_age)
    else {
        return Ok(None);
    };
    Ok(Some(Leader { id, token, info, lease, heartbeat_age }))
}

/// Who holds a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leader {
    /// The id of the instance.
    pub id: String,
    /// The fencing token of its term.
    pub token: FencingToken,
    /// What it says of itself.
    pub info: Option<String>,
    /// Its lease, where the table has the column.
    pub lease: Option<Duration>,
    /// How old its last heartbeat was, by Spanner's clock.
    pub heartbeat_age: Duration,
}

impl Leader {
    /// Since when it holds, by Spanner's clock.
    pub fn since(&self) -> DateTime<Utc> {
        self.token.to_datetime()
    }
}
