//! The laws, judged from outside: by the history and the tables, without the library.
//!
//! Each law is one function from evidence to what breaks it, so that a history written by hand
//! can show that it fails.

mod increments;
mod terms;
#[cfg(test)]
mod tests;
mod writes;

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use crate::history::{Event, Failure, HISTORY, Phase, Record, UNFENCED, nanoseconds};
use crate::tables::Tables;

pub use terms::{Term, terms};

/// Where the tables are kept, so that a run can be judged again.
pub const TABLES: &str = "tables.json";

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// By time.
    pub records: Vec<Record>,
    pub tables: Tables,
    /// In the order of the file.
    pub unfenced: Vec<Line>,
}

/// A write that the plain file took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub token: u64,
    pub worker: String,
    pub id: String,
    pub at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub law: Law,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Law {
    /// At no instant two holders (I1).
    OneHolder,
    /// Tokens increase from term to term, and belong to one process (I2).
    TokensIncrease,
    /// No write is accepted after one of a later term, or outside of its term (I3).
    WritesInOrder,
    /// A write that was late in the plain file was not accepted (I3).
    LateIsRefused,
    /// No increment is lost or doubled.
    IncrementsCount,
    /// A writer that was told how a write ended was told the truth.
    OutcomesAreTrue,
    /// Once the faults are over, somebody leads (I5).
    Progress,
    /// There is something to be judged.
    SomethingHappened,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.law, self.what)
    }
}

/// Returns the violations of each law; nothing if all hold.
pub fn judge(evidence: &Evidence, lease: Duration, progress_limit: Duration) -> Vec<Violation> {
    let terms = terms(&evidence.records);
    let lawless = lawless(&evidence.records, lease);
    let mut violations = Vec::new();
    violations.extend(terms::one_holder(&terms, lawless));
    violations.extend(terms::tokens_increase(&terms, lawless));
    violations.extend(writes::in_order(&evidence.tables.log, &tokens(evidence)));
    violations.extend(writes::late_is_refused(evidence));
    violations.extend(increments::count(&evidence.tables));
    violations.extend(increments::outcomes_are_true(evidence));
    violations.extend(progress(evidence, progress_limit));
    violations.extend(something_happened(evidence, &terms));
    violations
}

/// When hands from outside may have made two holders, or confused who came first.
fn lawless(records: &[Record], lease: Duration) -> Option<(u64, u64)> {
    let from = phase(records, Phase::Hands)?;
    let to = phase(records, Phase::Calm).unwrap_or(u64::MAX);
    Some((from, to.saturating_add(nanoseconds(lease))))
}

pub fn phase(records: &[Record], wanted: Phase) -> Option<u64> {
    records.iter().find(|record| record.event == Event::Phase(wanted)).map(|record| record.at)
}

/// Every token that anybody has been seen with.
fn tokens(evidence: &Evidence) -> Vec<u64> {
    let of_records = evidence.records.iter().filter_map(|record| match &record.event {
        Event::Claim { token, .. } | Event::Lost { token, .. } | Event::Attempt { token, .. } => {
            Some(*token)
        }
        _ => None,
    });
    let mut tokens: Vec<u64> = of_records.collect();
    tokens.extend(evidence.tables.log.iter().map(|row| row.token));
    tokens.extend(evidence.unfenced.iter().map(|line| line.token));
    tokens.sort_unstable();
    tokens.dedup();
    tokens
}

/// A write that was decided after the faults ended is accepted in time.
fn progress(evidence: &Evidence, limit: Duration) -> Option<Violation> {
    let broken = |what: &str| Some(Violation { law: Law::Progress, what: what.to_string() });
    let Some(calm) = phase(&evidence.records, Phase::Calm) else {
        return broken("the faults never ended");
    };
    let mut sent = BTreeMap::new();
    for record in evidence.records.iter().filter(|record| record.at >= calm) {
        match &record.event {
            Event::Attempt { id, .. } => {
                sent.insert(id.as_str(), record.at);
            }
            Event::Outcome { id, outcome: crate::history::Outcome::Committed }
                if sent.contains_key(id.as_str()) && record.at - calm <= nanoseconds(limit) =>
            {
                return None;
            }
            _ => {}
        }
    }
    broken(&format!("nothing was written within {limit:?} after the last fault"))
}

fn something_happened(evidence: &Evidence, terms: &[Term]) -> Option<Violation> {
    let (terms, writes) = (terms.len(), evidence.tables.log.len());
    (terms < 2 || writes < 2).then(|| Violation {
        law: Law::SomethingHappened,
        what: format!("only {terms} terms and {writes} writes were seen"),
    })
}

/// Reads what a run has left in its folder.
pub fn read(folder: &Path) -> Result<Evidence, Failure> {
    let mut records = Vec::new();
    for (number, line) in (1..).zip(std::fs::read_to_string(folder.join(HISTORY))?.lines()) {
        let record = serde_json::from_str(line)
            .map_err(Failure::from)
            .and_then(|json| Record::from_json(&json))
            .map_err(|error| format!("{HISTORY}, line {number}: {error}: {line}"))?;
        records.push(record);
    }
    records.sort_by_key(|record| record.at);
    let tables = Tables::from_json(&serde_json::from_slice(&std::fs::read(folder.join(TABLES))?)?)?;
    let mut unfenced = Vec::new();
    for line in std::fs::read_to_string(folder.join(UNFENCED))?.lines() {
        let [token, worker, id, at] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("{UNFENCED}: not a write: {line}").into());
        };
        let (token, at) = (token.parse()?, at.parse()?);
        unfenced.push(Line { token, worker: worker.to_string(), id: id.to_string(), at });
    }
    Ok(Evidence { records, tables, unfenced })
}

/// The writes that the plain file took although one of a later term was in it already.
pub fn late_lines(unfenced: &[Line]) -> Vec<&Line> {
    let mut highest = 0;
    unfenced
        .iter()
        .filter(|line| {
            let late = line.token < highest;
            highest = highest.max(line.token);
            late
        })
        .collect()
}
