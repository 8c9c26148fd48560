//! Who held when, by the machine's clock.

use std::collections::BTreeMap;

use super::{Law, Violation};
use crate::history::{Event, Record};

/// What one process has said of one term.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tenure {
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
pub fn tenures(records: &[Record]) -> Vec<Tenure> {
    let mut tenures: BTreeMap<(u64, &str, u32), Tenure> = BTreeMap::new();
    for record in records {
        let Event::Claim { token, asked, until } = &record.event else { continue };
        tenures
            .entry((*token, &record.who, record.pid))
            .and_modify(|tenure| {
                tenure.last = tenure.last.max(*asked);
                tenure.bound = tenure.bound.max(*until);
            })
            .or_insert_with(|| Tenure {
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
    let mut tenures: Vec<Tenure> = tenures.into_values().collect();
    for tenure in &mut tenures {
        release(tenure, records);
    }
    tenures.sort_by_key(|tenure| tenure.begin);
    tenures
}

/// Whoever lets go, or learns that the term is another's, is bound by its last claim alone.
fn release(tenure: &mut Tenure, records: &[Record]) {
    // It may have been told to let go while its term was just beginning.
    const BEFORE: u64 = 1_000_000_000;
    let from = tenure.begin.saturating_sub(BEFORE);
    let first = records.partition_point(|record| record.at < from);
    let mut let_go = false;
    for record in &records[first..] {
        if record.pid != tenure.pid || record.who != tenure.who {
            continue;
        }
        match &record.event {
            Event::LetsGo if record.at <= tenure.bound => let_go = true,
            Event::Lost { token, why } if *token == tenure.token => {
                let_go |= !why.contains("Expired");
                tenure.why = Some(why.clone());
            }
            _ => {}
        }
    }
    if let_go {
        tenure.bound = tenure.last;
    }
}

fn in_part(time: (u64, u64), lawless: Option<(u64, u64)>) -> bool {
    lawless.is_some_and(|(from, to)| time.0 < to && from < time.1)
}

/// At no instant two processes hold, unless hands from outside were at the row then.
pub fn one_holder(tenures: &[Tenure], lawless: Option<(u64, u64)>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut longest: Option<&Tenure> = None;
    for tenure in tenures {
        if let Some(other) = longest
            && tenure.begin < other.bound
            && !in_part((tenure.begin, other.bound.min(tenure.bound)), lawless)
        {
            violations.push(Violation {
                law: Law::OneHolder,
                what: format!(
                    "{} ({}) held under {} until {}, {} ({}) held under {} from {}",
                    other.who,
                    other.pid,
                    other.token,
                    other.bound,
                    tenure.who,
                    tenure.pid,
                    tenure.token,
                    tenure.begin,
                ),
            });
        }
        if longest.is_none_or(|other| other.bound < tenure.bound) {
            longest = Some(tenure);
        }
    }
    violations
}

/// A later term has a higher token, and no token is of two processes.
pub fn tokens_increase(tenures: &[Tenure], lawless: Option<(u64, u64)>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let mut owners: BTreeMap<u64, &Tenure> = BTreeMap::new();
    let mut say = |what| violations.push(Violation { law: Law::TokensIncrease, what });
    for tenure in tenures {
        if let Some(other) = owners.insert(tenure.token, tenure) {
            say(format!("{} is the token of {} and of {}", tenure.token, other.who, tenure.who));
        }
    }
    let mut highest: Option<&Tenure> = None;
    for tenure in tenures {
        if let Some(other) = highest
            && tenure.token < other.token
            && !in_part((other.begin, tenure.begin), lawless)
        {
            say(format!(
                "{} of {} was claimed after {} of {}",
                tenure.token, tenure.who, other.token, other.who
            ));
        }
        if highest.is_none_or(|other| other.token < tenure.token) {
            highest = Some(tenure);
        }
    }
    violations
}
