//! A check that can't fail proves nothing: each property is broken once, in a history written by hand.

use super::evidence::Line;
use super::story::{MS, broken, claim, judge, row, tell, tell_of};
use super::{Evidence, Property, story};
use crate::history::{Event, Fault, Outcome, Phase, Record};
use crate::setup::Target;

/// Two terms: `a` holds under token 1000 until it is killed, then `b` under 5000; each writes.
pub(super) fn story() -> Evidence {
    let mut evidence = Evidence::default();
    let at = |evidence: &mut Evidence, ms: u64, event| tell(evidence, ms, "nemesis", event);
    at(&mut evidence, 0, Event::Phase(Phase::Faults));
    hold(&mut evidence, "a", 1_000, 1_010, 2_500);
    at(&mut evidence, 2_600, Event::Fault { fault: Fault::Kill, on: Some("a".into()) });
    hold(&mut evidence, "b", 5_000, 5_010, 9_000);
    at(&mut evidence, 6_000, Event::Phase(Phase::Recovery));
    at(&mut evidence, 9_500, Event::Phase(Phase::End));
    write(&mut evidence, "a1", 1_000, 1_500, Outcome::Committed);
    write(&mut evidence, "a2", 1_000, 2_000, Outcome::Committed);
    write(&mut evidence, "b1", 5_000, 5_500, Outcome::Committed);
    write(&mut evidence, "b2", 5_000, 7_000, Outcome::Committed);
    // `a` comes back with what it had decided, and is refused.
    write(&mut evidence, "a3", 1_000, 7_500, Outcome::Fenced);
    evidence
}

fn hold(evidence: &mut Evidence, who: &str, token: u64, from: u64, to: u64) {
    claim(evidence, 0, who, token, from, to);
}

/// The first letter of the id is its writer.
fn write(evidence: &mut Evidence, id: &str, token: u64, ms: u64, outcome: Outcome) {
    story::write(evidence, (&id[..1], id), (0, "red"), (token, ms), outcome);
}

#[test]
fn a_history_without_fault_passes() {
    assert_eq!(judge(&story()), []);
}

#[test]
fn two_that_claim_at_once_are_seen() {
    let mut evidence = story();
    hold(&mut evidence, "c", 6_000, 6_010, 6_020);
    evidence.tables.log.retain(|row| row.token != 5_000 * MS || row.committed < 6_000 * MS);
    assert!(broken(&evidence).contains(&Property::OneHolder));
}

#[test]
fn a_takeover_before_the_last_lease_ran_out_is_seen_even_if_its_holder_was_silent() {
    let mut evidence = story();
    // `a` was killed, and would have said that it holds until 4000.
    hold(&mut evidence, "c", 3_500, 3_510, 3_520);
    assert_eq!(broken(&evidence), [Property::OneHolder]);
}

#[test]
fn with_a_witness_a_holder_that_was_killed_may_be_followed_at_once_and_not_before() {
    for (begin, violations) in [(2_610, vec![]), (2_590, vec![Property::OneHolder])] {
        let mut evidence = story();
        tell(&mut evidence, 0, "nemesis", Event::Witnessed);
        hold(&mut evidence, "c", begin, begin + 5, begin + 10);
        assert_eq!(broken(&evidence), violations);
    }
}

#[test]
fn whoever_lets_go_may_be_followed_at_once() {
    let mut evidence = story();
    tell(&mut evidence, 2_505, "a", Event::LetsGo);
    hold(&mut evidence, "c", 3_500, 3_510, 3_520);
    assert_eq!(broken(&evidence), [Property::OneHolder], "`c` has not let go");
    tell(&mut evidence, 3_525, "c", Event::LetsGo);
    assert_eq!(broken(&evidence), []);
}

#[test]
fn two_holders_are_nobodys_fault_while_somebody_edits_the_row() {
    let mut evidence = story();
    hold(&mut evidence, "c", 3_500, 3_510, 3_520);
    tell(&mut evidence, 3_400, "nemesis", Event::Phase(Phase::Edits));
    assert_eq!(broken(&evidence), [Property::OneHolder], "they left the row alone");
    let edit = Event::Fault { fault: Fault::Edit, on: None };
    tell_of(Some(0), &mut evidence, 3_450, "nemesis", edit);
    assert_eq!(broken(&evidence), []);
    // Before they were, it is.
    hold(&mut evidence, "d", 1_700, 1_710, 1_720);
    assert!(broken(&evidence).contains(&Property::OneHolder));
}

