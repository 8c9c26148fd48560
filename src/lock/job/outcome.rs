//! The outcome of one call.

use std::fmt;

use super::record::SlotRecord;
use crate::error::Error;

/// The outcome of [`run_once`](super::Job::run_once): the slot is recorded, one way or the other.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum JobOutcome<T> {
    /// It ran here, and is recorded as done. The task returned this.
    Ran(T),
    /// It was not this call that ended it.
    Skipped(Skipped),
    /// It is recorded as failed: all its attempts failed, here or elsewhere.
    Failed(JobFailure),
}

/// A slot that a call skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Skipped {
    /// Why.
    pub why: Skip,
    /// The record of the slot; that of the later one, if it is superseded. Nothing where the lock is held
    /// and no slot of the job was started so far.
    pub record: Option<SlotRecord>,
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

/// A slot that is recorded as failed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct JobFailure {
    /// The record.
    pub record: SlotRecord,
    /// Why the last start failed, if it was this call's: [`cause`](Error::cause) finds the task's own
    /// error by its type.
    pub error: Option<Error>,
}

impl fmt::Display for Skipped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.why, &self.record) {
            (Skip::Superseded, Some(record)) => write!(f, "superseded: {record}"),
            (_, Some(record)) => record.fmt(f),
            (Skip::Cancelled, None) => f.write_str("the call was told to end"),
            (_, None) => f.write_str("its lock is held"),
        }
    }
}

impl fmt::Display for JobFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.error {
            Some(error) => write!(f, "{}: {error}", self.record),
            None => self.record.fmt(f),
        }
    }
}
