//! Spanner answers slowly, all the time.

use std::time::Duration;

use spindle::{LockTable, TermEnd};
use spindle_emulator::{Effect, Fault, FaultHandle, Rpc};
use tokio::time::{sleep, timeout};

use crate::log::Log;
use crate::world::{Contender, EVENTUALLY, LEASE, LOCK, World, lock_of};

const MINUTE: Duration = Duration::from_secs(60);

/// Holds up each read and each commit, so that a transaction takes this long.
fn slow_down(world: &World, transaction: Duration) -> [FaultHandle; 2] {
    let half = Effect::Delay(transaction / 2);
    [Rpc::StreamingRead, Rpc::Commit].map(|rpc| world.spanner.inject(Fault::on(rpc).effect(half)))
}

/// A process that contends for this lock.
fn contend(world: &World, lock: &str, lease: Duration) -> Contender {
    Contender::run(lock_of(&world.table(), lock).lease(lease))
}

/// Its 600 heartbeats and more are many for 50 phases.
#[tokio::test(start_paused = true)]
async fn transactions_of_a_third_of_a_lease_of_2s_end_no_term_and_blind_nobody() {
    outlives(Duration::from_secs(2), 10).await;
}

#[tokio::test(start_paused = true)]
async fn transactions_of_a_third_of_a_lease_of_5s_end_no_term_and_blind_nobody() {
    outlives(Duration::from_secs(5), 50).await;
}

#[tokio::test(start_paused = true)]
async fn transactions_of_a_third_of_a_lease_of_10s_end_no_term_and_blind_nobody() {
    outlives(Duration::from_secs(10), 50).await;
}

#[tokio::test(start_paused = true)]
async fn transactions_of_a_third_of_a_lease_of_30s_end_no_term_and_blind_nobody() {
    outlives(Duration::from_secs(30), 50).await;
}

/// Tries 0.35 of the lease for ten minutes, from several moments between two heartbeats on.
async fn outlives(lease: Duration, phases: u32) {
    let world = World::start().await;
    let mut pairs = Vec::new();
    for phase in 0..phases {
        let name = format!("job-{phase}");
        let holder = contend(&world, &name, lease);
        let token = holder.holds().await;
        pairs.push((holder, token, contend(&world, &name, lease)));
        sleep(lease / 3 / phases).await;
    }
    let slow = slow_down(&world, lease / 100 * 35);
    sleep(MINUTE * 10).await;
    let lost: Vec<_> =
        pairs.iter().filter(|(holder, token, _)| holder.lock.has_lock() != Some(*token)).collect();
    assert!(lost.is_empty(), "{} of {phases} terms were lost", lost.len());
    let mut next = Vec::new();
    for (holder, token, contender) in pairs {
        holder.cancel.cancel();
        next.push((holder.running, token, contender));
    }
    for (running, token, contender) in next {
        timeout(lease * 2, running).await.expect("it is released").unwrap();
        let taken = timeout(lease * 2, contender.holds()).await.expect("the other one sees that");
        assert!(taken > token);
    }
    slow.iter().for_each(FaultHandle::remove);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_ends_of_slowness_says_what_was_measured_and_which_lease_would_do() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let holder = world.elect("a").await;
    let term = holder.lock.term().unwrap();
    let _slow = slow_down(&world, LEASE / 100 * 45);
    timeout(EVENTUALLY, term.cancelled()).await.expect("it is lost");
    let Some(TermEnd::OutOfContact { contact: Some(contact), .. }) = term.ended() else {
        panic!("{:?}", term.ended())
    };
    let text = contact.to_string();
    assert_eq!(text, "heartbeats took 4.5s; lease 10s carries 3.5s; a lease of 13s would do");
    assert!(log.the("term ends unexpectedly").says(&text));
    let refused = term.fence().write(&world.client().await, []).await.unwrap_err();
    assert!(refused.is_fenced() && refused.to_string().ends_with(&text), "{refused}");
    let trouble = holder.lock.health().trouble.expect("it is in trouble").error.to_string();
    assert!(trouble.contains(&text), "{trouble}");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_ends_of_silence_blames_no_slowness_of_the_term_before() {
    let world = World::start().await;
    let holder = world.elect("a").await;
    let slow = slow_down(&world, LEASE / 100 * 45);
    holder.holds_no_more().await;
    slow.iter().for_each(FaultHandle::remove);
    holder.holds().await;
    let term = holder.lock.term().unwrap();
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    timeout(EVENTUALLY, term.cancelled()).await.expect("it is lost");
    let Some(TermEnd::OutOfContact { contact: Some(contact), .. }) = term.ended() else {
        panic!("{:?}", term.ended())
    };
    assert!(contact.to_string().starts_with("no answer for"), "{contact}");
}

#[tokio::test(start_paused = true)]
async fn a_term_that_a_read_has_found_counts_silence_from_then_on() {
    let world = World::start().await;
    let lost = Fault::on(Rpc::Commit).table("locktable").key(LOCK).times(1);
    world.spanner.inject(lost.effect(Effect::LoseReply));
    let holder = world.elect("a").await;
    let term = holder.lock.term().unwrap();
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    timeout(EVENTUALLY, term.cancelled()).await.expect("it is lost");
    let Some(TermEnd::OutOfContact { contact: Some(contact), .. }) = term.ended() else {
        panic!("{:?}", term.ended())
    };
    assert!(contact.silent_for <= LEASE, "{contact}");
}

#[tokio::test(start_paused = true)]
async fn while_a_heartbeat_has_no_answer_no_other_leaves_for_the_same_term() {
    let world = World::start().await;
    let table: LockTable = world.table();
    let holders = ["a", "b"].map(|name| Contender::run(lock_of(&table, name)));
    for holder in &holders {
        holder.holds().await;
    }
    let requests = world.spanner.requests();
    let _slow = slow_down(&world, LEASE / 100 * 35);
    // The first of them finds out how slow it is.
    sleep(LEASE).await;
    requests.reset();
    sleep(MINUTE * 10).await;
    let commits = requests.get(Rpc::Commit);
    // One each 3.5 s, for both.
    assert!((165..=175).contains(&commits), "{commits} commits");
}
