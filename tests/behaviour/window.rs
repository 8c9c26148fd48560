//! Many locks on servers in trouble: one that ends a transaction when another begins, one that
//! aborts, one that blocks. No held lock pays for it, and the load stays bounded.

use std::time::Duration;

use spindle::{Database, LockTable};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep};

use crate::many::{Locks, names};
use crate::world::{DATABASE, LEASE, World};

/// More than two requests' worth: their transactions are open side by side.
const LOCKS: usize = 2_500;

/// The table as processes have it that take its server for an emulator.
fn one_at_a_time(world: &World) -> LockTable {
    LockTable::new(Database::at(world.spanner.endpoint(), DATABASE), "locktable")
}

#[tokio::test(start_paused = true)]
async fn transactions_that_end_each_other_cost_no_term_and_few_requests() {
    let world = World::start().await;
    let ends = world.spanner.inject(Fault::any().effect(Effect::EndEarlier));
    let locks = Locks::holding(&one_at_a_time(&world), names(LOCKS)).await;
    let waiting = Locks::start(&one_at_a_time(&world), names(10));
    let tokens = locks.tokens();
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 6).await;
    assert_eq!(locks.tokens(), tokens);
    assert_eq!(waiting.held(), 0);
    // Two rounds of three transactions a lease, of two requests each, a poll a second, and three
    // more requests a second.
    let (rounds, polls, more) = (6 * 2 * 3 * 2, 60, 60 * 3);
    assert!(requests.total() <= rounds + polls + more, "{:?}", requests.each());
    assert!(ends.hits() > 0);
}

#[tokio::test(start_paused = true)]
async fn begins_that_are_blocked_cost_no_held_lock_its_term() {
    for is_emulator in [false, true] {
        let world = World::start().await;
        let table = if is_emulator { one_at_a_time(&world) } else { world.table() };
        let locks = Locks::holding(&table, names(LOCKS)).await;
        let tokens = locks.tokens();
        for n in 0..9 {
            let blocked = Fault::on(Rpc::Commit).key(format!("blocked-{n}"));
            world.spanner.inject(blocked.effect(Effect::Delay(Duration::from_secs(10))));
        }
        if is_emulator {
            world.spanner.inject(Fault::any().effect(Effect::EndEarlier));
        }
        // One after another, so that one of them is under way most of the time.
        let mut blocked = Vec::new();
        for n in 0..9 {
            blocked.push(Locks::start(&table, [format!("blocked-{n}")]));
            sleep(LEASE / 9).await;
        }
        for _ in 0..30 {
            sleep(LEASE / 10).await;
            let held = locks.tokens().iter().zip(&tokens).filter(|(now, then)| now == then).count();
            assert_eq!(held, LOCKS, "an emulator: {is_emulator}");
            // A heartbeat that waited for a begin would take most of the lease.
            let remaining = locks.remaining();
            assert!(remaining > LEASE * 9 / 20, "an emulator: {is_emulator}, {remaining:?}");
        }
        // Twelve rounds of three requests each, and the begins.
        let requests = world.spanner.requests();
        assert!(
            requests.get(Rpc::Commit) <= 150,
            "an emulator: {is_emulator}, {:?}",
            requests.each()
        );
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_are_aborted_delay_a_free_lock_by_no_more_than_two_seconds() {
    let world = World::start().await;
    let table = world.table();
    let kept = Locks::holding(&table, ["kept".to_string()]).await;
    let tokens = kept.tokens();
    // As many as it takes, once in fifteen times, to get past a dead process's transaction where each read
    // has a chance of one in five.
    let aborts = Fault::on(Rpc::StreamingRead).key("free").times(12).effect(Effect::Abort);
    world.spanner.inject(aborts);
    let took = Locks::start(&table, ["free".to_string()]).until_so_many_held(1).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    // And a holder's.
    let aborts = Fault::on(Rpc::StreamingRead).key("kept").times(12).effect(Effect::Abort);
    world.spanner.inject(aborts);
    sleep(LEASE * 3).await;
    assert_eq!(kept.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn what_is_held_on_a_server_that_can_t_hold_all_stays_held_and_the_rest_follows() {
    const LOCKS: usize = 1_500;
    // So long that a request takes a few dozen of them: a thousand are many requests.
    let long = "n".repeat(4_000);
    let world = World::start().await;
    // About half of what all of them need.
    world.spanner.inject(Fault::any().effect(Effect::Queue(Duration::from_millis(150))));
    let locks = Locks::start(&world.table(), names(LOCKS).map(|name| long.clone() + &name));
    let mut most = 0;
    for _ in 0..24 {
        sleep(LEASE / 2).await;
        let held = locks.held();
        most = most.max(held);
        assert!(held * 20 >= most * 19, "{held} of {most}");
    }
    assert!((LOCKS / 4..LOCKS * 3 / 4).contains(&most), "{most}");
    world.spanner.clear_faults();
    let start = Instant::now();
    while locks.held() < LOCKS {
        assert!(start.elapsed() < LEASE * 18, "{} held", locks.held());
        sleep(LEASE / 10).await;
    }
}
