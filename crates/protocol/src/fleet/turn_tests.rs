use std::time::Duration;

use super::{Contest, LastHolder, Ranked, Vacancy, turn};
use crate::{Act, Answer, Nonce, Observation, Row, Succession, TermId, Timestamp, Timing, Writer};

const GRACE: Duration = Duration::from_secs(2);
const LEASE: Duration = Duration::from_secs(10);

fn ranked(id: &str, rank: u32) -> Ranked {
    Ranked { id: id.into(), rank, since: Timestamp(1) }
}

fn vacancy(members: &[(&str, u32)]) -> Vacancy {
    let members = members.iter().map(|(id, rank)| ranked(id, *rank)).collect();
    Vacancy { members, last: None, seen_for: Duration::ZERO }
}

#[test]
fn the_highest_rank_takes_at_once_and_each_of_the_others_waits_a_grace_more() {
    let view = vacancy(&[("a", 1), ("b", 3), ("c", 2), ("d", 3)]);
    let waits = ["b", "d", "c", "a"].map(|id| turn(id, &view, GRACE));
    assert_eq!(waits, [Duration::ZERO, GRACE, GRACE * 2, GRACE * 3], "of equal ranks the id");
    let later = Vacancy { seen_for: GRACE * 2, ..view };
    assert_eq!(turn("c", &later, GRACE), Duration::ZERO);
    assert_eq!(turn("a", &later, GRACE), GRACE);
}

#[test]
fn whoever_is_no_member_is_last_and_alone_it_is_first() {
    assert_eq!(turn("x", &vacancy(&[("a", 1), ("b", 2)]), GRACE), GRACE * 2);
    assert_eq!(turn("x", &vacancy(&[]), GRACE), Duration::ZERO);
}

#[test]
fn the_one_that_held_last_is_last_whatever_its_rank() {
    let view = vacancy(&[("a", 1), ("b", 2), ("c", 3)]);
    let expired = Vacancy { last: Some(LastHolder::Gone("c".into())), ..view.clone() };
    let waits = ["b", "a", "c"].map(|id| turn(id, &expired, GRACE));
    assert_eq!(waits, [Duration::ZERO, GRACE, GRACE * 2]);
    let evicted = Vacancy { last: Some(LastHolder::Evicted("c".into())), ..view };
    let waits = ["b", "a", "c"].map(|id| turn(id, &evicted, GRACE));
    assert_eq!(waits, [Duration::ZERO, GRACE, GRACE * 3], "it sits out a grace");
    let alone = Vacancy { last: Some(LastHolder::Evicted("c".into())), ..vacancy(&[("c", 3)]) };
    assert_eq!(turn("c", &alone, GRACE), GRACE);
}

/// A contender of rank 1, which took the lock at 30 s from `b`, whose row was this at the end.
fn successor_of(last: Row) -> Contest {
    let mut contest = Contest::new("a", 1, &Timing::from_lease(LEASE));
    let writer = Writer::term("b", Nonce { instance: 1, attempt: 1 });
    let held = Row { heartbeat: at(9), token: at(9), writer, lease: None };
    for (row, second) in [(held, 10), (last, 30)] {
        let seen =
            Observation { row: Some(row), next: None, read_at: at(second), wait: Duration::ZERO };
        contest.sees(&seen);
    }
    let writer = Writer::term("a", Nonce { instance: 2, attempt: 1 });
    contest.acted(&Act::Insert { writer }, &Answer::Applied { at: at(30) });
    contest
}

fn at(second: i64) -> Timestamp {
    Timestamp(second * 1_000_000_000)
}

/// The member `b`, of rank 2, as it joined then.
fn joined(since: i64) -> [Ranked; 1] {
    [Ranked { since: at(since), ..ranked("b", 2) }]
}

fn let_go() -> Row {
    Row { heartbeat: Timestamp::EPOCH, token: at(20), writer: Writer::nobody(), lease: None }
}

