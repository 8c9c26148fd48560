//! The properties, judged from outside: by the history and the tables, without the library.
//!
//! Each property is one function from the evidence to what breaks it, so that a history written by hand can
//! show that it fails. Nearly all of them are about one lock.

mod evidence;
mod exempt;
mod increments;
mod progress;
mod rows;
#[cfg(test)]
mod side_tests;
mod sides;
#[cfg(test)]
mod story;
mod terms;
#[cfg(test)]
mod tests;
mod writes;

use std::time::Duration;

use spindle_judge::Mode;

use crate::history::Failure;
use crate::setup::Target;

pub use evidence::{Evidence, Property, TABLES, Violation, phase};
pub use progress::written_after;
pub use terms::{Term, terms};

/// Returns the violations of each property by each lock; nothing if all hold.
pub fn judge(
    evidence: &Evidence,
    lease: Duration,
    progress_limit: Duration,
) -> Result<Vec<Violation>, Failure> {
    let (target, parts) = (evidence.target(), evidence.by_lock()?);
    let mut violations = Vec::new();
    for (lock, part) in parts.iter().enumerate() {
        let mut found = judge_work(part, progress_limit);
        if target.excludes(lock, lock) {
            found.extend(judge_holders(part, lease));
        }
        for Violation { property, what } in found {
            let what = if parts.len() == 1 { what } else { format!("lock {lock}: {what}") };
            violations.push(Violation { property, what });
        }
    }
    match target {
        Target::Sides { .. } => violations.extend(sides::judge(evidence, &parts, lease)),
        Target::Deploys { .. } => violations.extend(progress::settles(&evidence.records)),
        Target::One | Target::Agents | Target::Locks(_) | Target::Shards(_) => {}
    }
    violations.extend(something_happened(evidence, &parts));
    Ok(violations)
}

/// The properties for whoever holds alone.
fn judge_holders(evidence: &Evidence, lease: Duration) -> Vec<Violation> {
    let terms = terms(&evidence.records);
    let exempt = exempt::exempt(&evidence.records, lease);
    let mut violations = Vec::new();
    violations.extend(terms::one_holder(&terms, exempt));
    let alone = terms.iter().map(|term| (term, Mode::Exclusive)).collect();
    violations.extend(terms::tokens_increase(alone, exempt));
    violations.extend(writes::in_term(&evidence.tables.log, &evidence.tokens()));
    violations.extend(writes::late_is_refused(evidence));
    violations
}

/// The properties for whatever is done under a fence.
fn judge_work(evidence: &Evidence, progress_limit: Duration) -> Vec<Violation> {
    let mut violations = Vec::new();
    violations.extend(terms::one_task(&evidence.records));
    violations.extend(increments::count(&evidence.tables));
    violations.extend(increments::outcomes_are_true(evidence));
    violations.extend(progress::progress(&evidence.records, progress_limit));
    violations
}

fn something_happened(evidence: &Evidence, parts: &[Evidence]) -> Option<Violation> {
    let rows = rows::holds(&evidence.tables.versions).len();
    let terms: usize = parts.iter().map(|part| terms(&part.records).len()).sum();
    let writes: usize = parts.iter().map(|part| part.tables.log.len()).sum();
    let too_few = terms < 2 || writes < 2 || evidence.target().tells_by_rows() && rows < 3;
    too_few.then(|| Violation {
        property: Property::SomethingHappened,
        what: format!("only {terms} terms, {writes} writes and {rows} terms of rows were seen"),
    })
}
