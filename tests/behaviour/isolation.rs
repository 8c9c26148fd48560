//! Locks in trouble, and the batches that they are sent in: none has another's, and the load of all
//! stays bounded.

use std::time::Duration;

use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep};

use crate::many::{Fleet, names};
use crate::world::{LEASE, World, until};

const LOCKS: usize = 200;
const SICK: &str = "many-0011";

fn fails() -> Fault {
    Fault::on(Rpc::Commit).key(SICK).effect(Effect::Fail(Code::Unavailable))
}

#[tokio::test(start_paused = true)]
async fn a_spanner_that_refuses_everything_is_asked_no_more_than_the_bound_on_load_allows() {
    let effects = [
        (Rpc::Commit, Effect::Abort),
        (Rpc::Commit, Effect::Fail(Code::FailedPrecondition)),
        (Rpc::Commit, Effect::Fail(Code::AlreadyExists)),
        (Rpc::Commit, Effect::Fail(Code::Unavailable)),
        (Rpc::Commit, Effect::Stall),
        (Rpc::StreamingRead, Effect::Fail(Code::Unavailable)),
        (Rpc::StreamingRead, Effect::Abort),
        (Rpc::StreamingRead, Effect::Fail(Code::NotFound)),
        (Rpc::Commit, Effect::Fail(Code::NotFound)),
    ];
    for (rpc, effect) in effects {
        let world = World::start().await;
        let requests = world.spanner.requests();
        world.spanner.inject(Fault::on(rpc).effect(effect));
        let fleet = Fleet::start(&world.table(), names(LOCKS));
        // The first attempts, which healthy locks make too.
        sleep(Duration::from_secs(1)).await;
        for _ in 0..12 {
            requests.reset();
            sleep(Duration::from_secs(10)).await;
            // Ten polls, as a healthy process of contenders has them, and three more a second.
            assert!(requests.total() <= 40, "{effect:?}: {:?}", requests.each());
        }
        drop(fleet);
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_that_are_all_refused_are_not_repeated_one_by_one() {
    for effect in [Effect::Abort, Effect::Fail(Code::Unavailable)] {
        let world = World::start().await;
        let requests = world.spanner.requests();
        let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
        sleep(LEASE).await;
        world.spanner.inject(Fault::on(Rpc::Commit).effect(effect));
        requests.reset();
        until("their terms are over", || (fleet.held() == 0).then_some(())).await;
        assert!(requests.total() < 4 * LOCKS as u64, "{effect:?}: {:?}", requests.each());
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_commits_always_fail_delays_no_heartbeat_of_others() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(51)).await;
    let tokens = fleet.tokens();
    world.spanner.inject(fails());
    fleet.keeps(&tokens, 11).await;
    assert_eq!(fleet.tokens()[11], None, "its own heartbeats fail");
}

#[tokio::test(start_paused = true)]
async fn rows_whose_commits_always_fail_delay_no_heartbeat_of_others() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    let mut tokens = fleet.tokens();
    let sick = [3, 50, 51, 90, 130, 131, 180];
    for n in sick {
        let fails = Fault::on(Rpc::Commit).key(format!("many-{n:04}"));
        world.spanner.inject(fails.effect(Effect::Fail(Code::Unavailable)));
    }
    sleep(LEASE * 3).await;
    for n in sick {
        tokens[n] = None;
    }
    assert_eq!(fleet.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_commits_always_fail_keeps_no_other_from_beginning() {
    let world = World::start().await;
    world.spanner.inject(fails());
    let fleet = Fleet::start(&world.table(), names(51));
    let start = Instant::now();
    until("all others are held", || (fleet.held() == 50).then_some(())).await;
    assert!(start.elapsed() < LEASE * 3, "{:?}", start.elapsed());
    let tokens = fleet.tokens();
    fleet.keeps(&tokens, 11).await;
}

#[tokio::test(start_paused = true)]
async fn trouble_is_remembered_by_row_whoever_asks_for_it_next() {
    let world = World::start().await;
    let table = world.table();
    let kept = Fleet::holding(&table, ["kept".to_string()]).await;
    world.spanner.inject(fails());
    for round in 0..10 {
        let others = (0..9).map(|n| format!("other-{round}-{n}"));
        // The sick one is another instance each time.
        let fleet = Fleet::start(&table, others.chain([SICK.to_string()]));
        let start = Instant::now();
        until("all others are held", || (fleet.held() == 9).then_some(())).await;
        let is_known = round > 0;
        // Without an attempt whose outcome is unknown, and without a pause after one.
        assert!(!is_known || start.elapsed() < LEASE / 100, "{round}: {:?}", start.elapsed());
        drop(fleet);
        sleep(LEASE / 10).await;
    }
    assert_eq!(kept.held(), 1);
}
