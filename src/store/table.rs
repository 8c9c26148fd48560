//! The lock table on Spanner: one request, or one transaction, per act.
//!
//! Reads go through the Read API and writes through mutations: there is nothing to inject into,
//! and both of Spanner's dialects take the same calls. Every call is sent once and bounded in
//! time. The client by itself would repeat for ever, and a repeated insert reports its own row as
//! somebody else's.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::key;
use google_cloud_spanner::key::{KeyRange, KeySet};
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use spindle_protocol::{
    Answer, Cell, Change, Column, Reads, StoredRow, Timestamp, Write, WriteKind, is_takeover_key,
    takeover_keys,
};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use super::columns::{Columns, Need};
use super::connection::{Connection, Leased};
use super::requests::{self, Request};
use super::row::{self, FullRow};
use super::stand_in::{self, StandIn};
use super::transact::transact;
use crate::batch::{Batchers, Budget};
use crate::error::{Error, Kind, Outcome, Result};
use crate::names::check_table_name;

/// Has Spanner write the transaction's commit timestamp; see Spanner's documentation.
pub(crate) const COMMIT_TIMESTAMP: &str = "spanner.commit_timestamp()";

/// As a heartbeat: released.
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// The rows of one sweep, at the most: it is there for tidiness and must stay cheap.
pub(crate) const SWEEP_MAX: i64 = 1_000;

/// A lock table in a database.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) connection: Connection,
    pub(crate) name: String,
    pub(crate) optional: Columns,
    pub(crate) batchers: Batchers,
    /// Asked in the place of Spanner, in the simulation alone.
    pub(crate) stand_in: Option<Arc<dyn StandIn>>,
    /// The number of read guards by this table, by the name of the lock.
    pub(crate) reads: Mutex<BTreeMap<String, usize>>,
    /// Each loop of an instance has a receiver, for as long as it runs.
    pub(crate) loops: watch::Sender<()>,
}

impl Table {
    pub(crate) fn new(connection: Connection, name: String) -> Table {
        let optional = Columns::new(&name);
        let batchers = Batchers::new(Arc::clone(connection.budget()));
        let reads = Mutex::default();
        let loops = watch::Sender::new(());
        Table { connection, name, optional, batchers, stand_in: None, reads, loops }
    }

    /// Returns what all that is sent by the library itself is charged to (I8).
    pub(crate) fn budget(&self) -> &Budget {
        self.connection.budget()
    }

    /// Provides a client once what the request needs to know of the columns is known, in `limit`
    /// at most.
    ///
    /// Fails for a table that can't work, except to a term that lives.
    pub(crate) async fn ready(&self, need: Need, limit: Duration) -> Result<Leased> {
        check_table_name(&self.name)?;
        self.optional.ready(&self.connection, need, limit).await
    }

    /// Waits until what the request needs to know of the columns is known, in `limit` at most; fails
    /// as [`ready`](Table::ready).
    pub(crate) async fn knows(&self, need: Need, limit: Duration) -> Result<()> {
        match self.stand_in {
            Some(_) => Ok(()),
            None => self.ready(need, limit).await.map(drop),
        }
    }

    /// Asks for the columns now, whatever is known of them; fails unless they are in order.
    pub(crate) async fn ask_columns(&self, limit: Duration) -> Result<()> {
        check_table_name(&self.name)?;
        self.optional.ask_now(&self.connection, limit).await
    }

    /// Returns one strong read of a lock row, and Spanner's timestamp of it.
    pub(crate) async fn read(
        &self,
        lock: &str,
        limit: Duration,
    ) -> Result<(Option<FullRow>, Timestamp)> {
        let doing = || format!("lock `{lock}`: read its row");
        if let Some(stand_in) = &self.stand_in {
            let (rows, at) = stand_in.rows(vec![lock.to_string()], Vec::new(), limit).await?;
            return Ok((rows.into_iter().next().map(FullRow::from), at));
        }
        let leased = self.ready(Need::Read, limit).await?;
        let limit = leased.limit;
        let reading = async {
            let transaction = leased.client.read_only_transaction().build().await?;
            let request = self.row_request(self.columns(), lock, limit);
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(request).await?;
            let row = row::full_row(&mut rows).await?;
            Ok((row, transaction.read_timestamp()))
        };
        let (row, read_at) = self.answered(&leased, timeout(limit, reading).await, doing).await?;
        Ok((row, read_at.map(row::timestamp).ok_or_else(|| without_read_timestamp(&doing()))?))
    }

