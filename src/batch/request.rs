//! Group commit: many acts in one request, and the answer to each of them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::line::Place;
use spindle_protocol::{Answer, Change, Observation, StoredRow};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::{Columns, CommitOutcome, Snapshot, Store, Verdict};
use crate::budget::Payment;
use crate::error::{Error, Outcome, Result};

/// The most rows of one request; Spanner allows 80,000 cells a commit.
pub(super) const ROWS_MAX: usize = 1_000;
/// The most bytes of keys and values in one request.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// The kinds of request, which never mix; the first one here goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// They read token and writer and write the heartbeat: no fence conflicts with them.
    Heartbeats,
    /// Reads at one timestamp.
    Polls,
    /// They write the token and may wait for a fence, as begins do.
    Releases,
    /// Those of terms.
    Begins,
}

impl Class {
    pub(crate) const ALL: [Class; 4] =
        [Class::Heartbeats, Class::Polls, Class::Releases, Class::Begins];
}

/// A request for one lock.
#[derive(Clone, Debug)]
pub(crate) enum OpKind {
    /// Reads its row.
    Observe {
        /// True if nobody looked at it for this instance before.
        is_first: bool,
    },
    /// Changes its row.
    Change(Change),
}

impl OpKind {
    pub(crate) fn class(&self) -> Class {
        match self {
            OpKind::Observe { .. } => Class::Polls,
            // The term is what it waits for.
            OpKind::Change(Change::Job { term, .. }) => OpKind::Change((**term).clone()).class(),
            OpKind::Change(Change::Heartbeat { .. }) => Class::Heartbeats,
            OpKind::Change(
                Change::Insert { .. }
                | Change::Takeover { .. }
                | Change::BeginRead { .. }
                | Change::BeginWrite { .. },
            ) => Class::Begins,
            OpKind::Change(_) => Class::Releases,
        }
    }

    /// Returns the keys of the rows by which it is judged besides its lock's own, and which it may
    /// change: those of readers and writers.
    pub(super) fn others(&self) -> Vec<&str> {
        match self {
            OpKind::Change(Change::BeginRead { vacant, .. }) => {
                vacant.iter().map(|(key, _)| &**key).collect()
            }
            OpKind::Change(Change::BeginWrite { gate: (gate, _), readers, .. }) => {
                let readers = readers.iter().map(|(key, _)| &**key);
                std::iter::once(&**gate).chain(readers).collect()
            }
            _ => Vec::new(),
        }
    }

    /// About as many bytes as its keys and values take, besides the lock's name.
    fn bytes(&self) -> usize {
        let others = self.others().iter().map(|key| ROW + key.len() * 2).sum::<usize>();
        let OpKind::Change(change) = self else { return ROW };
        ROW + others + said(change)
    }
}

/// About as many bytes as the timestamps and the writer of a row take, and what frames them.
const ROW: usize = 200;

/// About as many bytes as the slots before take in a job's row.
const JOB_PAST: usize = 4_096;

/// The bytes of the text that a change leaves.
fn said(change: &Change) -> usize {
    let info = match change {
        Change::Insert { holder, .. }
        | Change::Takeover { holder, .. }
        | Change::BeginRead { holder, .. } => holder.info.as_ref(),
        Change::BeginWrite { begin, .. } => return said(begin),
        // The slots before stand in the row.
        Change::Job { record, .. } => return ROW + record.key().len() * 2 + JOB_PAST,
        _ => None,
    };
    info.map_or(0, String::len)
}

/// One act on its way, and who waits for its answer.
#[derive(Debug)]
pub(crate) struct Op {
    pub(crate) lock: Arc<str>,
    pub(crate) kind: OpKind,
    /// When it was asked for, and until when it has time.
    pub(crate) asked: Instant,
    pub(crate) deadline: Instant,
    /// A request for it that takes longer counts as slow.
    pub(crate) patience: Duration,
    /// True if the lock's last act of this kind failed.
    pub(crate) is_repeat: bool,
    /// Both at once: so nobody hears of an act that it hasn't left, which leaves then.
    way: Mutex<Way>,
}

/// Where an act is.
#[derive(Debug)]
struct Way {
    waiting: Option<oneshot::Sender<Outcome>>,
    /// True once a request carries it.
    has_left: bool,
}

