//! The properties of ranks, each broken once in rows written by hand.

use super::story::{MS, add, beat, broken, judge, tell, tell_of};
use super::tests::story;
use super::{Evidence, Property};
use crate::history::{Event, Fault, Phase};
use crate::setup::Target;
use crate::tables::Version;

/// A lock that others hold as ever, with rows of its own story: `w1`, of the lowest rank, leads from
/// 1000 and goes for `w5`, of the highest, which came at 3000.
fn handed_over() -> Evidence {
    let mut evidence = ranked();
    member(&mut evidence, "w1", 500, 40_000);
    member(&mut evidence, "w2", 500, 40_000);
    member(&mut evidence, "w5", 3_000, 40_000);
    lead(&mut evidence, "w1", 1_000, 4_000);
    release(&mut evidence, 4_500, ">w5");
    lead(&mut evidence, "w5", 4_600, 40_000);
    evidence
}

/// `w5` has crashed, and its lease is over at 12000, when `w3` is the highest that lives.
fn crashed(taker: &str, at: u64) -> Evidence {
    let mut evidence = ranked();
    member(&mut evidence, "w1", 500, 40_000);
    member(&mut evidence, "w3", 500, 40_000);
    member(&mut evidence, "w5", 500, 10_000);
    lead(&mut evidence, "w5", 1_000, 10_000);
    lead(&mut evidence, taker, at, 14_000);
    evidence
}

fn ranked() -> Evidence {
    let mut evidence = story();
    tell(&mut evidence, 0, "nemesis", Event::Run(Target::Ranks));
    tell(&mut evidence, 0, "nemesis", Event::Spanner(0));
    evidence
}

fn member(evidence: &mut Evidence, id: &str, from: u64, to: u64) {
    beat(evidence, &format!("spindle:member:chaos/{id}"), id, from, to);
}

fn lead(evidence: &mut Evidence, id: &str, from: u64, to: u64) {
    beat(evidence, "chaos", id, from, to);
}

fn release(evidence: &mut Evidence, at: u64, writer: &str) {
    let (key, writer) = ("chaos".to_string(), writer.to_string());
    add(evidence, Version { key, heartbeat: 0, token: at * MS, writer });
}

#[test]
fn a_leader_that_goes_for_a_higher_rank_is_well() {
    assert_eq!(judge(&handed_over()), []);
}

#[test]
fn a_leader_that_stays_beside_a_higher_rank_is_seen() {
    let stays = |leader: &str| {
        let mut evidence = ranked();
        member(&mut evidence, leader, 500, 40_000);
        member(&mut evidence, "w5", 3_000, 40_000);
        lead(&mut evidence, leader, 1_000, 25_000);
        evidence
    };
    assert_eq!(broken(&stays("w1")), [Property::HighestLeads]);
    assert_eq!(broken(&stays("w4")), [], "it gives way to nobody");
    let mut evidence = stays("w1");
    member(&mut evidence, "w2", 2_600, 2_650);
    member(&mut evidence, "w3", 2_700, 2_750);
    assert_eq!(broken(&evidence), [], "after two early deaths it counts eight leases later");
    let mut evidence = stays("w1");
    lead(&mut evidence, "w5", 27_100, 40_000);
    assert_eq!(broken(&evidence), [Property::HighestLeads], "it came to lead too late");
    let mut evidence = stays("w1");
    // It takes time to notice who came.
    evidence.tables.versions.retain(|version| version.token != 3_000 * MS);
    member(&mut evidence, "w5", 12_000, 40_000);
    assert_eq!(broken(&evidence), []);
}

#[test]
fn whoever_has_led_since_it_joined_is_owed_nothing() {
    let mut evidence = ranked();
    member(&mut evidence, "w1", 500, 40_000);
    member(&mut evidence, "w5", 3_000, 40_000);
    lead(&mut evidence, "w5", 4_000, 5_000);
    release(&mut evidence, 5_500, "");
    lead(&mut evidence, "w1", 8_000, 38_000);
    assert_eq!(broken(&evidence), []);
    evidence.tables.versions.retain(|version| version.token != 4_000 * MS);
    assert_eq!(broken(&evidence), [Property::HighestLeads]);
    // This one may have tried to go for it before.
    lead(&mut evidence, "w1", 4_000, 5_000);
    assert_eq!(broken(&evidence), []);
}

