use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_gax::retry_result::RetryResult;
use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::model::CommitResponse;
use google_cloud_spanner::model::transaction_options::IsolationLevel;
use google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::transaction::{
    ReadWriteTransaction, TransactionResult, TransactionRetryPolicy, TransactionRunner,
};
use tokio::time::timeout;

use super::condition::Fence;
use crate::error::{Error, Result};

/// Contention is over soon or is a design problem; the client's pauses grow from 10 ms to 1 s.
const ATTEMPTS_MAX: u32 = 20;

/// As long as Spanner itself lets a transaction idle.
const TIME_LIMIT: Duration = Duration::from_secs(10);

impl Fence {
    /// Returns a transaction of this library's that checks the fence, then does what it is given.
    ///
    /// The check carries the transaction's begin, so the whole fence costs one read.
    ///
    /// ```no_run
    /// # use spindle::google_cloud_spanner::{client::DatabaseClient, mutation::Mutation};
    /// # async fn example(client: DatabaseClient, term: spindle::Term) -> spindle::Result<()> {
    /// let pay = Mutation::new_update_builder("orders").set("id").to("o-7").set("paid").to(true);
    /// let pay = pay.build();
    /// let committed = term
    ///     .fence()
    ///     .transaction(&client)
    ///     .run(move |transaction| {
    ///         let pay = pay.clone();
    ///         async move {
    ///             // Read with `transaction` what the write depends on.
    ///             transaction.buffer([pay])
    ///         }
    ///     })
    ///     .await;
    /// match committed {
    ///     Ok(committed) => println!("paid at {:?}", committed.commit_timestamp()),
    ///     Err(error) if error.is_fenced() => println!("no longer ours to pay: {error}"),
    ///     Err(error) => return Err(error),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn transaction(&self, client: &DatabaseClient) -> FencedTransaction {
        FencedTransaction::new(self.clone(), client.clone())
    }

    /// Writes `mutations` under the fence, all of them or none.
    ///
    /// As [`transaction`](Fence::transaction) with its defaults, for who need not read.
    ///
    /// # Errors
    ///
    /// As [`FencedTransaction::run`].
    ///
    /// # Cancellation safety
    ///
    /// As [`FencedTransaction::run`].
    pub async fn write(
        &self,
        client: &DatabaseClient,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> Result<CommitResponse> {
        let mutations: Vec<Mutation> = mutations.into_iter().collect();
        let committed = self.transaction(client).run(move |transaction| {
            let buffered = transaction.buffer(mutations.clone());
            async move { buffered }
        });
        Ok(committed.await?.commit_response)
    }
}

/// A transaction that commits within the fence's term, or not at all. Made by
/// [`Fence::transaction`].
#[derive(Clone, Debug)]
#[must_use = "a transaction does nothing until it is run"]
pub struct FencedTransaction {
    fence: Fence,
    client: DatabaseClient,
    attempts_max: u32,
    time_limit: Duration,
    tag: Option<String>,
}

impl FencedTransaction {
    fn new(fence: Fence, client: DatabaseClient) -> FencedTransaction {
        FencedTransaction {
            fence,
            client,
            attempts_max: ATTEMPTS_MAX,
            time_limit: TIME_LIMIT,
            tag: None,
        }
    }

    /// Sets how many times it is tried while Spanner aborts it for the sake of others; 20 by
    /// default.
    ///
    /// One means that an abort is an error at once.
    pub fn attempts_max(mut self, attempts: u32) -> FencedTransaction {
        self.attempts_max = attempts;
        self
    }

    /// Sets how long all attempts together may take, pauses included; 10 s by default.
    pub fn time_limit(mut self, limit: Duration) -> FencedTransaction {
        self.time_limit = limit;
        self
    }

    /// Sets the name of the transaction in Spanner's own statistics.
    pub fn tag(mut self, tag: impl Into<String>) -> FencedTransaction {
        self.tag = Some(tag.into());
        self
    }

