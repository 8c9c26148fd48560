//! Many rows on Spanner: one read, or one transaction.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::key;
use google_cloud_spanner::key::{KeyRange, KeySet};
use spindle_protocol::{Answer, Change, Rejection, StoredRow, Timestamp, takeover_keys};
use tokio::time::timeout;

use super::columns::Need;
use super::connection::REQUEST_LIMIT;
use super::requests::{self, Request};
use super::row::{self, FullRow};
use super::table::{self, SWEEP_MAX, Table, mutation, without_read_timestamp};
use super::transact::transact;
use crate::batch::judge::{judge, reads, sort_leftovers};
use crate::batch::{CommitOutcome, Snapshot, Store, Verdict};
use crate::error::{Error, Result};

impl Store for Table {
    async fn read(&self, keys: Vec<Arc<str>>, limit: Duration) -> Result<Snapshot> {
        let doing = || match &*keys {
            [lock] => format!("lock `{lock}`: read its row"),
            locks => format!("{} locks: read their rows", locks.len()),
        };
        if let Some(stand_in) = &self.stand_in {
            let keys = keys.iter().map(ToString::to_string).collect();
            let (rows, read_at) = stand_in.rows(keys, Vec::new(), limit).await?;
            return Ok(Snapshot { rows, read_at, with_lease: true });
        }
        let leased = self.ready(Need::Read, limit).await?;
        let (limit, with_lease) = (leased.limit, self.optional.has_lease());
        // With the mark of an operator, for the log.
        let columns = self.columns();
        let request = row::request(&self.name, columns, key_set(&keys), None, limit);
        let reading = async {
            let transaction = leased.client.read_only_transaction().build().await?;
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(request).await?;
            let rows = row::stored_rows(&mut rows).await?;
            Ok((rows, transaction.read_timestamp()))
        };
        let (rows, read_at) = self.answered(&leased, timeout(limit, reading).await, doing).await?;
        let read_at = read_at.map(row::timestamp);
        let read_at = read_at.ok_or_else(|| without_read_timestamp(&doing()))?;
        // A column that is there is never forgotten; one that was missing may have come since.
        Ok(Snapshot { rows, read_at, with_lease: with_lease && self.optional.has_lease() })
    }

    async fn transact(&self, changes: Vec<(Arc<str>, Change)>, limit: Duration) -> Verdict {
        if let Some(stand_in) = &self.stand_in {
            return stand_in.transact(changes, limit).await.0;
        }
        // An act that begins a term has asked for the columns already; the others must not wait for
        // them.
        let leased = match self.ready(Need::KeepOn, limit).await {
            Ok(leased) => leased,
            Err(error) => return Verdict::failed(&changes, error),
        };
        let limit = leased.limit;
        let changes = Arc::new(changes);
        let judged: Arc<OnceLock<Vec<Option<Rejection>>>> = Arc::default();
        let decide = {
            let (table, optional) = (self.name.clone(), self.optional.known());
            let (changes, judged) = (Arc::clone(&changes), Arc::clone(&judged));
            move |found: Vec<StoredRow>| {
                let verdicts = judge(&changes, found);
                let refused = verdicts.iter().map(|verdict| verdict.clone().err()).collect();
                // The closure runs once.
                let _ = judged.set(refused);
                let writes: Vec<_> = verdicts.into_iter().flatten().flatten().collect();
                if writes.is_empty() {
                    return Err(Rejection::Needless);
                }
                Ok(writes.into_iter().map(|write| mutation(&table, write, optional)).collect())
            }
        };
        let read = {
            let (keys, columns) = reads(&changes);
            let columns = std::iter::once("name").chain(columns.iter().map(|column| column.name()));
            row::request(&self.name, columns, key_set(&keys), None, limit)
        };
        let outcome = transact(&leased.client, doing(&changes), read, limit, decide).await;
        let refused = judged.get().cloned().unwrap_or_else(|| vec![None; changes.len()]);
        self.connection.heard(&leased, outcome.error.as_ref());
        let code = outcome.error.as_ref().and_then(Error::code);
        let error = match outcome.error {
            Some(error) => Some(self.optional.explain(&self.connection, &leased, error).await),
            None => None,
        };
        let is_to_blame = error.as_ref().is_some_and(|error| !error.is_schema());
        let commit = match (outcome.answer, code) {
            (Answer::Applied { at }, _) => CommitOutcome::Applied { at },
            (Answer::Unknown, _) => CommitOutcome::Unknown,
            (_, Some(Code::AlreadyExists)) => CommitOutcome::Exists,
            (_, Some(Code::Aborted)) => CommitOutcome::Aborted { at_read: judged.get().is_none() },
            // Nothing but the text tells them apart, and it decides nothing here.
            (_, Some(Code::NotFound | Code::FailedPrecondition)) if is_to_blame => {
                CommitOutcome::Gone
            }
            (_, Some(Code::InvalidArgument | Code::OutOfRange)) if is_to_blame => {
                CommitOutcome::Spoilt
            }
            _ => CommitOutcome::NotApplied,
        };
        Verdict { refused, commit, error }
    }