impl Way {
    /// Returns true if somebody waits for the answer.
    fn is_wanted(&self) -> bool {
        self.waiting.as_ref().is_some_and(|waiting| !waiting.is_closed())
    }
}

impl Op {
    pub(crate) fn new(
        lock: Arc<str>,
        kind: OpKind,
        (limit, patience): (Duration, Duration),
        is_repeat: bool,
    ) -> (Arc<Op>, oneshot::Receiver<Outcome>) {
        let (waiting, answer) = oneshot::channel();
        let asked = Instant::now();
        let way = Mutex::new(Way { waiting: Some(waiting), has_left: false });
        let deadline = asked + limit;
        let op = Op { lock, kind, asked, deadline, patience, is_repeat, way };
        (Arc::new(op), answer)
    }

    pub(super) fn bytes(&self) -> usize {
        // The name stands in the key that is read, in the write, and in that of a takeover row.
        self.lock.len() * 3 + self.kind.bytes()
    }

    /// Returns true if sending it is of use: somebody waits for the answer, and there is time for one.
    /// A heartbeat with too little time left would only be in the way of others.
    pub(super) fn is_of_use(&self, now: Instant) -> bool {
        let left = self.deadline.saturating_duration_since(now);
        let is_hopeless = self.kind.class() == Class::Heartbeats && left < self.patience / 8;
        !is_hopeless && self.way().is_wanted()
    }

    /// The first answer counts.
    pub(crate) fn answer(&self, outcome: Outcome) {
        let waiting = self.way().waiting.take();
        if let Some(waiting) = waiting {
            // The caller may be gone.
            let _ = waiting.send(outcome);
        }
    }

    /// Notes that no answer will come, and has the caller hear so.
    pub(super) fn lost(&self) {
        self.way().waiting = None;
    }

    /// Notes that a request carries it from now on; false if nobody waits for it any more.
    pub(super) fn leaves(&self) -> bool {
        let mut way = self.way();
        let is_wanted = way.is_wanted();
        way.has_left |= is_wanted;
        is_wanted
    }

    /// Returns what is known of an act to which no answer came.
    pub(crate) fn without_answer(&self) -> Answer {
        let may_change = matches!(self.kind, OpKind::Change(_));
        if may_change && self.way().has_left { Answer::Unknown } else { Answer::NotApplied }
    }

    /// Locked for moments only.
    fn way(&self) -> MutexGuard<'_, Way> {
        self.way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Acts that go together, or wait to go together once more.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) class: Class,
    /// Sorted by lock.
    pub(super) ops: Vec<Arc<Op>>,
    /// From then on the request counts as slow.
    pub(super) patience: Duration,
    /// Given back if the request brings answers.
    pub(super) payment: Option<Payment>,
    /// True if its acts repeat what failed.
    pub(super) is_repeat: bool,
    /// How often these very acts were aborted together.
    pub(super) aborts: u32,
    /// True if its acts met silence on the flow before this one.
    pub(super) after_silence: bool,
}

impl Batch {
    pub(super) fn new(class: Class, mut ops: Vec<Arc<Op>>) -> Batch {
        ops.sort_by(|one, other| one.lock.cmp(&other.lock));
        let patience = ops.iter().map(|op| op.patience).min().unwrap_or_default();
        let (payment, is_repeat, aborts, after_silence) = (None, false, 0, false);
        Batch { class, ops, patience, payment, is_repeat, aborts, after_silence }
    }

    /// Returns how long the request may take: each of its acts is bounded by its own limit besides.
    pub(super) fn limit(&self, now: Instant) -> Duration {
        let deadlines = self.ops.iter().map(|op| op.deadline);
        deadlines.max().unwrap_or(now).saturating_duration_since(now)
    }
}

/// The result of a request.
#[derive(Debug)]
pub(super) struct Response {
    /// One for each act; none for one that is to be sent again, in smaller batches.
    pub(super) outcomes: Vec<Option<Outcome>>,
    /// The outcome of those instead, if no smaller batch is of use; none if they have to be sent again.
    pub(super) rest: Option<Outcome>,
    pub(super) reply: Reply,
    /// The end of its transaction. One that was aborted may be sent once more as it was, before its
    /// outcomes count.
    pub(super) commit: CommitOutcome,
}

