//! Getting a lock that nobody holds, and keeping it.

use std::collections::BTreeSet;
use std::time::Duration;

use spindle::health::Role;
use spindle_emulator::Rpc;
use tokio::time::sleep;

use crate::world::{Contender, LEASE, LOCK, World, lock_of, pair, timed};

#[tokio::test(start_paused = true)]
async fn an_instance_alone_takes_a_free_lock() {
    let world = World::start().await;
    let a = Contender::run(world.lock("a").info("10.0.0.1:80"));
    let token = a.holds().await;

    let row = world.row(LOCK).unwrap();
    assert_eq!(row.token, Some(i128::from(token.as_nanoseconds())));
    assert_eq!(row.heartbeat, row.token, "both are the commit timestamp");
    assert!(row.writer.unwrap().starts_with("a#"));

    assert_eq!(a.lock.verify().await.unwrap(), token);
    assert_eq!(a.lock.health().role, Role::Holds(token));
    assert!(a.lock.health().is_ready());
    let leader = a.lock.inspect().await.unwrap();
    assert_eq!((leader.holder(), leader.token), (Some("a"), Some(token)));
    assert_eq!((leader.info.as_deref(), leader.lease), (Some("10.0.0.1:80"), Some(LEASE)));
    a.stop().await;
    assert!(!world.table().inspect(LOCK).await.unwrap().is_held());
}

#[tokio::test(start_paused = true)]
async fn of_racing_first_acquisitions_one_wins_and_nobody_takes_over_while_heartbeats_flow() {
    let world = World::start().await;
    let contenders: Vec<_> = (0..8).map(|n| world.contend(&format!("node-{n}"))).collect();
    let mut tokens = BTreeSet::new();
    for step in 0..1_500 {
        let held: Vec<_> = contenders.iter().filter_map(|it| it.lock.has_lock()).collect();
        assert!(held.len() <= 1, "two hold at once: {held:?}");
        tokens.extend(held);
        sleep(Duration::from_millis(if step < 1_000 { 20 } else { 500 })).await;
    }
    assert_eq!(tokens.len(), 1, "the winner keeps it: {tokens:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_costs_two_requests_a_heartbeat_and_a_contender_one_a_poll() {
    let (world, a, b) = pair().await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 30).await;

    let (reads, commits) = (requests.get(Rpc::StreamingRead), requests.get(Rpc::Commit));
    assert_eq!(requests.total(), reads + commits, "nothing else: {:?}", requests.each());
    // A heartbeat each third of a lease, of one read and one commit.
    assert!((86..=94).contains(&commits), "{commits} commits");
    // A poll each 0.75 to 1 s.
    let polls = reads - commits;
    assert!((295..=410).contains(&polls), "{polls} polls");
    a.stop().await;
    b.stop().await;
}

#[tokio::test(start_paused = true)]
async fn instances_of_one_lock_in_one_process_share_their_polls() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let table = world.table();
    let waiting = |n| Contender::run(lock_of(&table, LOCK).id(format!("b{n}")));
    let several: Vec<_> = (0..3).map(waiting).collect();
    sleep(LEASE).await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 30).await;
    let polls = requests.get(Rpc::StreamingRead) - requests.get(Rpc::Commit);
    // As many as one contender sends.
    assert!((250..=410).contains(&polls), "{polls} polls of three");
    for contender in several {
        contender.stop().await;
    }
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_free_lock_is_held_within_20_ms_of_running() {
    let world = World::start().await;
    let table = world.table();
    table.check().await.unwrap();
    let (_, taken) = timed(Contender::run(lock_of(&table, LOCK)).holds()).await;
    // On the virtual clock only what the protocol waits for counts.
    assert!(taken < Duration::from_millis(20), "{taken:?}");
}
