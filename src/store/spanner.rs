//! The lock table on Spanner: one read, or one transaction, of one row or of many.
//!
//! Reads go through the Read API and writes through mutations: there is nothing to inject into,
//! and both of Spanner's dialects take the same calls. Every call is sent once and bounded in
//! time. The client by itself would repeat for ever, and a repeated insert reports its own row as
//! somebody else's.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::key;
use google_cloud_spanner::key::{KeyRange, KeySet};
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::TimestampBound;
use google_cloud_spanner::value::Timestamp as ClientTimestamp;
use spindle_protocol::transaction::{judge, reads};
use spindle_protocol::{Change, Column, Rejection, StoredRow};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout};

use super::connection::{Connection, Replace, TimedClient};
use super::requests::{self, Request};
use super::row::{self, mutation};
use super::schema;
use super::transact::transact;
use crate::batch::{Channels, Columns, CommitOutcome, Snapshot, Store, TakeOver, Verdict};
use crate::budget::READ;
use crate::error::{Error, Result};
use crate::names::{check_table_name, subject};
use crate::term::say;

/// The most rows of one read of ranges: more than any fleet has.
const ROWS_MAX: i64 = 100_000;

/// Why each change was refused, if it was, and the rows by which all were judged.
type Judged = (Vec<Option<Rejection>>, Vec<StoredRow>);

/// A lock table in a database.
#[derive(Debug)]
pub(crate) struct Spanner {
    pub(crate) connection: Connection,
    pub(crate) name: Arc<str>,
}

impl Store for Spanner {
    fn rows(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
        columns: Columns,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Snapshot>> {
        let rows_max = (!ranges.is_empty()).then_some(ROWS_MAX);
        let key_set = key_set(&keys, &ranges);
        let doing = move || match (&*ranges, &*keys) {
            ([(first, _), ..], _) => format!("{}: read its rows", subject(first)),
            ([], [lock]) => format!("lock `{lock}`: read its row"),
            ([], locks) => format!("{} locks: read their rows", locks.len()),
        };
        self.read(key_set, rows_max, columns, limit, doing).boxed()
    }

    fn transact(
        &self,
        changes: Vec<(Arc<str>, Change)>,
        limit: Duration,
    ) -> BoxFuture<'_, Verdict> {
        self.carry_out(changes, limit).boxed()
    }

    fn check_runtime(&self, subject: &str) -> Result<()> {
        self.connection.check_runtime(subject)
    }

    fn channels(&self) -> Channels {
        self.connection.channels()
    }

    fn heard_at(&self) -> Option<Instant> {
        self.connection.heard_at()
    }

    fn open_flow(&self, limit: Duration) -> BoxFuture<'static, Result<TakeOver>> {
        open(self.connection.clone(), Arc::clone(&self.name), limit).boxed()
    }
}

/// Opens a flow, and says in the log what came of it.
async fn open(connection: Connection, table: Arc<str>, limit: Duration) -> Result<TakeOver> {
    match begin_flow(connection, Arc::clone(&table), limit).await {
        Ok(replace) => Ok(Box::new(move |silent_for: Duration| {
            replace();
            say(
                || tracing::warn!(%table, ?silent_for, "the connection fell silent: another took its place"),
            );
        })),
        Err(error) => {
            say(
                || tracing::debug!(%table, %error, "the connection is silent, and no other answers"),
            );
            Err(error)
        }
    }
}

/// Opens a fresh client, or where the client was given, a channel of it that answers. That one is found
/// by a read; requests that are still pending keep the client from taking theirs.
async fn begin_flow(connection: Connection, table: Arc<str>, limit: Duration) -> Result<Replace> {
    if let Some(opened) = connection.open(limit).await {
        return opened;
    }
    let payment = connection.budget().requests.paid(READ).await;
    let timed = connection.client(limit).await?;
    let doing = || format!("table `{table}`: look for a channel that answers");
    let request = row::request(&table, ["name"], key_set(&[""], &[]), None, limit);
    let reading = read_rows(&timed.client, TimestampBound::strong(), request);
    let error = match timeout(limit, reading).await {
        Ok(Ok(_)) => None,
        Ok(Err(source)) => Some(Error::from_read(doing(), source)),
        Err(_) => Some(Error::timed_out(doing(), limit)),
    };
    connection.ended(&timed, error.as_ref());
    match error {
        None => {
            connection.budget().requests.refund(payment);
            Ok(Box::new(|| {}))
        }
        // It is heard, whatever it says of the table.
        Some(error) if error.is_answer() => Ok(Box::new(|| {})),
        Some(error) => Err(error),
    }
}

