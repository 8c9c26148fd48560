use std::time::Duration;

use super::{Contest, LastHolder, Ranked, Vacancy, grace, turn};
use crate::{Act, Answer, Nonce, Observation, Row, Succession, TermId, Timestamp, Timing, Writer};

const SECOND: Duration = Duration::from_secs(1);
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

/// Members of ranks one to four, and the lock, on Spanner's clock; all of them poll every second.
struct Fleet {
    now: Timestamp,
    row: Option<Row>,
    members: Vec<Option<Life>>,
    /// The rows of those that crashed, until their leases are over.
    dead: Vec<(Ranked, Timestamp)>,
    preempts: bool,
    terms: u64,
}

struct Life {
    since: Timestamp,
    contest: Contest,
    held: Option<Timestamp>,
}

fn name(member: usize) -> String {
    format!("m{member}")
}

impl Fleet {
    fn new(members: usize, preempts: bool) -> Fleet {
        let members = (0..members).map(|_| None).collect();
        let (now, dead) = (Timestamp(1_000_000_000), Vec::new());
        Fleet { now, row: None, members, dead, preempts, terms: 0 }
    }

    fn start(&mut self, member: usize) {
        let rank = u32::try_from(member).unwrap();
        let contest = Contest::new(&name(member), rank, &Timing::from_lease(LEASE));
        self.members[member] = Some(Life { since: self.now, contest, held: None });
    }

    fn crash(&mut self, member: usize) {
        let rows = self.live();
        let row = rows.into_iter().find(|row| row.id == name(member)).unwrap();
        self.dead.push((row, self.now + LEASE));
        self.members[member] = None;
    }

    fn highest(&self) -> Option<usize> {
        (0..self.members.len()).rev().find(|at| self.members[*at].is_some())
    }

    /// The members as their rows show them.
    fn live(&self) -> Vec<Ranked> {
        let lives = self.members.iter().enumerate();
        let lives = lives.filter_map(|(at, life)| Some((at, life.as_ref()?.since)));
        let lives = lives.map(|(at, since)| Ranked { since, ..ranked(&name(at), at as u32) });
        let dead = self.dead.iter().filter(|(_, until)| *until > self.now);
        lives.chain(dead.map(|(row, _)| row.clone())).collect()
    }

    fn leader(&self) -> Option<usize> {
        let token = self.row.as_ref().filter(|row| !row.is_released())?.token;
        self.members.iter().position(|it| it.as_ref().is_some_and(|it| it.held == Some(token)))
    }

    /// A second passes: each live member polls or heartbeats, in the order of their numbers.
    fn pass(&mut self) {
        for at in 0..self.members.len() {
            self.now = Timestamp(self.now.0 + 1_000_000);
            self.turn_of(at);
        }
        self.now = self.now + SECOND;
    }

    fn turn_of(&mut self, at: usize) {
        let (now, live) = (self.now, self.live());
        let Some(life) = &mut self.members[at] else { return };
        let id = name(at);
        if life.held.is_some() && life.held == self.row.as_ref().map(|row| row.token) {
            if let Some(successor) = life.contest.successor(&live, now).filter(|_| self.preempts) {
                let next = Succession::Successor { id: successor, grace: life.contest.grace() };
                self.release(at, &next);
            } else if let Some(row) = &mut self.row {
                row.heartbeat = now;
            }
            return;
        }
        life.held = None;
        let (row, wait) = (self.row.clone(), Duration::ZERO);
        let observation = Observation { row, read_at: now, wait };
        let is_vacant = life.contest.sees(&observation);
        let wait = if is_vacant { life.contest.wait(live, now) } else { Duration::ZERO };
        let vacant_from = observation.row.as_ref().map(|row| row.vacant_from(&id, LEASE));
        if wait.is_zero() && vacant_from.is_none_or(|from| from <= now) {
            self.terms += 1;
            let writer = Writer::term(&id, Nonce { instance: at as u64, attempt: self.terms });
            life.held = Some(now);
            let (act, answer) =
                (Act::Insert { writer: writer.clone() }, Answer::Applied { at: now });
            life.contest.acted(&act, &answer);
            self.row = Some(Row { heartbeat: now, token: now, writer, lease: Some(LEASE) });
        }
    }

