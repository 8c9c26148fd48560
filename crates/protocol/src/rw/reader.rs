use std::time::Duration;

use crate::line::READERS;
use crate::{Act, Change, Holder, Observation, Row, Writer};

/// Returns true if the gate was left to readers: its last holder promised it to their place in line.
pub fn is_left_to_readers(gate: &Row) -> bool {
    gate.is_released() && gate.writer.successor_id() == Some(READERS)
}

/// A reader's view of three rows, as its instance knows one: its own, the gate and the write lock.
///
/// It stands between an instance and its rows. While somebody writes, or waits to, the instance is
/// shown that one's row, which it then waits for as for any lock. Otherwise it is shown its own row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    id: String,
    lease: Duration,
    /// The gate and the write lock, by their keys, when both were seen to be vacant last.
    vacant: [(String, Option<Row>); 2],
    /// The attempt whose outcome its own row tells.
    attempt: Option<Writer>,
}

impl Reader {
    /// Returns the view of a reader that has seen nothing so far, by the keys of the gate and the write
    /// lock.
    pub fn new(keys: [String; 2], id: impl Into<String>, lease: Duration) -> Reader {
        Reader { id: id.into(), lease, vacant: keys.map(|key| (key, None)), attempt: None }
    }

    /// Returns the keys of the gate and the write lock. Its place in line is at the gate.
    pub fn keys(&self) -> [&str; 2] {
        self.vacant.each_ref().map(|(key, _)| &**key)
    }

    /// Returns what the instance is shown, now that all three rows were observed.
    pub fn observed(
        &mut self,
        own: Observation,
        [gate, write_lock]: [Observation; 2],
    ) -> Observation {
        let attempt = self.attempt.take();
        if own.row.as_ref().is_some_and(|row| Some(&row.writer) == attempt.as_ref()) {
            return own;
        }
        let is_taken = |seen: &Observation| {
            let until = |row: &Row| row.vacant_from(&self.id, self.lease);
            seen.row
                .as_ref()
                .is_some_and(|row| !is_left_to_readers(row) && until(row) > seen.read_at)
        };
        if is_taken(&gate) {
            return gate;
        }
        if is_taken(&write_lock) {
            // The gate alone tells who stands first.
            return Observation { next: gate.next, ..write_lock };
        }
        self.vacant[0].1 = gate.row;
        self.vacant[1].1 = write_lock.row;
        own
    }

    /// Returns the change that the instance's act asks for; none for one that changes nothing. A place
    /// in line is taken at the gate.
    pub fn change(&mut self, act: &Act, holder: &Holder) -> Option<Change> {
        let (seen, writer) = match act {
            Act::Insert { writer } => (None, writer),
            Act::Takeover { seen, writer, .. } => (Some(seen.clone()), writer),
            Act::Release { term, .. } => return Some(Change::EndRead { term: term.clone() }),
            Act::Observe | Act::Heartbeat { .. } | Act::Mark { .. } => {
                return act.change(holder);
            }
        };
        self.attempt = Some(writer.clone());
        let (vacant, holder) = (Box::new(self.vacant.clone()), holder.clone());
        Some(Change::BeginRead { vacant, seen, writer: writer.clone(), holder })
    }
}
