use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::{Answer, Change, Rejection, StoredRow, Succession, Timestamp};
use tokio::time::{Instant, sleep};

use super::DEFAULT_LEASE;
use crate::config::{check_id, check_lock_name, check_table_name};
use crate::error::{Error, Result};
use crate::locks::{LockTable, REQUEST_LIMIT};
use crate::token::FencingToken;

/// Before an act that another transaction got in the way of is tried again.
const PAUSE: Duration = Duration::from_millis(20);

/// Whose term was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deposed {
    /// The id of the instance.
    pub id: String,
    /// The token of its term.
    pub token: FencingToken,
    /// The token that superseded it. It is nobody's: the next term's is greater.
    pub by: FencingToken,
}

impl LockTable {
    /// Ends the term of whoever holds the lock, gracefully: at its next heartbeat the holder
    /// learns that it is deposed, and nobody takes over before its lease has run out.
    ///
    /// So at any instant at most one instance still believes that it holds. From now on the
    /// evicted term's fenced writes are refused. The evicted instance contends again like any
    /// other. Gives whose term it was; nothing if the row names no one, in which case nothing was
    /// written.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a name that no lock can have;
    /// [`is_outcome_unknown`](Error::is_outcome_unknown) if no answer came, where
    /// [`inspect`](LockTable::inspect) tells; otherwise why it could not be done within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the term was ended.
    pub async fn evict(&self, name: &str) -> Result<Option<Deposed>> {
        self.depose(name, Change::Evict { keep_away: None, info: None }).await
    }

    /// Takes the lock from whoever holds it, now: the next contender that looks takes it at once.
    ///
    /// The old holder believes in its term until its next heartbeat is refused, or its lease has
    /// run out: for that long two instances hold the lock, by their own lights. **Only fenced
    /// writes are safe then**; those of the old term are refused from now on. Where a few seconds
    /// don't matter, use [`evict`](LockTable::evict).
    ///
    /// Gives whose term it was, if the row named someone. It also ends the wait after an eviction
    /// and a promise to a successor; a lock that is free already is left as it is.
    ///
    /// # Errors
    ///
    /// As [`evict`](LockTable::evict).
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the lock was taken.
    pub async fn seize(&self, name: &str) -> Result<Option<Deposed>> {
        self.depose(name, Change::Seize { next: Succession::Anyone, info: None }).await
    }

    /// As [`seize`](LockTable::seize), for the contender `id`: forced leadership for a node.
    ///
    /// That instance takes the lock as soon as it looks, within its poll interval; the others
    /// leave it to it for 10 s, or for their own lease where the table lacks `lease_ms`. After
    /// that, or if no instance of this id runs, anyone takes it. It works on a lock that nobody
    /// holds, too.
    ///
    /// # Errors
    ///
    /// As [`evict`](LockTable::evict); [`is_config`](Error::is_config) also for an id that no
    /// instance can have.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the lock was taken.
    pub async fn seize_for(&self, name: &str, id: &str) -> Result<Option<Deposed>> {
        check_id(id).map_err(|rule| Error::config(format!("lock `{name}`: {rule}")))?;
        let next = Succession::Successor { id: id.to_string(), grace: DEFAULT_LEASE };
        self.depose(name, Change::Seize { next, info: None }).await
    }

    async fn depose(&self, name: &str, change: Change) -> Result<Option<Deposed>> {
        let table = self.table();
        check_table_name(&table.name)?;
        check_lock_name(name)?;
        let deadline = Instant::now() + REQUEST_LIMIT;
        loop {
            let known = table.optional.known();
            let (outcome, found) =
                table.carry_out_and_show(name, change.clone(), REQUEST_LIMIT).await;
            let error = match (outcome.answer, outcome.error) {
                (Answer::Applied { at }, _) => {
                    return Ok(found.first().and_then(|row| deposed(row, at)));
                }
                // Another made the row that this was to make.
                (Answer::Rejected(Rejection::Changed(_)), None) if Instant::now() < deadline => {
                    sleep(PAUSE).await;
                    continue;
                }
                (_, None) => return Ok(None),
                (_, Some(error)) => error,
            };
            // Not applied, for certain.
            let raced = error.code() == Some(Code::Aborted);
            let learned = table.optional.known() != known;
            if !(raced || learned) || Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }
}

fn deposed(found: &StoredRow, at: Timestamp) -> Option<Deposed> {
    let row = found.row();
    Some(Deposed {
        id: row.writer.id()?.to_string(),
        token: FencingToken::from_timestamp(row.token),
        by: FencingToken::from_timestamp(at),
    })
}