    /// Checks the fence, does `work`, and commits.
    ///
    /// `work` may run several times: whenever Spanner aborts the transaction it is begun anew,
    /// fence included. It should do nothing that can't be done twice, and it should be quick:
    /// the next term can't begin before the transaction has ended. The commit is sent once and
    /// never repeated by itself. The repetition of a commit whose answer was lost would report its
    /// own rows as somebody else's.
    ///
    /// SERIALIZABLE, with pessimistic reads; see [`Fence`] for why.
    ///
    /// # Errors
    ///
    /// - [`is_fenced`](Error::is_fenced): the term is over, and nothing was written. Stop.
    /// - [`is_outcome_unknown`](Error::is_outcome_unknown): the commit was sent and nobody knows
    ///   what became of it. If it was applied, then within the term. Look before writing again.
    /// - The error that `work` returned, a client's error or one made by [`Error::give_up`]:
    ///   nothing was written. [`Error::spanner`] and [`Error::cause`] give it back.
    /// - Otherwise nothing was written either: what Spanner said, or that the bounds were
    ///   reached; [`is_retryable`](Error::is_retryable) tells whether to begin again.
    /// - [`is_config`](Error::is_config) for bounds of zero.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future rolls the transaction back in the background, unless the commit was
    /// sent already: then its outcome is unknown.
    pub async fn run<T, W, F>(self, work: W) -> Result<TransactionResult<T>>
    where
        W: Fn(ReadWriteTransaction) -> F + Send + Sync,
        F: Future<Output = google_cloud_spanner::Result<T>> + Send,
        T: Send,
    {
        self.check_bounds()?;
        // A term that has ended here needs no transaction to say so.
        self.fence.check_here()?;
        let may_commit = Arc::new(AtomicBool::new(false));
        let shared = Arc::new((work, self.fence.clone(), Arc::clone(&may_commit)));
        let running = self.runner(&may_commit).run(move |transaction: ReadWriteTransaction| {
            let shared = Arc::clone(&shared);
            async move {
                let (work, fence, may_commit) = &*shared;
                fence.check(&transaction).await?;
                let done = work(transaction).await?;
                may_commit.store(true, Ordering::Relaxed);
                Ok(done)
            }
        });
        let result = timeout(self.time_limit, running).await;
        let may_commit = may_commit.load(Ordering::Relaxed);
        let doing =
            || format!("lock `{}`: write under token {}", self.fence.lock, self.fence.token);
        match result {
            Ok(Ok(committed)) => Ok(committed),
            Ok(Err(error)) if may_commit => Err(Error::from_write(doing(), error)),
            Ok(Err(error)) => match Error::extract(&error) {
                Some(ours) => Err(ours.clone()),
                None => Err(Error::from_read(doing(), error)),
            },
            Err(_) if may_commit => Err(Error::unknown(doing())),
            Err(_) => Err(Error::timed_out(doing(), self.time_limit)),
        }
    }

    fn check_bounds(&self) -> Result<()> {
        let lock = &self.fence.lock;
        if self.attempts_max == 0 {
            return Err(Error::config(format!("lock `{lock}`: 0 attempts; at least 1")));
        }
        if self.time_limit.is_zero() {
            return Err(Error::config(format!("lock `{lock}`: time limit 0; more than zero")));
        }
        Ok(())
    }

    fn runner(&self, may_commit: &Arc<AtomicBool>) -> TransactionRunner {
        let bounds = Bounds { attempts_max: self.attempts_max, may_commit: Arc::clone(may_commit) };
        let limit = self.time_limit;
        let mut runner = self
            .client
            .read_write_transaction()
            .set_isolation_level(IsolationLevel::Serializable)
            .set_read_lock_mode(ReadLockMode::Pessimistic)
            .with_retry_policy(bounds)
            .with_begin_retry_policy(NeverRetry)
            .with_begin_attempt_timeout(limit)
            .with_commit_retry_policy(NeverRetry)
            .with_commit_attempt_timeout(limit)
            .with_rollback_retry_policy(NeverRetry)
            .with_rollback_attempt_timeout(limit);
        if let Some(tag) = &self.tag {
            runner = runner.set_transaction_tag(tag.clone());
        }
        runner.build()
    }
}

/// Says after an abort whether to begin again. The time is bounded around all of it.
#[derive(Debug)]
struct Bounds {
    attempts_max: u32,
    may_commit: Arc<AtomicBool>,
}

impl TransactionRetryPolicy for Bounds {
    fn on_abort(
        &self,
        error: google_cloud_spanner::Error,
        attempts: u32,
        _elapsed: Duration,
    ) -> RetryResult {
        // An aborted attempt was not committed: from here to the next commit nothing is in doubt.
        self.may_commit.store(false, Ordering::Relaxed);
        if attempts < self.attempts_max {
            RetryResult::Continue(error)
        } else {
            RetryResult::Exhausted(error)
        }
    }
}
