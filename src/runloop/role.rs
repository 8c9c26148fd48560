//! The role that a row plays: what an instance's acts mean for it.

use std::sync::Arc;

use spindle_protocol::{Act, Change, Holder, Observation};

use super::job::JobRows;
use super::shared::{ReaderRow, WriteLockRow};

/// The role that an instance's row plays.
#[derive(Clone, Debug)]
pub(crate) enum RowRole {
    /// An ordinary lock's.
    Lock,
    /// That of one of many readers, each with a row of its own. It is polled with gate and write lock.
    Reader(Arc<ReaderRow>),
    /// The write lock, which readers keep a writer waiting for. It is polled with their rows.
    WriteLock(Arc<WriteLockRow>),
    /// A job's, whose acts go along with its record. It is polled with the record's row.
    Job(Arc<JobRows>),
}

impl RowRole {
    /// Returns the keys of the rows that it is polled with, by the batcher.
    pub(super) fn other_rows(&self) -> Vec<Arc<str>> {
        match self {
            RowRole::Reader(reader) => reader.view().keys().map(Arc::from).to_vec(),
            RowRole::Job(job) => vec![job.key().into()],
            RowRole::Lock | RowRole::WriteLock(_) => Vec::new(),
        }
    }

    /// Returns the change that an act asks for; none for one that changes nothing.
    pub(super) fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        match self {
            RowRole::Lock => act.change(holder),
            RowRole::Reader(reader) => reader.view().change(act, holder),
            RowRole::WriteLock(row) => row.view().change(act, holder),
            RowRole::Job(job) => job.change(act, holder),
        }
    }

    /// Returns what the instance is shown of its own row and the others.
    pub(super) fn observed(&self, own: Observation, others: &[Observation]) -> Observation {
        match (self, others) {
            (RowRole::Reader(reader), [gate, write_lock]) => {
                reader.view().observed(own, [gate.clone(), write_lock.clone()])
            }
            (RowRole::Job(job), [record]) => job.observed(own, record.clone()),
            _ => own,
        }
    }
}
