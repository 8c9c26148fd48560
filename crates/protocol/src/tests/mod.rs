//! Scripted stories of one instance: what it does when the table answers so and so.

mod bounds;
mod line;
mod load;
mod permits;
mod takeover_rows;

use std::time::Duration;

use crate::*;

const LEASE: Duration = Duration::from_millis(1_000);
const NONCE: u64 = 0xa;

fn at(milliseconds: u64) -> Moment {
    Moment(Duration::from_millis(milliseconds))
}

/// Spanner's clock, far from the instance's own.
fn spanner(milliseconds: i64) -> Timestamp {
    Timestamp((1_000_000 + milliseconds) * 1_000_000)
}

fn writer(attempt: u64) -> Writer {
    Writer::term("a", Nonce { instance: NONCE, attempt })
}

fn term(milliseconds: i64, attempt: u64) -> TermId {
    TermId { token: spanner(milliseconds), writer: writer(attempt) }
}

fn row(heartbeat: Timestamp, token: Timestamp, writer: Writer) -> Row {
    Row { heartbeat, token, writer, lease: Some(LEASE) }
}

fn rivals_row(milliseconds: i64) -> Row {
    let writer = Writer::term("b", Nonce { instance: 0xb, attempt: 1 });
    row(spanner(milliseconds), spanner(0), writer)
}

fn observed(row: Option<Row>, milliseconds: i64) -> Event {
    let read_at = spanner(milliseconds);
    Event::Answer(Answer::Observed(Observation { row, next: None, read_at }))
}

fn applied(milliseconds: i64) -> Event {
    Event::Answer(Answer::Applied { at: spanner(milliseconds) })
}

const UNKNOWN: Event = Event::Answer(Answer::Unknown);
const LET_GO: Event = Event::LetGo { next: Succession::Anyone };

fn contender() -> Instance {
    let mut instance = Instance::new("a", NONCE, Timing::from_lease(LEASE), at(0));
    assert_eq!(instance.decide(at(0), Event::Wake).act, Some(Act::Observe));
    instance
}

/// Returns an instance that holds since 0, by an insert.
fn holder() -> Instance {
    let mut instance = contender();
    assert!(matches!(instance.decide(at(0), observed(None, 0)).act, Some(Act::Insert { .. })));
    let began = instance.decide(at(5), applied(2));
    let valid_until = at(990);
    let expected = Announcement::Began { token: spanner(2), writer: writer(1), valid_until };
    assert_eq!(began.announce, Some(expected));
    instance
}

#[test]
fn validity_counts_from_before_the_request_left() {
    let mut instance = holder();
    let heartbeat = instance.decide(at(500), Event::Wake);
    assert_eq!(heartbeat.act, Some(Act::Heartbeat { term: term(2, 1), looks: false }));
    let renewed = instance.decide(at(600), applied(590));
    let valid_until = at(500 + 990);
    assert_eq!(renewed.announce, Some(Announcement::Extended { valid_until }));
}

#[test]
fn a_commit_acknowledged_too_late_begins_no_term() {
    let mut instance = contender();
    instance.decide(at(0), observed(None, 0));
    let late = instance.decide(at(800), applied(2));
    assert_eq!((late.announce, instance.term()), (None, None));
    // Nobody was told, so the row is its own to displace at once, under a new token.
    let own = row(spanner(2), spanner(2), writer(1));
    let wake = late.wake.expect("it goes on");
    instance.decide(wake.at, Event::Wake);
    let again = instance.decide(wake.at, observed(Some(own.clone()), 850));
    let takeover = Act::Takeover { seen: own, writer: writer(2), passes: None };
    assert_eq!(again.act, Some(takeover));
}

#[test]
fn an_unknown_attempt_is_decided_by_its_own_nonce_and_nothing_else() {
    let ours = row(spanner(2), spanner(2), writer(1));
    let evicted = Row { writer: Writer::nobody(), token: spanner(9), ..ours.clone() };
    let other_life =
        row(spanner(2), spanner(2), Writer::term("a", Nonce { instance: 0xc, attempt: 1 }));
    for (row, ours) in [(ours, true), (evicted, false), (other_life, false)] {
        let mut instance = contender();
        instance.decide(at(0), observed(None, 0));
        assert_eq!(instance.decide(at(300), UNKNOWN).act, Some(Act::Observe));
        let decided = instance.decide(at(310), observed(Some(row), 310));
        let valid_until = at(990);
        let began = Announcement::Began { token: spanner(2), writer: writer(1), valid_until };
        assert_eq!(decided.announce, ours.then_some(began));
    }
}

