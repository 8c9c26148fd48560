//! The batcher: sends the acts of many locks together.
//!
//! Each connection has one on each runtime. It collects the acts of the instances there, and sends
//! what is due at about the same time as one read, or as one transaction over many rows. The
//! protocol knows nothing of it: each row is judged alone by its act's own definition, and an
//! instance's validity counts from its decision, before its act gets here.
//!
//! An act goes through these files: a lock's [`handle`] hands it to the [`actor`], whose [`queue`]s put
//! it into a [`request`], paid from the table's [`budget`](crate::budget) if it may be in vain. The [`flow`] says when the
//! connection is silent. This file has the table as the batcher needs it.

mod actor;
mod flow;
mod handle;
mod queue;
mod request;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use spindle_protocol::{Answer, Change, Rejection, StoredRow, Timestamp};
use tokio::time::Instant;

pub(crate) use self::handle::{BatchHandle, Batchers};
pub(crate) use self::request::OpKind;
use crate::error::{Error, Outcome, Result};

/// A lock table. Each call is sent once; a single row is a batch of one.
pub(crate) trait Store: fmt::Debug + Send + Sync + 'static {
    /// Reads these columns of the rows of these keys and ranges at one timestamp; those that exist come
    /// back in any order. The end of a range is no part of it.
    fn rows(
        &self,
        keys: Vec<Arc<str>>,
        ranges: Vec<(String, String)>,
        columns: Columns,
        limit: Duration,
    ) -> BoxFuture<'_, Result<Snapshot>>;

    /// Carries out changes in one transaction, each judged by its own rows.
    fn transact(&self, changes: Vec<(Arc<str>, Change)>, limit: Duration)
    -> BoxFuture<'_, Verdict>;

    /// Refuses the caller's runtime where `subject` could send nothing from it.
    fn check_runtime(&self, subject: &str) -> Result<()>;

    /// Returns how requests get there.
    fn channels(&self) -> Channels;

    /// Returns when anything was last heard on the flow in use, by requests past the batcher too.
    fn heard_at(&self) -> Option<Instant>;

    /// Begins a flow beside the one in use: a fresh client, ready in `limit` once it is paid for (I8).
    /// Dropping the future gives it up.
    fn open_flow(&self, limit: Duration) -> BoxFuture<'static, Result<TakeOver>>;
}

/// Has a flow that is ready take the place of the one in use, on which nothing was heard for so long:
/// requests go on it from then on.
pub(crate) type TakeOver = Box<dyn FnOnce(Duration) + Send>;

/// How requests reach a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    /// All by one channel.
    One,
    /// Each by one of several, and which one nobody knows. The client was given then, and a fresh flow
    /// is one more request by it that was answered.
    Many,
}

/// The columns of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Columns {
    All,
    /// All but `info`: a text of its holder's own, which may be long, and decides nothing.
    ButInfo,
}

/// The answer to a read of many rows.
#[derive(Debug)]
pub struct Snapshot {
    /// The rows that exist.
    pub rows: Vec<StoredRow>,
    /// Spanner's timestamp of the read.
    pub read_at: Timestamp,
}

/// The outcome of a transaction with many changes.
#[derive(Debug)]
pub(crate) struct Verdict {
    /// Why a change was refused, in the order of the changes; a refused row refuses nobody else.
    pub(crate) refused: Vec<Option<Rejection>>,
    /// The rows by which all of them were judged.
    pub(crate) found: Vec<StoredRow>,
    /// The commit of the others.
    pub(crate) commit: CommitOutcome,
    /// The error, if something went wrong.
    pub(crate) error: Option<Error>,
}

/// The commit of a transaction's writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitOutcome {
    /// All writes are applied.
    Applied {
        /// The commit timestamp.
        at: Timestamp,
    },
    /// No write is applied: a row that was to be inserted exists.
    Exists,
    /// No write is applied, and any of the rows may be the reason.
    Invalid,
    /// No write is applied: another transaction was in the way.
    Aborted {
        /// True if nothing but the read was sent.
        at_read: bool,
    },
    /// No write is applied, and no row is the reason.
    NotApplied,
    /// Nobody knows if the writes are applied.
    Unknown,
}

impl CommitOutcome {
    /// Returns what it means for a change that was not refused, and is not tried again.
    pub(crate) fn of(self, error: Option<Error>) -> Outcome {
        match self {
            CommitOutcome::Applied { at } => Outcome::new(Answer::Applied { at }, error),
            // Each request is sent once, so the row is somebody else's.
            CommitOutcome::Exists => Outcome::of(Answer::Rejected(Rejection::Changed(None))),
            CommitOutcome::Unknown => Outcome::new(Answer::Unknown, error),
            CommitOutcome::Invalid | CommitOutcome::Aborted { .. } | CommitOutcome::NotApplied => {
                Outcome::new(Answer::NotApplied, error)
            }
        }
    }
}

impl Verdict {
    /// Before anything could be judged.
    pub(crate) fn failed(changes: &[(Arc<str>, Change)], error: Error) -> Verdict {
        let (refused, commit) = (vec![None; changes.len()], CommitOutcome::NotApplied);
        Verdict { refused, found: Vec::new(), commit, error: Some(error) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt as _;

    use super::*;

    /// Answers reads with no rows where it says so.
    pub(crate) struct Reads<F> {
        answers: F,
        /// Has it panic, once, where the batcher asks it something by itself.
        pub(crate) is_broken: AtomicBool,
        /// Has it answer no transaction.
        pub(crate) is_silent: AtomicBool,
    }

    impl<F> Reads<F> {
        pub(crate) fn new(answers: F) -> Reads<F> {
            Reads { answers, is_broken: AtomicBool::new(false), is_silent: AtomicBool::new(false) }
        }
    }

    impl<F> fmt::Debug for Reads<F> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.debug_struct("Reads").finish_non_exhaustive()
        }
    }

    impl<F: Fn() -> bool + Send + Sync + 'static> Store for Reads<F> {
        fn check_runtime(&self, _: &str) -> Result<()> {
            Ok(())
        }

        fn rows(
            &self,
            _: Vec<Arc<str>>,
            _: Vec<(String, String)>,
            _: Columns,
            limit: Duration,
        ) -> BoxFuture<'_, Result<Snapshot>> {
            let snapshot = Snapshot { rows: Vec::new(), read_at: Timestamp(1) };
            let answer =
                if (self.answers)() { Ok(snapshot) } else { Err(Error::timed_out("read", limit)) };
            async { answer }.boxed()
        }

        fn transact(
            &self,
            changes: Vec<(Arc<str>, Change)>,
            _: Duration,
        ) -> BoxFuture<'_, Verdict> {
            if self.is_silent.load(Ordering::Relaxed) {
                return std::future::pending().boxed();
            }
            let refused = vec![Some(Rejection::Needless); changes.len()];
            let (commit, found) = (CommitOutcome::NotApplied, Vec::new());
            async move { Verdict { refused, found, commit, error: None } }.boxed()
        }

        fn channels(&self) -> Channels {
            Channels::One
        }

        fn heard_at(&self) -> Option<Instant> {
            assert!(!self.is_broken.swap(false, Ordering::Relaxed), "a bug");
            None
        }

        fn open_flow(&self, _: Duration) -> BoxFuture<'static, Result<TakeOver>> {
            std::future::pending().boxed()
        }
    }
}
