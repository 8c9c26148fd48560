//! One request with the acts of many locks, and the answer to each of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::line::Place;
use spindle_protocol::{Answer, Change, Observation, StoredRow};

use super::op::{Class, Op, OpKind};
use super::store::{Columns, CommitOutcome, Snapshot, Store, Verdict};
use super::together::Batch;
use crate::error::{Error, Outcome, Result};

/// The result of a request.
#[derive(Debug)]
pub(crate) struct Response {
    /// One for each act; none for one that is to be sent again, in smaller batches.
    pub(crate) outcomes: Vec<Option<Outcome>>,
    pub(crate) reply: Reply,
    /// The end of its transaction. An aborted one, or one that is gone, may be sent once more as it
    /// was, before its outcomes count.
    pub(crate) commit: CommitOutcome,
}

/// The sign of life that a request brought from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// It brought answers, and was not in vain.
    Answered,
    /// The server was heard, and refused.
    Refused,
    /// The server was not heard.
    Silence,
}

impl Reply {
    fn of(error: Option<&Error>) -> Reply {
        match error {
            None => Reply::Answered,
            // Spanner has said what is wrong with a table.
            Some(error) if error.is_answer() || error.is_schema() => Reply::Refused,
            Some(_) => Reply::Silence,
        }
    }
}

/// Sends the acts in one request.
pub(crate) async fn send(store: &dyn Store, batch: &Batch, limit: Duration) -> Response {
    let ops = &*batch.ops;
    match batch.class {
        Class::Polls => {
            let keys = ops.iter().map(|op| Arc::clone(&op.lock)).collect();
            observed(ops, store.rows(keys, Vec::new(), Columns::ButInfo, limit).await)
        }
        Class::Heartbeats | Class::Releases | Class::Begins => {
            let changes: Vec<(Arc<str>, Change)> = changes(ops);
            judged(ops, store.transact(changes, limit).await)
        }
    }
}

fn changes(ops: &[Arc<Op>]) -> Vec<(Arc<str>, Change)> {
    let changes = ops.iter().filter_map(|op| match &op.kind {
        OpKind::Change(change) => Some((Arc::clone(&op.lock), change.clone())),
        OpKind::Observe { .. } => None,
    });
    changes.collect()
}

fn observed(ops: &[Arc<Op>], read: Result<Snapshot>) -> Response {
    let Snapshot { rows, read_at } = match read {
        Ok(snapshot) => snapshot,
        Err(error) => return unread(ops, &error),
    };
    let rows: HashMap<&str, &StoredRow> = rows.iter().map(|row| (&*row.key, row)).collect();
    let outcome = |op: &Arc<Op>| {
        let found = rows.get(&*op.lock);
        let row = found.map(|row| row.row());
        let next = found.and_then(|row| Place::of(row));
        let answer = Answer::Observed(Observation { row, next, read_at });
        Some(Outcome::of(answer))
    };
    let commit = CommitOutcome::Applied { at: read_at };
    Response { outcomes: ops.iter().map(outcome).collect(), reply: Reply::Answered, commit }
}

/// Says to each act that nothing was read.
fn unread(ops: &[Arc<Op>], error: &Error) -> Response {
    let is_alone = ops.len() == 1;
    let outcome = |op: &Arc<Op>| {
        // A table that is wrong is wrong for each of them.
        let stays = is_alone || !op.is_repeat || error.is_schema();
        stays.then(|| Outcome::failed(Answer::NotApplied, error.clone()))
    };
    let commit = match error.code() {
        Some(Code::Aborted) => CommitOutcome::Aborted { at_read: true },
        Some(Code::NotFound | Code::FailedPrecondition) => CommitOutcome::Gone,
        _ => CommitOutcome::NotApplied,
    };
    let outcomes = ops.iter().map(outcome).collect();
    Response { outcomes, reply: Reply::of(Some(error)), commit }
}

/// Says to each act what the transaction means for it.
fn judged(ops: &[Arc<Op>], verdict: Verdict) -> Response {
    let Verdict { refused, found, commit, error } = verdict;
    let rows: HashMap<&str, &StoredRow> = found.iter().map(|row| (&*row.key, row)).collect();
    let is_alone = ops.len() == 1;
    let of_the_rest = |op: &Op| {
        let answer = match (commit, &op.kind) {
            (CommitOutcome::Applied { at }, _) => Answer::Applied { at },
            // The rest goes again: which of the rows it was, nobody has said.
            (commit, _) if !is_alone && may_be_a_rows(commit) => return None,
            // A heartbeat may be repeated (I4). At the first failure its instance does that.
            (_, kind) if !is_alone && op.is_repeat && kind.class() == Class::Heartbeats => {
                return None;
            }
            (_, OpKind::Change(_)) => return Some(commit.of(error.clone())),
            _ => Answer::NotApplied,
        };
        Some(Outcome::new(answer, error.clone()))
    };
    let outcomes = ops.iter().zip(refused);
    let outcomes = outcomes.map(|(op, refused)| match refused {
        Some(rejection) => Some(Outcome::of(Answer::Rejected(rejection))),
        None => {
            let row = rows.get(&*op.lock).copied();
            let (is_seized, next) = (row.is_some_and(StoredRow::is_seized), looked(op, row));
            of_the_rest(op).map(|outcome| Outcome { is_seized, next, ..outcome })
        }
    });
    Response { outcomes: outcomes.collect(), reply: Reply::of(error.as_ref()), commit }
}

/// Returns who stands first in line, if it is a heartbeat that has looked.
fn looked(op: &Op, found: Option<&StoredRow>) -> Option<Place> {
    match &op.kind {
        OpKind::Change(Change::Heartbeat { looks: true, .. }) => found.and_then(Place::of),
        _ => None,
    }
}

/// Returns true if one row can be the reason that a whole transaction is refused.
fn may_be_a_rows(commit: CommitOutcome) -> bool {
    matches!(
        commit,
        CommitOutcome::Exists
            | CommitOutcome::Invalid
            | CommitOutcome::Aborted { .. }
            | CommitOutcome::Gone
    )
}

/// Says to each act that its request panicked: nobody knows what came of it.
pub(crate) fn panicked(ops: &[Arc<Op>], message: &str) -> Response {
    let outcome = |op: &Arc<Op>| {
        let doing = format!("lock `{}`: the request panicked: {message}", op.lock);
        Some(Outcome::failed(op.without_answer(), Error::unknown(doing)))
    };
    let outcomes = ops.iter().map(outcome).collect();
    Response { outcomes, reply: Reply::Refused, commit: CommitOutcome::Unknown }
}
