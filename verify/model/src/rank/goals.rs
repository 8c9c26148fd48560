//! The rules that a step may break, and the goals that it may meet.

use crate::notes::noted;

noted! {
    always: pub(super) enum Rule {
        Turn: "a vacant lock is left to a higher rank for a grace",
        ByName: "a leader that goes names the higher rank for which it goes",
        Once: "a leader goes once for a term of a member",
    }
}

noted! {
    sometimes: pub enum Goal {
        HandedOver: "a leader went for a higher rank, which took the lock",
        HandedAgain: "a leader went again, for a later life of the same member",
        HandedByOldView: "a leader went by an old view",
        MisledTurn: "a turn was decided by an old view",
        TurnLapsed: "the lock was taken after the turn of one that goes before",
    }
}
