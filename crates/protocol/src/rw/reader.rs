use std::time::Duration;

use crate::{Act, Change, Holder, Observation, Row, Succession, Writer};

/// The successor that stands for all readers in the writers' row. No id of a process has a `/`.
const READERS: &str = "/readers";

/// Returns the end of a writer's term that leaves the lock to readers for so long: no writer begins
/// before.
pub fn left_to_readers(time: Duration) -> Succession {
    Succession::Successor { id: READERS.to_string(), grace: time }
}

/// Returns true if the writers' row was left to readers.
pub fn is_left_to_readers(writer_row: &Row) -> bool {
    writer_row.is_released() && writer_row.writer.successor_id() == Some(READERS)
}

/// A reader's view of two rows, its own and the writers' row, as its instance knows one.
///
/// It stands between an instance and its rows. While somebody writes, or waits to, the instance is
/// shown the writers' row, which it then waits for as for any lock. Otherwise it is shown its own row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Reader {
    writer_row: String,
    id: String,
    lease: Duration,
    /// The writers' row, when it was seen to be vacant last.
    vacant: Option<Row>,
    /// The attempt whose outcome its own row tells.
    attempt: Option<Writer>,
}

impl Reader {
    /// Returns the view of a reader that has seen nothing so far.
    pub fn new(writer_row: impl Into<String>, id: impl Into<String>, lease: Duration) -> Reader {
        Reader { writer_row: writer_row.into(), id: id.into(), lease, vacant: None, attempt: None }
    }

    /// Returns the key of the writer's row.
    pub fn writer_row(&self) -> &str {
        &self.writer_row
    }

    /// Returns what the instance is shown, now that both rows were observed.
    pub fn observed(&mut self, own: Observation, writer_row: Observation) -> Observation {
        let attempt = self.attempt.take();
        if own.row.as_ref().is_some_and(|row| Some(&row.writer) == attempt.as_ref()) {
            return own;
        }
        let is_taken = |row: &Row| {
            !is_left_to_readers(row) && row.vacant_from(&self.id, self.lease) > writer_row.read_at
        };
        if writer_row.row.as_ref().is_some_and(is_taken) {
            return writer_row;
        }
        self.vacant = writer_row.row;
        own
    }

    /// Returns the change that the instance's act asks for; none for one that changes nothing.
    pub fn change(&mut self, act: &Act, holder: &Holder) -> Option<Change> {
        let (seen, writer) = match act {
            Act::Insert { writer } => (None, writer),
            Act::Takeover { seen, writer, .. } => (Some(seen.clone()), writer),
            Act::Heartbeat { term, .. } => {
                return Some(Change::Heartbeat { term: term.clone(), looks: false });
            }
            Act::Release { term, .. } => return Some(Change::EndRead { term: term.clone() }),
            // A reader stands aside.
            Act::Observe | Act::Mark { .. } => return None,
        };
        self.attempt = Some(writer.clone());
        let (writer_row, vacant) = (self.writer_row.clone(), self.vacant.clone());
        Some(Change::BeginRead {
            writer_row,
            vacant,
            seen,
            writer: writer.clone(),
            holder: holder.clone(),
        })
    }
}
