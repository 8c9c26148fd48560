//! The laws, judged from outside: by the history and the tables, without the library.
//!
//! Each law is one function from the evidence of one lock to what breaks it, so that a history
//! written by hand can show that it fails.

mod evidence;
mod increments;
mod progress;
mod terms;
#[cfg(test)]
mod tests;
mod writes;

use std::time::Duration;

use crate::history::{Event, Failure, Fault, Phase, Record, nanoseconds};

pub use evidence::{Evidence, Law, Line, TABLES, Violation, phase};
pub use progress::written_after;
pub use terms::{Term, terms};

/// Returns the violations of each law by each lock; nothing if all hold.
pub fn judge(
    evidence: &Evidence,
    lease: Duration,
    progress_limit: Duration,
) -> Result<Vec<Violation>, Failure> {
    let parts = evidence.by_lock()?;
    let mut violations = Vec::new();
    for (lock, part) in parts.iter().enumerate() {
        for Violation { law, what } in judge_lock(part, lease, progress_limit) {
            let what = if parts.len() == 1 { what } else { format!("lock {lock}: {what}") };
            violations.push(Violation { law, what });
        }
    }
    violations.extend(something_happened(&parts));
    Ok(violations)
}

fn judge_lock(evidence: &Evidence, lease: Duration, progress_limit: Duration) -> Vec<Violation> {
    let terms = terms(&evidence.records);
    let lawless = lawless(&evidence.records, lease);
    let mut violations = Vec::new();
    violations.extend(terms::one_holder(&terms, lawless));
    violations.extend(terms::tokens_increase(&terms, lawless));
    violations.extend(terms::one_task(&evidence.records));
    violations.extend(writes::in_order(&evidence.tables.log, &evidence.tokens()));
    violations.extend(writes::late_is_refused(evidence));
    violations.extend(increments::count(&evidence.tables));
    violations.extend(increments::outcomes_are_true(evidence));
    violations.extend(progress::progress(&evidence.records, progress_limit));
    violations
}

/// When hands from outside may have made two holders, or confused who came first. Never, for a lock
/// whose row they left alone.
fn lawless(records: &[Record], lease: Duration) -> Option<(u64, u64)> {
    let is_hand = |record: &&Record| {
        matches!(record.event, Event::Fault { fault: Fault::Delete | Fault::Edit, .. })
    };
    records.iter().find(is_hand)?;
    let from = phase(records, Phase::Hands)?;
    let to = phase(records, Phase::Calm).unwrap_or(u64::MAX);
    Some((from, to.saturating_add(nanoseconds(lease))))
}

fn something_happened(parts: &[Evidence]) -> Option<Violation> {
    let terms: usize = parts.iter().map(|part| terms(&part.records).len()).sum();
    let writes: usize = parts.iter().map(|part| part.tables.log.len()).sum();
    (terms < 2 || writes < 2).then(|| Violation {
        law: Law::SomethingHappened,
        what: format!("only {terms} terms and {writes} writes were seen"),
    })
}