#[test]
fn a_token_that_no_commit_of_the_attempt_can_have_is_not_believed() {
    for (token, believed) in [(-1, false), (0, false), (2, true), (310, true), (311, false)] {
        let mut instance = contender();
        instance.decide(at(0), observed(None, 0));
        instance.decide(at(300), UNKNOWN);
        let forged = row(spanner(token), spanner(token), writer(1));
        let decided = instance.decide(at(310), observed(Some(forged), 310));
        assert_eq!(decided.announce.is_some(), believed, "token {token}");
    }
}

#[test]
fn an_attempt_that_cannot_be_resolved_in_time_is_given_up() {
    let mut instance = contender();
    instance.decide(at(0), observed(None, 0));
    instance.decide(at(300), UNKNOWN);
    let again = instance.decide(at(600), UNKNOWN).wake.expect("it asks again");
    assert_eq!(instance.decide(again.at, Event::Wake).act, Some(Act::Observe));
    let wake = instance.decide(at(995), UNKNOWN).wake.expect("it polls again");
    let ours = row(spanner(2), spanner(2), writer(1));
    instance.decide(wake.at, Event::Wake);
    let late = instance.decide(wake.at, observed(Some(ours), 1_400));
    assert_eq!(late.announce, None, "validity would count from the attempt, and it is over");
    assert!(matches!(late.act, Some(Act::Takeover { .. })));
}

#[test]
fn a_heartbeat_goes_early_with_others_and_not_unasked() {
    let mut instance = holder();
    let early = Timing::from_lease(LEASE).heartbeat_interval;
    let Wake { at: from, spread } = instance.decide(at(100), Event::Wake).early.unwrap();
    assert_eq!((from, from + spread, spread), (at(0), at(0) + LEASE / 3, early));
    assert_eq!(instance.decide(at(101), Event::Wake).act, None, "others of its process sleep");
    let heartbeat = instance.decide(at(102), Event::Early);
    assert_eq!(heartbeat.act, Some(Act::Heartbeat { term: term(2, 1), looks: false }));
    assert_eq!(heartbeat.early, None, "it is under way");
    let failed = instance.decide(at(250), UNKNOWN);
    assert_eq!((failed.act, failed.early), (None, None), "a repeat keeps its pause");
    assert_eq!(instance.decide(at(251), Event::Early).act, None);
}

#[test]
fn the_answer_to_a_heartbeat_counts_until_the_term_ends_and_its_validity_from_when_it_was_sent() {
    for lease in [100, 250, 1_000, 2_000, 10_000, 60_000, 86_400_000].map(Duration::from_millis) {
        for share in [2, 3, 4, 6] {
            let heartbeat_interval = lease / share;
            let timing = Timing { heartbeat_interval, ..Timing::from_lease(lease) };
            let mut instance = Instance::new("a", NONCE, timing.clone(), at(0));
            instance.decide(at(0), Event::Wake);
            let insert = instance.decide(at(0), observed(None, 0));
            assert!(matches!(insert.act, Some(Act::Insert { .. })));
            let due = instance.decide(at(0), applied(2)).wake.expect("a heartbeat is due").at;
            instance.decide(due, Event::Wake).act.expect("a heartbeat");
            let deadline = at(0) + timing.renew_deadline;
            assert_eq!(due + instance.attempt_limit(due), deadline, "{lease:?} / {share}");
            let later = due + lease / 8;
            assert_eq!(instance.decide(later, Event::Wake).act, None, "one is outstanding");
            let heard = Moment(deadline.0 - Duration::from_nanos(1));
            let renewed = instance.decide(heard, applied(3)).announce;
            let valid_until = due + timing.validity();
            assert_eq!(renewed, Some(Announcement::Extended { valid_until }));
        }
    }
}

#[test]
fn a_term_without_contact_is_announced_as_over_before_it_expires() {
    let mut instance = holder();
    let wake = instance.decide(at(500), Event::Wake).wake.expect("the deadline");
    assert_eq!(wake, Wake { at: at(800), spread: Duration::ZERO });
    let over = instance.decide(at(800), Event::Wake);
    let reason = EndReason::OutOfContact;
    assert_eq!(over.announce, Some(Announcement::Ended { token: spanner(2), reason }));
    assert_eq!((over.act, instance.term()), (None, None));
    assert!(over.wake.expect("it goes on").at >= at(1_000), "it was lost early");
    // Its owner may ask at once.
    assert_eq!(instance.decide(at(805), Event::Contend(true)).act, Some(Act::Observe));
    // The heartbeat did arrive: the row is still the old term's, whose work may not have ended.
    let own = row(spanner(501), spanner(2), writer(1));
    let waits = instance.decide(at(810), observed(Some(own.clone()), 810));
    assert_eq!((waits.act, waits.wake.map(|wake| wake.at)), (None, Some(at(990))));
    instance.decide(at(990), Event::Wake);
    let new = instance.decide(at(991), observed(Some(own), 991)).act;
    assert!(matches!(new, Some(Act::Takeover { writer: new, .. }) if new == writer(2)));
}

