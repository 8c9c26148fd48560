//! Checks that locks are worked under again once the faults are over.

use std::collections::BTreeSet;
use std::time::Duration;

use super::evidence::{Property, Violation, phase};
use crate::history::{Event, Outcome, Phase, Record, nanoseconds};

/// A write that was decided after the faults ended is accepted in time.
pub fn progress(records: &[Record], limit: Duration) -> Option<Violation> {
    let broken = |what: String| Some(Violation { property: Property::Progress, what });
    let Some(recovery) = phase(records, Phase::Recovery) else {
        return broken("the faults never ended".to_string());
    };
    if written_after(records, recovery).is_some_and(|at| at - recovery <= nanoseconds(limit)) {
        return None;
    }
    broken(format!("nothing was written within {limit:?} after the last fault"))
}

/// After each act of a deploy the shards are shared evenly again.
pub fn settles(records: &[Record]) -> Option<Violation> {
    let mut deploy = None;
    for record in records {
        match record.event {
            Event::Deploy(begun) => deploy = Some(begun),
            Event::Unsettled => {
                let what = format!("{deploy:?}: the shares never became even");
                return Some(Violation { property: Property::Settles, what });
            }
            _ => {}
        }
    }
    None
}

/// When the first write was accepted that had been decided after `then`.
pub fn written_after(records: &[Record], then: u64) -> Option<u64> {
    let mut sent = BTreeSet::new();
    for record in &records[records.partition_point(|record| record.at < then)..] {
        match &record.event {
            Event::Attempt { id, .. } => {
                sent.insert(id.as_str());
            }
            Event::Outcome { id, outcome: Outcome::Committed } if sent.contains(id.as_str()) => {
                return Some(record.at);
            }
            _ => {}
        }
    }
    None
}
