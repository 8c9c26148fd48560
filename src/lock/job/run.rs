//! One run of a job, as its task has it.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use chrono::{DateTime, Utc};
use google_cloud_spanner::client::DatabaseClient;
use google_cloud_spanner::model::CommitResponse;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle_protocol::Timestamp;
use spindle_protocol::job::{Ending, RecordChange};

use super::slot::time;
use crate::error::Result;
use crate::term::Term;

/// A run of a job: its term, and the slot that it is for.
///
/// It derefs to the [`Term`], which has the [fence](Term::fence) and the
/// [cancellation](Term::cancelled). Watch that: it tells that the term is lost, or that the run has lasted
/// as long as it [may](super::Job::at_most).
#[derive(Clone, Debug)]
pub struct JobRun {
    term: Term,
    slot: Timestamp,
    start: u32,
    /// The key of the job's row.
    key: String,
    lapses: Arc<AtomicBool>,
}

impl JobRun {
    pub(super) fn new(term: Term, (slot, start): (Timestamp, u32), key: String) -> JobRun {
        JobRun { term, slot, start, key, lapses: Arc::default() }
    }

    /// Returns the same run, by the term as its task has it.
    pub(super) fn under(self, term: Term) -> JobRun {
        JobRun { term, ..self }
    }

    /// Returns the time for which it was scheduled.
    pub fn slot(&self) -> DateTime<Utc> {
        time(self.slot)
    }

    /// Returns which start of the slot this is: 1 for the first.
    pub fn start(&self) -> u32 {
        self.start
    }

    /// Leaves the lease to run out once the task returns, as after a crash: nothing is released, and the
    /// start has failed.
    ///
    /// For work that can't be stopped, or of which nobody knows whether it still goes on.
    pub fn lapse(&self) {
        self.lapses.store(true, Ordering::Release);
    }

    /// Returns the record of its end.
    pub(crate) fn ends(&self, is_done: bool) -> RecordChange {
        let ending = if is_done { Ending::Done } else { Ending::Failed };
        RecordChange::End { key: self.key.clone(), ending }
    }

    pub(super) fn lapses(&self) -> bool {
        self.lapses.load(Ordering::Acquire)
    }

    /// Records in `transaction` that the slot is done, under the fence of this run: what the transaction
    /// writes, and the record, are one. **Exactly once** holds for that, whatever dies.
    ///
    /// It takes the place of a [`Fence::check`](crate::Fence::check), and its rules for the transaction are
    /// those. What the task does after the commit is done at most once: the slot isn't started again.
    ///
    /// ```
    /// # use spindle::google_cloud_spanner::client::Spanner;
    /// # use spindle_emulator::Emulator;
    /// use std::time::SystemTime;
    /// use spindle::google_cloud_spanner::mutation::Mutation;
    /// use spindle::job::{JobOutcome, JobRun};
    /// use spindle::{Database, Ddl, LockTable};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let reports = "CREATE TABLE reports (day STRING(MAX) NOT NULL) PRIMARY KEY (day)";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, &format!("{}; {reports}", LockTable::ddl(Ddl::GoogleSql))).await?;
    /// # let spanner = Spanner::builder().with_endpoint(emulator.endpoint()).build().await?;
    /// # let client = spanner.database_client(database).build().await?;
    /// let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
    /// let report = move |run: JobRun| {
    ///     let client = client.clone(); // for this start; the next one needs its own
    ///     async move {
    ///         let own = run.clone();
    ///         let written = run.fence().transaction(&client).run(move |transaction| {
    ///             let run = own.clone();
    ///             async move {
    ///                 let row = Mutation::new_insert_builder("reports");
    ///                 transaction.buffer([row.set("day").to(run.slot().to_rfc3339()).build()])?;
    ///                 Ok(run.finish_in(&transaction).await?)
    ///             }
    ///         });
    ///         written.await.map(drop)
    ///     }
    /// };
    /// let outcome = table.lock("nightly-report").run_once(SystemTime::now(), report).await?;
    /// assert!(matches!(outcome, JobOutcome::Ran(())));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Fence::check`](crate::Fence::check). [`is_config`](crate::Error::is_config) also if the slot is
    /// recorded as done already, or if its record was removed. The transaction is poisoned then: who ignores the error can't commit.
    ///
    /// # Cancellation safety
    ///
    /// Dropping this future leaves the transaction unfinished; roll it back.
    pub async fn finish_in(&self, transaction: &ReadWriteTransaction) -> Result<()> {
        self.term.fence().finish(transaction, self.key.clone()).await
    }

    /// Writes `mutations` and records that the slot is done, in one fenced transaction:
    /// [`finish_in`](JobRun::finish_in) for who need not read.
    ///
    /// # Errors
    ///
    /// As [`FencedTransaction::run`](crate::FencedTransaction::run) and `finish_in`.
    ///
    /// # Cancellation safety
    ///
    /// As [`FencedTransaction::run`](crate::FencedTransaction::run).
    pub async fn finish(
        &self,
        client: &DatabaseClient,
        mutations: impl IntoIterator<Item = Mutation>,
    ) -> Result<CommitResponse> {
        let mutations: Vec<Mutation> = mutations.into_iter().collect();
        let run = self.clone();
        let committed = self.fence().transaction(client).run(move |transaction| {
            let (run, mutations) = (run.clone(), mutations.clone());
            async move {
                transaction.buffer(mutations)?;
                Ok(run.finish_in(&transaction).await?)
            }
        });
        Ok(committed.await?.commit_response)
    }
}

impl Deref for JobRun {
    type Target = Term;

    fn deref(&self) -> &Term {
        &self.term
    }
}