impl Spanner {
    /// Provides a client, in `limit` at most.
    pub(crate) async fn ready(&self, limit: Duration) -> Result<TimedClient> {
        check_table_name(&self.name)?;
        self.connection.client(limit).await
    }

    /// Reads rows in the order of their keys.
    pub(crate) async fn read(
        &self,
        keys: KeySet,
        rows_max: Option<i64>,
        columns: Columns,
        limit: Duration,
        doing: impl Fn() -> String,
    ) -> Result<Snapshot> {
        let timed = self.ready(limit).await?;
        let columns =
            all_columns().filter(|name| columns == Columns::All || *name != Column::Info.name());
        let request = row::request(&self.name, columns, keys, rows_max, timed.limit);
        let (rows, read_at) = self.answer(&timed, request, &doing).await?;
        let read_at = read_at.map(row::timestamp);
        let read_at = read_at.ok_or_else(|| without_read_timestamp(&doing()))?;
        Ok(Snapshot { rows, read_at })
    }

    async fn answer(
        &self,
        timed: &TimedClient,
        request: ReadRequest,
        doing: impl Fn() -> String,
    ) -> Result<(Vec<StoredRow>, Option<ClientTimestamp>)> {
        let reading = read_rows(&timed.client, TimestampBound::strong(), request);
        self.answered(timed, timeout(timed.limit, reading).await, doing).await
    }

    /// Returns the outcome of a read that was given the limit of `timed`.
    pub(crate) async fn answered<T>(
        &self,
        timed: &TimedClient,
        answer: Result<google_cloud_spanner::Result<T>, Elapsed>,
        doing: impl Fn() -> String,
    ) -> Result<T> {
        let error = match answer {
            Ok(Ok(found)) => {
                self.connection.ended(timed, None);
                return Ok(found);
            }
            Ok(Err(source)) => Error::from_read(doing(), source),
            Err(_) => Error::timed_out(doing(), timed.limit),
        };
        self.connection.ended(timed, Some(&error));
        Err(schema::explain(&self.connection, timed, &self.name, error))
    }

    async fn carry_out(&self, changes: Vec<(Arc<str>, Change)>, limit: Duration) -> Verdict {
        let timed = match self.ready(limit).await {
            Ok(timed) => timed,
            Err(error) => return Verdict::failed(&changes, error),
        };
        let doing = doing(&changes);
        let count = changes.len();
        let is_heartbeat = changes.iter().all(|(_, it)| matches!(it, Change::Heartbeat { .. }));
        let read = {
            let (keys, columns) = reads(&changes);
            let columns = std::iter::once("name").chain(columns.iter().map(|column| column.name()));
            row::request(&self.name, columns, key_set(&keys, &[]), None, timed.limit)
        };
        let judged: Arc<OnceLock<Judged>> = Arc::default();
        let decide = {
            let table = Arc::clone(&self.name);
            let judged = Arc::clone(&judged);
            move |found: Vec<StoredRow>| {
                let verdicts = judge(&changes, &found);
                let refused: Vec<_> = verdicts.iter().map(|it| it.clone().err()).collect();
                // The closure runs once.
                let _ = judged.set((refused, found));
                let writes = verdicts.into_iter().flatten().flatten();
                writes.map(|write| mutation(&table, write)).collect()
            }
        };
        let turn = self.connection.turn(timed.limit, is_heartbeat).await;
        let left = timed.deadline.saturating_duration_since(Instant::now());
        let committed = transact(&timed.client, doing, read, left, decide).await;
        drop(turn);
        let at_read = judged.get().is_none();
        let judged = judged.get().cloned();
        let (refused, found) = judged.unwrap_or_else(|| (vec![None; count], Vec::new()));
        self.connection.ended(&timed, committed.as_ref().err());
        let (commit, error) = match committed {
            Ok(Some(at)) => (CommitOutcome::Applied { at }, None),
            Ok(None) => (CommitOutcome::NotApplied, None),
            Err(error) => {
                let (code, is_unknown) = (error.code(), error.is_outcome_unknown());
                let error = schema::explain(&self.connection, &timed, &self.name, error);
                let may_be_a_rows = !error.is_schema() && !error.is_session_lost();
                let commit = match code {
                    _ if is_unknown => CommitOutcome::Unknown,
                    Some(Code::AlreadyExists) => CommitOutcome::Exists,
                    Some(Code::Aborted) => CommitOutcome::Aborted { at_read },
                    // Nothing but the text tells them apart, and it decides nothing here.
                    Some(
                        Code::NotFound
                        | Code::FailedPrecondition
                        | Code::InvalidArgument
                        | Code::OutOfRange,
                    ) if may_be_a_rows => CommitOutcome::Invalid,
                    _ => CommitOutcome::NotApplied,
                };
                (commit, Some(error))
            }
        };
        Verdict { refused, found, commit, error }
    }

