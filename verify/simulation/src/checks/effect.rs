//! The effect of a commit on a lock, and what it was for.

use std::time::Duration;

use spindle_emulator::engine::Mutation;
use spindle_protocol::{Change, Row, Succession, TermId};

use crate::format::Format;

/// One transaction's effect on one lock.
#[derive(Clone, Debug)]
pub(crate) struct Effect {
    /// The process that sends it; none of an edit.
    pub(crate) by: Option<usize>,
    pub(crate) lock: String,
    pub(crate) purpose: Purpose,
    pub(crate) mutations: Vec<Mutation>,
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
    Evict {
        keep_away: Option<Duration>,
    },
    /// A leftover of a peer of another implementation.
    Peer,
    ManualEdits,
}

impl Purpose {
    /// Returns the purpose of an instance's commit, with terms as that format writes them.
    pub(crate) fn of(change: &Change, format: Format) -> Purpose {
        match change.clone() {
            Change::Insert { .. } => Purpose::Insert,
            Change::Takeover { seen, over_leftover, .. } => {
                let seen = Row { writer: format.written(&seen.writer), ..seen };
                Purpose::Takeover { seen, over_leftover }
            }
            Change::Heartbeat { term, .. } => Purpose::Heartbeat(format.written_term(&term)),
            Change::Release { term, next, .. } => {
                Purpose::Release { term: format.written_term(&term), next }
            }
            Change::Evict { keep_away, .. } => Purpose::Evict { keep_away },
            _ => Purpose::Sweep,
        }
    }
}
