//! Several runtimes use one table, and none waits for another.
//!
//! Real runtimes and a real clock: one that is blocked, not driven, or dropped has no virtual one.

use std::time::Duration;

use spindle::{CancellationToken, LockTable};
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::{Member, Semaphore};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

use crate::threads::at_once;
use crate::world::{LOCK, TABLE, World, runtime, until};

/// Far more than a request takes, and far less than a caller has.
const SOON: Duration = Duration::from_secs(15);

/// Returns a runtime that has sent a read, of which the answer is still to come.
fn asking(world: &World, table: &LockTable) -> Runtime {
    let stall = Fault::on(Rpc::StreamingRead).times(1).effect(Effect::Stall);
    let stall = world.spanner.inject(stall);
    let asking = runtime();
    asking.block_on(async {
        let looking = async {
            let _ = table.inspect(LOCK).await;
        };
        let asked = until("it has asked", || (stall.hits() > 0).then_some(()));
        tokio::select! {
            () = looking => panic!("the read is unanswered"),
            () = asked => {}
        }
    });
    asking
}

/// Acquires on a runtime of its own.
fn acquires_soon(table: &LockTable) {
    runtime().block_on(async {
        let begun = Instant::now();
        let lock = table.lock(LOCK).build().unwrap();
        let guard = lock.acquire().within(Duration::from_secs(25)).await.unwrap();
        assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
        guard.release().await;
    });
}

#[test]
fn a_client_whose_runtime_is_gone_says_so_and_a_fence_needs_a_runtime() {
    let (_elsewhere, world) = World::elsewhere(TABLE);
    let (gone, here) = (runtime(), runtime());
    let client = gone.block_on(world.client());
    let table = LockTable::new(client.clone(), "locktable");
    gone.block_on(table.check()).unwrap();
    drop(gone);
    let dead = here.block_on(table.inspect(LOCK)).unwrap_err().to_string();
    assert!(dead.contains("the runtime that made this client is gone"), "{dead}");
    let lock = world.table().lock(LOCK).build().unwrap();
    let guard = here.block_on(lock.acquire()).unwrap();
    let refused = at_once(guard.fence().write(&client, [])).unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("runtime"), "{refused}");
}

/// Tokio itself panics where a runtime lacks what is asked of it, or waits for ever.
#[test]
fn a_runtime_without_timers_or_without_i_o_gets_an_error() {
    let (elsewhere, world) = World::elsewhere(TABLE);
    let with = |enable: fn(&mut Builder) -> &mut Builder| {
        enable(&mut Builder::new_current_thread()).build().unwrap()
    };
    for (runtime, lacks) in
        [(with(Builder::enable_io), "no timers"), (with(Builder::enable_time), "no i/o")]
    {
        runtime.block_on(async {
            let table = world.table();
            let lock = || table.lock(LOCK).build().unwrap();
            let cancel = CancellationToken::new;
            for (call, ended) in [
                ("acquire", lock().acquire().await.map(drop)),
                ("acquire_within", lock().acquire().within(SOON).await.map(drop)),
                ("try_acquire", lock().try_acquire().await.map(drop)),
                ("run", lock().run(cancel()).await),
                ("lead", lock().lead(cancel(), |_| async {}).await.map(drop)),
                ("inspect", table.inspect(LOCK).await.map(drop)),
                ("member", Member::new(&table, "g").build().unwrap().run(cancel()).await),
                (
                    "permit",
                    Semaphore::new(&table, "s", 1).build().unwrap().acquire().await.map(drop),
                ),
            ] {
                let refused = ended.expect_err(call);
                assert!(refused.is_config(), "{call}: {refused}");
                assert!(refused.to_string().contains(lacks), "{call}: {refused}");
            }
        });
    }
    // The channels of this client are on the runtime that made it.
    let client = elsewhere.block_on(world.client());
    let lock = LockTable::new(client, "locktable").lock(LOCK).build().unwrap();
    with(Builder::enable_time).block_on(async { lock.acquire().await.unwrap().release().await });
}

#[test]
fn a_runtime_that_is_not_driven_holds_up_no_acquisition_elsewhere() {
    let (_elsewhere, world) = World::elsewhere(TABLE);
    let table = world.table();
    let _idle = asking(&world, &table);
    acquires_soon(&table);
}
