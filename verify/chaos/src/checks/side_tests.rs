//! The properties of readers and writers, each broken once in a history written by hand.

use super::story::{self, MS, add, beat, broken, claim, judge, row, tell, tell_of};
use super::{Evidence, Property};
use crate::history::{Event, Fault, Outcome, Phase};
use crate::setup::{READERS, Target, WRITERS};
use crate::tables::Version;

const GATE: &str = "spindle:rw:chaos";
const WRITE_LOCK: &str = "spindle:rw:chaos/write";

/// `w2` and `w3` read; `w1` waits from 1400, writes from 1700 to 2500; then `w2` reads again.
fn story() -> Evidence {
    let mut evidence = Evidence::default();
    let at = |evidence: &mut Evidence, ms: u64, event| tell(evidence, ms, "nemesis", event);
    at(&mut evidence, 0, Event::Run(Target::Sides { readers: 2, writers: 1 }));
    at(&mut evidence, 0, Event::Spanner(0));
    at(&mut evidence, 0, Event::Phase(Phase::Faults));
    at(&mut evidence, 1_650, Event::Phase(Phase::Recovery));
    at(&mut evidence, 3_500, Event::Phase(Phase::End));
    hold(&mut evidence, "w2", 1_000, 1_500);
    hold(&mut evidence, "w3", 1_100, 1_600);
    beat(&mut evidence, GATE, "w1", 1_400, 1_700);
    hold(&mut evidence, "w1", 1_700, 2_500);
    beat(&mut evidence, WRITE_LOCK, "w1", 1_700, 1_700);
    add(&mut evidence, version(WRITE_LOCK, 0, 2_550, ""));
    add(&mut evidence, version(GATE, 0, 2_560, ""));
    hold(&mut evidence, "w2", 2_600, 3_000);
    write(&mut evidence, "w2", 1_000, 1_200);
    write(&mut evidence, "w1", 1_700, 1_800);
    write(&mut evidence, "w2", 2_600, 2_700);
    evidence
}

fn version(key: &str, heartbeat: u64, token: u64, writer: &str) -> Version {
    let (key, writer) = (key.to_string(), writer.to_string());
    Version { key, heartbeat: heartbeat * MS, token: token * MS, writer }
}

fn side(who: &str) -> usize {
    if who == "w1" { WRITERS } else { READERS }
}

/// Claims from just after the token on, then lets go. A reader has a row of its own.
fn hold(evidence: &mut Evidence, who: &str, token: u64, to: u64) {
    claim(evidence, side(who), who, token, token + 10, to);
    tell_of(Some(side(who)), evidence, to + 5, who, Event::LetsGo);
    if side(who) == READERS {
        beat(evidence, &format!("{GATE}/{who}-{token}"), who, token, to);
    }
}

fn write(evidence: &mut Evidence, who: &str, token: u64, ms: u64) {
    let (id, counter) = (format!("{who}-{ms}"), (side(who), who));
    story::write(evidence, (who, &id), counter, (token, ms), Outcome::Committed);
}

#[test]
fn readers_beside_each_other_and_a_writer_alone_are_well() {
    assert_eq!(judge(&story()), []);
}

#[test]
fn a_reader_beside_a_writer_is_seen() {
    let mut evidence = story();
    evidence.records.retain(|record| record.at != 1_605 * MS);
    assert_eq!(broken(&evidence), [Property::WriterAlone], "`w3` has not let go");
    let mut evidence = story();
    hold(&mut evidence, "w3", 2_000, 2_100);
    assert!(broken(&evidence).contains(&Property::WriterAlone));
}

#[test]
fn a_writer_with_a_token_before_an_earlier_readers_is_seen() {
    let mut evidence = story();
    for record in &mut evidence.records {
        if let Event::Claim { token, .. } = &mut record.event
            && *token == 2_600 * MS
        {
            *token = 1_300 * MS;
        }
    }
    // The reader that came last has an earlier token than the writer before it.
    assert_eq!(broken(&evidence), [Property::TokensIncrease]);
}

#[test]
fn a_write_that_was_accepted_beside_the_other_side_is_seen() {
    let mut evidence = story();
    row(&mut evidence, "w2-1200").committed = 1_900 * MS;
    assert_eq!(broken(&evidence), [Property::WritesInOrder], "a reader's in the term of a writer");
    let mut evidence = story();
    row(&mut evidence, "w1-1800").committed = 2_650 * MS;
    assert_eq!(broken(&evidence), [Property::WritesInOrder], "a writer's in the term of a reader");
    let mut evidence = story();
    row(&mut evidence, "w2-1200").committed = 1_300 * MS;
    assert_eq!(broken(&evidence), [], "a reader's in the term of another one");
}

#[test]
fn a_late_write_that_was_accepted_is_seen_on_either_side() {
    for (id, at) in [("w2-1200", 2_000), ("w1-1800", 2_900)] {
        let mut evidence = story();
        let place = evidence.unfenced.iter().position(|line| line.id == id).unwrap();
        let mut line = evidence.unfenced.remove(place);
        line.at = at * MS;
        evidence.unfenced.push(line);
        assert_eq!(broken(&evidence), [Property::LateIsRefused], "{id}");
    }
}

#[test]
fn a_reader_that_begins_while_a_writer_waits_is_seen() {
    let mut evidence = story();
    hold(&mut evidence, "w3", 1_500, 1_550);
    assert_eq!(broken(&evidence), [Property::WaitingStopsReaders]);
    let edit = Event::Fault { fault: Fault::Edit, on: None };
    tell_of(Some(WRITERS), &mut evidence, 1_420, "nemesis", edit);
    tell(&mut evidence, 1_410, "nemesis", Event::Phase(Phase::Edits));
    assert_eq!(broken(&evidence), [], "somebody edited the gate");
}

#[test]
fn a_row_that_goes_on_beside_the_other_side_is_seen() {
    let mut evidence = story();
    add(&mut evidence, version(&format!("{GATE}/w2-1000"), 2_000, 1_000, "w2#0-1"));
    assert_eq!(broken(&evidence), [Property::FencesApart], "a reader's");
    let mut evidence = story();
    add(&mut evidence, version(WRITE_LOCK, 2_700, 1_700, "w1#0-1"));
    assert_eq!(broken(&evidence), [Property::FencesApart], "a writer's");
}

#[test]
fn a_side_that_never_gets_on_again_is_seen() {
    for (who, told) in [("w1", "lock 0: "), ("w2", "lock 1: ")] {
        let mut evidence = story();
        let id = if who == "w1" { "w1-1800" } else { "w2-2700" };
        evidence.records.retain(|record| match &record.event {
            Event::Attempt { id: of, .. } | Event::Outcome { id: of, .. } => of != id,
            _ => true,
        });
        evidence.tables.log.retain(|row| row.id != id);
        *evidence.tables.counters.get_mut(&format!("{}/{who}", side(who))).unwrap() -= 1;
        assert_eq!(broken(&evidence), [Property::Progress]);
        assert!(judge(&evidence)[0].what.starts_with(told));
    }
}