/// The sign of life that a request brought from the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
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
pub(super) async fn send(store: &dyn Store, batch: &Batch, limit: Duration) -> Response {
    let ops = &*batch.ops;
    match batch.class {
        Class::Polls => {
            let keys = ops.iter().map(|op| Arc::clone(&op.lock)).collect();
            observed(ops, store.rows(keys, Vec::new(), Columns::ButInfo, limit).await)
        }
        Class::Heartbeats | Class::Releases | Class::Begins => {
            judged(ops, store.transact(changes(ops), limit).await)
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
    let outcomes = ops.iter().map(outcome).collect();
    Response { outcomes, rest: None, reply: Reply::Answered, commit }
}

/// Says to each act that nothing was read.
fn unread(ops: &[Arc<Op>], error: &Error) -> Response {
    let outcome = |_| Some(Outcome::failed(Answer::NotApplied, error.clone()));
    let commit = match error.code() {
        Some(Code::Aborted) => CommitOutcome::Aborted { at_read: true },
        _ => CommitOutcome::NotApplied,
    };
    let outcomes = ops.iter().map(outcome).collect();
    Response { outcomes, rest: None, reply: Reply::of(Some(error)), commit }
}

/// Says to each act what the transaction means for it.
fn judged(ops: &[Arc<Op>], verdict: Verdict) -> Response {
    let Verdict { refused, found, commit, error } = verdict;
    let rows: HashMap<&str, &StoredRow> = found.iter().map(|row| (&*row.key, row)).collect();
    let is_alone = ops.len() == 1;
    let of_the_rest = |op: &Op| match commit {
        CommitOutcome::Applied { at } => Some(Outcome::new(Answer::Applied { at }, error.clone())),
        // The rest goes again: which of the rows it was, nobody has said.
        commit if !is_alone && may_be_a_rows(commit) => None,
        // A heartbeat may be repeated (I4). At the first failure its instance does that.
        _ if !is_alone && op.is_repeat && op.kind.class() == Class::Heartbeats => None,
        commit => Some(commit.of(error.clone())),
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
    let outcomes = outcomes.collect();
    // That a row is there says nothing of the others.
    let rest = (commit != CommitOutcome::Exists).then(|| commit.of(error.clone()));
    Response { outcomes, rest, reply: Reply::of(error.as_ref()), commit }
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
    matches!(commit, CommitOutcome::Exists | CommitOutcome::Invalid | CommitOutcome::Aborted { .. })
}

/// Says to each act that its request panicked: nobody knows what came of it.
pub(super) fn panicked(ops: &[Arc<Op>], message: &str) -> Response {
    let outcome = |op: &Arc<Op>| {
        let doing = format!("lock `{}`: the request panicked: {message}", op.lock);
        Some(Outcome::failed(op.without_answer(), Error::unknown(doing)))
    };
    let outcomes = ops.iter().map(outcome).collect();
    let commit = CommitOutcome::Unknown;
    Response { outcomes, rest: None, reply: Reply::Refused, commit }
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Nonce, TermId, Timestamp, Writer};

    use super::*;

    #[tokio::test]
    async fn nobody_knows_what_became_of_a_change_that_left() {
        let limit = Duration::from_secs(1);
        let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let term = TermId { token: Timestamp(7), writer };
        let change = OpKind::Change(Change::Heartbeat { term, looks: false });
        let look = OpKind::Observe { is_first: false };
        let op = |kind: &OpKind| Op::new("a".into(), kind.clone(), (limit, limit), false);
        let ((change, _answer), (look, _look)) = (op(&change), op(&look));
        assert_eq!(change.without_answer(), Answer::NotApplied);
        assert!(change.leaves() && look.leaves());
        assert_eq!(change.without_answer(), Answer::Unknown);
        assert_eq!(look.without_answer(), Answer::NotApplied);

        let (given_up, answer) = op(&change.kind);
        drop(answer);
        assert_eq!(given_up.without_answer(), Answer::NotApplied);
        assert!(!given_up.leaves(), "its caller was told that it hadn't");
    }
}