#[test]
fn one_that_has_let_go_since_it_joined_is_handed_nothing() {
    let mut contest = successor_of(let_go());
    assert_eq!(contest.successor(&joined(5), at(300)), None);
    let joined_again = joined(25);
    assert_eq!(contest.successor(&joined_again, at(31)).as_deref(), Some("b"), "in its next term");
    let next = Succession::Successor { id: "b".into(), grace: GRACE };
    let term = TermId { token: at(30), writer: Writer::nobody() };
    let release = Act::Release { term, next };
    contest.acted(&release, &Answer::Applied { at: at(32) });
    assert_eq!(contest.successor(&joined_again, at(300)), None, "once in its term");
    let equal = [ranked("c", 1), ranked("d", 0)];
    assert_eq!(contest.successor(&equal, at(300)), None, "of strictly higher rank alone");
}

#[test]
fn one_that_lost_the_lock_without_letting_go_is_handed_it_back_once_after_a_lease() {
    let writer = Writer::term("b", Nonce { instance: 1, attempt: 1 });
    let expired = Row { heartbeat: at(14), token: at(9), writer, lease: None };
    let evicted = Row { writer: Writer::nobody(), token: at(20), ..expired.clone() };
    for last in [expired, evicted] {
        let mut contest = successor_of(last);
        assert_eq!(contest.successor(&joined(5), at(39)), None, "it may be out of order still");
        assert_eq!(contest.successor(&joined(5), at(40)).as_deref(), Some("b"));
        assert_eq!(
            contest.successor(&joined(25), at(31)).as_deref(),
            Some("b"),
            "a new life at once"
        );
    }
}

#[test]
fn a_hand_over_of_unknown_outcome_counts_as_one() {
    let mut contest = successor_of(let_go());
    let term = TermId { token: at(30), writer: Writer::nobody() };
    let next = Succession::Successor { id: "b".into(), grace: GRACE };
    let release = Act::Release { term, next };
    for (answer, again) in [(Answer::NotApplied, Some("b")), (Answer::Unknown, None)] {
        assert_eq!(contest.successor(&joined(25), at(31)).as_deref(), Some("b"));
        contest.acted(&release, &answer);
        assert_eq!(contest.successor(&joined(25), at(300)).as_deref(), again, "{answer:?}");
    }
    assert_eq!(contest.successor(&joined(26), at(300)).as_deref(), Some("b"), "a new life");
}

#[test]
fn a_lock_that_is_promised_to_a_contender_is_its_own_to_take() {
    let mut contest = Contest::new("a", 1, &Timing::from_lease(LEASE));
    let (heartbeat, token) = (Timestamp::EPOCH, Timestamp(9));
    let row = Row { heartbeat, token, writer: Writer::successor("a"), lease: Some(GRACE) };
    let seen =
        Observation { row: Some(row), next: None, read_at: Timestamp(10), wait: Duration::ZERO };
    assert!(!contest.sees(&seen), "its rank is not asked");
}

#[test]
fn one_that_has_let_go_leaves_the_lock_to_the_others_first() {
    let mut contest = successor_of(let_go());
    let term = TermId { token: at(30), writer: Writer::nobody() };
    let release = Act::Release { term, next: Succession::Anyone };
    contest.acted(&release, &Answer::Applied { at: at(40) });
    let released = Row { token: at(40), ..let_go() };
    let seen =
        Observation { row: Some(released), next: None, read_at: at(40), wait: Duration::ZERO };
    assert!(contest.sees(&seen));
    let itself = Ranked { since: at(1), ..ranked("a", 1) };
    let lower = Ranked { since: at(2), ..ranked("b", 0) };
    assert_eq!(contest.wait(vec![itself.clone(), lower], at(40)), GRACE);
    assert_eq!(contest.wait(vec![itself], at(40)), Duration::ZERO, "it is alone");
}
