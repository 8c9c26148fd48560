//! A writer's way to its two locks: the gate, which stops new readers, and the write lock.

use std::sync::{Arc, Mutex, PoisonError};

use spindle_protocol::rw::WriteLock;
use tokio::sync::OwnedRwLockWriteGuard;

use spindle::rows::runtime;
use spindle::{Error, Guard, Result, Spindle};

use crate::names::write_lock_key;
use crate::rw_guards::WriteGuard;
use crate::rw_lock::{Inner, RwLock};
use crate::rw_roles::WriteLockRow;

/// The instances of one writer: that for the gate, and the last one for the write lock.
pub(crate) struct Writer {
    pub(crate) gate: Spindle,
    write_lock: Mutex<Option<Spindle>>,
}

impl Writer {
    /// Returns what stood in its way last, if something did.
    pub(crate) fn trouble(&self) -> Option<Error> {
        let of = |instance: &Spindle| instance.health().trouble.map(|trouble| trouble.error);
        let write_lock = self.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        write_lock.as_ref().and_then(of).or_else(|| of(&self.gate))
    }
}

impl RwLock {
    /// Returns a writer that has no instance for the write lock so far.
    pub(crate) fn writer(&self) -> Result<Arc<Writer>> {
        let gate = self.0.gate.clone().build()?;
        Ok(Arc::new(Writer { gate, write_lock: Mutex::default() }))
    }

    /// Returns an instance for the write lock, which has looked at no reader's row before this term of
    /// the gate.
    pub(crate) fn write_lock(&self, writer: &Writer, gate: &Guard) -> Result<Spindle> {
        let Inner { rows, id, key, lease, write_lock, .. } = &*self.0;
        let view = WriteLock::new((key.clone(), gate.id()), &**id, *lease);
        let row = WriteLockRow::new(rows.clone(), write_lock_key(&self.0.name).into(), view);
        let instance = write_lock.clone().build_as(Arc::new(row))?;
        let mut last = writer.write_lock.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some(instance.clone());
        Ok(instance)
    }

    /// Writes by these instances, in its turn among the callers of this handle.
    pub(crate) async fn write_by(&self, writer: &Writer) -> Result<WriteGuard> {
        runtime(&self.subject())?;
        let mut turn = self.turn_to_write().await;
        loop {
            let gate = writer.gate.acquire().await?;
            let write_lock = self.write_lock(writer, &gate)?;
            tokio::select! {
                biased;
                guard = write_lock.acquire() => return Ok(WriteGuard::new(guard?, gate, turn)),
                () = gate.cancelled() => {}
                // A reader by this table may have to read once more before it ends.
                () = self.0.reads.is_there(&self.0.name) => {
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
            self.0.reads.none_is_left(&self.0.name).await;
        }
    }

    /// Returns true if somebody reads by this table, perhaps by another handle.
    pub(crate) fn reads_here(&self) -> bool {
        self.0.reads.is_any(&self.0.name)
    }
}