#[test]
fn a_token_that_does_not_increase_is_seen() {
    let mut evidence = story();
    hold(&mut evidence, "c", 4_000, 11_000, 11_010);
    assert_eq!(broken(&evidence), [Property::TokensIncrease]);
}

#[test]
fn a_token_of_two_processes_is_seen() {
    let mut evidence = story();
    hold(&mut evidence, "c", 5_000, 11_000, 11_010);
    assert_eq!(broken(&evidence), [Property::TokensIncrease]);
}

#[test]
fn a_write_accepted_after_one_of_a_later_term_is_seen() {
    let mut evidence = story();
    row(&mut evidence, "a2").committed = 8_000 * MS;
    assert_eq!(broken(&evidence), [Property::WritesInOrder]);
}

#[test]
fn a_write_accepted_in_a_later_term_is_seen_even_if_that_term_wrote_nothing_before() {
    let mut evidence = story();
    row(&mut evidence, "a2").committed = 5_400 * MS;
    assert_eq!(broken(&evidence), [Property::WritesInOrder]);
}

#[test]
fn a_late_write_that_was_accepted_is_seen() {
    let mut evidence = story();
    // An unfenced write: whatever timestamp it bears, it came after `b`'s.
    let line =
        Line { lock: 0, token: 1_000 * MS, worker: "a".into(), id: "a2".into(), at: 8_000 * MS };
    evidence.unfenced.retain(|line| line.id != "a2");
    evidence.unfenced.push(line);
    assert_eq!(broken(&evidence), [Property::LateIsRefused]);
}

#[test]
fn an_increment_that_was_lost_is_seen() {
    // Two read the same value, and both wrote the next one.
    let mut evidence = story();
    row(&mut evidence, "b1").value = 2;
    assert_eq!(broken(&evidence), [Property::IncrementsCount]);
    let mut evidence = story();
    evidence.tables.counters.insert("0/red".into(), 3);
    assert_eq!(broken(&evidence), [Property::IncrementsCount]);
}

#[test]
fn an_increment_that_was_doubled_is_seen() {
    let mut evidence = story();
    let mut again = row(&mut evidence, "b2").clone();
    again.value += 1;
    evidence.tables.log.push(again);
    evidence.tables.counters.insert("0/red".into(), 5);
    assert_eq!(broken(&evidence), [Property::IncrementsCount]);
}

#[test]
fn an_outcome_that_is_not_true_is_seen() {
    for (outcome, told) in [
        (Outcome::Fenced, [Property::OutcomesAreTrue].as_slice()),
        (Outcome::NotSent, &[Property::OutcomesAreTrue]),
        // It may have been applied.
        (Outcome::Unknown, &[]),
    ] {
        let mut evidence = story();
        for record in &mut evidence.records {
            if let Event::Outcome { id, outcome: said } = &mut record.event
                && id == "b1"
            {
                *said = outcome;
            }
        }
        assert_eq!(broken(&evidence), told, "{outcome:?}");
    }
}

#[test]
fn a_committed_write_that_is_not_there_is_seen() {
    let mut evidence = story();
    evidence.tables.log.retain(|row| row.id != "b2");
    evidence.tables.counters.insert("0/red".into(), 3);
    assert!(broken(&evidence).contains(&Property::OutcomesAreTrue));
}

#[test]
fn a_write_that_nobody_sent_is_seen() {
    let mut evidence = story();
    evidence
        .records
        .retain(|record| !matches!(&record.event, Event::Attempt { id, .. } if id == "b1"));
    assert_eq!(broken(&evidence), [Property::OutcomesAreTrue]);
}

#[test]
fn a_fleet_that_never_recovers_is_seen() {
    let mut evidence = story();
    evidence.records.retain(|record| record.at < 6_500 * MS);
    assert!(broken(&evidence).contains(&Property::Progress));
    let mut evidence = story();
    evidence.records.retain(|record| record.event != Event::Phase(Phase::Recovery));
    assert_eq!(broken(&evidence), [Property::Progress]);
}

#[test]
fn a_history_of_nothing_is_seen() {
    assert!(broken(&Evidence::default()).contains(&Property::SomethingHappened));
}

