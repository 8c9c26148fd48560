use std::sync::{Arc, OnceLock};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::mutation::Mutation;
use spindle_protocol::{Answer, Rejection, Row, Timestamp, Writer};
use tokio::time::{Instant, sleep};

use super::DEFAULT_LEASE;
use crate::config::{check_id, check_lock_name, check_table_name};
use crate::error::{Error, Result};
use crate::locks::{LockTable, REQUEST_LIMIT};
use crate::row::milliseconds;
use crate::table::{BEAT_COLUMNS, COMMIT_TIMESTAMP, EPOCH, TERM_COLUMNS, Table};
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
        let step = Step { name: name.to_string(), successor: None };
        self.depose("evict its holder", TERM_COLUMNS, name, move |table, row| {
            row?.writer.id()?;
            Some(step.evict(table))
        })
        .await
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
        let step = Step { name: name.to_string(), successor: None };
        self.depose("seize it", BEAT_COLUMNS, name, move |table, row| {
            let row = row?;
            let is_free = row.is_released() && row.writer == Writer::nobody();
            (!is_free).then(|| step.seize(table, Mutation::new_update_builder(&table.name)))
        })
        .await
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
        let step = Step { name: name.to_string(), successor: Some(id.to_string()) };
        self.depose("seize it for another", BEAT_COLUMNS, name, move |table, row| {
            let mutation = match row {
                Some(_) => Mutation::new_update_builder(&table.name),
                None => Mutation::new_insert_builder(&table.name),
            };
            Some(step.seize(table, mutation))
        })
        .await
    }

    async fn depose(
        &self,
        doing: &str,
        columns: &[&str],
        name: &str,
        step: impl Fn(&Table, Option<&Row>) -> Option<Mutation> + Clone + Send + Sync + 'static,
    ) -> Result<Option<Deposed>> {
        let table = self.table();
        check_table_name(&table.name)?;
        check_lock_name(name)?;
        let deadline = Instant::now() + REQUEST_LIMIT;
        loop {
            let known = table.optional.known();
            let (row, outcome) = table.step(doing, columns, name, step.clone()).await;
            let error = match (outcome.answer, outcome.error) {
                (Answer::Applied { at }, _) => return Ok(row.and_then(|row| deposed(&row, at))),
                (_, None) => return Ok(None),
                (_, Some(error)) => error,
            };
            // Neither was applied, for certain.
            let raced = matches!(error.code(), Some(Code::Aborted | Code::AlreadyExists));
            let learned = table.optional.known() != known;
            if !(raced || learned) || Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }
}

fn deposed(row: &Row, at: Timestamp) -> Option<Deposed> {
    Some(Deposed {
        id: row.writer.id()?.to_string(),
        token: FencingToken::from_timestamp(row.token),
        by: FencingToken::from_timestamp(at),
    })
}

/// What is written over a row, by whom it concerns.
#[derive(Clone)]
struct Step {
    name: String,
    successor: Option<String>,
}

impl Step {
    /// The heartbeat and the lease stay as they are: contenders still wait them out (I1).
    fn evict(&self, table: &Table) -> Mutation {
        let mut mutation = Mutation::new_update_builder(&table.name)
            .set("name")
            .to(&self.name)
            .set("token")
            .to(COMMIT_TIMESTAMP)
            .set("writer")
            .to(Writer::nobody().as_str());
        if table.optional.has_info() {
            mutation = mutation.set("info").to(&None::<String>);
        }
        mutation.build()
    }

    /// As a release, by somebody else's hand.
    fn seize(
        &self,
        table: &Table,
        mutation: google_cloud_spanner::mutation::WriteBuilder,
    ) -> Mutation {
        let successor = self.successor.as_deref();
        let writer = successor.map_or_else(Writer::nobody, Writer::successor);
        let mut mutation = mutation
            .set("name")
            .to(&self.name)
            .set("heartbeat")
            .to(EPOCH)
            .set("token")
            .to(COMMIT_TIMESTAMP)
            .set("writer")
            .to(writer.as_str());
        if table.optional.has_lease() {
            let grace = successor.map(|_| milliseconds(DEFAULT_LEASE));
            mutation = mutation.set("lease_ms").to(grace);
        }
        if table.optional.has_info() {
            mutation = mutation.set("info").to(&None::<String>);
        }
        mutation.build()
    }
}

impl Table {
    /// One attempt at one step, with the row that it was decided by.
    async fn step(
        self: &Arc<Table>,
        doing: &str,
        columns: &[&str],
        lock: &str,
        step: impl Fn(&Table, Option<&Row>) -> Option<Mutation> + Send + Sync + 'static,
    ) -> (Option<Row>, crate::table::Outcome) {
        let seen = Arc::new(OnceLock::new());
        let decide = {
            let (table, seen) = (Arc::clone(self), Arc::clone(&seen));
            move |row: Option<Row>| {
                let write = step(&table, row.as_ref());
                // The closure runs once.
                let _ = seen.set(row);
                write.map(|write| vec![write]).ok_or(Rejection::Changed(None))
            }
        };
        let outcome = self.transact(doing, lock, columns, REQUEST_LIMIT, decide).await;
        (seen.get().cloned().flatten(), outcome)
    }
}
