//! The load of one table, whatever uses it: however Spanner answers, what comes to nothing stays
//! bounded for all of its users together (I8).

use std::time::Duration;

use futures_util::future::join_all;
use spindle::testing::Clock;
use spindle::{CancellationToken, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, FaultHandle, Rpc};
use spindle_fleet::{Member, RwLock, Semaphore};
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::world::{Contender, EVENTUALLY, LEASE, TABLE, World, driven_runtime, lock_of};

const WINDOW: Duration = Duration::from_secs(10);
/// Three a second.
const IN_VAIN_MAX: u64 = 30;

/// Answers that help nobody.
const TROUBLES: [(Rpc, Effect); 7] = [
    (Rpc::Commit, Effect::Abort),
    (Rpc::Commit, Effect::Fail(Code::FailedPrecondition)),
    (Rpc::Commit, Effect::Fail(Code::AlreadyExists)),
    (Rpc::Commit, Effect::Fail(Code::Unavailable)),
    (Rpc::Commit, Effect::Stall),
    (Rpc::StreamingRead, Effect::Fail(Code::Unavailable)),
    (Rpc::StreamingRead, Effect::Stall),
];

/// Has users of one table at work while Spanner gives such answers, and counts in each window what
/// comes to nothing: requests of that kind, and the reads of transactions whose commit fails. As
/// many as `due` come to nothing in the first window for healthy users, too.
async fn is_bounded<T>(due: u64, start: impl Fn(&World, &LockTable) -> T) {
    for (rpc, effect) in TROUBLES {
        let world = World::start().await;
        let requests = world.spanner.requests();
        let users = start(&world, &world.table());
        world.spanner.inject(Fault::on(rpc).effect(effect));
        // An attempt may take longer than a window.
        let mut before = 0;
        for window in 0..4 {
            requests.reset();
            sleep(WINDOW).await;
            let in_vain = requests.get(rpc) * if rpc == Rpc::Commit { 2 } else { 1 };
            let due = if window == 0 || rpc == Rpc::StreamingRead { due } else { 0 };
            assert!(in_vain + before > 0, "they go on: {effect:?}, {window}");
            before = in_vain;
            assert!(in_vain <= due + IN_VAIN_MAX, "{effect:?}, {window}: {:?}", requests.each());
        }
        drop(users);
    }
}

fn tasks<F: Future<Output = ()> + Send + 'static>(
    tasks: impl IntoIterator<Item = F>,
) -> JoinSet<()> {
    tasks.into_iter().collect()
}

fn ranked(table: &LockTable) -> Vec<Contender> {
    let ranked = |n| lock_of(table, format!("ranked-{n}")).by_rank(n);
    (0..30).map(|n| Contender::run(ranked(n))).collect()
}

#[tokio::test(start_paused = true)]
async fn readers_that_spanner_refuses_ask_no_more_than_the_table_may() {
    is_bounded(4, |_, table| {
        let lock = RwLock::new(table, "catalogue").id("a").lease(LEASE).clock(Clock::runtime());
        let lock = lock.build().unwrap();
        tasks((0..60).map(|_| {
            let lock = lock.clone();
            async move { drop(lock.read().await) }
        }))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn writers_that_spanner_refuses_ask_no_more_than_the_table_may() {
    // The first commit stops new readers, and the second begins to write.
    for passes in [0, 1] {
        is_bounded(60, |world, table| {
            if passes > 0 {
                let pass = Fault::on(Rpc::Commit).times(passes);
                world.spanner.inject(pass.effect(Effect::Delay(Duration::ZERO)));
            }
            tasks((0..30).map(|n| {
                // No heartbeat is due meanwhile.
                let lock = RwLock::new(table, format!("catalogue-{n}")).id("a").lease(LEASE * 60);
                let lock = lock.clock(Clock::runtime()).build().unwrap();
                async move { drop(lock.write().await) }
            }))
        })
        .await;
    }
}

#[tokio::test(start_paused = true)]
async fn writers_that_wait_for_readers_ask_no_more_than_the_table_may() {
    const LOCKS: u64 = 30;
    let world = World::start().await;
    let lock = |table: &LockTable, id: &str, n: u64| {
        // No heartbeat is due meanwhile.
        let lock = RwLock::new(table, format!("catalogue-{n}")).id(id).lease(LEASE * 60);
        lock.poll_interval(Duration::from_secs(1)).clock(Clock::runtime()).build().unwrap()
    };
    let (readers, writers) = (world.table(), world.table());
    let reading = join_all((0..LOCKS).map(|n| lock(&readers, "reader", n).read().into_future()));
    let _reading: Vec<_> = reading.await.into_iter().map(Result::unwrap).collect();
    let _writing = tasks((0..LOCKS).map(|n| {
        let lock = lock(&writers, "writer", n);
        async move { drop(lock.write().await) }
    }));
    sleep(WINDOW).await;
    world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)));
    let requests = world.spanner.requests();
    for window in 0..4 {
        requests.reset();
        sleep(WINDOW).await;
        let in_vain = requests.get(Rpc::StreamingRead);
        // The first poll of each repeats nothing.
        let due = if window == 0 { LOCKS } else { 0 };
        assert!(in_vain > 0, "they go on: {window}");
        assert!(in_vain <= due + IN_VAIN_MAX, "{window}: {:?}", requests.each());
    }
}

#[tokio::test(start_paused = true)]
async fn ranked_contenders_that_spanner_refuses_ask_no_more_than_the_table_may() {
    is_bounded(0, |_, table| ranked(table)).await;
}

