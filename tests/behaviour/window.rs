//! Many locks on servers in trouble: one that ends a transaction when another begins, one that
//! aborts, one that blocks. No held lock pays for it, and the load stays bounded.

use std::time::Duration;

use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep};

use crate::many::{Locks, names};
use crate::world::{LEASE, World};

/// More than two requests' worth: their transactions are open side by side.
const LOCKS: usize = 2_500;

#[tokio::test(start_paused = true)]
async fn transactions_that_end_each_other_cost_no_term_and_few_requests() {
    let world = World::start().await;
    let ends = world.spanner.inject(Fault::any().effect(Effect::EndEarlier));
    let locks = Locks::holding(&world.table(), names(LOCKS)).await;
    let waiting = Locks::start(&world.table(), names(10));
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
    for one_at_a_time in [false, true] {
        let world = World::start().await;
        let table = world.table();
        let locks = Locks::holding(&table, names(LOCKS)).await;
        let tokens = locks.tokens();
        for n in 0..9 {
            let blocked = Fault::on(Rpc::Commit).key(format!("blocked-{n}"));
            world.spanner.inject(blocked.effect(Effect::Delay(Duration::from_secs(10))));
        }
        if one_at_a_time {
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
            assert_eq!(held, LOCKS, "one at a time: {one_at_a_time}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reads_that_are_aborted_delay_a_free_lock_by_no_more_than_two_seconds() {
    let world = World::start().await;
    let table = world.table();
    let kept = Locks::holding(&table, ["kept".to_string()]).await;
    let tokens = kept.tokens();
    // As many as it takes, once in a thousand times, to get past a dead process's transaction where
    // each read has a chance of one in five.
    let aborts = Fault::on(Rpc::StreamingRead).key("free").times(30).effect(Effect::Abort);
    world.spanner.inject(aborts);
    let took = Locks::start(&table, ["free".to_string()]).until_so_many_held(1).await;
    assert!(took < Duration::from_secs(2), "{took:?}");
    // And a holder's, as many as it takes once in fifteen times: heartbeats have fewer repeats at once.
    let aborts = Fault::on(Rpc::StreamingRead).key("kept").times(12).effect(Effect::Abort);
    world.spanner.inject(aborts);
    sleep(LEASE * 3).await;
    assert_eq!(kept.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn the_oldest_terms_outlive_overload_and_all_locks_are_held_after_it() {
    const LOCKS: usize = 1_500;
    // So long that a request takes a few dozen of them: a thousand are many requests.
    let long = "n".repeat(4_000);
    let world = World::start().await;
    let takes = |milliseconds| Effect::Queue(Duration::from_millis(milliseconds));
    world.spanner.inject(Fault::any().effect(takes(50)));
    let locks = Locks::start(&world.table(), names(LOCKS).map(|name| long.clone() + &name));
    sleep(LEASE * 3).await;
    let mut oldest: Vec<_> = locks.tokens().into_iter().flatten().collect();
    oldest.sort_unstable();
    assert!(oldest.len() >= 200, "{} held", oldest.len());
    // A request's worth.
    oldest.truncate(80);
    // Now it carries a third of that.
    world.spanner.clear_faults();
    world.spanner.inject(Fault::any().effect(takes(150)));
    sleep(LEASE * 4).await;
    let now = locks.tokens();
    let kept = oldest.iter().filter(|token| now.contains(&Some(**token))).count();
    assert_eq!(kept, oldest.len(), "of {} that are held", locks.held());
    world.spanner.clear_faults();
    // Some pauses, and a turn of all.
    let start = Instant::now();
    while locks.held() < LOCKS {
        assert!(start.elapsed() < LEASE * 18, "{} held", locks.held());
        sleep(LEASE / 10).await;
    }
}