#[test]
fn an_expired_term_is_not_revived_by_a_heartbeat_that_was_acknowledged_late() {
    let mut instance = holder();
    instance.decide(at(500), Event::Wake);
    let woke = instance.decide(at(990), applied(501));
    let reason = EndReason::Expired;
    assert_eq!(woke.announce, Some(Announcement::Ended { token: spanner(2), reason }));
    assert_eq!(instance.term(), None);
}

#[test]
fn the_lock_is_given_up_before_the_release_leaves() {
    let mut instance = holder();
    let stop = instance.decide(at(100), Event::Stop);
    let reason = EndReason::Released;
    assert_eq!(stop.announce, Some(Announcement::Ended { token: spanner(2), reason }));
    let release =
        Act::Release { term: term(2, 1), next: Succession::InLine { grace: LEASE / 5 * 2 } };
    assert_eq!(stop.act, Some(release.clone()));
    let retry = instance.decide(at(200), UNKNOWN).wake.expect("it tries again");
    assert_eq!(instance.decide(retry.at, Event::Wake).act, Some(release));
    instance.decide(at(300), Event::Answer(Answer::Rejected(Rejection::Changed(None))));
    assert!(instance.has_ended());
}

#[test]
fn stopping_is_bounded_whatever_spanner_does() {
    let mut instance = holder();
    let mut decision = instance.decide(at(100), Event::Stop);
    let mut now = at(100);
    while let Some(wake) = decision.wake {
        assert!(now <= at(1_100), "still busy at {now:?}");
        now = wake.at.max(now);
        decision = instance.decide(now, Event::Wake);
        if decision.act.is_some() {
            now = now + instance.attempt_limit(now);
            decision = instance.decide(now, UNKNOWN);
        }
    }
    assert!(instance.has_ended());
}

#[test]
fn stopping_in_the_middle_of_an_attempt_releases_what_it_won() {
    let mut instance = contender();
    instance.decide(at(0), observed(None, 0));
    let stop = instance.decide(at(50), Event::Stop);
    assert_eq!((stop.announce, stop.act), (None, None));
    let won = instance.decide(at(60), applied(2));
    assert_eq!(won.announce, None, "the owner is gone; a term would be news to nobody");
    assert!(matches!(won.act, Some(Act::Release { .. })));
}

#[test]
fn an_instance_that_resigned_lets_others_poll_first() {
    let mut instance = holder();
    let next = Succession::Successor { id: "b".to_string(), grace: LEASE };
    let resigned = instance.decide(at(100), Event::Resign { next: next.clone() });
    let release = Act::Release { term: term(2, 1), next };
    assert_eq!(resigned.act, Some(release));
    let released = instance.decide(at(110), applied(105));
    assert_eq!(released.wake.map(|wake| wake.at), Some(at(110) + LEASE));
    assert!(!instance.has_ended());
}

#[test]
fn one_that_resigned_attempts_nothing_for_a_lease_although_its_owner_asks() {
    for asks_while_it_releases in [true, false] {
        let mut instance = holder();
        instance.decide(at(100), Event::Resign { next: Succession::Anyone });
        instance.decide(at(100), Event::Contend(false));
        let mut events = [Event::Contend(true), applied(105)];
        if !asks_while_it_releases {
            events.reverse();
        }
        let [_, polls] = events.map(|event| instance.decide(at(110), event).act);
        assert_eq!(polls, Some(Act::Observe), "its owner wants to know");
        let free = || Some(row(Timestamp::EPOCH, spanner(105), Writer::nobody()));
        let waits = instance.decide(at(130), observed(free(), 125));
        let from = at(100) + LEASE;
        assert_eq!((waits.act, waits.wake.map(|wake| wake.at)), (None, Some(from)));
        assert_eq!(instance.decide(from, Event::Wake).act, Some(Act::Observe));
        let takes = instance.decide(from, observed(free(), 125 + 10_000)).act;
        assert!(matches!(takes, Some(Act::Takeover { .. })));
    }
}

#[test]
fn after_an_unknown_attempt_the_next_one_waits() {
    let mut instance = contender();
    instance.decide(at(0), observed(None, 0));
    instance.decide(at(10), UNKNOWN);
    let not_ours = instance.decide(at(20), observed(None, 20));
    assert_eq!(not_ours.act, None);
    let wake = not_ours.wake.expect("it tries again").at;
    assert_eq!(wake, at(10 + 250));
    instance.decide(wake, Event::Wake);
    assert!(matches!(instance.decide(wake, observed(None, 300)).act, Some(Act::Insert { .. })));
}

