//! Failures in a row, of which the pauses are made (I8).

use std::time::Duration;

use crate::Moment;

/// Failures in a row, by the kind of act. A success clears its own kind: a good read says nothing
/// of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Failures {
    pub(super) reads: u8,
    /// Attempts to begin a term, and terms that were lost early.
    pub(super) begins: u8,
    pub(super) releases: u8,
    pub(super) sweeps: u8,
    /// Attempts that came too late, in a row, with nobody seen to hold between them. They are no
    /// failures: Spanner answered.
    pub(super) lost_races: u8,
    /// When the last of them was.
    pub(super) last: Moment,
}

impl Failures {
    /// All kinds count together, so that failures of one after the other don't add up to many.
    pub(super) fn in_a_row(self) -> u8 {
        let Failures { reads, begins, releases, sweeps, .. } = self;
        reads.saturating_add(begins).saturating_add(releases).saturating_add(sweeps)
    }
}

/// How long a term must have been renewed to show that beginning terms works. One that is begun and
/// lost, again and again, is a failure as well.
pub(super) const LASTING: Duration = Duration::from_secs(10);
