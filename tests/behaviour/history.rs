//! Old versions of a lock's row tell its past.

use std::time::Duration;

use spindle::{
    LockTable,
    operate::{Cause, HistoryEnd, PastTerm},
};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Restart, Rpc};
use tokio::time::sleep;

use crate::log::Log;
use crate::takeover::of_peer;
use crate::world::{Contender, FOUR_COLUMNS, LEASE, LOCK, NOW, World, timed, until};

async fn history(table: &LockTable) -> (Vec<PastTerm>, HistoryEnd, u64) {
    let mut history = table.history(LOCK);
    let mut terms = Vec::new();
    while let Some(term) = history.next().await.unwrap() {
        terms.push(term);
    }
    (terms, history.ended().unwrap(), history.reads())
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_had_has_no_history() {
    let world = World::start().await;
    // Besides the row as it is, it looks where one may have been deleted.
    assert_eq!(history(&world.table()).await, (Vec::new(), HistoryEnd::NoRow, 4));
}

#[tokio::test(start_paused = true)]
async fn each_term_is_told_with_its_end_its_cause_and_the_vacancy_before_it() {
    let world = World::start().await;
    let table = world.table();
    let a = Contender::run(world.lock("a").info("10.0.0.7"));
    let first = a.holds().await;
    sleep(LEASE).await;
    a.stop().await;
    sleep(LEASE * 2).await;
    let b = world.elect("b").await;
    let second = b.lock.has_lock().unwrap();

    let (terms, end, reads) = history(&table).await;
    assert_eq!((terms.len(), end), (2, HistoryEnd::NoRow));
    assert!(reads <= 1 + 4 * 2, "{reads}");
    let [now, before] = &terms[..] else { unreachable!() };
    assert_eq!((now.holder.as_str(), now.token), ("b", second));
    assert_eq!((&now.cause, now.end), (&None, None));
    let vacancy = now.vacancy.unwrap();
    assert!(vacancy >= LEASE * 2 && vacancy < LEASE * 3, "{vacancy:?}");
    assert_eq!((before.holder.as_str(), before.token), ("a", first));
    assert_eq!((&before.cause, before.vacancy), (&Some(Cause::Released), None));
    assert_eq!(before.info.as_deref(), Some("10.0.0.7"));
    assert!(before.end.unwrap() <= now.token.to_datetime() - vacancy);
    assert!(before.heartbeat > before.token.to_datetime(), "it lived for a lease");
}

#[tokio::test(start_paused = true)]
async fn the_grace_of_a_successor_is_no_vacancy() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let b = Contender::run(world.lock("b"));
    a.lock.resign().to("b").await.unwrap();
    b.holds().await;
    let (terms, ..) = history(&world.table()).await;
    assert_eq!(terms[0].vacancy, Some(Duration::ZERO));
    assert!(matches!(&terms[1].cause, Some(Cause::HandedTo { to, .. }) if to == "b"));
}