    fn release(&mut self, at: usize, next: &Succession) {
        let (Some(life), Some(row)) = (&mut self.members[at], &mut self.row) else { return };
        let term = TermId { token: row.token, writer: row.writer.clone() };
        let act = Act::Release { term, next: next.clone(), displaced: None };
        life.contest.acted(&act, &Answer::Applied { at: self.now });
        life.held = None;
        *row = Row {
            heartbeat: Timestamp::EPOCH,
            token: self.now,
            writer: next.writer(),
            lease: next.grace(),
        };
    }

    fn evict(&mut self) {
        let row = self.row.as_mut().unwrap();
        (row.token, row.writer) = (self.now, Writer::nobody());
    }

    /// Returns the seconds until somebody leads.
    fn until_led(&mut self) -> (usize, u64) {
        for second in 0..60 {
            if let Some(leader) = self.leader() {
                return (leader, second);
            }
            self.pass();
        }
        panic!("nobody leads");
    }
}

fn orders(of: usize) -> Vec<Vec<usize>> {
    let Some(last) = of.checked_sub(1) else { return vec![Vec::new()] };
    let insert = |order: Vec<usize>| {
        (0..of).map(move |at| {
            let mut order = order.clone();
            order.insert(at, last);
            order
        })
    };
    orders(last).into_iter().flat_map(insert).collect()
}

#[test]
fn who_leads_follows_from_who_lives_in_every_order_of_starts_and_crashes() {
    for (starts, crashes) in
        orders(4).iter().flat_map(|s| orders(4).into_iter().map(move |c| (s, c)))
    {
        for preempts in [true, false] {
            let mut fleet = Fleet::new(4, preempts);
            let mut led_by = None;
            for &member in starts {
                fleet.start(member);
                (0..3).for_each(|_| fleet.pass());
                led_by = if preempts { fleet.highest() } else { led_by.or(Some(member)) };
                assert_eq!(fleet.leader(), led_by, "{starts:?}, preempts: {preempts}");
            }
            for &member in &crashes[..3] {
                let led = fleet.leader();
                fleet.crash(member);
                let (leader, took) = fleet.until_led();
                if led == Some(member) {
                    assert_eq!(Some(leader), fleet.highest(), "{starts:?} {crashes:?} {preempts}");
                    assert!(took <= 11, "at once: {took} s");
                } else {
                    assert_eq!(Some(leader), led, "a leader that lives goes on");
                }
            }
        }
    }
}

#[test]
fn all_that_start_at_once_leave_the_lock_to_the_highest() {
    for order in orders(4) {
        let mut fleet = Fleet::new(4, false);
        order.iter().for_each(|member| fleet.start(*member));
        fleet.pass();
        assert_eq!(fleet.leader(), Some(3));
    }
}

#[test]
fn a_higher_member_that_keeps_failing_is_handed_the_lock_once_in_its_term() {
    let mut fleet = Fleet::new(3, true);
    fleet.start(0);
    fleet.pass();
    fleet.start(1);
    (0..4).for_each(|_| fleet.pass());
    assert_eq!(fleet.leader(), Some(1));
    for _ in 0..10 {
        if fleet.leader() == Some(1) {
            fleet.release(1, &Succession::Anyone);
        }
        // Its task has failed, and it pauses.
        let life = fleet.members[1].take();
        (0..4).for_each(|_| fleet.pass());
        fleet.members[1] = life;
        (0..10).for_each(|_| fleet.pass());
        assert_eq!(fleet.leader(), Some(0), "it does not flap");
    }
    fleet.members[1] = None;
    fleet.start(1);
    (0..4).for_each(|_| fleet.pass());
    assert_eq!(fleet.leader(), Some(1), "a new life has its chance");
}

