//! The lock table on Spanner: one request, or one transaction, per act.
//!
//! Reads go through the Read API and writes through mutations: there is nothing to inject into,
//! and both of Spanner's dialects take the same calls. Every call is sent once and bounded in
//! time; the client by itself would repeat for ever, and a repeated insert reports its own row as
//! somebody else's.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::key;
use google_cloud_spanner::key::{KeyRange, KeySet};
use google_cloud_spanner::mutation::{Mutation, WriteBuilder};
use google_cloud_spanner::read::ReadRequest;
use spindle_protocol::{
    Answer, Observation, Rejection, Row, Seen, Timestamp, Writer, takeover_key,
};
use tokio::time::error::Elapsed;
use tokio::time::timeout;

use crate::connection::{Connection, Leased};
use crate::error::{Error, Result};
use crate::row::{self, FullRow, milliseconds};
use crate::transact::transact;

/// Has Spanner write the transaction's commit timestamp; see Spanner's documentation.
pub(crate) const COMMIT_TIMESTAMP: &str = "spanner.commit_timestamp()";

/// What identifies one heartbeat of one term, besides the lease of its holder.
pub(crate) const BEAT_COLUMNS: &[&str] = &["name", "heartbeat", "token", "writer"];

/// What identifies a term. A heartbeat reads no more, so that it contends with no other column.
pub(crate) const TERM_COLUMNS: &[&str] = &["token", "writer"];

/// As a heartbeat: released.
pub(crate) const EPOCH: &str = "1970-01-01T00:00:00Z";

/// What one sweep looks at, at the most: it is there for tidiness and must stay cheap.
const SWEEP_LIMIT: i64 = 100;

/// A lock table in a database.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) connection: Connection,
    pub(crate) name: String,
    pub(crate) optional: OptionalColumns,
}

/// Which of the two columns that a table may lack are there; assumed until found missing.
#[derive(Debug)]
pub(crate) struct OptionalColumns {
    lease: AtomicBool,
    info: AtomicBool,
}

/// What a holder writes of itself.
#[derive(Clone, Debug)]
pub(crate) struct Holder {
    pub(crate) lease: Duration,
    pub(crate) info: Option<String>,
}

/// How an act ended, and what went wrong if something did.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) answer: Answer,
    pub(crate) error: Option<Error>,
}

impl Outcome {
    pub(crate) fn failed(answer: Answer, error: Error) -> Outcome {
        Outcome { answer, error: Some(error) }
    }
}

impl OptionalColumns {
    fn assumed() -> OptionalColumns {
        OptionalColumns { lease: AtomicBool::new(true), info: AtomicBool::new(true) }
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.lease.load(Ordering::Relaxed)
    }

    pub(crate) fn has_info(&self) -> bool {
        self.info.load(Ordering::Relaxed)
    }

    /// Which are there, as far as is known.
    pub(crate) fn known(&self) -> (bool, bool) {
        (self.has_lease(), self.has_info())
    }

    /// Whether this changed what is known.
    pub(crate) fn set(&self, lease: bool, info: bool) -> bool {
        let lease_changed = self.lease.swap(lease, Ordering::Relaxed) != lease;
        let info_changed = self.info.swap(info, Ordering::Relaxed) != info;
        lease_changed || info_changed
    }
}

impl Table {
    pub(crate) fn new(connection: Connection, name: String) -> Table {
        Table { connection, name, optional: OptionalColumns::assumed() }
    }

    /// One strong read of a lock row, and Spanner's timestamp of it.
    pub(crate) async fn read(
        &self,
        lock: &str,
        limit: Duration,
    ) -> Result<(Option<FullRow>, Timestamp)> {
        let doing = || format!("lock `{lock}`: read its row");
        let leased = self.connection.client(limit).await?;
        let limit = leased.limit;
        let reading = async {
            let transaction = leased.client.read_only_transaction().build().await?;
            let request = self.row_request(self.columns(), lock, limit);
            let mut rows = transaction.execute_read(request).await?;
            let row = row::full_row(&mut rows).await?;
            Ok((row, transaction.read_timestamp()))
        };
        let (row, read_at) = self.answered(&leased, timeout(limit, reading).await, doing).await?;
        Ok((row, read_at.map(row::timestamp).ok_or_else(|| without_read_timestamp(&doing()))?))
    }

