//! The role that a row plays: what an instance's acts mean for it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use spindle_protocol::line::Standing;
use spindle_protocol::{Act, Change, Holder, Observation};

use crate::error::Result;

/// The role of a row that is more than a lock's: its holder begins only where other rows allow it. For
/// crates that build on locks, by [`LockBuilder::build_as`](crate::LockBuilder::build_as).
///
/// One instance has one. It decides nothing about terms: those it begins, renews and releases as any
/// lock's. What its calls read, write and show is a matter of its own rules, which the loop doesn't check.
pub trait RowRole: fmt::Debug + Send + Sync + 'static {
    /// Returns how the instance stands in line.
    fn standing(&self) -> Standing;

    /// Returns the keys of the rows that are polled beside its own, at one timestamp each.
    fn other_rows(&self) -> Vec<Arc<str>> {
        Vec::new()
    }

    /// Reads its own row and others, where their keys are not known before, in `limit` at most; none by
    /// default.
    fn poll(&self, limit: Duration) -> Option<BoxFuture<'_, Result<Observation>>> {
        let _ = limit;
        None
    }

    /// Returns what the instance is shown of its own row and of the [others](RowRole::other_rows), in their
    /// order.
    fn observed(&self, own: Observation, others: &[Observation]) -> Observation {
        let _ = others;
        own
    }

    /// Returns the change that an act asks for; none for one that changes nothing.
    fn change(&self, act: &Act, holder: &Holder) -> Option<Change>;

    /// Returns true if a place in line is to be asked for now. It is one before the first of the
    /// [other rows](RowRole::other_rows), if there are such.
    fn asks_for_place(&self) -> bool {
        true
    }

    /// Changes other rows before this change is sent, which then counts as refused. None by default, and
    /// where nothing is in its way.
    fn before(&self, change: &Change) -> Option<BoxFuture<'_, Result<()>>> {
        let _ = change;
        None
    }
}