/// A contender of rank 1, which took the lock at 30 s from `b`, whose row was this at the end.
fn successor_of(last: Row) -> Contest {
    let mut contest = Contest::new("a", 1, &Timing::from_lease(LEASE));
    let writer = Writer::term("b", Nonce { instance: 1, attempt: 1 });
    let held = Row { heartbeat: at(9), token: at(9), writer, lease: None };
    for (row, second) in [(held, 10), (last, 30)] {
        let seen = Observation { row: Some(row), read_at: at(second), wait: Duration::ZERO };
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
    let release = Act::Release { term, next, displaced: None };
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
    let release = Act::Release { term, next, displaced: None };
    for (answer, again) in [(Answer::NotApplied, Some("b")), (Answer::Unknown, None)] {
        assert_eq!(contest.successor(&joined(25), at(31)).as_deref(), Some("b"));
        contest.acted(&release, &answer);
        assert_eq!(contest.successor(&joined(25), at(300)).as_deref(), again, "{answer:?}");
    }
    assert_eq!(contest.successor(&joined(26), at(300)).as_deref(), Some("b"), "a new life");
}

#[test]
fn one_that_is_kept_away_is_handed_nothing_until_that_is_over() {
    let minutes = Duration::from_secs(120);
    let kept_away = Writer::kept_away("b", minutes);
    let row = Row { heartbeat: at(14), token: at(20), writer: kept_away, lease: None };
    let mut contest = successor_of(row);
    assert_eq!(contest.successor(&joined(5), at(139)), None);
    assert_eq!(contest.successor(&joined(25), at(139)), None, "nor in a new life");
    assert_eq!(contest.successor(&joined(5), at(140)).as_deref(), Some("b"));
}

#[test]
fn an_evicted_leader_sits_out_a_grace_whatever_its_rank() {
    let mut fleet = Fleet::new(2, false);
    (0..2).for_each(|member| fleet.start(member));
    fleet.pass();
    fleet.pass();
    assert_eq!(fleet.leader(), Some(1));
    fleet.evict();
    let (leader, _) = fleet.until_led();
    assert_eq!(leader, 0);

    let mut alone = Fleet::new(2, false);
    alone.start(1);
    alone.pass();
    alone.evict();
    let (leader, took) = alone.until_led();
    assert_eq!(leader, 1);
    let grace = grace(&Timing::from_lease(LEASE)).as_secs();
    assert!((10 + grace..=12 + grace).contains(&took), "{took} s");
}

#[test]
fn a_member_that_cannot_take_starves_nobody() {
    let mut fleet = Fleet::new(3, false);
    fleet.start(0);
    fleet.start(1);
    fleet.start(2);
    // Two are listed and do nothing.
    let rest: Vec<Ranked> = fleet.live();
    let mut lowest = fleet.members[0].take().unwrap();
    let mut waited = None;
    for second in 0_u32..20 {
        let read_at = fleet.now + SECOND * second;
        let seen = Observation { row: None, read_at, wait: Duration::ZERO };
        assert!(lowest.contest.sees(&seen));
        if lowest.contest.wait(rest.clone(), read_at).is_zero() {
            waited = Some(second);
            break;
        }
    }
    assert_eq!(waited, Some(4), "a grace for each");
}

#[test]
fn a_lock_that_is_promised_to_a_contender_is_its_own_to_take() {
    let mut contest = Contest::new("a", 1, &Timing::from_lease(LEASE));
    let (heartbeat, token) = (Timestamp::EPOCH, Timestamp(9));
    let row = Row { heartbeat, token, writer: Writer::successor("a"), lease: Some(GRACE) };
    let seen = Observation { row: Some(row), read_at: Timestamp(10), wait: Duration::ZERO };
    assert!(!contest.sees(&seen), "its rank is not asked");
}

#[test]
fn one_that_has_let_go_leaves_the_lock_to_the_others_first() {
    let mut fleet = Fleet::new(2, false);
    (0..2).for_each(|member| fleet.start(member));
    fleet.pass();
    fleet.pass();
    fleet.release(1, &Succession::Anyone);
    fleet.pass();
    assert_eq!(fleet.leader(), Some(0));
    fleet.crash(0);
    assert_eq!(fleet.until_led().0, 1);
    fleet.release(1, &Succession::Anyone);
    assert!(fleet.until_led().1 <= 3, "it is alone, but for one that is dead");
}
