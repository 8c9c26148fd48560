//! The rules that a step may break, and the goals that it may meet.

use crate::goals::goals;

/// A rule that was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// Somebody took the lock before the turn of one that goes before it was over.
    Turn = 1,
    /// A leader went without naming the member for which it went, or for one of no higher rank.
    ByName = 2,
    /// A leader went twice for one term of a member.
    Once = 4,
}

goals! {
    pub enum Goal {
        HandedOver: "a leader went for a higher rank, which took the lock",
        HandedAgain: "a leader went again, for a later life of the same member",
        HandedByOldView: "a leader went by an old view",
        MisledTurn: "a turn was decided by an old view",
        TurnLapsed: "the lock was taken after the turn of one that goes before",
    }
}
