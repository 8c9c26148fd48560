//! Another live instance under the same id, with a row that is meant for one.

use std::time::Duration;

use spindle_protocol::{Row, Timestamp};

/// What the polls of a member's row tell of another member of that id.
#[derive(Debug, Default)]
pub(super) struct Namesake {
    /// The reads since which it has had the row in each: the first of them.
    since: Option<Timestamp>,
    is_told: bool,
}

impl Namesake {
    /// Notes that it has the row. Returns true once that has been so for a lease. A former life of
    /// this instance would have lost the row by then.
    pub(super) fn has_row(&mut self, row: &Row, read_at: Timestamp, lease: Duration) -> bool {
        let since = *self.since.get_or_insert(read_at);
        read_at.since(since) >= row.lease.unwrap_or(lease).max(lease)
    }

    /// Returns true the first time.
    pub(super) fn tells(&mut self) -> bool {
        !std::mem::replace(&mut self.is_told, true)
    }

    /// Notes that it has the row no more.
    pub(super) fn is_gone(&mut self) {
        self.since = None;
    }
}
