//! The outcome of one call.

use std::fmt;

use super::record::SlotRecord;
use crate::error::Error;

/// The outcome of [`run_once`](super::Job::run_once): the slot is recorded, one way or the other. It prints
/// as a line for a log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JobOutcome<T> {
    /// It ran here, and is recorded as done. The task returned this.
    Ran(T),
    /// It was not this call that ended it.
    #[non_exhaustive]
    Skipped {
        /// Why.
        why: Skip,
        /// The record of the slot; that of the later one, if it is superseded. Nothing where the lock is
        /// held and no slot of the job was started so far.
        record: Option<SlotRecord>,
    },
    /// It is recorded as failed: all its attempts failed, here or elsewhere.
    #[non_exhaustive]
    Failed {
        /// The record.
        record: SlotRecord,
        /// Why the last start failed, if it was this call's: [`cause`](Error::cause) finds the task's own
        /// error by its type.
        error: Option<Error>,
    },
}

/// Why a call skipped a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Skip {
    /// Another call has run it, or this one did under a term whose end it doesn't know the result of.
    Done,
    /// A later slot was started. An older one isn't any more.
    Superseded,
    /// It runs elsewhere, or a slot before it does, and the call was not to
    /// [wait](super::Job::skip_if_running).
    Running,
    /// The call was told to [end](super::Job::until).
    Cancelled,
}

impl<T> fmt::Display for JobOutcome<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            JobOutcome::Ran(_) => f.write_str("it ran here"),
            JobOutcome::Skipped { why: Skip::Superseded, record: Some(record) } => {
                write!(f, "superseded: {record}")
            }
            JobOutcome::Skipped { record: Some(record), .. } => record.fmt(f),
            JobOutcome::Skipped { why: Skip::Cancelled, record: None } => {
                f.write_str("the call was told to end")
            }
            JobOutcome::Skipped { record: None, .. } => f.write_str("its lock is held"),
            JobOutcome::Failed { record, error: Some(error) } => write!(f, "{record}: {error}"),
            JobOutcome::Failed { record, error: None } => record.fmt(f),
        }
    }
}
