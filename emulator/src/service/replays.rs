//! Statements that have run, so that a request that repeats itself is answered but not run again.

use std::collections::BTreeMap;

use googleapis_tonic_google_spanner_v1::google::spanner::v1::execute_batch_dml_request::Statement;

use crate::engine::{Error, Result, TransactionId, Type, Value};

/// How many transactions are kept; the oldest go first. Those that commit or roll back go at once.
const KEPT_MAX: usize = 10_000;

/// The results of the statements of one request.
#[derive(Clone, Debug, Default)]
pub(super) struct Done {
    /// The writes of each of those that ran.
    pub written: Vec<Written>,
    /// Why there are no more of them, if one failed.
    pub failed: Option<Error>,
}

/// The writes of a statement.
#[derive(Clone, Debug)]
pub(super) struct Written {
    /// How many rows.
    pub count: u64,
    /// The columns that it shows of them, and their types.
    pub columns: Vec<(String, Type)>,
    /// The shown rows; nothing if there are no columns.
    pub rows: Vec<Vec<Value>>,
}

/// The requests of the open transactions, by their sequence number.
#[derive(Debug, Default)]
pub(super) struct Replays(BTreeMap<TransactionId, BTreeMap<i64, (Vec<Statement>, Done)>>);

impl Replays {
    /// Returns the earlier result of this request.
    pub fn find(
        &self,
        id: TransactionId,
        seqno: i64,
        statements: &[Statement],
    ) -> Result<Option<Done>> {
        let Some(requests) = self.0.get(&id) else { return Ok(None) };
        match requests.get(&seqno) {
            Some((earlier, done)) if earlier == statements => Ok(Some(done.clone())),
            Some(_) => Err(Error::invalid_argument(format!(
                "Previously received a different request with this seqno. seqno={seqno}"
            ))),
            None => match requests.keys().next_back() {
                Some(last) if seqno < *last => Err(Error::invalid_argument(format!(
                    "Request has an out-of-order seqno. seqno={seqno}, last seqno={last}"
                ))),
                _ => Ok(None),
            },
        }
    }

    /// Notes what a request came to.
    pub fn remember(
        &mut self,
        id: TransactionId,
        seqno: i64,
        statements: Vec<Statement>,
        done: Done,
    ) {
        self.0.entry(id).or_default().insert(seqno, (statements, done));
        if self.0.len() > KEPT_MAX {
            self.0.pop_first();
        }
    }

    /// Forgets a transaction that is over.
    pub fn forget(&mut self, id: TransactionId) {
        self.0.remove(&id);
    }
}
