//! Histories written by hand, for the tests of the properties.

use std::time::Duration;

use super::evidence::Line;
use super::{Evidence, Property, Violation};
use crate::history::{Event, Outcome, Record};
use crate::tables::{Row, Version};

pub const LEASE: Duration = Duration::from_secs(2);
pub const LIMIT: Duration = Duration::from_secs(20);

/// Milliseconds of the machine's clock, which a story may as well share with Spanner.
pub const MS: u64 = 1_000_000;

/// The nemesis speaks of all locks, and workers of the first one.
pub fn tell(evidence: &mut Evidence, ms: u64, who: &str, event: Event) {
    tell_of((who != "nemesis").then_some(0), evidence, ms, who, event);
}

pub fn tell_of(lock: Option<usize>, evidence: &mut Evidence, ms: u64, who: &str, event: Event) {
    let pid = who.bytes().map(u32::from).sum();
    evidence.records.push(Record { at: ms * MS, who: who.to_string(), pid, lock, event });
    evidence.records.sort_by_key(|record| record.at);
}

/// Claims every 10 ms, each good for the lease after the last heartbeat, half a second ago.
pub fn claim(evidence: &mut Evidence, lock: usize, who: &str, token: u64, from: u64, to: u64) {
    for ms in (from..=to).step_by(10) {
        let until = (ms + 1_500) * MS;
        let claim = Event::Claim { token: token * MS, asked: ms * MS, until };
        tell_of(Some(lock), evidence, ms, who, claim);
    }
}

/// Increments one of a lock's counters, under a token.
pub fn write(
    evidence: &mut Evidence,
    (who, id): (&str, &str),
    (lock, colour): (usize, &str),
    (token, ms): (u64, u64),
    outcome: Outcome,
) {
    let (token, worker, id) = (token * MS, who.to_string(), id.to_string());
    let counter = format!("{lock}/{colour}");
    let attempt = Event::Attempt { id: id.clone(), token, counter: counter.clone() };
    tell_of(Some(lock), evidence, ms, who, attempt);
    tell_of(Some(lock), evidence, ms + 5, who, Event::Outcome { id: id.clone(), outcome });
    let line = Line { lock, token, worker: worker.clone(), id: id.clone(), at: ms * MS };
    evidence.unfenced.push(line);
    if outcome == Outcome::Committed {
        let value = evidence.tables.counters.entry(counter.clone()).or_default();
        *value += 1;
        let (value, committed) = (*value, (ms + 4) * MS);
        evidence.tables.log.push(Row { id, value, counter, token, worker, committed });
    }
}

/// A row with a heartbeat a second.
pub fn beat(evidence: &mut Evidence, key: &str, id: &str, from: u64, to: u64) {
    for heartbeat in (from..=to).step_by(1_000) {
        let (heartbeat, token, writer) = (heartbeat * MS, from * MS, format!("{id}#0-1"));
        add(evidence, Version { key: key.to_string(), heartbeat, token, writer });
    }
}

pub fn add(evidence: &mut Evidence, version: Version) {
    evidence.tables.versions.push(version);
    evidence.tables.versions.sort_by_key(Version::committed);
}

pub fn judge(evidence: &Evidence) -> Vec<Violation> {
    super::judge(evidence, LEASE, LIMIT).unwrap()
}

/// The properties that do not hold, each once.
pub fn broken(evidence: &Evidence) -> Vec<Property> {
    let mut properties: Vec<Property> = Vec::new();
    for violation in judge(evidence) {
        if !properties.contains(&violation.property) {
            properties.push(violation.property);
        }
    }
    properties
}

pub fn row<'a>(evidence: &'a mut Evidence, id: &str) -> &'a mut Row {
    evidence.tables.log.iter_mut().find(|row| row.id == id).unwrap()
}
