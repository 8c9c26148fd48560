//! Joins after early deaths, and beside members on trial.

use std::time::Duration;

use super::{Life, Standing, declare_early, joins};
use crate::{Nonce, Row, Timestamp, Writer};

const LEASE: Duration = Duration::from_secs(10);
const USUAL: Duration = Duration::from_secs(3);

fn at(seconds: u32) -> Timestamp {
    Timestamp(1_000_000_000_000) + Duration::from_secs(1) * seconds
}

fn live(since: u32, heard: u32) -> Life {
    Life { since: at(since), heard: at(heard), is_live: true, early: 0 }
}

fn dead(since: u32, heard: u32) -> Life {
    Life { is_live: false, ..live(since, heard) }
}

/// After how many seconds the last of these counts.
fn settles(lives: &[Life]) -> u64 {
    let last = lives.last().unwrap();
    joins(lives, USUAL, LEASE).last().unwrap().counts_from.since(last.since).as_secs()
}

#[test]
fn a_join_counts_as_usual_where_nothing_is_amiss() {
    assert_eq!(settles(&[live(0, 0)]), 3);
    assert_eq!(settles(&[live(0, 500), live(100, 500), live(600, 600)]), 3);
    assert_eq!(settles(&[dead(0, 500), dead(400, 500), live(600, 600)]), 3, "they lived for long");
}

#[test]
fn each_early_death_makes_those_that_come_later_wait_longer() {
    let old = live(0, 500);
    assert_eq!(settles(&[old, dead(100, 112), live(200, 200)]), 20);
    assert_eq!(settles(&[old, dead(100, 105), dead(120, 149), live(200, 200)]), 80);
    assert_eq!(settles(&[dead(100, 112), old, live(50, 50)]), 3, "it came before");
    assert_eq!(settles(&[old, dead(100, 113), live(200, 200)]), 3, "a lease after it counted");
    // The second one counted after 20 s, so that it died early, too.
    let later = [old, dead(100, 105), dead(200, 229), live(300, 300)];
    assert_eq!(settles(&later), 80);
}

#[test]
fn lives_of_a_stable_id_declare_how_many_before_them_ended_early() {
    let again = |early| Life { early, ..live(200, 200) };
    assert_eq!(
        [0, 1, 2, 3, 99].map(|early| settles(&[live(0, 500), again(early)])),
        [3, 20, 80, 100, 100]
    );
    let lives = [live(0, 500), dead(100, 105), Life { early: 4, ..dead(100, 250) }];
    let found = joins(&lives, USUAL, LEASE);
    let early: Vec<u32> =
        found.iter().zip(&lives).map(|(join, life)| join.early_with(life)).collect();
    assert_eq!(early, [0, 1, 0], "it is forgotten once a life was long");
}

#[test]
fn a_third_join_waits_until_the_first_one_on_trial_has_proved_itself() {
    let old = live(0, 500);
    let (first, second, third) = (live(600, 605), live(604, 604), live(608, 608));
    assert_eq!(settles(&[old, first]), 3);
    assert_eq!(settles(&[old, first, second]), 3);
    assert_eq!(settles(&[old, first, second, third]), 20);
    assert_eq!(settles(&[old, live(600, 613), second, third]), 3, "it was heard of for a lease");
    let together = [old, live(600, 600), live(601, 601), live(602, 602), live(603, 603)];
    assert_eq!(settles(&together[..4]), 3);
    let fleet = [live(600, 600), live(601, 601), live(603, 603), live(607, 607)];
    assert_eq!(settles(&fleet), 3, "those that came with the first are on no trial");
}

#[test]
fn a_row_tells_the_life_of_its_member_unless_it_left() {
    let writer = Writer::term("a", Nonce { instance: 1, attempt: 1 });
    let row = Row { heartbeat: at(7), token: at(1), writer, lease: Some(LEASE) };
    let life = |row: &Row, info| Life::of(row, info, LEASE, at(17));
    assert_eq!(life(&row, Some("rank 3")), Some(dead(1, 7)));
    let info = declare_early("rank 3", 2);
    assert_eq!(life(&row, Some(&info)), Some(Life { early: 2, ..dead(1, 7) }));
    assert_eq!(declare_early("rank 3", 0), "rank 3");
    for info in ["rank 3 early", "rank 3 early x", "early 3", ""] {
        assert_eq!(life(&row, Some(info)).unwrap().early, 0, "{info}");
    }
    assert!(Life::of(&row, None, LEASE, at(16)).unwrap().is_live);
    let left = Row { heartbeat: Timestamp::EPOCH, writer: Writer::nobody(), ..row };
    assert_eq!(life(&left, None), None);
    let young = Standing { counts_from: at(4), is_young: true };
    assert_eq!(young.early_with(&Life { early: u32::MAX, ..live(1, 1) }), u32::MAX);
}
