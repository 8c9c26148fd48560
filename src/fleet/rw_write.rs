//! A writer's way to its two locks: the gate, which stops new readers, and the write lock.

use std::sync::{Arc, Mutex, PoisonError};

use spindle_protocol::TermId;
use spindle_protocol::rw::WriteLock;
use tokio::sync::OwnedRwLockWriteGuard;

use super::rw_guards::{Reading, WriteGuard};
use super::rw_lock::{Inner, RwLock};
use crate::error::{Error, Result};
use crate::lock::{Guard, Spindle};
use crate::names::subject;
use crate::runloop::{RowRole, WriteLockRow};
use crate::system::runtime;

/// The instances of one writer: that for the gate, and the last one for the write lock.
pub(super) struct Writer {
    pub(super) gate: Spindle,
    write_lock: Mutex<Option<Spindle>>,
}

impl Writer {
    /// Returns what stood in its way last, if something did.
    pub(super) fn trouble(&self) -> Option<Error> {
        let of = |instance: &Spindle| instance.published().health_record().last_cause();
        let write_lock = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        write_lock.as_ref().and_then(of).or_else(|| of(&self.gate))
    }
}

impl RwLock {
    /// Returns a writer that has no instance for the write lock so far.
    pub(super) fn writer(&self) -> Writer {
        let Inner { table, settings, .. } = &*self.0;
        let gate = Spindle::from_settings(Arc::clone(table), Ok(settings.clone()));
        Writer { gate, write_lock: Mutex::default() }
    }

    /// Returns an instance for the write lock, which has looked at no reader's row before this term of
    /// the gate.
    pub(super) fn write_lock(&self, writer: &Writer, gate: &Guard) -> Spindle {
        let Inner { table, settings, write_lock, readers, .. } = &*self.0;
        let term = TermId { token: gate.token().to_timestamp(), writer: gate.writer().clone() };
        let gate = (settings.name.to_string(), term);
        let view = WriteLock::new(gate, &*settings.id, settings.timing.lease);
        let row = WriteLockRow::new(table, (Arc::clone(&write_lock.name), readers), view);
        let role = RowRole::WriteLock(Arc::new(row));
        let instance = Spindle::in_role(Arc::clone(table), Ok(write_lock.clone()), role);
        let mut last = writer.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(instance.clone());
        instance
    }

    /// Writes by these instances, in its turn among the callers of this handle.
    pub(super) async fn write_by(&self, writer: &Writer) -> Result<WriteGuard> {
        runtime(&subject(&self.0.settings.name))?;
        let mut turn = self.turn_to_write().await;
        loop {
            let gate = writer.gate.acquire().await?;
            let write_lock = self.write_lock(writer, &gate);
            tokio::select! {
                biased;
                guard = write_lock.acquire() => return Ok(WriteGuard::new(guard?, gate, turn)),
                () = gate.cancelled() => {}
                // A reader by this table may have to read once more before it ends.
                () = Reading::is_there(&self.0.table, &self.0.settings.name) => {
                    gate.release().await;
                    drop(turn);
                    turn = self.turn_to_write().await;
                }
            }
        }
    }

    /// Waits for a turn among the callers of this handle, and until nobody reads by this table. Who
    /// reads may have to read once more before it ends: until then the turn is left to readers.
    async fn turn_to_write(&self) -> OwnedRwLockWriteGuard<()> {
        loop {
            let turn = Arc::clone(&self.0.queue).write_owned().await;
            if !self.reads_here() {
                return turn;
            }
            drop(turn);
            Reading::none_is_left(&self.0.table, &self.0.settings.name).await;
        }
    }

    /// Returns true if somebody reads by this table, perhaps by another handle.
    pub(super) fn reads_here(&self) -> bool {
        Reading::is_any(&self.0.table, &self.0.settings.name)
    }
}
