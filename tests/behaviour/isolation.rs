//! Locks in trouble, and the batches that they are sent in: none has another's, and the load of all
//! stays bounded.

use std::time::Duration;

use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::sleep;

use crate::many::{Locks, names};
use crate::world::{LEASE, World, until};

const LOCKS: usize = 200;

/// The effects by which no commit of this lock's row succeeds.
const FAILS: [Effect; 2] = [Effect::Stall, Effect::Fail(Code::Unavailable)];

fn sick(n: usize, effect: Effect) -> Fault {
    Fault::on(Rpc::Commit).key(format!("many-{n:04}")).effect(effect)
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
        let locks = Locks::start(&world.table(), names(LOCKS));
        // The first attempts, which healthy locks make too.
        sleep(Duration::from_secs(1)).await;
        for _ in 0..6 {
            requests.reset();
            sleep(Duration::from_secs(10)).await;
            // Ten polls, as a healthy process of contenders has them, and three more a second.
            assert!(requests.total() <= 40, "{effect:?}: {:?}", requests.each());
        }
        drop(locks);
    }
}

#[tokio::test(start_paused = true)]
async fn heartbeats_that_are_all_refused_are_not_repeated_one_by_one() {
    for effect in [Effect::Abort, Effect::Fail(Code::Unavailable)] {
        let world = World::start().await;
        let requests = world.spanner.requests();
        let locks = Locks::holding(&world.table(), names(LOCKS)).await;
        sleep(LEASE).await;
        world.spanner.inject(Fault::on(Rpc::Commit).effect(effect));
        requests.reset();
        until("their terms are over", || (locks.held() == 0).then_some(())).await;
        // Of each alone there would be a read and a commit at least.
        assert!(requests.total() < LOCKS as u64 * 2, "{effect:?}: {:?}", requests.each());
    }
}

#[tokio::test(start_paused = true)]
async fn rows_whose_commits_always_fail_delay_no_heartbeat_of_others() {
    const ONE: &[usize] = &[11];
    const SEVERAL: &[usize] = &[3, 50, 51, 90, 130, 131, 180];
    for (rows, effect) in [(ONE, FAILS[0]), (ONE, FAILS[1]), (SEVERAL, FAILS[1])] {
        let world = World::start().await;
        let locks = Locks::holding(&world.table(), names(LOCKS)).await;
        let tokens = locks.tokens();
        for n in rows {
            world.spanner.inject(sick(*n, effect));
        }
        locks.keeps(&tokens, rows).await;
        for n in rows {
            assert_eq!(locks.tokens()[*n], None, "its own heartbeats fail");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_commits_always_fail_keeps_no_other_from_beginning() {
    for effect in FAILS {
        let world = World::start().await;
        world.spanner.inject(sick(11, effect));
        let locks = Locks::start(&world.table(), names(LOCKS));
        let took = locks.until_so_many_held(LOCKS - 1).await;
        assert!(took < LEASE * 3, "{effect:?}: {took:?}");
        let tokens = locks.tokens();
        locks.keeps(&tokens, &[11]).await;
    }
}
