//! Checks that every increment counts once, and that its writer knows.

use std::collections::{BTreeMap, BTreeSet};

use super::evidence::{Evidence, Property, Violation};
use crate::history::Event;
use crate::tables::Tables;

/// The rows of a counter have the values 1, 2, 3, … once each, the last is the counter's, and no
/// id is there twice.
pub fn count(tables: &Tables) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |what| violations.push(Violation { property: Property::IncrementsCount, what });
    let mut values: BTreeMap<&str, Vec<i64>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for row in &tables.log {
        values.entry(&row.counter).or_default().push(row.value);
        if !ids.insert(&row.id) {
            say(format!("{} was applied twice", row.id));
        }
    }
    for counter in tables.counters.keys() {
        values.entry(counter).or_default();
    }
    for (counter, mut values) in values {
        values.sort_unstable();
        let wrong = (1..).zip(&values).find(|(expected, value)| expected != *value);
        if let Some((expected, value)) = wrong {
            say(format!("{counter}: increment to {expected} is missing or doubled: saw {value}"));
        }
        let (logged, counted) = (values.len(), tables.counters.get(counter).copied());
        if counted != i64::try_from(logged).ok() {
            say(format!(
                "{counter}: {logged} increments are in the log, the counter is {counted:?}"
            ));
        }
    }
    violations
}

/// Checks that committed writes are there, and that refused or unsent ones aren't. A write with an
/// unknown outcome, or without an answer, may be either. Nothing is there that nobody has sent.
pub fn outcomes_are_true(evidence: &Evidence) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |what| violations.push(Violation { property: Property::OutcomesAreTrue, what });
    let log: BTreeMap<&str, _> =
        evidence.tables.log.iter().map(|row| (row.id.as_str(), row)).collect();
    let mut sent = BTreeMap::new();
    for record in &evidence.records {
        match &record.event {
            Event::Attempt { id, token, counter } => {
                let before = sent.insert(id.as_str(), (*token, counter));
                if before.is_some() {
                    say(format!("{id} was sent twice"));
                }
            }
            Event::Outcome { id, outcome } => {
                if let Err(what) = outcome.check(id, log.contains_key(id.as_str())) {
                    say(what);
                }
            }
            _ => {}
        }
    }
    for row in &evidence.tables.log {
        match sent.get(row.id.as_str()) {
            Some((token, counter)) if *token == row.token && **counter == row.counter => {}
            _ => say(format!("{} under {} is there and was not sent so", row.id, row.token)),
        }
    }
    violations
}
