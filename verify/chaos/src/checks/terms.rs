//! The holders and their times, by the machine's clock.

use std::collections::BTreeMap;

use spindle_judge::{Disorder, Mode, Terms};

use super::evidence::{Property, Violation};
use crate::history::{Event, Fault, Record};

/// One process's account of one term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Term {
    pub token: u64,
    pub who: String,
    pub pid: u32,
    /// No later than this it held, by its first claim.
    pub begin: u64,
    /// Until then it held for certain, by its last claim.
    pub last: u64,
    /// Until then it would have said so if it had been asked, had it been able to speak.
    pub bound: u64,
    /// Why it ended, as its process was told.
    pub why: Option<String>,
}

/// All terms that anybody claimed, by when they began.
pub fn terms(records: &[Record]) -> Vec<Term> {
    let mut terms: BTreeMap<(u64, &str, u32), Term> = BTreeMap::new();
    for record in records {
        let Event::Claim { token, asked, until } = &record.event else { continue };
        terms
            .entry((*token, &record.who, record.pid))
            .and_modify(|term| {
                term.last = term.last.max(*asked);
                term.bound = term.bound.max(*until);
            })
            .or_insert_with(|| Term {
                token: *token,
                who: record.who.clone(),
                pid: record.pid,
                begin: record.at,
                // One claim alone says that it held at one instant.
                last: record.at,
                bound: record.at.max(*until),
                why: None,
            });
    }
    let mut terms: Vec<Term> = terms.into_values().collect();
    let is_witnessed = records.iter().any(|record| record.event == Event::Witnessed);
    for term in &mut terms {
        release(term, records);
        if is_witnessed {
            die(term, records);
        }
    }
    terms.sort_by_key(|term| term.begin);
    terms
}

/// A process that lets go, or learns that the term is another's, is bound by its last claim alone.
fn release(term: &mut Term, records: &[Record]) {
    // It may have been told to let go while its term was just beginning.
    const BEFORE: u64 = 1_000_000_000;
    let from = term.begin.saturating_sub(BEFORE);
    let first = records.partition_point(|record| record.at < from);
    let mut let_go = false;
    for record in &records[first..] {
        if record.pid != term.pid || record.who != term.who {
            continue;
        }
        match &record.event {
            Event::LetsGo if record.at <= term.bound => let_go = true,
            Event::Lost { token, why } if *token == term.token => {
                let_go |= !why.contains("Expired");
                term.why = Some(why.clone());
            }
            _ => {}
        }
    }
    if let_go {
        term.bound = term.last;
    }
}

/// A process that is killed is bound until then, or by its last claim: the kernel kills a little later.
fn die(term: &mut Term, records: &[Record]) {
    let is_its = |event: &Event| matches!(event, Event::Fault { fault: Fault::Kill, on: Some(on) } if *on == term.who);
    let killed = records.iter().find(|record| record.at >= term.begin && is_its(&record.event));
    if let Some(killed) = killed {
        term.bound = term.bound.min(killed.at.max(term.last));
    }
}

pub fn in_part(time: (u64, u64), exempt: Option<(u64, u64)>) -> bool {
    exempt.is_some_and(|(from, to)| time.0 < to && from < time.1)
}

/// At no instant two processes hold, unless somebody edited the row then.
pub fn one_holder(terms: &[Term], exempt: Option<(u64, u64)>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut longest: Option<&Term> = None;
    for term in terms {
        if let Some(other) = longest
            && term.begin < other.bound
            && !in_part((term.begin, other.bound.min(term.bound)), exempt)
        {
            violations.push(Violation {
                property: Property::OneHolder,
                what: format!(
                    "{} ({}) held under {} until {}, {} ({}) held under {} from {}",
                    other.who,
                    other.pid,
                    other.token,
                    other.bound,
                    term.who,
                    term.pid,
                    term.token,
                    term.begin,
                ),
            });
        }
        if longest.is_none_or(|other| other.bound < term.bound) {
            longest = Some(term);
        }
    }
    violations
}

/// Of two terms that exclude each other the later one has the higher token, and no token is of two processes.
pub fn tokens_increase(
    mut terms: Vec<(&Term, Mode)>,
    exempt: Option<(u64, u64)>,
) -> Vec<Violation> {
    terms.sort_by_key(|(term, _)| term.begin);
    let mut seen = Terms::default();
    let mut violations = Vec::new();
    for (term, mode) in &terms {
        let Err(disorder) = seen.begins(term.token, *mode) else { continue };
        let first = match disorder {
            Disorder::Twice { token } => token,
            Disorder::Overtaken { by, .. } => by,
        };
        let Some((other, _)) = terms.iter().find(|(other, _)| other.token == first) else {
            continue;
        };
        let is_exempt = in_part((other.begin, term.begin), exempt);
        if !is_exempt || matches!(disorder, Disorder::Twice { .. }) {
            let what = format!("{} after {}: {disorder}", term.who, other.who);
            violations.push(Violation { property: Property::TokensIncrease, what });
        }
    }
    violations
}

/// A process begins a shard's task only after the last one of that shard has ended.
pub fn one_task(records: &[Record]) -> Vec<Violation> {
    let broken = records.iter().filter_map(|record| match record.event {
        Event::Beside { token, other } => Some(Violation {
            property: Property::OneTask,
            what: format!(
                "{} ({}) began a task under {token} beside its own under {other}",
                record.who, record.pid
            ),
        }),
        _ => None,
    });
    broken.collect()
}
