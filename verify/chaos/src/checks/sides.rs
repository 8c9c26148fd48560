//! Checks that a writer is alone, by the claims, the writes and the rows of both sides.

use std::time::Duration;

use spindle_judge::Mode;

use super::evidence::{Evidence, Property, Violation};
use super::exempt::{exempt, exempt_in_spanner};
use super::rows::holds;
use super::terms::{Term, in_part, terms, tokens_increase};
use super::writes::{in_term, late_is_refused};
use crate::history::nanoseconds;
use crate::setup::{READERS, WRITERS};
use crate::tables::Version;

pub fn judge(evidence: &Evidence, parts: &[Evidence], lease: Duration) -> Vec<Violation> {
    let (writing, reading) = (&parts[WRITERS], &parts[READERS]);
    let gate = evidence.target().key(WRITERS);
    let write_lock = format!("{gate}/write");
    let versions = &evidence.tables.versions;
    let not_by_rule = exempt_in_spanner(writing, lease);
    let mut violations = Vec::new();
    violations.extend(writer_alone(
        &terms(&writing.records),
        &terms(&reading.records),
        exempt(&writing.records, lease),
    ));
    violations.extend(in_term(&writing.tables.log, &reading.tokens()));
    violations.extend(in_term(&reading.tables.log, &writing.tokens()));
    violations.extend(late_is_refused(evidence));
    violations.extend(waiting_stops_readers(
        versions.iter().filter(|version| version.key == gate).collect(),
        &reading.tokens(),
        nanoseconds(lease),
        not_by_rule,
    ));
    let is_reader = |key: &str| {
        let rest = key.strip_prefix(&*gate);
        rest.is_some_and(|rest| rest.starts_with('/') && !rest.starts_with("/write"))
    };
    let is_write_lock = |key: &str| key == write_lock;
    violations.extend(fences_apart(versions, is_reader, &writing.tokens(), not_by_rule));
    violations.extend(fences_apart(versions, is_write_lock, &reading.tokens(), not_by_rule));
    violations
}

/// At no instant somebody reads and another one writes, and who began later has the higher token.
fn writer_alone(writers: &[Term], readers: &[Term], exempt: Option<(u64, u64)>) -> Vec<Violation> {
    let mut violations = Vec::new();
    let pairs =
        writers.iter().flat_map(|writer| readers.iter().map(move |reader| (writer, reader)));
    for (writer, reader) in pairs {
        let together = (writer.begin.max(reader.begin), writer.bound.min(reader.bound));
        if together.0 < together.1 && !in_part(together, exempt) {
            let said = |term: &Term| format!("{} ({}) under {}", term.who, term.pid, term.token);
            let what = format!("writer {}, reader {}: at once", said(writer), said(reader));
            violations.push(Violation { property: Property::WriterAlone, what });
        }
    }
    let exclusive = writers.iter().map(|term| (term, Mode::Exclusive));
    let shared = readers.iter().map(|term| (term, Mode::Shared));
    violations.extend(tokens_increase(exclusive.chain(shared).collect(), exempt));
    violations
}

/// No reader's token is of a time at which the gate is held: the writer may be waiting still.
fn waiting_stops_readers(
    gate: Vec<&Version>,
    readers: &[u64],
    lease: u64,
    exempt: Option<(u64, u64)>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for token in readers {
        let before = gate.partition_point(|version| version.committed() < *token);
        let Some(version) = before.checked_sub(1).map(|place| gate[place]) else { continue };
        let is_held = version.holder().is_some() && version.heartbeat + lease > *token;
        if is_held && !in_part((*token, token + 1), exempt) {
            let what = format!("{token}: begun beside the writer {}", version.writer);
            violations.push(Violation { property: Property::WaitingStopsReaders, what });
        }
    }
    violations
}

/// No row of these goes on after a term of the other side began.
fn fences_apart(
    versions: &[Version],
    is_of: impl Fn(&str) -> bool,
    others: &[u64],
    exempt: Option<(u64, u64)>,
) -> Vec<Violation> {
    let mut violations = Vec::new();
    for hold in holds(versions).into_iter().filter(|hold| is_of(&hold.key)) {
        let other = others.get(others.partition_point(|token| *token <= hold.token));
        if let Some(other) = other.filter(|other| **other <= hold.last())
            && !in_part((hold.token, hold.last()), exempt)
        {
            let what = format!(
                "{} under {} of {} goes on until {}, beside {other}",
                hold.key,
                hold.token,
                hold.id,
                hold.last()
            );
            violations.push(Violation { property: Property::FencesApart, what });
        }
    }
    violations
}
