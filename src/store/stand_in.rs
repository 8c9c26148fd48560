//! A table in the place of Spanner's, for the simulation.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Answer, Change, StoredRow, Timestamp};

use crate::batch::{CommitOutcome, Verdict};
use crate::error::{Outcome, Result};

/// The future of an answer.
pub(crate) type Answering<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The answer of [`Store::leftovers`](crate::batch::Store::leftovers).
pub(crate) type Leftovers = Result<Vec<(Vec<String>, bool)>>;

/// A table in the place of Spanner's. It has every column. Each call is sent once.
pub(crate) trait StandIn: fmt::Debug + Send + Sync {
    /// Reads, at one timestamp, the rows of these keys and of these ranges, whose ends are not part
    /// of them; in the order of their keys.
    fn rows(
        &self,
        keys: Vec<String>,
        ranges: Vec<(String, String)>,
        limit: Duration,
    ) -> Answering<'_, Result<(Vec<StoredRow>, Timestamp)>>;

    /// Carries out changes in one transaction, each judged by its own rows; with these rows.
    fn transact(
        &self,
        changes: Vec<(Arc<str>, Change)>,
        limit: Duration,
    ) -> Answering<'_, (Verdict, Vec<StoredRow>)>;

    /// As [`Store::leftovers`](crate::batch::Store::leftovers).
    fn leftovers(
        &self,
        locks: Vec<(Arc<str>, Timestamp)>,
        limit: Duration,
    ) -> Answering<'_, Leftovers>;
}

/// Returns what a transaction of one change means for it.
pub(super) fn outcome(change: &Change, verdict: Verdict) -> Outcome {
    let Verdict { refused, commit, error } = verdict;
    if let Some(rejection) = refused.into_iter().flatten().next() {
        return Outcome { answer: Answer::Rejected(rejection), error: None };
    }
    match commit {
        CommitOutcome::Applied { at } => Outcome { answer: Answer::Applied { at }, error: None },
        CommitOutcome::Exists => {
            Outcome { answer: Answer::Rejected(change.already_exists()), error: None }
        }
        CommitOutcome::Spoilt
        | CommitOutcome::Aborted { .. }
        | CommitOutcome::Gone
        | CommitOutcome::NotApplied => Outcome { answer: Answer::NotApplied, error },
        CommitOutcome::Unknown => Outcome { answer: Answer::Unknown, error },
    }
}