#[tokio::test(start_paused = true)]
async fn permits_that_spanner_refuses_cost_no_more_than_the_table_may() {
    // The first poll of each semaphore.
    is_bounded(10, |_, table| {
        let semaphores: Vec<_> = (0..10)
            .map(|n| {
                let semaphore =
                    Semaphore::new(table, format!("uploads-{n}"), 5).id("a").lease(LEASE);
                semaphore.clock(Clock::runtime()).build().unwrap()
            })
            .collect();
        tasks((0..60).map(|n| {
            let semaphore = semaphores[n % 10].clone();
            async move { drop(semaphore.acquire().await) }
        }))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn members_that_spanner_refuses_ask_no_more_than_the_table_may() {
    // The first read of each.
    is_bounded(12, |_, table| {
        let member =
            |n| Member::new(table, format!("group-{}", n % 3)).id(format!("m-{n}")).lease(LEASE);
        let run = move |n: usize| {
            let member = member(n).clock(Clock::runtime()).build().unwrap();
            let running = member.run(CancellationToken::new());
            let shards = member.shards("work", 20);
            async move {
                let sharing =
                    shards.run(CancellationToken::new(), |_| std::future::pending::<()>());
                drop(tokio::join!(running, sharing));
            }
        };
        tasks((0..12).map(run))
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn counts_of_shards_that_cannot_be_written_are_tried_no_more_than_the_table_may() {
    const GROUPS: usize = 30;
    let world = World::start().await;
    let table = world.table();
    let refused: Vec<_> = (0..GROUPS)
        .map(|n| Fault::on(Rpc::Commit).key(format!("spindle:shard:group-{n}/work/count")))
        .map(|fault| world.spanner.inject(fault.effect(Effect::Fail(Code::Unavailable))))
        .collect();
    let tried = || refused.iter().map(FaultHandle::hits).sum::<u64>();
    let _sharing = tasks((0..GROUPS).map(|n| {
        let member = Member::new(&table, format!("group-{n}")).id("a").lease(LEASE);
        let member = member.clock(Clock::runtime()).build().unwrap();
        let shards = member.shards("work", 20);
        async move {
            let running = member.run(CancellationToken::new());
            let sharing = shards.run(CancellationToken::new(), |_| std::future::pending::<()>());
            drop(tokio::join!(running, sharing));
        }
    }));
    for window in 0..4 {
        let before = tried();
        sleep(WINDOW).await;
        // A transaction is two requests.
        let in_vain = (tried() - before) * 2;
        assert!(in_vain > 0, "they go on: {window}");
        assert!(in_vain <= IN_VAIN_MAX, "{window}: {in_vain}");
    }
}

/// The table is charged four for a deletion; see the unit tests of the budget.
#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_sends_two_requests_for_its_release_and_three_to_delete_its_row() {
    let world = World::start().await;
    // No heartbeat is due meanwhile.
    let member = world.member("a").lease(LEASE * 60).build().unwrap();
    let leave = CancellationToken::new();
    let running = member.run(leave.clone());
    sleep(LEASE).await;
    let requests = world.spanner.requests();
    requests.reset();
    leave.cancel();
    running.await.unwrap();
    assert!(world.row("spindle:member:orders/a").is_none());
    let kinds = [Rpc::StreamingRead, Rpc::ExecuteStreamingSql, Rpc::Commit];
    let sent: u64 = kinds.map(|rpc| requests.get(rpc)).iter().sum();
    assert_eq!(sent, 2 + 3, "{:?}", requests.each());
}

#[tokio::test(start_paused = true)]
async fn contenders_that_nobody_wants_any_more_ask_no_more() {
    let world = World::start().await;
    let table = world.table();
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Fail(Code::Unavailable)));
    let contenders = ranked(&table);
    let contending = contenders.len() as u64;
    let requests = world.spanner.requests();
    sleep(LEASE).await;
    requests.reset();
    // Some have an attempt under way of which nobody knows what came of it.
    drop(contenders);
    sleep(WINDOW).await;
    // Each looks once what came of its attempt.
    assert!(requests.total() <= contending + IN_VAIN_MAX, "{:?}", requests.each());
}

/// In real time: each runtime has a clock of its own. A slow machine sends less.
#[test]
fn locks_on_runtimes_of_their_own_share_the_bound_on_load() {
    let (_elsewhere, world) = World::elsewhere(TABLE);
    let requests = world.spanner.requests();
    let table = world.table();
    // Nobody comes to hold, so nobody sends heartbeats.
    world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::Unavailable)));
    let locks = 20;
    let runtimes: Vec<_> = (0..locks).map(|_| driven_runtime()).collect();
    let run = |(n, runtime): (usize, &Runtime)| {
        let _entered = runtime.enter();
        Contender::run(table.lock(format!("lock-{n}")).lease(LEASE))
    };
    let _contenders: Vec<_> = runtimes.iter().enumerate().map(run).collect();
    let since = tokio::time::Instant::now();
    while requests.get(Rpc::StreamingRead) < locks {
        assert!(since.elapsed() < EVENTUALLY, "{:?}", requests.each());
        std::thread::sleep(Duration::from_millis(10));
    }
    std::thread::sleep(WINDOW / 3);
    // The first poll of each was due; a window may have passed until the last of them came.
    let windows = 1 + since.elapsed().as_secs() / WINDOW.as_secs();
    let reads = requests.get(Rpc::StreamingRead);
    assert!(reads <= locks + IN_VAIN_MAX * windows, "{:?}", requests.each());
}