    /// Returns the outcome of a read that was given the limit of `leased`.
    pub(crate) async fn answered<T>(
        &self,
        leased: &Leased,
        answer: Result<google_cloud_spanner::Result<T>, Elapsed>,
        doing: impl Fn() -> String,
    ) -> Result<T> {
        let error = match answer {
            Ok(Ok(found)) => {
                self.connection.heard(leased, None);
                return Ok(found);
            }
            Ok(Err(source)) => Error::from_read(doing(), source),
            Err(_) => Error::timed_out(doing(), leased.limit),
        };
        self.connection.heard(leased, Some(&error));
        let error = self.optional.explain(&self.connection, leased, error).await;
        if let Some(Code::InvalidArgument | Code::FailedPrecondition) = error.code() {
            // The columns are in order, so it is the key that Spanner refuses.
            return Err(Error::new(Kind::Schema(format!(
                "table `{}` can't be read by a key of one string; expected `PRIMARY KEY (name)`: \
                 {error}",
                self.name
            ))));
        }
        Err(error)
    }

    /// Reads what the change has to be judged by and carries out what it writes; with the rows that
    /// it was judged by.
    pub(crate) async fn carry_out_and_show(
        &self,
        lock: &str,
        change: Change,
        limit: Duration,
    ) -> (Outcome, Vec<StoredRow>) {
        if let Some(stand_in) = &self.stand_in {
            let changes = vec![(Arc::from(lock), change.clone())];
            let (verdict, shown) = stand_in.transact(changes, limit).await;
            return (stand_in::outcome(&change, verdict), shown);
        }
        let need = match &change {
            Change::Insert { .. }
            | Change::Takeover { .. }
            | Change::BeginRead { .. }
            | Change::BeginWrite { .. } => Need::Begin,
            Change::Heartbeat { .. } | Change::Release { .. } | Change::Sweep { .. } => {
                Need::KeepOn
            }
            _ => Need::Read,
        };
        let leased = match self.ready(need, limit).await {
            Ok(leased) => leased,
            Err(error) => return (Outcome::failed(Answer::NotApplied, error), Vec::new()),
        };
        let limit = leased.limit;
        let doing = format!("lock `{lock}`: {}", doing(&change));
        let reads = change.reads(lock);
        let (shown, read) = (Arc::new(OnceLock::new()), self.reads(&reads, limit));
        let already_exists = change.already_exists();
        let decide = {
            let (table, lock) = (self.name.clone(), lock.to_string());
            let (optional, shown) = (self.optional.known(), Arc::clone(&shown));
            move |mut found: Vec<StoredRow>| {
                if let ([found], [key]) = (&mut *found, &*reads.keys) {
                    found.key.clone_from(key);
                }
                let judged = change.judge(&lock, &found);
                // The closure runs once.
                let _ = shown.set(found);
                let writes = judged?.into_iter();
                Ok(writes.map(|write| mutation(&table, write, optional)).collect())
            }
        };
        let outcome = transact(&leased.client, doing, read, limit, decide).await;
        let mut outcome = outcome.already_exists_means(already_exists);
        self.connection.heard(&leased, outcome.error.as_ref());
        if let Some(error) = outcome.error.take() {
            outcome.error = Some(self.optional.explain(&self.connection, &leased, error).await);
        }
        (outcome, shown.get().cloned().unwrap_or_default())
    }

