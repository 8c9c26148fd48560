//! The effect of a commit on a lock, and what it was for.

use spindle_emulator::engine::Mutation;
use spindle_protocol::{Change, Row, Succession, TermId};

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
    /// Judges it by the lock's row just before (I3, I4, I6). Returns the keys that it touches.
    pub(crate) fn judge(&self, row: Option<&Row>) -> Result<Vec<String>, (Invariant, String)> {
        later_terms::check(&self.purpose, row).map_err(|what| (Invariant::I4, what))?;
        if let Purpose::Fenced(term) = &self.purpose {
            fenced::check(row, term).map_err(|what| (Invariant::I3, what))?;
        }
        let of_table = self.mutations.iter().filter(|write| write.table() == TABLE);
        let keys = of_table.map(|mutation| other_rows::keys(&self.lock, mutation));
        let keys: Result<Vec<_>, _> = keys.collect();
        keys.map(|keys| keys.concat()).map_err(|what| (Invariant::I6, what))
    }
}

/// The purpose of an effect.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Insert,
    Takeover {
        seen: Row,
        over_leftover: bool,
    },
    Heartbeat(TermId),
    Release {
        term: TermId,
        next: Succession,
    },
    Sweep,
    /// A write of the term's owner in the same database.
    Fenced(TermId),
    Evict,
    /// A leftover of a peer of another implementation.
    Peer,
    ManualEdits,
}

impl Purpose {
    /// Returns the purpose of an instance's commit.
    pub(crate) fn of(change: &Change) -> Purpose {
        match change.clone() {
            Change::Insert { .. } => Purpose::Insert,
            Change::Takeover { seen, over_leftover, .. } => {
                Purpose::Takeover { seen, over_leftover }
            }
            Change::Heartbeat { term, .. } => Purpose::Heartbeat(term),
            Change::Release { term, next, .. } => Purpose::Release { term, next },
            Change::Evict { .. } => Purpose::Evict,
            Change::BeginRead { seen: None, .. } => Purpose::Insert,
            Change::BeginRead { seen: Some(seen), .. } => {
                Purpose::Takeover { seen, over_leftover: false }
            }
            Change::EndRead { term } => Purpose::Release { term, next: Succession::Anyone },
            Change::BeginWrite { first, .. } => Purpose::Heartbeat(first),
            _ => Purpose::Sweep,
        }
    }
}