/// Returns an instance that nobody has asked for anything yet.
fn idle() -> Instance {
    let mut instance = Instance::new("a", NONCE, Timing::from_lease(LEASE), at(0));
    assert_eq!(instance.decide(at(0), Event::Contend(false)), Decision::default());
    instance
}

fn released_by_owner() -> Option<Announcement> {
    Some(Announcement::Ended { token: spanner(2), reason: EndReason::Released })
}

#[test]
fn asking_again_polls_at_once_and_asking_twice_under_way_changes_nothing() {
    let mut instance = idle();
    instance.decide(at(0), Event::Contend(true));
    assert_eq!(instance.decide(at(1), Event::Contend(true)).act, None, "it polls already");
    assert_eq!(instance.decide(at(2), observed(Some(rivals_row(0)), 0)).act, None);
    assert_eq!(instance.decide(at(3), Event::Contend(true)).act, Some(Act::Observe));
}

#[test]
fn a_poll_that_nobody_wants_any_more_takes_nothing() {
    let mut instance = contender();
    assert_eq!(instance.decide(at(1), Event::Contend(false)), Decision::default());
    assert_eq!(instance.decide(at(2), observed(None, 0)), Decision::default());
}

#[test]
fn an_attempt_that_nobody_wants_any_more_is_released_unless_it_is_wanted_again() {
    for (wanted_again, unknown) in [(false, false), (false, true), (true, false)] {
        let mut instance = contender();
        instance.decide(at(0), observed(None, 0));
        assert_eq!(instance.decide(at(50), Event::Contend(false)).act, None);
        if wanted_again {
            assert_eq!(instance.decide(at(55), Event::Contend(true)).act, None);
        }
        let won = if unknown {
            assert_eq!(instance.decide(at(60), UNKNOWN).act, Some(Act::Observe));
            instance.decide(at(65), observed(Some(row(spanner(2), spanner(2), writer(1))), 60))
        } else {
            instance.decide(at(60), applied(2))
        };
        assert_eq!(won.announce.is_some(), wanted_again, "a term is news to those who want it");
        assert_eq!(matches!(won.act, Some(Act::Release { .. })), !wanted_again);
        assert!(!instance.has_ended());
    }
}

#[test]
fn a_term_that_is_not_wanted_any_more_is_given_up_before_its_release_leaves() {
    let mut instance = holder();
    let unwanted = instance.decide(at(100), Event::Contend(false));
    assert_eq!(unwanted.announce, released_by_owner());
    assert!(matches!(unwanted.act, Some(Act::Release { next: Succession::InLine { .. }, .. })));
    assert_eq!(instance.decide(at(110), applied(105)), Decision::default());
    assert_eq!(instance.decide(at(110), Event::Contend(true)).act, Some(Act::Observe));
}

#[test]
fn who_is_wanted_again_while_it_releases_polls_once_it_has() {
    let mut instance = holder();
    instance.decide(at(100), Event::Contend(false));
    assert_eq!(instance.decide(at(105), Event::Contend(true)).act, None);
    assert_eq!(instance.decide(at(110), applied(105)).act, Some(Act::Observe));
}

#[test]
fn who_lets_go_gives_others_one_poll_and_no_more() {
    let mut instance = holder();
    let let_go = instance.decide(at(100), LET_GO);
    assert_eq!(let_go.announce, released_by_owner());
    let wake = instance.decide(at(110), applied(105)).wake.expect("it goes on");
    let poll = Timing::from_lease(LEASE).poll_interval;
    assert_eq!(wake.at + wake.spread, at(110) + poll);
    assert_eq!(contender().decide(at(1), LET_GO).act, None, "there is nothing to let go");
}

#[test]
fn a_lapsed_term_is_over_here_and_left_to_run_out_there() {
    let mut instance = holder();
    let lapsed = instance.decide(at(100), Event::Lapse);
    let reason = EndReason::Lapsed;
    assert_eq!(lapsed.announce, Some(Announcement::Ended { token: spanner(2), reason }));
    assert_eq!(lapsed.act, Some(Act::Observe), "nothing is written");
    // Its work may still go on, so its own row is left alone until its validity is over.
    let own = row(spanner(2), spanner(2), writer(1));
    let waits = instance.decide(at(110), observed(Some(own), 110));
    assert_eq!((waits.act, instance.term()), (None, None));
    let mut unwanted = holder();
    unwanted.decide(at(100), Event::Lapse);
    assert_eq!(unwanted.decide(at(100), Event::Contend(false)), Decision::default());
}

#[test]
fn an_answer_has_half_of_the_lease_and_fifteen_seconds_however_long_it_is() {
    let limit = |lease| Timing::from_lease(Duration::from_secs(lease)).attempt_limit();
    assert_eq!((limit(4), limit(30)), (Duration::from_secs(2), Duration::from_secs(15)));
    assert_eq!(limit(86_400), Duration::from_secs(15));
}