#[tokio::test(start_paused = true)]
async fn the_histories_of_gate_and_write_lock_tell_when_a_writer_came_and_when_it_wrote() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let table = world.table();
    let lock = |id: &str| world.rw_lock(id).build().unwrap();
    let reading = lock("r").read().await.unwrap();
    let writer = lock("w");
    let waiting = tokio::spawn(async move { writer.write().await.unwrap() });
    until("the writer waits", || log.saying("stops new readers").pop()).await;
    assert!(log.the("stops new readers").says("id=w"));
    assert_eq!(log.saying("term begins").len(), 1, "the reader's alone");
    reading.release().await;
    let writing = waiting.await.unwrap();
    let token = writing.token();
    writing.release().await;

    for (name, began) in [("spindle:rw:catalogue/write", true), ("spindle:rw:catalogue", false)] {
        let mut history = table.history(name);
        let term = history.next().await.unwrap().unwrap();
        assert_eq!((&*term.holder, term.cause), ("w", Some(Cause::Released)), "{name}");
        assert_eq!(term.token == token, began, "{name}");
        assert!(term.token <= token, "{name}");
        assert_eq!(history.next().await.unwrap(), None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_history_ends_where_spanner_forgets() {
    let world = World::start().await;
    let a = world.elect("a").await;
    a.stop().await;
    sleep(Duration::from_secs(2 * 60 * 60)).await;
    let _b = world.elect("b").await;
    sleep(Duration::from_secs(30 * 60)).await;
    // The release is older than what Spanner keeps, yet the row still shows it as it was.
    let mut history = world.table().history(LOCK).since(Duration::from_secs(3 * 60 * 60));
    let now = history.next().await.unwrap().unwrap();
    assert_eq!((now.holder.as_str(), now.cause), ("b", None));
    assert_eq!(history.next().await.unwrap(), None);
    assert_eq!(history.ended(), Some(HistoryEnd::Forgotten));
}

#[tokio::test(start_paused = true)]
async fn a_history_covers_what_was_asked_for_and_no_more() {
    let world = World::start().await;
    for id in ["a", "b", "c"] {
        let contender = Contender::run(world.lock(id));
        contender.holds().await;
        sleep(Duration::from_secs(600)).await;
        contender.stop().await;
    }
    let mut history = world.table().history(LOCK).since(Duration::from_secs(900));
    let mut holders = Vec::new();
    while let Some(term) = history.next().await.unwrap() {
        holders.push(term.holder);
    }
    assert_eq!(
        (holders, history.ended()),
        (vec!["c".into(), "b".into()], Some(HistoryEnd::Covered))
    );
}

#[tokio::test(start_paused = true)]
async fn a_deleted_row_ends_a_term_in_a_way_that_nobody_knows_and_not_the_history() {
    let world = World::start().await;
    let a = world.elect("a").await;
    sleep(Duration::from_secs(600)).await;
    // Neither the eviction is in the versions that are read, nor the term after it.
    let refused = world.table().evict(LOCK).by("team: db").await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("team: db"), "{refused}");
    world.table().evict(LOCK).by("alice").reason("bad deploy").await.unwrap();
    a.stop().await;
    sleep(LEASE).await;
    world.elect("between").await.stop().await;
    assert!(world.table().remove(LOCK).await.unwrap());
    sleep(LEASE).await;
    let _b = world.elect("b").await;
    let (terms, end, reads) = history(&world.table()).await;
    let told: Vec<_> = terms.iter().map(|term| (term.holder.as_str(), &term.cause)).collect();
    assert!(told.contains(&("a", &Some(Cause::Unknown))), "{told:?}");
    assert_eq!(end, HistoryEnd::NoRow);
    assert!(reads <= 1 + 4 * (terms.len() as u64 + 1), "{reads}");
}

#[tokio::test(start_paused = true)]
async fn each_node_knows_who_leads_without_a_request_and_until_the_lease_is_over() {
    let world = World::start().await;
    let a = Contender::run(world.lock("a").info("10.0.0.7"));
    let token = a.holds().await;
    let known = |contender: &Contender| contender.lock.known_leader().unwrap();
    let age = known(&a).heartbeat_age.unwrap();
    assert!(age < LEASE / 200, "it has just begun, and {age:?} is told");
    let b = world.contend("b");
    sleep(LEASE).await;
    let requests = world.spanner.requests();
    let before = requests.total();
    assert_eq!((known(&a).holder(), known(&a).token), (Some("a"), Some(token)));
    assert_eq!((known(&b).holder(), known(&b).token), (Some("a"), Some(token)));
    assert_eq!(known(&a).info.as_deref(), Some("10.0.0.7"));
    assert_eq!(requests.total(), before, "nothing was asked");

    // Cut off from Spanner, each believes what it knows for a lease, and no longer.
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    sleep(LEASE * 2).await;
    assert_eq!((a.lock.known_leader(), b.lock.known_leader()), (None, None));
}

#[tokio::test(start_paused = true)]
async fn a_term_without_a_heartbeat_ended_before_its_first_and_nothing_more_is_said() {
    let world = World::start().await;
    let table = world.table();
    let a = world.elect("a").await;
    let token = a.lock.has_lock().unwrap();
    // It was told that it holds, and is gone before it could send one.
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    a.cancel.cancel();
    sleep(LEASE * 3).await;
    world.spanner.clear_faults();
    let (terms, ..) = history(&table).await;
    assert_eq!(terms[0].token, token);
    assert_eq!(terms[0].cause, Some(Cause::BeforeHeartbeat));
}

#[tokio::test(start_paused = true)]
async fn a_history_from_a_known_state_tells_the_same_and_reads_one_row_less() {
    let world = World::start().await;
    let table = world.table();
    for id in ["a", "b"] {
        world.elect(id).await.stop().await;
        sleep(LEASE).await;
    }
    let c = world.elect("c").await;
    let latest = table.list().next().await.unwrap().unwrap();
    let (asked, _, reads) = history(&table).await;
    let mut going_on = table.history_from(&latest).since(Duration::from_secs(60 * 60));
    let mut terms = Vec::new();
    while let Some(term) = going_on.next().await.unwrap() {
        terms.push(term);
    }
    let held_by = |terms: &[PastTerm]| -> Vec<_> {
        terms.iter().map(|term| (term.token, term.end, term.cause.clone(), term.vacancy)).collect()
    };
    assert_eq!(held_by(&terms), held_by(&asked));
    assert_eq!(terms.len(), 3);
    assert_eq!(going_on.reads(), reads - 1);

    // A caller that knows the terms already goes back to the latest of them, and no further.
    let known = terms[1].token.to_datetime();
    let window = (latest.read_at - known).to_std().unwrap();
    let mut refreshed = table.history_from(&latest).since(window);
    let newest = refreshed.next().await.unwrap().unwrap();
    assert_eq!((newest.token, newest.vacancy), (terms[0].token, terms[0].vacancy));
    let before = refreshed.next().await.unwrap().unwrap();
    assert_eq!(
        (before.token, before.end, &before.cause),
        (terms[1].token, terms[1].end, &terms[1].cause)
    );
    assert_eq!(refreshed.next().await.unwrap(), None);
    assert_eq!((refreshed.reads(), refreshed.ended()), (2, Some(HistoryEnd::Covered)));
    c.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_history_with_a_pace_waits_before_each_stale_read() {
    let world = World::start().await;
    for id in ["a", "b", "c"] {
        world.elect(id).await.stop().await;
    }
    let mut history = world.table().history(LOCK).pace(Duration::from_millis(110));
    let (_, took) = timed(async { while history.next().await.unwrap().is_some() {} }).await;
    let stale = u32::try_from(history.reads() - 1).unwrap();
    assert!(stale >= 5 && took >= Duration::from_millis(110) * stale, "{stale} in {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_history_ends_where_the_table_had_another_schema() {
    let world = World::start().await;
    world.elect("a").await.stop().await;
    let b = world.elect("b").await;
    // A moment before the table or a column was made is refused with one code or the other.
    for code in [Code::NotFound, Code::InvalidArgument] {
        let mut history = world.table().history(LOCK);
        let row_now = Fault::on(Rpc::StreamingRead).key(LOCK).skip(1);
        let refused = world.spanner.inject(row_now.effect(Effect::Fail(code)));
        let term = history.next().await.unwrap().unwrap();
        assert_eq!((term.holder.as_str(), term.vacancy), ("b", None));
        assert_eq!(history.next().await.unwrap(), None);
        assert_eq!(history.ended(), Some(HistoryEnd::OtherSchema));
        refused.remove();
    }
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_history_goes_on_after_the_loss_of_its_session() {
    let world = World::start().await;
    world.elect("a").await.stop().await;
    let b = world.elect("b").await;
    for reads_before in [0, 1] {
        let table = world.table();
        let mut history = table.history(LOCK);
        if reads_before > 0 {
            assert_eq!(history.next().await.unwrap().unwrap().holder, "b");
        } else {
            table.inspect(LOCK).await.unwrap();
        }
        world.spanner.restart(Restart::keep().lose_sessions()).await.unwrap();
        let mut holders = Vec::new();
        for _ in 0..10 {
            match history.next().await {
                Ok(Some(term)) => holders.push(term.holder),
                Ok(None) => break,
                // The next call begins with the same term.
                Err(error) => assert!(!error.is_config(), "{error}"),
            }
        }
        assert_eq!(holders, &["b", "a"][reads_before..]);
        assert_eq!(history.ended(), Some(HistoryEnd::NoRow));
    }
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_row_that_changes_too_often_between_two_terms_ends_a_history() {
    let world = World::start().await;
    let a = world.elect("a").await;
    a.stop().await;
    for _ in 0..12 {
        world.table().evict(LOCK).to("nobody").await.unwrap();
    }
    let b = world.elect("b").await;
    let (terms, end, reads) = history(&world.table()).await;
    assert_eq!(end, HistoryEnd::TooManyChanges, "{terms:?}");
    assert!(reads <= 1 + 4 * (terms.len() as u64 + 1), "{reads}");
    b.stop().await;
}

/// A row of another implementation, from before the table had all columns.
#[tokio::test(start_paused = true)]
async fn a_history_goes_back_to_the_alter_of_the_table() {
    let world = World::with_table(FOUR_COLUMNS).await;
    world.write(of_peer(LOCK, Some(NOW), NOW)).await;
    sleep(LEASE).await;
    world.alter(include_str!("../../ddl/googlesql-upgrade.sql"));
    let a = world.elect("a").await;
    let (terms, end, _) = history(&world.table()).await;
    let holders: Vec<&str> = terms.iter().map(|term| term.holder.as_str()).collect();
    assert_eq!((&holders[..], end), (&["a", "peer"][..], HistoryEnd::OtherSchema));
    a.stop().await;
}
