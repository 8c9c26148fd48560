//! The writes that Spanner accepted, against those that the plain file took.

use std::collections::BTreeSet;

use super::evidence::{Evidence, Property, Violation};
use crate::tables::Row;

/// Checks that by Spanner's clock writes come in the order of their tokens. Each must be within its
/// term: after its own token, before the next one that anybody has been seen with.
pub fn in_order(log: &[Row], tokens: &[u64]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |what| violations.push(Violation { property: Property::WritesInOrder, what });
    let mut rows: Vec<&Row> = log.iter().collect();
    rows.sort_by_key(|row| (row.committed, row.token));
    for pair in rows.windows(2) {
        let [earlier, later] = pair else { continue };
        if later.token < earlier.token {
            say(format!(
                "{} under {} was accepted after {} under {}",
                later.id, later.token, earlier.id, earlier.token
            ));
        }
    }
    violations.extend(in_term(log, tokens));
    violations
}

/// Checks that each write is within its term: after its own token, before the next of these.
pub fn in_term(log: &[Row], tokens: &[u64]) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut say = |what| violations.push(Violation { property: Property::WritesInOrder, what });
    for row in log {
        let next = tokens.get(tokens.partition_point(|token| *token <= row.token));
        if row.committed <= row.token {
            say(format!("{} was accepted before its term began: {}", row.id, row.token));
        }
        if let Some(next) = next.filter(|next| row.committed >= **next) {
            say(format!("{} under {} was accepted in the term of {next}", row.id, row.token));
        }
    }
    violations
}

/// A write goes to the file first: where it came late there, it came late to Spanner too.
pub fn late_is_refused(evidence: &Evidence) -> Vec<Violation> {
    let accepted: BTreeSet<&str> = evidence.tables.log.iter().map(|row| row.id.as_str()).collect();
    let late = evidence.late_lines();
    let wrong = late.into_iter().filter(|line| accepted.contains(line.id.as_str()));
    wrong
        .map(|line| Violation {
            property: Property::LateIsRefused,
            what: format!("{} under {} came late and was accepted", line.id, line.token),
        })
        .collect()
}
