//! The bytes that polls bring: a text of the holder's own is read by who asks for it alone.

use spindle::testing::Clock;
use spindle::{Database, LockTable};
use spindle_fleet::Shard;
use spindle_fleet::{Member, Semaphore};
use tokio::time::sleep;

use crate::fleet::{Fleet, Worker};
use crate::line::Line;
use crate::world::{Contender, DATABASE, LEASE, LOCK, World, lock_of, until};

const TEXT: usize = 4_000;
/// The most bytes of an answer to a poll of a row, without the text.
const ROW: u64 = 1_000;

/// A table by a line of its own.
fn watched(world: &World) -> (LockTable, Line) {
    let line = world.line();
    (LockTable::new(Database::at(line.endpoint(), DATABASE).side_by_side(), "locktable"), line)
}

/// How much comes by this line in three leases, for each poll.
async fn bytes_a_poll(line: &Line) -> u64 {
    sleep(LEASE).await;
    let before = line.brought();
    sleep(LEASE * 3).await;
    // A poll each 0.75 to 1 s.
    (line.brought() - before) / 30
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_lock_reads_no_text_of_its_holder() {
    let world = World::start().await;
    let a = Contender::run(world.lock("a").info("x".repeat(TEXT)));
    a.holds().await;
    let (table, line) = watched(&world);
    let b = Contender::run(lock_of(&table, LOCK));
    let bytes = bytes_a_poll(&line).await;
    assert!(bytes < ROW, "{bytes} bytes a poll");
    assert!(b.is_standby());
    assert_eq!(b.lock.inspect().await.unwrap().info.map(|info| info.len()), Some(TEXT));
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_permit_reads_no_text_of_those_who_have_one() {
    let world = World::start().await;
    let has = world.semaphore("a", 1).info("x".repeat(TEXT)).build().unwrap();
    let _permit = has.acquire().await.unwrap();
    let (table, line) = watched(&world);
    let waits = Semaphore::new(&table, "uploads", 1).id("b").lease(LEASE).clock(Clock::runtime());
    let waits = waits.build().unwrap();
    let _waiting = tokio::spawn(async move { drop(waits.acquire().await) });
    let bytes = bytes_a_poll(&line).await;
    assert!(bytes < ROW, "{bytes} bytes a poll");
}

#[tokio::test(start_paused = true)]
async fn the_text_of_a_member_stands_in_no_shard() {
    const SHARDS: usize = 20;
    let fleet = Fleet::start(SHARDS).await;
    let (table, line) = watched(&fleet.world);
    let join = [fleet.table(), table].into_iter().zip(["a", "b"]).map(|(table, id)| {
        let member = Member::new(&table, "orders").id(id).info("x".repeat(TEXT)).lease(LEASE);
        let member = member.clock(Clock::runtime()).build().unwrap();
        Worker::run(member.shards("partitions", SHARDS), |shard: Shard| async move {
            shard.cancelled().await;
        })
    });
    let workers: Vec<Worker> = join.collect();
    let settled = || workers.iter().all(|it| it.shards.is_settled()).then_some(());
    until("all are shared", settled).await;
    let bytes = bytes_a_poll(&line).await;
    // Its heartbeats beside.
    assert!(bytes < ROW + SHARDS as u64 * 300, "{bytes} bytes a poll");
    for shard in ["0", "19"] {
        let state =
            fleet.table().inspect(&format!("spindle:shard:orders/partitions/{shard}")).await;
        let state = state.unwrap();
        assert!(state.is_held() && state.info.is_none(), "{state:?}");
    }
}