    /// Returns the keys of the takeover rows of `lock` for tokens before `before`, as far as one
    /// page of the table shows them. It also says if that page was full.
    pub(crate) async fn takeover_rows(
        &self,
        lock: &str,
        before: Timestamp,
        limit: Duration,
    ) -> Result<(Vec<String>, bool)> {
        let doing = || format!("lock `{lock}`: list its takeover rows");
        if let Some(stand_in) = &self.stand_in {
            let found = stand_in.leftovers(vec![(Arc::from(lock), before)], limit).await?;
            let (keys, is_all) = found.into_iter().next().unwrap_or((Vec::new(), true));
            return Ok((keys, !is_all));
        }
        let leased = self.ready(Need::KeepOn, limit).await?;
        let limit = leased.limit;
        let (first, end) = takeover_keys(lock, before);
        let range = KeyRange::closed_open(key![first], key![end]);
        let keys = KeySet::builder().add_range(range).build();
        let request = row::request(&self.name, ["name", "heartbeat"], keys, Some(SWEEP_MAX), limit);
        let reading = async {
            let transaction = leased.client.single_use().build();
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(request).await?;
            let (mut names, mut count) = (Vec::new(), 0);
            while let Some(found) = row::stored_row(&mut rows).await? {
                count += 1;
                if found.is_takeover() && is_takeover_key(lock, &found.key) {
                    names.push(found.key);
                }
            }
            Ok((names, count >= SWEEP_MAX))
        };
        self.answered(&leased, timeout(limit, reading).await, doing).await
    }

    fn reads(&self, reads: &Reads, limit: Duration) -> ReadRequest {
        // The key tells several rows apart; of a single one it is known.
        let name = (reads.keys.len() > 1).then_some("name");
        let columns = name.into_iter().chain(reads.columns.iter().map(|column| column.name()));
        let keys = reads.keys.iter();
        let keys = keys.fold(KeySet::builder(), |keys, key| keys.add_key(key![key.clone()]));
        row::request(&self.name, columns, keys.build(), None, limit)
    }

    /// Returns all the columns that this table has.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'static str> {
        let lease = self.optional.has_lease().then_some("lease_ms");
        let info = self.optional.has_info().then_some("info");
        ["name", "heartbeat", "token", "writer"].into_iter().chain(lease).chain(info)
    }

    pub(crate) fn row_request<'a>(
        &self,
        columns: impl IntoIterator<Item = &'a str>,
        lock: &str,
        limit: Duration,
    ) -> ReadRequest {
        let keys = KeySet::builder().add_key(key![lock.to_string()]).build();
        row::request(&self.name, columns, keys, None, limit)
    }
}

/// Says that no lock can live on a server that doesn't tell the time of its reads.
pub(crate) fn without_read_timestamp(doing: &str) -> Error {
    Error::config(format!(
        "{doing}: the server gives no read timestamps, by which leases are judged; no lock can be \
         taken there"
    ))
}

/// Returns a write as the client sends it, without the columns that the table lacks.
pub(crate) fn mutation(table: &str, write: Write, (has_lease, has_info): (bool, bool)) -> Mutation {
    let builder = match write.kind {
        WriteKind::Insert => Mutation::new_insert_builder(table),
        WriteKind::Update => Mutation::new_update_builder(table),
        WriteKind::InsertOrUpdate => Mutation::new_insert_or_update_builder(table),
        WriteKind::Delete => {
            return Mutation::delete(table, KeySet::builder().add_key(key![write.key]).build());
        }
    };
    let is_there = |column: &Column| match column {
        Column::LeaseMs => has_lease,
        Column::Info => has_info,
        Column::Heartbeat | Column::Token | Column::Writer => true,
    };
    let cells = write.cells.into_iter().filter(|(column, _)| is_there(column));
    let builder = cells.fold(builder.set("name").to(write.key), |builder, (column, cell)| {
        let builder = builder.set(column.name());
        match cell {
            Cell::CommitTimestamp => builder.to(COMMIT_TIMESTAMP),
            Cell::Epoch => builder.to(EPOCH),
            Cell::Null => builder.to(None::<String>),
            Cell::Text(text) => builder.to(text),
            Cell::Milliseconds(milliseconds) => builder.to(milliseconds),
        }
    });
    builder.build()
}

pub(crate) fn doing(change: &Change) -> &'static str {
    match change {
        Change::Insert { .. } => "insert its row",
        Change::Takeover { .. } => "take it over",
        Change::Heartbeat { .. } => "heartbeat",
        Change::Release { .. } => "release",
        Change::Evict { .. } => "evict its holder",
        Change::Seize { .. } => "seize it",
        Change::Remove { .. } => "remove it",
        Change::Sweep { .. } => "sweep its takeover rows",
        Change::Fence { .. } => "check a fence",
        Change::BeginRead { .. } => "begin to read",
        Change::EndRead { .. } => "end reading",
        Change::BeginWrite { .. } => "begin to write",
        Change::KeepWriting { .. } => "heartbeat",
        Change::EndWriting { .. } => "release",
    }
}
