//! A database's knowledge of one read-write transaction.

use std::collections::BTreeSet;
use std::fmt;
use std::time::Duration;

use super::error::Error;
use super::locks::Lock;
use super::mutation::WriteSet;
use super::remembered::WrittenRows;
use super::value::Timestamp;

/// How long a transaction may go without a request before it is aborted.
pub const IDLE_LIMIT: Duration = Duration::from_secs(10);

/// A read-write transaction's name within its database.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TransactionId(pub(super) u64);

impl TransactionId {
    /// Returns the id with this number, which may or may not have been given out.
    pub fn from_number(number: u64) -> TransactionId {
        TransactionId(number)
    }
}

impl fmt::Display for TransactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A transaction of either kind. To a read-only one there is no more than its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Handle {
    /// A read-write transaction.
    ReadWrite(TransactionId),
    /// A read-only transaction at this moment, which [`super::Database::read_timestamp`] gives.
    ReadOnly(Timestamp),
}

/// When a transaction finds out that it can't be serialized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Concurrency {
    /// Its reads lock what they read; others wait or are aborted.
    #[default]
    Pessimistic,
    /// Its reads lock nothing and show one moment; the commit aborts if that is out of date.
    Optimistic,
}

/// How a read-write transaction begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadWriteOptions {
    /// Decides if its reads take locks.
    pub concurrency: Concurrency,
    /// The aborted transaction that this one is another attempt of, whose age it takes over.
    pub previous: Option<TransactionId>,
}

/// The answer of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// The commit timestamp.
    pub timestamp: Timestamp,
    /// How many cells were written, which is what commit statistics show.
    pub mutation_count: usize,
}

/// The wanted read-only timestamp.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampBound {
    /// A timestamp that shows everything committed before now.
    #[default]
    Strong,
    /// Exactly this one; the read waits for it if it is in the future.
    ReadTimestamp(Timestamp),
    /// This one or a later one.
    MinReadTimestamp(Timestamp),
    /// As long ago as this.
    ExactStaleness(Duration),
    /// As long ago as this or less.
    MaxStaleness(Duration),
}

/// How a transaction has ended.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    Committed(Committed),
    RolledBack,
    /// Over because of an error, which later requests get as well.
    Failed(Error),
    /// The same of a commit. A read that comes after one is out of place.
    CommitFailed(Error),
}

/// The age by which a transaction wins: the smaller one. The first part is when its first attempt
/// began to work; the second keeps any two apart.
pub(super) type Age = (u64, TransactionId);

/// The rest of a read-write transaction that is over.
#[derive(Debug)]
pub(super) struct Ended {
    /// Its age, which its next attempt takes over.
    pub age: Option<u64>,
    pub outcome: Outcome,
    pub written: WrittenRows,
}

/// One read-write transaction that is open.
#[derive(Debug)]
pub(super) struct Transaction {
    pub concurrency: Concurrency,
    /// `None` until its first read, write or commit.
    pub age: Option<u64>,
    pub last_used: Timestamp,
    /// Requests under way: a transaction that is being worked on is not idle.
    pub requests: u32,
    /// The moment that an optimistic transaction sees, once it has read.
    pub snapshot: Option<Timestamp>,
    /// The reads of an optimistic transaction, which it must find unchanged when it commits: the locks that
    /// it would have taken, by table name in lower case.
    pub reads: Vec<(String, Lock)>,
    /// The writes of its statements.
    pub writes: WriteSet,
    /// The tables where it holds locks, by name in lower case.
    pub locked: BTreeSet<String>,
}

impl Transaction {
    pub fn new(concurrency: Concurrency, age: Option<u64>, now: Timestamp) -> Transaction {
        Transaction {
            concurrency,
            age,
            last_used: now,
            requests: 0,
            snapshot: None,
            reads: Vec::new(),
            writes: WriteSet::default(),
            locked: BTreeSet::new(),
        }
    }

    /// Returns when it will have been idle for too long, if it is left alone from now on.
    pub fn idle_at(&self, now: Timestamp) -> Timestamp {
        let since = if self.requests > 0 { now } else { self.last_used };
        since.checked_add(IDLE_LIMIT).unwrap_or(Timestamp::MAX)
    }
}
