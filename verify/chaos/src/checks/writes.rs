//! The writes that Spanner accepted, against those that the plain file took.

use std::collections::BTreeSet;

use super::evidence::{Evidence, Property, Violation};
use crate::tables::Row;

/// Checks that by Spanner's clock each write is within its term: after its own token, before the next of these, which
/// are all that anybody has been seen with. So writes come in the order of their tokens.
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
