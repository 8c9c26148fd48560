//! The effect of a commit on a lock, and what it was for.

use spindle_emulator::engine::Mutation;
use spindle_protocol::line::Place;
use spindle_protocol::{Change, Row, Succession, TermId, Writer};

use super::{fenced, later_terms, other_rows};
use crate::checks::Invariant;
use crate::rows::TABLE;

/// One transaction's effect on one lock.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// The process that sends it; none of an edit.
    pub(crate) by: Option<usize>,
    pub(crate) lock: String,
    pub(crate) purpose: Purpose,
    pub(crate) mutations: Vec<Mutation>,
}

impl Effect {
    /// Judges it by the lock's row just before (I3, I4, I6).
    pub(crate) fn judge(&self, row: Option<&Row>) -> Result<(), (Invariant, String)> {
        later_terms::check(&self.purpose, row).map_err(|what| (Invariant::I4, what))?;
        if let Purpose::Fenced(term) = &self.purpose {
            fenced::check(row, term).map_err(|what| (Invariant::I3, what))?;
        }
        let mut of_table = self.mutations.iter().filter(|write| write.table() == TABLE);
        let judged = of_table.try_for_each(|mutation| other_rows::check(&self.lock, mutation));
        judged.map_err(|what| (Invariant::I6, what))
    }
}

/// The purpose of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Insert,
    Takeover {
        seen: Row,
        writer: Writer,
        passes: Option<Place>,
    },
    Heartbeat(TermId),
    Release {
        term: TermId,
        next: Succession,
    },
    /// Anything else that is judged by its keys alone.
    Other,
    /// A write of the term's owner in the same database.
    Fenced(TermId),
    Evict,
    /// A place in line.
    Mark(Place),
    /// The takeover row of a peer of another implementation.
    Peer,
    ManualEdits,
}

impl Purpose {
    /// Returns the purpose of an instance's commit.
    pub(crate) fn of(change: &Change) -> Purpose {
        match change.clone() {
            Change::Job { term, .. } => Purpose::of(&term),
            Change::Expecting { change, .. } => Purpose::of(&change),
            Change::Insert { .. } => Purpose::Insert,
            Change::Takeover { seen, writer, passes, .. } => {
                Purpose::Takeover { seen, writer, passes }
            }
            Change::Mark { place } => Purpose::Mark(place),
            Change::Heartbeat { term, .. } => Purpose::Heartbeat(term),
            Change::Release { term, next, .. } => Purpose::Release { term, next },
            Change::Evict { .. } => Purpose::Evict,
            Change::BeginRead { seen: None, .. } => Purpose::Insert,
            Change::BeginRead { seen: Some(seen), writer, .. } => {
                Purpose::Takeover { seen, writer, passes: None }
            }
            Change::EndRead { term } => Purpose::Release { term, next: Succession::Anyone },
            Change::BeginWrite { begin, .. } => Purpose::of(&begin),
            _ => Purpose::Other,
        }
    }
}
