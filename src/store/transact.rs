//! One conditional transaction on rows of the lock table, sent once, with an outcome of three
//! kinds.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use google_cloud_gax::error::rpc::{Code, Status};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::model::transaction_options::IsolationLevel;
use google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::{
    BasicTransactionRetryPolicy, ReadWriteTransaction, TransactionRunner,
};
use spindle_protocol::{Answer, Rejection, StoredRow};
use tokio::time::{Instant, sleep, timeout};

use super::connection::REQUEST_LIMIT;
use super::requests::{self, Request};
use super::row;
use crate::error::{Error, Outcome, Result};

/// How far a transaction has come: what a failure means depends on it.
#[derive(Default)]
struct Progress {
    refused: OnceLock<Rejection>,
    may_commit: AtomicBool,
}

/// Reads rows, lets `decide` turn it into writes or a refusal, and commits the writes.
///
/// The request that could change something is sent at most once, and not after `limit`.
pub(crate) async fn transact<F>(
    client: &DatabaseClient,
    doing: String,
    read: ReadRequest,
    limit: Duration,
    decide: F,
) -> Outcome
where
    F: Fn(Vec<StoredRow>) -> Result<Vec<Mutation>, Rejection> + Send + Sync + 'static,
{
    let progress = Arc::new(Progress::default());
    let work = Arc::new((decide, Arc::clone(&progress)));
    let running = runner(client, limit).run(move |transaction: ReadWriteTransaction| {
        let (work, read) = (Arc::clone(&work), read.clone());
        async move {
            let (decide, progress) = &*work;
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(read).await?;
            match decide(row::stored_rows(&mut rows).await?) {
                Ok(mutations) => {
                    transaction.buffer(mutations)?;
                    progress.may_commit.store(true, Ordering::Relaxed);
                    requests::count(Request::Commit);
                    Ok(())
                }
                Err(rejection) => {
                    // The first refusal stands: the closure runs once.
                    let _ = progress.refused.set(rejection);
                    requests::count(Request::Rollback);
                    Err(refusal())
                }
            }
        }
    });
    let result = timeout(limit, running).await;
    if let Some(rejection) = progress.refused.get() {
        return Outcome::of(Answer::Rejected(rejection.clone()));
    }
    let may_commit = progress.may_commit.load(Ordering::Relaxed);
    match result {
        Ok(Ok(committed)) => match committed.commit_timestamp() {
            Some(at) => Outcome::of(Answer::Applied { at: row::timestamp(at) }),
            // Applied for certain, but a term can't begin without its token: a read will tell it.
            None => Outcome::failed(Answer::Unknown, Error::unknown(doing)),
        },
        Ok(Err(error)) if may_commit => {
            let error = Error::from_write(doing, error);
            let unknown = error.is_outcome_unknown();
            Outcome::failed(if unknown { Answer::Unknown } else { Answer::NotApplied }, error)
        }
        Ok(Err(error)) => Outcome::failed(Answer::NotApplied, Error::from_read(doing, error)),
        Err(_) if may_commit => Outcome::failed(Answer::Unknown, Error::unknown(doing)),
        Err(_) => Outcome::failed(Answer::NotApplied, Error::timed_out(doing, limit)),
    }
}

/// Returns a runner that tries once, and holds no lock between its two requests.
///
/// Optimistic reads are validated at commit: a process that dies between the two leaves nothing
/// behind for its successor to wait for.
fn runner(client: &DatabaseClient, limit: Duration) -> TransactionRunner {
    client
        .read_write_transaction()
        .set_isolation_level(IsolationLevel::Serializable)
        .set_read_lock_mode(ReadLockMode::Optimistic)
        .with_retry_policy(BasicTransactionRetryPolicy::new().with_max_attempts(1))
        .with_begin_retry_policy(NeverRetry)
        .with_begin_attempt_timeout(limit)
        .with_commit_retry_policy(NeverRetry)
        .with_commit_attempt_timeout(limit)
        .with_rollback_retry_policy(NeverRetry)
        .with_rollback_attempt_timeout(limit)
        .build()
}

/// Makes the runner roll back; what it says reaches nobody, the refusal is told by `Progress`.
fn refusal() -> google_cloud_spanner::Error {
    google_cloud_spanner::Error::service(
        Status::default().set_code(Code::FailedPrecondition).set_message("the condition is false"),
    )
}

/// The delay before an act is repeated that another transaction got in the way of.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Repeats what other transactions may have ended, for as long as a request may take. A server that
/// runs one transaction at a time ends whatever is in the way.
pub(crate) async fn despite_others<T, Fut>(act: impl Fn() -> Fut) -> Result<T>
where
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + REQUEST_LIMIT;
    loop {
        match act().await {
            Err(error) if error.may_be_anothers() && Instant::now() < deadline => {
                sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}
