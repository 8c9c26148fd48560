//! The rules that a step may break, and the things worth having seen.

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

/// Something worth having seen: an exploration without it would be vacuous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Goal {
    /// A leader went for a higher rank, which took the lock.
    HandedOver = 1,
    /// A leader went again, for a later life of the same member.
    HandedAgain = 2,
    /// A leader went by an old view.
    HandedByOldView = 4,
    /// Somebody decided about a vacant lock by an old view.
    MisledTurn = 8,
    /// The lock was taken by one of lower rank, after the turn of one that goes before it.
    TurnLapsed = 16,
}

/// The goals of the step into a state, which tell no states apart.
#[derive(Clone, Copy, Debug, Default, Eq)]
pub(super) struct Seen(pub(super) u8);

impl PartialEq for Seen {
    fn eq(&self, _: &Seen) -> bool {
        true
    }
}

impl std::hash::Hash for Seen {
    fn hash<H: std::hash::Hasher>(&self, _: &mut H) {}
}

impl Seen {
    pub(super) fn has(self, goal: Goal) -> bool {
        self.0 & goal as u8 != 0
    }
}