/// The story of the first lock, told of another one as well.
fn story_of_two() -> Evidence {
    let mut evidence = story();
    let twin = |id: &str| id.replace(['a', 'b'], "z");
    for mut record in story().records.into_iter().filter(|record| record.lock.is_some()) {
        record.lock = Some(1);
        if let Event::Attempt { id, counter, .. } = &mut record.event {
            (*id, *counter) = (format!("{}-{id}", twin(id)), "1/red".to_string());
        } else if let Event::Outcome { id, .. } = &mut record.event {
            *id = format!("{}-{id}", twin(id));
        }
        evidence.records.push(record);
    }
    for mut row in story().tables.log {
        (row.id, row.counter) = (format!("{}-{}", twin(&row.id), row.id), "1/red".to_string());
        evidence.tables.log.push(row);
    }
    evidence.tables.counters.insert("1/red".to_string(), 4);
    for mut line in story().unfenced {
        (line.id, line.lock) = (format!("{}-{}", twin(&line.id), line.id), 1);
        evidence.unfenced.push(line);
    }
    tell(&mut evidence, 0, "nemesis", Event::Run(Target::Locks(2)));
    evidence
}

#[test]
fn locks_are_judged_each_by_itself() {
    // Both have the same tokens at the same time, and none of them is late for the other.
    assert_eq!(judge(&story_of_two()), []);
    let mut evidence = story_of_two();
    row(&mut evidence, "z2-a2").committed = 8_000 * MS;
    let wrong = judge(&evidence);
    assert!(wrong.iter().all(|wrong| wrong.property == Property::WritesInOrder), "{wrong:?}");
    assert!(wrong.iter().all(|wrong| wrong.what.starts_with("lock 1: ")), "{wrong:?}");
    assert!(!wrong.is_empty());
}

#[test]
fn a_lock_that_nobody_works_under_after_the_last_fault_is_seen_beside_one_that_is_well() {
    let mut evidence = story_of_two();
    evidence.records.retain(|record| record.lock != Some(1) || record.at < 6_500 * MS);
    evidence.unfenced.retain(|line| line.lock == 0 || line.at < 6_500 * MS);
    evidence.tables.log.retain(|row| row.counter == "0/red" || row.committed < 6_500 * MS);
    evidence.tables.counters.insert("1/red".to_string(), 3);
    assert_eq!(broken(&evidence), [Property::Progress]);
    let mut evidence = story();
    tell(&mut evidence, 0, "nemesis", Event::Run(Target::Shards(2)));
    assert_eq!(broken(&evidence), [Property::Progress], "the second is never heard of");
}

#[test]
fn a_task_that_begins_beside_another_one_of_its_shard_is_seen() {
    let mut evidence = story();
    tell(&mut evidence, 5_100, "b", Event::Beside { token: 5_000 * MS, other: 1_000 * MS });
    assert_eq!(broken(&evidence), [Property::OneTask]);
}

#[test]
fn the_history_reads_as_it_was_written() {
    for record in story_of_two().records {
        let line = serde_json::to_string(&record).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&line).unwrap(), record);
    }
    assert!(serde_json::from_str::<Record>(r#"{"event": "claim", "at": 1}"#).is_err());
}

#[test]
fn a_deploy_after_which_the_shares_stay_uneven_is_seen() {
    let mut evidence = story();
    let target = Target::Deploys { shards: 1, lease: super::story::LEASE };
    tell(&mut evidence, 1, "nemesis", Event::Run(target));
    tell(&mut evidence, 2, "nemesis", Event::Settled);
    assert_eq!(judge(&evidence), []);
    tell(&mut evidence, 3, "nemesis", Event::Unsettled);
    assert_eq!(broken(&evidence), [Property::Settles]);
}

#[test]
fn the_timeline_tells_terms_with_their_tokens_and_what_befell_whom() {
    let mut evidence = story();
    tell(&mut evidence, 3_000, "nemesis", Event::Over { fault: Fault::Kill, on: Some("a".into()) });
    tell(&mut evidence, 9_000, "b", Event::Lost { token: 5_000 * MS, why: "Resigned".into() });
    let expected = "    \
    0.000 s  phase Faults
    1.010 s  lock 0: a (97) holds under 1000000000 to 2.500 s, at most 4.000 s; its end: not told
    2.600 s  Kill a
    3.000 s  Kill a is over
    5.010 s  lock 0: b (98) holds under 5000000000 to 9.000 s, at most 9.000 s; its end: Resigned
    6.000 s  phase Recovery
    9.500 s  phase End
";
    assert_eq!(crate::timeline::lines(&evidence).unwrap(), expected);
}
