//! The role that a row plays: what an instance's acts mean for it.

use std::sync::{Arc, Mutex, PoisonError};

use spindle_protocol::rw::Reader;
use spindle_protocol::{Act, Change, Holder, Observation};

use super::job::JobRows;
use super::writer::WriterRow;

/// The role that an instance's row plays.
#[derive(Clone, Debug)]
pub(crate) enum RowRole {
    /// An ordinary lock's.
    Lock,
    /// That of one of many readers, each with a row of its own. It is polled with the writers' row.
    Reader(Arc<Mutex<Reader>>),
    /// The writers', which readers keep waiting.
    Writer(Arc<WriterRow>),
    /// A job's, whose acts go along with its record. It is polled with the record's row.
    Job(Arc<JobRows>),
}

impl RowRole {
    /// Returns the key of the row that it is polled with, if it is another than the instance's own.
    pub(super) fn other_row(&self) -> Option<Arc<str>> {
        match self {
            RowRole::Reader(reader) => {
                let reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                Some(reader.writer_row().into())
            }
            RowRole::Job(job) => Some(job.key().into()),
            RowRole::Lock | RowRole::Writer(_) => None,
        }
    }

    /// Returns the change that an act asks for; none for one that changes nothing.
    pub(super) fn change(&self, act: &Act, holder: &Holder, info: Option<&str>) -> Option<Change> {
        match self {
            RowRole::Lock => act.change(holder, info),
            RowRole::Reader(reader) => {
                reader.lock().unwrap_or_else(PoisonError::into_inner).change(act, holder)
            }
            RowRole::Writer(writer) => writer.change(act, holder),
            RowRole::Job(job) => job.change(act, holder, info),
        }
    }

    /// Returns what the instance is shown of its own row and the other one.
    pub(super) fn observed(&self, own: Observation, other: Observation) -> Observation {
        match self {
            RowRole::Reader(reader) => {
                reader.lock().unwrap_or_else(PoisonError::into_inner).observed(own, other)
            }
            RowRole::Job(job) => job.observed(own, other),
            RowRole::Lock | RowRole::Writer(_) => own,
        }
    }
}
