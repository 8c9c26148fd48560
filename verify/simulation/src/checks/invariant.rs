//! The invariants by their numbers, and a case against one.

use std::fmt;
use std::time::Duration;

/// An invariant of the design.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Invariant {
    /// At most one holder.
    I1,
    /// Tokens strictly increase.
    I2,
    /// A fenced write of a term commits before the next begins.
    I3,
    /// Nothing late changes a later term.
    I4,
    /// A vacant lock is taken.
    I5,
    /// Rows of other locks are left alone.
    I6,
    /// The end of a term is announced in time.
    I7,
    /// Requests and rows stay bounded.
    I8,
    /// A named successor has first refusal.
    Reserved,
    /// An instance keeps the contract of the proof.
    Contract,
    /// No more shards change hands than the plan asks for.
    Moves,
    /// The library's account of a lock's past is what was committed.
    Past,
    /// The same seed gives the same trace.
    Repeats,
    /// No task panics, neither the library's nor the world's own.
    NoPanic,
}

/// A case in which an invariant did not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The invariant.
    pub invariant: Invariant,
    /// When, since the start of the simulated world.
    pub at: Duration,
    /// The finding, as text.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} at {:.3}s: {}", self.invariant, self.at.as_secs_f64(), self.what)
    }
}
