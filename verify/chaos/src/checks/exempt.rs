//! When manual edits may have broken a property.

use std::time::Duration;

use super::evidence::{Evidence, phase};
use crate::history::{Event, Fault, Phase, Record, nanoseconds};

/// When manual edits may have made two holders, or confused who came first. Never, for a lock
/// whose row they left alone.
pub(super) fn exempt(records: &[Record], lease: Duration) -> Option<(u64, u64)> {
    let is_hand = |record: &&Record| {
        matches!(record.event, Event::Fault { fault: Fault::Delete | Fault::Edit, .. })
    };
    records.iter().find(is_hand)?;
    let from = phase(records, Phase::Edits)?;
    let to = phase(records, Phase::Recovery).unwrap_or(u64::MAX);
    Some((from, to.saturating_add(nanoseconds(lease))))
}

/// The same by Spanner's clock, of the first lock.
pub(super) fn exempt_in_spanner(evidence: &Evidence, lease: Duration) -> Option<(u64, u64)> {
    let (from, to) = exempt(&evidence.records, lease)?;
    Some((evidence.spanner_time(from)?, evidence.spanner_time(to)?))
}