    /// What came of a read that was given the limit of `leased`.
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
        Err(self.explain(leased, error).await)
    }

    pub(crate) async fn observe(&self, lock: &str, limit: Duration) -> Outcome {
        match self.read(lock, limit).await {
            Ok((row, read_at)) => {
                let row = row.map(|full| full.row);
                Outcome { answer: Answer::Observed(Observation { row, read_at }), error: None }
            }
            Err(error) => Outcome::failed(Answer::NotApplied, error),
        }
    }

    pub(crate) async fn insert(
        &self,
        lock: &str,
        writer: &Writer,
        holder: &Holder,
        limit: Duration,
    ) -> Outcome {
        let begin = self.begin_term(Mutation::new_insert_builder(&self.name), lock, writer, holder);
        let outcome = self
            .transact("insert its row", lock, BEAT_COLUMNS, limit, move |row| match row {
                None => Ok(vec![begin.clone()]),
                Some(row) => Err(changed(&row)),
            })
            .await;
        outcome.already_exists_means(Rejection::Changed(None))
    }

    pub(crate) async fn takeover(
        &self,
        lock: &str,
        seen: &Row,
        writer: &Writer,
        over_leftover: bool,
        holder: &Holder,
        limit: Duration,
    ) -> Outcome {
        let arbiter = if over_leftover {
            Mutation::new_insert_or_update_builder(&self.name)
        } else {
            Mutation::new_insert_builder(&self.name)
        };
        // The heartbeat stays NULL: that tells a takeover row from a lock row.
        let arbiter = arbiter
            .set("name")
            .to(takeover_key(lock, seen.token))
            .set("token")
            .to(COMMIT_TIMESTAMP)
            .set("writer")
            .to(writer.as_str())
            .build();
        let begin = self.begin_term(Mutation::new_update_builder(&self.name), lock, writer, holder);
        let expected = seen.clone();
        let outcome = self
            .transact("take it over", lock, BEAT_COLUMNS, limit, move |row| match row {
                Some(row) if row.is_same_beat(&expected) => {
                    Ok(vec![arbiter.clone(), begin.clone()])
                }
                Some(row) => Err(changed(&row)),
                None => Err(Rejection::Changed(None)),
            })
            .await;
        outcome.already_exists_means(Rejection::TakeoverRowExists)
    }

    pub(crate) async fn heartbeat(
        &self,
        lock: &str,
        token: Timestamp,
        writer: &Writer,
        limit: Duration,
    ) -> Outcome {
        let beat = Mutation::new_update_builder(&self.name)
            .set("name")
            .to(lock)
            .set("heartbeat")
            .to(COMMIT_TIMESTAMP)
            .build();
        self.in_term("heartbeat", lock, token, writer, limit, beat).await
    }

    pub(crate) async fn release(
        &self,
        lock: &str,
        token: Timestamp,
        writer: &Writer,
        successor: Option<&(String, Duration)>,
        info: Option<String>,
        limit: Duration,
    ) -> Outcome {
        let next = successor.map_or_else(Writer::nobody, |(id, _)| Writer::successor(id));
        // The token changes, so that a late heartbeat of this term cannot revive the row.
        let mut release = Mutation::new_update_builder(&self.name)
            .set("name")
            .to(lock)
            .set("heartbeat")
            .to(EPOCH)
            .set("token")
            .to(COMMIT_TIMESTAMP)
            .set("writer")
            .to(next.as_str());
        if self.optional.has_lease() {
            let grace = successor.map(|(_, grace)| milliseconds(*grace));
            release = release.set("lease_ms").to(grace);
        }
        if self.optional.has_info() {
            release = release.set("info").to(&info);
        }
        self.in_term("release", lock, token, writer, limit, release.build()).await
    }

    /// Removes the takeover rows of `lock` for tokens before `before`, each by its exact key (I6).
    pub(crate) async fn sweep(&self, lock: &str, before: Timestamp, limit: Duration) -> Outcome {
        let swept = async {
            let leftovers = self.takeover_rows(lock, before, limit).await?;
            if !leftovers.is_empty() {
                self.delete_takeover_rows(leftovers, limit).await?;
            }
            Ok(())
        };
        match timeout(limit, swept).await {
            Ok(Ok(())) => Outcome { answer: Answer::Applied { at: before }, error: None },
            Ok(Err(error)) => Outcome::failed(Answer::NotApplied, error),
            Err(_) => {
                let doing = format!("lock `{lock}`: sweep its takeover rows");
                Outcome::failed(Answer::Unknown, Error::timed_out(doing, limit))
            }
        }
    }

    fn begin_term(
        &self,
        mutation: WriteBuilder,
        lock: &str,
        writer: &Writer,
        holder: &Holder,
    ) -> Mutation {
        let mut mutation = mutation
            .set("name")
            .to(lock)
            .set("heartbeat")
            .to(COMMIT_TIMESTAMP)
            .set("token")
            .to(COMMIT_TIMESTAMP)
            .set("writer")
            .to(writer.as_str());
        if self.optional.has_lease() {
            mutation = mutation.set("lease_ms").to(milliseconds(holder.lease));
        }
        if self.optional.has_info() {
            mutation = mutation.set("info").to(&holder.info);
        }
        mutation.build()
    }

    /// A write that depends on the term alone: token and nonce, never the previous heartbeat.
    async fn in_term(
        &self,
        doing: &str,
        lock: &str,
        token: Timestamp,
        writer: &Writer,
        limit: Duration,
        write: Mutation,
    ) -> Outcome {
        let writer = writer.clone();
        self.transact(doing, lock, TERM_COLUMNS, limit, move |row| match row {
            Some(row) if row.token == token && row.writer == writer => Ok(vec![write.clone()]),
            Some(row) => Err(changed(&row)),
            None => Err(Rejection::Changed(None)),
        })
        .await
    }

    pub(crate) async fn transact(
        &self,
        doing: &str,
        lock: &str,
        columns: &[&str],
        limit: Duration,
        decide: impl Fn(Option<Row>) -> Result<Vec<Mutation>, Rejection> + Send + Sync + 'static,
    ) -> Outcome {
        let leased = match self.connection.client(limit).await {
            Ok(leased) => leased,
            Err(error) => return Outcome::failed(Answer::NotApplied, error),
        };
        let limit = leased.limit;
        let read = self.row_request(columns.iter().copied(), lock, limit);
        let doing = format!("lock `{lock}`: {doing}");
        let decide = move |full: Option<FullRow>| decide(full.map(|full| full.row));
        let mut outcome = transact(&leased.client, doing, read, limit, decide).await;
        self.connection.heard(&leased, outcome.error.as_ref());
        if let Some(error) = outcome.error.take() {
            outcome.error = Some(self.explain(&leased, error).await);
        }
        outcome
    }

    /// The keys of the takeover rows of `lock` for tokens before `before`, checked to be such.
    async fn takeover_rows(
        &self,
        lock: &str,
        before: Timestamp,
        limit: Duration,
    ) -> Result<Vec<String>> {
        let doing = || format!("lock `{lock}`: list its takeover rows");
        let leased = self.connection.client(limit).await?;
        // Tokens since 2001 have 19 digits, so that `job_1` and the like stay outside the range.
        let first = takeover_key(lock, Timestamp(1_000_000_000_000_000_000));
        let range = KeyRange::closed_open(key![first], key![takeover_key(lock, before)]);
        let keys = KeySet::builder().add_range(range).build();
        let columns = ["name", "heartbeat"];
        let request = row::request(&self.name, columns, keys, Some(SWEEP_LIMIT), limit);
        let reading = async {
            let transaction = leased.client.single_use().build();
            let mut rows = transaction.execute_read(request).await?;
            let mut names = Vec::new();
            while let Some(found) = row::full_row(&mut rows).await? {
                if found.without_heartbeat && is_takeover_row(lock, &found.name) {
                    names.push(found.name);
                }
            }
            Ok(names)
        };
        reading.await.map_err(|source| Error::from_read(doing(), source))
    }

    /// Removes rows that are still takeovers', and says how many it were.
    pub(crate) async fn delete_takeover_rows(
        &self,
        names: Vec<String>,
        limit: Duration,
    ) -> Result<u64> {
        let mut deleted = 0;
        for name in names {
            let keys = KeySet::builder().add_key(key![name.clone()]).build();
            let request = row::request(&self.name, ["heartbeat"], keys.clone(), None, limit);
            let doing = format!("takeover row `{name}`: delete it");
            let delete = Mutation::delete(&self.name, keys);
            let leased = self.connection.client(limit).await?;
            let decide = move |found: Option<FullRow>| match found {
                Some(found) if found.without_heartbeat => Ok(vec![delete.clone()]),
                _ => Err(Rejection::Changed(None)),
            };
            let outcome = transact(&leased.client, doing, request, limit, decide).await;
            if let Some(error) = outcome.error {
                return Err(error);
            }
            deleted += u64::from(matches!(outcome.answer, Answer::Applied { .. }));
        }
        Ok(deleted)
    }

    /// All the columns that this table has.
    pub(crate) fn columns(&self) -> impl Iterator<Item = &'static str> {
        let lease = self.optional.has_lease().then_some("lease_ms");
        let info = self.optional.has_info().then_some("info");
        BEAT_COLUMNS.iter().copied().chain(lease).chain(info)
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

    /// What is really wrong, where an error has several possible reasons.
    pub(crate) async fn explain(&self, leased: &Leased, error: Error) -> Error {
        match error.code() {
            Some(Code::NotFound | Code::InvalidArgument | Code::FailedPrecondition) => {
                self.diagnose(leased).await.err().unwrap_or(error)
            }
            None if error.is_malformed() => self.diagnose(leased).await.err().unwrap_or(error),
            _ => error,
        }
    }
}

