use std::time::Duration;

use crate::{Act, Change, Holder, Observation, Row, TermId, Writer};

/// A writer's view of the write lock and of all readers' rows, as its instance knows one row.
///
/// It stands between an instance and its rows, from when the writer has the gate. While somebody reads,
/// the instance is shown that one's row, which it then waits for as for any lock. Otherwise it is
/// shown the write lock. No reader can have begun since the gate's term, so these rows are all there
/// are: the begin depends on that term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WriteLock {
    gate: (String, TermId),
    id: String,
    lease: Duration,
    /// The readers' rows, by their keys, when all of them were seen to be vacant last.
    readers: Vec<(String, Row)>,
    /// The attempt whose outcome the write lock's own row tells.
    attempt: Option<Writer>,
}

impl WriteLock {
    /// Returns the view of who has the gate of this key by this term, and has seen nothing since.
    pub fn new(gate: (String, TermId), id: impl Into<String>, lease: Duration) -> WriteLock {
        WriteLock { gate, id: id.into(), lease, readers: Vec::new(), attempt: None }
    }

    /// Returns what the instance is shown, now that the write lock and all readers' rows were observed.
    pub fn observed(&mut self, own: Observation, readers: Vec<(String, Row)>) -> Observation {
        let attempt = self.attempt.take();
        if own.row.as_ref().is_some_and(|row| Some(&row.writer) == attempt.as_ref()) {
            return own;
        }
        let taken_until = |row: &Row| row.vacant_from(&self.id, self.lease);
        let last = readers.iter().map(|(_, row)| row).max_by_key(|row| taken_until(row));
        if let Some(last) = last.filter(|row| taken_until(row) > own.read_at) {
            return Observation { row: Some(last.clone()), ..own };
        }
        self.readers = readers;
        own
    }

    /// Returns the change that the instance's act asks for; none for one that changes nothing.
    pub fn change(&mut self, act: &Act, holder: &Holder) -> Option<Change> {
        let change = act.change(holder)?;
        let (Act::Insert { writer } | Act::Takeover { writer, .. }) = act else {
            return Some(change);
        };
        self.attempt = Some(writer.clone());
        let (gate, readers) = (self.gate.clone(), self.readers.clone());
        Some(Change::BeginWrite { gate, readers, begin: Box::new(change) })
    }
}
