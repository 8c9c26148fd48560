//! The lock that the agent holds for itself, for a service that asked the former leader-elector.

use spindle::{CancellationToken, LockTable, RunHandle, Spindle};

use crate::failure::{Failure, Result};

/// Contends for as long as the agent runs: unlike a client's, this term says nothing of the
/// service's life.
pub struct Elector(Spindle);

impl Elector {
    /// Is to contend under the id by which the service knows itself, such as its pod's name.
    pub fn new(table: &LockTable, name: &str, id: &str) -> Result<Elector> {
        Ok(Elector(table.lock(name).id(id).build().map_err(Failure::from)?))
    }

    /// Contends until the end.
    pub fn run(&self, end: CancellationToken) -> RunHandle {
        self.0.run(end)
    }

    /// Returns the id of whoever leads, as far as is known; empty if nobody does.
    pub fn leader(&self) -> String {
        if self.0.has_lock().is_some() {
            return self.0.id().to_string();
        }
        let known = self.0.known_leader().filter(|state| state.is_held());
        let holder = known.and_then(|state| state.holder().map(str::to_string));
        // This instance's own term is over, whatever the last poll said.
        holder.filter(|holder| holder != self.0.id()).unwrap_or_default()
    }
}
