//! Statements that have run, so that a request that repeats itself is answered but not run again.
//!
//! A request whose client went away halfway goes on from there when it is repeated.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use googleapis_tonic_google_spanner_v1::google::spanner::v1::execute_batch_dml_request::Statement;
use tokio::sync::MutexGuard;

use crate::engine::{Database, Error, Result, TransactionId};
use crate::sql::Outcome;

/// So many transactions are kept before those that are over are looked for. Those that commit or roll
/// back go at once.
const SWEPT_FROM: usize = 1_000;

/// The results of the statements of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// Of each of those that ran.
    pub written: Vec<Outcome>,
    /// Why there are no more of them, if one failed.
    pub failed: Option<Error>,
}

/// A request of a transaction: its statements, and what they have come to so far.
type Request = (Vec<Statement>, Done);

/// The requests of one transaction, with what they have written.
#[derive(Debug, Default)]
pub(super) struct Requests {
    /// In the order of their sequence numbers. Locked while the statements of a request run.
    by_number: tokio::sync::Mutex<Vec<(i64, Request)>>,
    /// True after the statement that its client has called the last one.
    is_over: AtomicBool,
    /// True of a transaction for partitioned DML, which has one statement and no commit.
    is_partitioned: AtomicBool,
}

impl Requests {
    /// Waits for the statements that run in this transaction.
    pub async fn lock(&self) -> MutexGuard<'_, Vec<(i64, Request)>> {
        self.by_number.lock().await
    }

    /// Refuses everything that comes after the last statement.
    pub fn check(&self) -> Result<()> {
        match self.is_over.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(Error::failed_precondition(
                "The transaction has had its last statement, and can only be committed or rolled \
                 back.",
            )),
        }
    }

    /// Makes it one for partitioned DML.
    pub fn partition(&self) {
        self.is_partitioned.store(true, Ordering::Relaxed);
    }

    /// Returns true for one for partitioned DML.
    pub fn is_partitioned(&self) -> bool {
        self.is_partitioned.load(Ordering::Relaxed)
    }

    /// Notes that its last statement has run.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }
}

/// Finds a request that has begun to run, or adds it.
pub(super) fn begun(
    requests: &mut Vec<(i64, Request)>,
    seqno: i64,
    statements: Vec<Statement>,
) -> Result<&mut Request> {
    let at = requests.partition_point(|(number, _)| *number < seqno);
    match requests.get(at) {
        None => requests.push((seqno, (statements, Done::default()))),
        Some((number, (known, _))) if *number == seqno && *known == statements => {}
        Some((number, _)) if *number == seqno => {
            return Err(Error::invalid_argument(format!(
                "Previously received a different request with this seqno. seqno={seqno}"
            )));
        }
        Some(_) => {
            let last = requests[requests.len() - 1].0;
            return Err(Error::invalid_argument(format!(
                "Request has an out-of-order seqno. seqno={seqno}, last seqno={last}"
            )));
        }
    }
    Ok(&mut requests[at].1)
}

/// The requests of the open transactions.
#[derive(Debug, Default)]
pub(super) struct Replays {
    by_transaction: HashMap<TransactionId, (Database, Arc<Requests>)>,
    /// How many there were left when those that are over were last removed.
    open: usize,
}

impl Replays {
    /// Returns those of a transaction.
    pub fn of(&mut self, database: &Database, id: TransactionId) -> Arc<Requests> {
        if self.by_transaction.len() >= (2 * self.open).max(SWEPT_FROM) {
            self.by_transaction.retain(|id, (database, _)| database.check_open(*id).is_ok());
            self.open = self.by_transaction.len();
        }
        let of = self.by_transaction.entry(id);
        Arc::clone(&of.or_insert_with(|| (database.clone(), Arc::default())).1)
    }

    /// Returns true for a transaction for partitioned DML.
    pub fn is_partitioned(&self, id: TransactionId) -> bool {
        self.by_transaction.get(&id).is_some_and(|(_, requests)| requests.is_partitioned())
    }

    /// Refuses another request of a transaction that has had its last statement.
    pub fn check(&self, id: TransactionId) -> Result<()> {
        self.by_transaction.get(&id).map_or(Ok(()), |(_, requests)| requests.check())
    }

    /// Forgets a transaction that is over.
    pub fn forget(&mut self, id: TransactionId) {
        self.by_transaction.remove(&id);
    }
}

#[cfg(test)]
#[path = "../../tests/private/service/replays.rs"]
mod tests;
