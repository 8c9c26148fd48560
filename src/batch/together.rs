//! A batch: acts that go in one request.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::budget::Payment;
use super::op::{Class, Op};

/// The most rows of one request; Spanner allows 80,000 cells a commit.
pub(crate) const ROWS_MAX: usize = 1_000;
/// The most bytes of keys and values in one request.
pub(super) const BYTES_MAX: usize = 1 << 20;

/// Acts that go together, or wait to go together once more.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) class: Class,
    /// Sorted by lock.
    pub(crate) ops: Vec<Arc<Op>>,
    /// Given back if the request brings answers.
    pub(crate) payment: Option<Payment>,
    /// True if each of its acts may have held others up before.
    pub(crate) is_isolated: bool,
    /// True if nothing else may be in flight, to find out if it was something else.
    pub(crate) is_alone: bool,
    /// How often these very acts were sent together before.
    pub(crate) repeats: u32,
    /// True if its acts met silence on the flow before this one.
    pub(crate) after_silence: bool,
}

impl Batch {
    pub(super) fn new(class: Class, mut ops: Vec<Arc<Op>>, payment: Option<Payment>) -> Batch {
        ops.sort_by(|one, other| one.lock.cmp(&other.lock));
        Batch {
            class,
            ops,
            payment,
            is_isolated: false,
            is_alone: false,
            repeats: 0,
            after_silence: false,
        }
    }

    /// Returns true if it is as large as requests get.
    pub(crate) fn is_full(&self) -> bool {
        fill_a_request(&self.ops)
    }

    /// Returns how long the request may take: each of its acts is bounded by its own limit besides.
    pub(crate) fn limit(&self, now: Instant) -> Duration {
        let deadlines = self.ops.iter().map(|op| op.deadline);
        deadlines.max().unwrap_or(now).saturating_duration_since(now)
    }
}

/// Returns true if these acts are as many as go in one request, or more.
pub(super) fn fill_a_request<'a>(ops: impl IntoIterator<Item = &'a Arc<Op>>) -> bool {
    let (mut rows, mut bytes) = (0, 0);
    ops.into_iter().any(|op| {
        (rows, bytes) = (rows + 1, bytes + op.bytes());
        // One more of its size would be too much.
        rows >= ROWS_MAX || bytes + op.bytes() > BYTES_MAX
    })
}

/// Acts that may share a request.
pub(super) struct Chosen {
    class: Class,
    pub(super) ops: Vec<Arc<Op>>,
    locks: HashSet<Arc<str>>,
    /// The rows of others that they may change besides: all who begin to read under one writer write
    /// the same into its rows.
    others: HashSet<String>,
    bytes: usize,
    /// Those of a row that is written already. Two writes of one row would have to be judged by
    /// each other.
    pub(super) twice: Vec<(u64, Arc<Op>)>,
}

impl Chosen {
    pub(super) fn new(class: Class) -> Chosen {
        let (locks, others) = (HashSet::new(), HashSet::new());
        Chosen { class, ops: Vec::new(), locks, others, bytes: 0, twice: Vec::new() }
    }

    pub(super) fn has_room_for(&self, op: &Op) -> bool {
        let is_short = self.ops.is_empty() || self.bytes + op.bytes() <= BYTES_MAX;
        self.ops.len() < ROWS_MAX && is_short
    }

    pub(super) fn add(&mut self, came: u64, op: Arc<Op>) {
        let (lock, others) = (&op.lock, op.kind.others());
        let meets_another = || {
            let is_taken = self.others.contains(&**lock) || self.locks.contains(lock);
            is_taken || others.iter().any(|other| self.locks.contains(*other))
        };
        if self.class != Class::Polls && meets_another() {
            self.twice.push((came, op));
            return;
        }
        self.locks.insert(Arc::clone(lock));
        self.others.extend(others.into_iter().map(str::to_string));
        self.bytes += op.bytes();
        self.ops.push(op);
    }
}
