//! A transaction of the library's own under a fence.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::model::CommitResponse;
use google_cloud_spanner::model::transaction_options::IsolationLevel;
use google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::transaction::{
    ReadWriteTransaction, TransactionResult, TransactionRunner,
};
use spindle_protocol::LEASE_MAX;
use tokio::time::timeout;

use super::attempts::{Attempts, Stage};
use super::condition::Fence;
use crate::error::{Error, Result};
use crate::settings::check_limit;
use crate::store::requests::{self, Request};
use crate::system::runtime;

/// Contention is over soon or is a design problem; the client's pauses grow from 10 ms to 1 s.
const ATTEMPTS_MAX: u32 = 20;

/// An attempt with optimistic reads holds no lock before its commit, so whatever becomes of it, it
/// stands in nobody's way. The later ones lock what they read, or busy rows would never let them
/// through.
const OPTIMISTIC_ATTEMPTS_MAX: u32 = 5;

/// The default time limit: Spanner lets a transaction idle for as long.
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
    /// One means that an abort is an error at once. Attempts of which Spanner knows the transaction
    /// no more don't count: the time limit bounds them.
    pub fn attempts_max(mut self, attempts: u32) -> FencedTransaction {
        self.attempts_max = attempts;
        self
    }

    /// Sets how long all attempts together may take, pauses and repeated commits included; 10 s by
    /// default, a day at most.
    ///
    /// A commit without an answer is sent again after half of it at the latest. Transactions that
    /// the limit ends stand in nobody's way, with these exceptions, in which Spanner keeps locks
    /// for up to 10 s:
    ///
    /// - From the sixth attempt on a transaction locks what it reads. Then its locks stay if the
    ///   answer to its first read is lost, if Spanner is silent until the limit, or if the process
    ///   dies.
    /// - A server that ignores the lock mode, as Google's emulator does, locks from the first read.
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
    /// `work` returns Google's `Result`. An error of your own becomes one of these by
    /// `map_err(Error::give_up)`, and an [`Error`] by `?`.
    ///
    /// `work` may run several times: whenever Spanner aborts the transaction, or knows it no more,
    /// it is begun anew, fence included. So `work` should do nothing that can't be done twice.
    ///
    /// In a task of `lead`, of a shard, or any other that is spawned, `work` owns what it captures: `move`,
    /// and a clone for each call. Otherwise the compiler says at the call of `lead` that an
    /// `implementation of Send is not general enough`.
    ///
    /// ```no_run
    /// use spindle::google_cloud_spanner::client::DatabaseClient;
    /// use spindle::google_cloud_spanner::mutation::Mutation;
    ///
    /// async fn bill(client: DatabaseClient, order: String, term: spindle::Term) -> spindle::Result<()> {
    ///     let billing = term.fence().transaction(&client).run(move |transaction| {
    ///         let order = order.clone();
    ///         async move {
    ///             let bill = Mutation::new_insert_builder("bills").set("id").to(order).build();
    ///             transaction.buffer([bill])
    ///         }
    ///     });
    ///     billing.await.map(drop)
    /// }
    /// # let lock = spindle::Spindle::new("projects/p/instances/i/databases/d", "locktable", "billing");
    /// # let client: DatabaseClient = todo!();
    /// # lock.lead(spindle::CancellationToken::new(), move |term| bill(client.clone(), "7".into(), term));
    /// ```
    ///
    /// A commit that gets no definite answer is sent again, the same one of the same transaction,
    /// within the [`time_limit`](FencedTransaction::time_limit). Spanner applies it once at most.
    /// If it then answers ABORTED, nothing was applied and the transaction is begun anew. Any other
    /// refusal leaves the outcome unknown.
    ///
    /// SERIALIZABLE. The first five attempts read optimistically: they hold no lock before the
    /// commit, which validates what was read, the fence included. Later ones lock what they read.
    /// See [`Fence`] for why either is safe.
    ///
    /// # Errors
    ///
    /// - [`is_fenced`](Error::is_fenced): the term is over, and nothing was written. Stop.
    /// - [`is_outcome_unknown`](Error::is_outcome_unknown): the commit was sent, no repetition told
    ///   what became of it, and it may be applied yet. If it is, then within the term. Look before
    ///   writing again, in the same transaction.
    /// - The error that `work` returned, a client's error or one made by [`Error::give_up`]:
    ///   nothing was written. [`Error::spanner`] and [`Error::cause`] give it back.
    /// - Otherwise nothing was written either: what Spanner said, or that the bounds were
    ///   reached; [`is_retryable`](Error::is_retryable) tells whether to begin again.
    /// - [`is_config`](Error::is_config) for bounds of zero, or a time limit of more than a day.
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
        let attempts = Attempts::begin(self.attempts_max, self.time_limit);
        let shared = Arc::new((work, self.fence.clone(), attempts.clone()));
        let work = move |transaction: ReadWriteTransaction| {
            let shared = Arc::clone(&shared);
            async move {
                let (work, fence, attempts) = &*shared;
                attempts.working();
                let working = async {
                    fence.check(&transaction).await?;
                    work(transaction).await
                };
                let done = working.await.map_err(|error| attempts.failed(error))?;
                attempts.committing();
                requests::count(Request::Commit);
                Ok(done)
            }
        };
        let running = async {
            let optimistic = self.runner(ReadLockMode::Optimistic, &attempts);
            match optimistic.run(work.clone()).await {
                Err(error) if attempts.may_go_on_after(&error) => {
                    self.runner(ReadLockMode::Pessimistic, &attempts).run(work).await
                }
                result => result,
            }
        };
        let result = timeout(self.time_limit, running).await;
        let doing =
            || format!("lock `{}`: write under token {}", self.fence.lock, self.fence.token);
        match result {
            Ok(Ok(committed)) => Ok(committed),
            Ok(Err(error)) => Err(attempts.sort(doing(), error)),
            Err(_) if attempts.stage() == Stage::Working => {
                Err(Error::timed_out(doing(), self.time_limit))
            }
            Err(_) => Err(Error::unknown(doing())),
        }
    }

    fn check_bounds(&self) -> Result<()> {
        let lock = &self.fence.lock;
        if self.attempts_max == 0 {
            return Err(Error::config(format!("lock `{lock}`: 0 attempts; at least 1")));
        }
        runtime(&format!("lock `{lock}`"))?;
        check_limit("time limit", self.time_limit, LEASE_MAX)
            .map_err(|rule| Error::config(format!("lock `{lock}`: {rule}")))
    }

    fn runner(&self, locking: ReadLockMode, attempts: &Attempts) -> TransactionRunner {
        let most = match locking {
            ReadLockMode::Optimistic => OPTIMISTIC_ATTEMPTS_MAX,
            _ => u32::MAX,
        };
        let runner = self
            .client
            .read_write_transaction()
            .set_isolation_level(IsolationLevel::Serializable)
            .set_read_lock_mode(locking)
            .with_begin_retry_policy(NeverRetry)
            .with_begin_attempt_timeout(self.time_limit);
        let mut runner = attempts.bind(runner, most);
        if let Some(tag) = &self.tag {
            runner = runner.set_transaction_tag(tag.clone());
        }
        runner.build()
    }
}