impl Outcome {
    /// Sent once and refused because the row exists: somebody else's, whatever the reason.
    fn already_exists_means(self, rejection: Rejection) -> Outcome {
        match &self.error {
            Some(error) if error.code() == Some(Code::AlreadyExists) => {
                Outcome { answer: Answer::Rejected(rejection), error: None }
            }
            _ => self,
        }
    }
}

/// Says that no lock can live on a server that doesn't tell the time of its reads.
pub(crate) fn without_read_timestamp(doing: &str) -> Error {
    Error::config(format!(
        "{doing}: the server gives no read timestamps, by which leases are judged; no lock can be \
         taken there"
    ))
}

fn changed(row: &Row) -> Rejection {
    Rejection::Changed(Some(Seen { token: row.token, writer: row.writer.clone() }))
}

/// Whether `key` is the exact pattern of a takeover row of `lock`, not another lock's name (I6).
pub(crate) fn is_takeover_row(lock: &str, key: &str) -> bool {
    key.strip_prefix(lock)
        .and_then(|rest| rest.strip_prefix('_'))
        .is_some_and(|digits| digits.len() == 19 && digits.bytes().all(|b| b.is_ascii_digit()))
}

/// Whether `key` has the form of a takeover row of some lock.
pub(crate) fn looks_like_takeover_row(key: &str) -> bool {
    key.rsplit_once('_').is_some_and(|(lock, _)| is_takeover_row(lock, key))
}

/// The lock and the displaced token of which `key` is the takeover row, if it is one.
pub(crate) fn displaced_by(key: &str) -> Option<(&str, Timestamp)> {
    let (lock, digits) = key.rsplit_once('_')?;
    // Nineteen digits can exceed any timestamp.
    let displaced = digits.parse().ok().map(Timestamp)?;
    is_takeover_row(lock, key).then_some((lock, displaced))
}