    pub(crate) fn row_request<'a>(
        &self,
        columns: impl IntoIterator<Item = &'a str>,
        lock: &str,
        limit: Duration,
    ) -> ReadRequest {
        row::request(&self.name, columns, key_set(&[lock], &[]), None, limit)
    }
}

/// Returns the names of all columns of a lock table.
pub(crate) fn all_columns() -> impl Iterator<Item = &'static str> {
    std::iter::once("name").chain(Column::ALL.map(Column::name))
}

/// Reads rows in one request, and gives Spanner's timestamp of it, if it tells that.
pub(crate) async fn read_rows(
    client: &DatabaseClient,
    bound: TimestampBound,
    request: ReadRequest,
) -> google_cloud_spanner::Result<(Vec<StoredRow>, Option<ClientTimestamp>)> {
    let transaction = client.read_only_transaction().set_timestamp_bound(bound).build().await?;
    requests::count(Request::Read);
    let mut rows = transaction.execute_read(request).await?;
    let rows = row::stored_rows(&mut rows).await?;
    Ok((rows, transaction.read_timestamp()))
}

/// Says that no lock can live on a server that doesn't tell the time of its reads.
pub(crate) fn without_read_timestamp(doing: &str) -> Error {
    Error::config(format!(
        "{doing}: the server gives no read timestamps, by which leases are judged; no lock can be \
         taken there"
    ))
}

fn key_set<K: AsRef<str>>(keys: &[K], ranges: &[(String, String)]) -> KeySet {
    let keys = keys.iter().fold(KeySet::builder(), |keys, one| keys.add_key(key![one.as_ref()]));
    let keys = ranges.iter().fold(keys, |keys, (first, end)| {
        keys.add_range(KeyRange::closed_open(key![&**first], key![&**end]))
    });
    keys.build()
}

fn doing(changes: &[(Arc<str>, Change)]) -> String {
    match changes {
        [(lock, change)] => format!("lock `{lock}`: {}", doing_what(change)),
        [(_, Change::Heartbeat { .. }), ..] => {
            format!("{} locks: heartbeat", changes.len())
        }
        _ => format!("{} locks: begin or release", changes.len()),
    }
}

fn doing_what(change: &Change) -> &'static str {
    match change {
        Change::Job { term, .. } => doing_what(term),
        Change::Expecting { change, .. } => doing_what(change),
        Change::Insert { .. } => "insert its row",
        Change::Takeover { .. } => "take it over",
        Change::Heartbeat { .. } => "heartbeat",
        Change::Release { .. } => "release",
        Change::Mark { .. } => "stand in line",
        Change::Evict { .. } => "evict its holder",
        Change::Seize { .. } => "seize it",
        Change::Remove { .. } => "remove it",
        Change::NameCount { .. } => "name the count",
        Change::FailSlot { .. } => "record a slot as failed",
        Change::Fence { .. } => "check a fence",
        Change::BeginRead { .. } => "begin to read",
        Change::EndRead { .. } => "end reading",
        Change::BeginWrite { .. } => "begin to write",
    }
}
