//! A flow, one client with its one channel, falls silent without a word: what depends on it goes on.

use std::time::Duration;

use spindle::google_cloud_spanner::channel_pool::StaticChannelPoolConfig;
use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner, SpannerBuilderExt as _};
use spindle::{Database, LockBuilder, LockTable};
use spindle_emulator::{Effect, Fault, Restart, Rpc};
use tokio::time::{Instant, sleep};

use crate::line::Line;
use crate::world::{
    Contender, DATABASE, LEASE, LOCK, TABLE, World, lock_of, runtime, timed, until,
};

const POLL: Duration = Duration::from_secs(1);
/// How long a contender takes from a release to its own term.
const RELEASE_SEEN: Duration = Duration::from_millis(3_000);

fn table_by(line: &Line) -> LockTable {
    LockTable::new(Database::at(line.endpoint(), DATABASE).side_by_side(), "locktable")
}

fn lock_by(line: &Line, lease: Duration) -> LockBuilder {
    lock_of(&table_by(line), LOCK).lease(lease)
}

/// A holder over a line of its own.
async fn holder(world: &World, lease: Duration) -> (Contender, Line) {
    let line = world.line();
    let holder = Contender::run(lock_by(&line, lease));
    holder.holds().await;
    (holder, line)
}

/// A client with so many channels, all of which are connected.
async fn client(line: &Line, channels: usize) -> DatabaseClient {
    let builder = Spanner::builder().with_endpoint(line.endpoint());
    let spanner = builder.with_channel_pool(StaticChannelPoolConfig::new(channels)).build();
    spanner.await.unwrap().database_client(DATABASE).build().await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_holder_whose_flow_dies_keeps_its_term() {
    let world = World::start().await;
    for lease in [5, 10, 30].map(Duration::from_secs) {
        let (a, line) = holder(&world, lease).await;
        let token = a.lock.has_lock();
        for phase in 0..50 {
            sleep(lease * 2 + lease * phase / 50).await;
            line.swallow();
            sleep(lease).await;
            assert_eq!(a.lock.has_lock(), token, "lease {lease:?}, phase {phase}");
        }
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_contender_whose_flow_died_sees_a_release_within_three_polls() {
    let world = World::start().await;
    for phase in 0..50 {
        let (a, _) = holder(&world, LEASE).await;
        let line = world.line();
        let b = Contender::run(lock_by(&line, LEASE));
        sleep(LEASE + POLL * phase / 50).await;
        line.swallow();
        a.stop().await;
        let (_, took) = timed(b.holds()).await;
        assert!(took <= RELEASE_SEEN, "phase {phase}: {took:?}");
        b.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_starts_again_with_its_sessions_or_without_ends_no_term_and_hides_no_release()
{
    for restart in [Restart::keep, || Restart::keep().lose_sessions()] {
        let world = World::start().await;
        let (a, b) = (world.elect("a").await, world.contend("b"));
        sleep(LEASE).await;
        let token = a.lock.has_lock();
        for phase in 0..50 {
            sleep(LEASE + LEASE * phase / 50).await;
            world.spanner.restart(restart()).await.unwrap();
            sleep(LEASE).await;
            assert_eq!(a.lock.has_lock(), token, "phase {phase}");
        }
        world.spanner.restart(restart()).await.unwrap();
        a.stop().await;
        let (_, took) = timed(b.holds()).await;
        assert!(took <= RELEASE_SEEN, "{took:?}");
    }
}

/// The name of a server can't lead elsewhere on one machine: here the line does. What it shows is that
/// a fresh client connects anew, and that the old one is left.
#[tokio::test(start_paused = true)]
async fn a_server_that_moves_to_another_address_keeps_its_holders() {
    let world = World::start().await;
    let (a, line) = holder(&world, LEASE).await;
    let token = a.lock.has_lock();
    let moved = world.spanner.open_port().await.unwrap();
    line.leads_to(moved.address());
    line.swallow();
    sleep(LEASE * 3).await;
    assert_eq!(a.lock.has_lock(), token);
}

#[tokio::test(start_paused = true)]
async fn a_silence_of_four_tenths_of_the_lease_ends_no_term() {
    for lease in [5, 10, 30].map(Duration::from_secs) {
        let world = World::start().await;
        let (a, _) = holder(&world, lease).await;
        let token = a.lock.has_lock();
        for phase in 0..50 {
            sleep(lease * 2 + lease * phase / 150).await;
            let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
            sleep(lease * 2 / 5).await;
            silence.remove();
            sleep(lease).await;
            assert_eq!(a.lock.has_lock(), token, "lease {lease:?}, phase {phase}");
        }
    }
}

/// With a lease of 2 s the attempts at a fresh flow are too far apart for more.
#[tokio::test(start_paused = true)]
async fn a_silence_of_a_quarter_of_two_seconds_ends_no_term() {
    let lease = Duration::from_secs(2);
    let world = World::start().await;
    let (a, _) = holder(&world, lease).await;
    let token = a.lock.has_lock();
    for phase in 0..50 {
        // Attempts of the silence before are forgotten.
        sleep(lease * 3 + lease * phase / 150).await;
        let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
        sleep(lease / 4).await;
        silence.remove();
        sleep(lease).await;
        assert_eq!(a.lock.has_lock(), token, "phase {phase}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_slow_for_all_is_asked_by_no_second_client() {
    let world = World::start().await;
    let (a, line) = holder(&world, LEASE).await;
    let token = a.lock.has_lock();
    world.spanner.requests().reset();
    for delay in [LEASE / 40, LEASE / 20, LEASE / 8] {
        world.spanner.inject(Fault::any().effect(Effect::DelayReply(delay)));
        sleep(LEASE * 3).await;
        world.spanner.clear_faults();
    }
    assert_eq!(a.lock.has_lock(), token);
    assert_eq!(world.committing().len(), 1, "no fresh client took over");
    // Each of these delays is at least twice the one before. So its first answer is waited for in vain,
    // once, and the others for twice as long.
    assert!(line.accepted() <= 4, "{} connections", line.accepted());
}

#[tokio::test(start_paused = true)]
async fn a_row_that_waits_costs_no_flow_on_which_others_are_answered() {
    let world = World::start().await;
    let (_a, line) = holder(&world, LEASE).await;
    let table = table_by(&line);
    let waiting = Contender::run(lock_of(&table, "waiting"));
    waiting.holds().await;
    // Its polls are answered.
    let _b = Contender::run(lock_of(&table, LOCK));
    sleep(LEASE).await;
    let before = line.accepted();
    let stalled = Fault::on(Rpc::Commit).key("waiting").effect(Effect::Delay(LEASE * 2 / 5));
    let stalled = world.spanner.inject(stalled);
    until("it waits", || (stalled.hits() > 0).then_some(())).await;
    sleep(LEASE / 2).await;
    assert_eq!(line.accepted(), before, "{:?}", waiting.lock.health());
}

/// Its commit is applied, and nobody hears. A repeat would meet its own row.
#[tokio::test(start_paused = true)]
async fn a_begin_without_an_answer_is_found_out_by_a_read_on_a_fresh_flow() {
    let world = World::start().await;
    let line = world.line();
    let lost = Fault::on(Rpc::Commit).table("locktable").times(1).effect(Effect::StallReply);
    let lost = world.spanner.inject(lost);
    let start = Instant::now();
    let a = Contender::run(lock_by(&line, LEASE));
    let token = a.holds().await;
    assert!(start.elapsed() < LEASE / 2, "{:?}", start.elapsed());
    assert_eq!(lost.hits(), 1);
    let row = world.row(LOCK).unwrap();
    assert_eq!(row.token, Some(i128::from(token.as_nanoseconds())));
    assert_eq!(world.spanner.requests().get(Rpc::Commit), 1, "no begin was sent twice");
    sleep(LEASE * 2).await;
    assert_eq!(a.lock.has_lock(), Some(token));
}

#[tokio::test(start_paused = true)]
async fn in_silence_attempts_to_connect_are_one_in_three_polls_and_no_transaction_is_repeated() {
    let world = World::start().await;
    let line = world.line();
    let table = table_by(&line);
    let locks: Vec<_> =
        (0..20).map(|n| Contender::run(lock_of(&table, format!("lock-{n}")))).collect();
    for lock in &locks {
        lock.holds().await;
    }
    sleep(LEASE).await;
    let before = line.accepted();
    line.cut();
    sleep(LEASE * 3).await;
    let made = line.accepted() - before;
    assert!((8..=16).contains(&made), "{made} attempts in 30 s");
    line.restore();
    for lock in &locks {
        lock.holds().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_given_client_with_a_dead_channel_loses_no_decision() {
    let world = World::start().await;
    for (channels, dead) in [(2, 1), (2, 2), (4, 1), (4, 3)] {
        let line = world.line();
        let given = LockTable::new(client(&line, channels).await, "locktable");
        let a = Contender::run(lock_of(&given, LOCK));
        let token = a.holds().await;
        sleep(LEASE * 2).await;
        line.swallow_one(dead);
        for _ in 0..10 {
            sleep(LEASE).await;
            assert_eq!(a.lock.has_lock(), Some(token), "connection {dead} of {channels}");
        }
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_met_silence_gives_the_next_one_a_new_connection() {
    let world = World::start().await;
    let line = world.line();
    let table = table_by(&line);
    table.check().await.unwrap();
    line.swallow();
    assert!(table.inspect(LOCK).await.unwrap_err().is_retryable());
    table.inspect(LOCK).await.unwrap();
}

/// What no virtual clock shows: the pinned client and a channel that hears nothing, in real time. The
/// lease leaves a machine that is busy with other tests some seconds.
#[test]
fn on_a_real_clock_a_holder_whose_connection_hears_nothing_keeps_its_term() {
    let (_server, world) = World::elsewhere(TABLE);
    runtime().block_on(async {
        let (a, line) = holder(&world, Duration::from_secs(30)).await;
        let token = a.lock.has_lock();
        let before = line.accepted();
        line.swallow();
        until("it connects anew", || (line.accepted() > before).then_some(())).await;
        world.holders_session().await;
        assert_eq!(a.lock.has_lock(), token);
        a.stop().await;
    });
}
