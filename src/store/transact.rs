//! One conditional transaction on rows of the lock table, sent once, with an outcome of three
//! kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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
use spindle_protocol::{StoredRow, Timestamp};
use tokio::time::{Instant, sleep, timeout};

use super::connection::REQUEST_LIMIT;
use super::requests::{self, Request};
use super::row;
use crate::error::{Error, Result};

/// Reads rows, lets `decide` turn them into writes, and commits these. Returns when; nothing if there
/// was nothing to write.
///
/// The request that could change something is sent at most once, and not after `limit`.
///
/// # Errors
///
/// [`is_outcome_unknown`](Error::is_outcome_unknown) if the writes may be applied, or will be; after any
/// other they are not.
pub(crate) async fn transact<F>(
    client: &DatabaseClient,
    doing: String,
    read: ReadRequest,
    limit: Duration,
    decide: F,
) -> Result<Option<Timestamp>>
where
    F: Fn(Vec<StoredRow>) -> Vec<Mutation> + Send + Sync + 'static,
{
    // The stage that the transaction has reached decides the meaning of a failure.
    let (is_needless, may_commit) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let work = Arc::new((decide, Arc::clone(&is_needless), Arc::clone(&may_commit)));
    let running = runner(client, limit).run(move |transaction: ReadWriteTransaction| {
        let (work, read) = (Arc::clone(&work), read.clone());
        async move {
            let (decide, is_needless, may_commit) = &*work;
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(read).await?;
            let mutations = decide(row::stored_rows(&mut rows).await?);
            if mutations.is_empty() {
                is_needless.store(true, Ordering::Relaxed);
                requests::count(Request::Rollback);
                return Err(refusal());
            }
            transaction.buffer(mutations)?;
            may_commit.store(true, Ordering::Relaxed);
            requests::count(Request::Commit);
            Ok(())
        }
    });
    let result = timeout(limit, running).await;
    if is_needless.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let may_commit = may_commit.load(Ordering::Relaxed);
    match result {
        Ok(Ok(committed)) => match committed.commit_timestamp() {
            Some(at) => Ok(Some(row::timestamp(at))),
            // Applied for certain, but a term can't begin without its token: a read will tell it.
            None => Err(Error::unknown(doing)),
        },
        Ok(Err(error)) if may_commit => Err(Error::from_write(doing, error)),
        Ok(Err(error)) => Err(Error::from_read(doing, error)),
        Err(_) if may_commit => Err(Error::unknown(doing)),
        Err(_) => Err(Error::timed_out(doing, limit)),
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

/// Makes the runner roll back; what it says reaches nobody.
fn refusal() -> google_cloud_spanner::Error {
    google_cloud_spanner::Error::service(
        Status::default().set_code(Code::FailedPrecondition).set_message("the condition is false"),
    )
}

/// The delay before an act is repeated that another transaction got in the way of.
pub(crate) const PAUSE: Duration = Duration::from_millis(20);

/// Repeats what other transactions may have ended, for as long as a request may take. A server that
/// runs one transaction at a time ends whatever is in the way.
///
/// # Errors
///
/// Those of `act`: the first that no other transaction can be the reason of, or the last.
pub async fn despite_others<T, Fut>(act: impl Fn() -> Fut) -> Result<T>
where
    Fut: Future<Output = Result<T>>,
{
    let deadline = Instant::now() + REQUEST_LIMIT;
    loop {
        match act().await {
            Err(error) if error.is_interrupted() && Instant::now() < deadline => {
                sleep(PAUSE).await;
            }
            done => return done,
        }
    }
}