    async fn leftovers(
        &self,
        locks: Vec<(Arc<str>, Timestamp)>,
        limit: Duration,
    ) -> Result<Vec<(Vec<String>, bool)>> {
        let doing = || match &*locks {
            [(lock, _)] => format!("lock `{lock}`: list its takeover rows"),
            locks => format!("{} locks: list their takeover rows", locks.len()),
        };
        if let Some(stand_in) = &self.stand_in {
            return stand_in.leftovers(locks, limit).await;
        }
        let leased = self.ready(Need::KeepOn, limit).await?;
        let limit = leased.limit;
        let ranges = locks.iter().fold(KeySet::builder(), |ranges, (lock, before)| {
            let (first, end) = takeover_keys(lock, *before);
            ranges.add_range(KeyRange::closed_open(key![first], key![end]))
        });
        let columns = ["name", "heartbeat"];
        let request = row::request(&self.name, columns, ranges.build(), Some(SWEEP_MAX), limit);
        let reading = async {
            let transaction = leased.client.single_use().build();
            requests::count(Request::Read);
            row::stored_rows(&mut transaction.execute_read(request).await?).await
        };
        let rows = self.answered(&leased, timeout(limit, reading).await, doing).await?;
        let is_page_full = i64::try_from(rows.len()).is_ok_and(|rows| rows >= SWEEP_MAX);
        Ok(sort_leftovers(&locks, &rows, is_page_full))
    }
}

impl Table {
    /// Reads, at one timestamp, the rows of these keys and of these ranges, whose ends are not part
    /// of them; at most `rows_max`.
    pub(crate) async fn read_rows(
        &self,
        keys: Vec<String>,
        ranges: Vec<(String, String)>,
        rows_max: i64,
        subject: impl Fn() -> String,
    ) -> Result<(Vec<FullRow>, Timestamp)> {
        if let Some(stand_in) = &self.stand_in {
            let (rows, read_at) = stand_in.rows(keys, ranges, REQUEST_LIMIT).await?;
            return Ok((rows.into_iter().map(FullRow::from).collect(), read_at));
        }
        let keys = keys.into_iter().fold(KeySet::builder(), |keys, one| keys.add_key(key![one]));
        let keys = ranges.into_iter().fold(keys, |keys, (first, end)| {
            keys.add_range(KeyRange::closed_open(key![first], key![end]))
        });
        self.read_page(keys.build(), rows_max, subject).await
    }
}

fn key_set(keys: &[impl AsRef<str>]) -> KeySet {
    let keys = keys.iter();
    keys.fold(KeySet::builder(), |keys, key| keys.add_key(key![key.as_ref().to_string()])).build()
}

fn doing(changes: &[(Arc<str>, Change)]) -> String {
    match changes {
        [(lock, change)] => format!("lock `{lock}`: {}", table::doing(change)),
        [(_, Change::Heartbeat { .. } | Change::KeepWriting { .. }), ..] => {
            format!("{} locks: heartbeat", changes.len())
        }
        [(_, Change::Sweep { .. }), ..] => {
            format!("{} locks: sweep their takeover rows", changes.len())
        }
        _ => format!("{} locks: begin or release", changes.len()),
    }
}
