//! A lock table as a batcher needs it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Change, Rejection, StoredRow, Timestamp};

use crate::error::{Error, Result};

/// A lock table as a batcher needs it. Each call is sent once.
pub(crate) trait Store: Send + Sync + 'static {
    /// Reads these rows at one timestamp; those that exist come back in any order.
    fn read(
        &self,
        keys: Vec<Arc<str>>,
        limit: Duration,
    ) -> impl Future<Output = Result<Snapshot>> + Send;

    /// Carries out changes in one transaction, each judged by its own rows.
    fn transact(
        &self,
        changes: Vec<(Arc<str>, Change)>,
        limit: Duration,
    ) -> impl Future<Output = Verdict> + Send;

    /// Finds, in one read, the keys of these locks' takeover rows of tokens before those. The
    /// answers stand in the order of the locks and say if they have all of a lock's.
    fn leftovers(
        &self,
        locks: Vec<(Arc<str>, Timestamp)>,
        limit: Duration,
    ) -> impl Future<Output = Result<Vec<(Vec<String>, bool)>>> + Send;
}

/// The answer to a read of many rows.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// The rows that exist.
    pub(crate) rows: Vec<StoredRow>,
    /// Spanner's timestamp of the read.
    pub(crate) read_at: Timestamp,
    /// True if the leases of the holders were read, too.
    pub(crate) with_lease: bool,
}

/// The outcome of a transaction with many changes.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Why a change was refused, in the order of the changes; a refused row refuses nobody else.
    pub(crate) refused: Vec<Option<Rejection>>,
    /// The commit of the others.
    pub(crate) commit: CommitOutcome,
    /// The error, if something went wrong.
    pub(crate) error: Option<Error>,
}

/// The commit of a transaction's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// All are applied.
    Applied {
        /// The commit timestamp.
        at: Timestamp,
    },
    /// None is: a row that was to be inserted exists.
    Exists,
    /// None is, and any of the rows may be the reason.
    Spoilt,
    /// None is: another transaction was in the way of the read with which it began, or of the rest.
    Aborted {
        /// True if nothing but the read was sent.
        at_read: bool,
    },
    /// None is. A row may be the reason, or the server ended the transaction for another of its
    /// session.
    Gone,
    /// None is, and no row is to blame.
    NotApplied,
    /// Nobody knows, of any of them.
    Unknown,
}

impl Verdict {
    /// Before anything could be judged.
    pub(crate) fn failed(changes: &[(Arc<str>, Change)], error: Error) -> Verdict {
        let refused = vec![None; changes.len()];
        Verdict { refused, commit: CommitOutcome::NotApplied, error: Some(error) }
    }
}