#[test]
fn a_leader_that_goes_for_a_rank_no_higher_is_seen() {
    for (leader, successor, told) in [
        ("w3", "w1", [Property::HandedUp].as_slice()),
        ("w1", "w2", &[Property::HandedUp]),
        ("w4", "w5", &[Property::HandedUp]),
        ("w1", "w3", &[]),
    ] {
        let mut evidence = ranked();
        member(&mut evidence, "w1", 500, 8_000);
        lead(&mut evidence, leader, 1_000, 4_000);
        release(&mut evidence, 4_500, &format!(">{successor}"));
        lead(&mut evidence, successor, 4_600, 8_000);
        assert_eq!(broken(&evidence), told, "{leader} for {successor}");
    }
}

#[test]
fn whoever_takes_a_vacant_lock_before_its_turn_is_seen() {
    assert_eq!(broken(&crashed("w3", 12_050)), []);
    assert_eq!(broken(&crashed("w1", 12_050)), [Property::InTurn]);
    assert_eq!(broken(&crashed("w1", 12_850)), [], "it has left a grace to the one before it");
    let mut evidence = crashed("w1", 12_050);
    evidence
        .tables
        .versions
        .retain(|version| !version.key.ends_with("/w3") || version.heartbeat < 12_050 * MS);
    assert_eq!(broken(&evidence), [], "it may have left");
    let mut evidence = crashed("w1", 12_050);
    // That one may not have been there when it looked.
    evidence.tables.versions.retain(|version| {
        !version.key.ends_with("/w3") || !(10_000 * MS..12_020 * MS).contains(&version.heartbeat)
    });
    assert_eq!(broken(&evidence), []);
}

#[test]
fn whoever_joined_after_an_early_death_is_owed_no_turn_yet() {
    let joined_after = |a_life_to: u64| {
        let mut evidence = crashed("w1", 12_050);
        evidence.tables.versions.retain(|version| !version.key.ends_with("/w3"));
        member(&mut evidence, "w2", 3_000, a_life_to);
        member(&mut evidence, "w3", 8_500, 40_000);
        evidence
    };
    assert_eq!(broken(&joined_after(4_000)), [], "w3 counts two leases after it came");
    assert_eq!(broken(&joined_after(40_000)), [Property::InTurn]);
    let mut evidence = joined_after(4_000);
    let (key, writer) = ("spindle:member:chaos/w2".to_string(), String::new());
    add(&mut evidence, Version { key, heartbeat: 0, token: 4_500 * MS, writer });
    assert_eq!(broken(&evidence), [Property::InTurn], "w2 left");
}

#[test]
fn ranks_are_nobodys_fault_while_somebody_edits_the_row() {
    let mut evidence = crashed("w1", 12_050);
    tell(&mut evidence, 11_000, "nemesis", Event::Phase(Phase::Edits));
    evidence.records.retain(|record| record.event != Event::Phase(Phase::Recovery));
    tell(&mut evidence, 5_400, "nemesis", Event::Phase(Phase::Recovery));
    assert_eq!(broken(&evidence), [Property::InTurn], "they left the row alone");
    evidence.records.retain(|record| record.event != Event::Phase(Phase::Recovery));
    tell(&mut evidence, 13_000, "nemesis", Event::Phase(Phase::Recovery));
    let edit = Event::Fault { fault: Fault::Edit, on: None };
    tell_of(Some(0), &mut evidence, 11_900, "nemesis", edit);
    assert!(!broken(&evidence).contains(&Property::InTurn));
}

#[test]
fn a_ranked_lock_without_rows_is_seen() {
    assert_eq!(broken(&ranked()), [Property::SomethingHappened]);
}
