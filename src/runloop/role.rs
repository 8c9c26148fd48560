//! The role that a row plays: what an instance's acts mean for it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use spindle_protocol::rw::Reader;
use spindle_protocol::{Act, Change, Holder};

use super::writer::WriterRow;
use crate::batch::BatchHandle;
use crate::store::Table;
use crate::system::chance;

/// The role that an instance plays, before it has a loop.
#[derive(Clone, Debug)]
pub(crate) enum RowRole {
    /// The holder of an ordinary lock.
    Lock,
    /// One of many readers, each with a row of its own.
    Reader(Box<Reader>),
    /// The writer, which readers keep waiting.
    Writer(Arc<WriterRow>),
}

/// The role that a row plays.
pub(crate) enum Role {
    Lock,
    Reader(Box<ReaderRow>),
    Writer(Arc<WriterRow>),
}

/// A reader's row, with the writers' row beside it.
pub(crate) struct ReaderRow {
    view: Mutex<Reader>,
    pub(crate) writer_row: BatchHandle,
}

impl RowRole {
    /// Returns the role with what it needs of a batcher.
    pub(crate) fn with_handles(self, table: &Table) -> Role {
        match self {
            RowRole::Lock => Role::Lock,
            RowRole::Writer(writer) => Role::Writer(writer),
            RowRole::Reader(reader) => {
                let key = reader.writer_row().into();
                let writer_row = table.batchers.handle(&table.store, key, chance::random());
                Role::Reader(Box::new(ReaderRow { view: Mutex::new(*reader), writer_row }))
            }
        }
    }
}

impl Role {
    /// Returns the change that an act asks for; none for one that changes nothing.
    pub(crate) fn change(&self, act: &Act, holder: &Holder, info: Option<&str>) -> Option<Change> {
        match self {
            Role::Lock => act.change(holder, info),
            Role::Reader(reader) => reader.view().change(act, holder),
            Role::Writer(writer) => writer.change(act, holder),
        }
    }
}

impl ReaderRow {
    pub(crate) fn view(&self) -> MutexGuard<'_, Reader> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
