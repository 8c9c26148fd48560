//! Taking over from a holder that died or let go.

use std::future::pending;
use std::time::Duration;

use spindle::google_cloud_spanner::model::transaction_options::read_write::ReadLockMode;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::statement::Statement;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::world::{Contender, LEASE, LOCK, NOW, PAST, World, cells, pair, timed, until};

/// A row as a peer leaves it; without a heartbeat it is a takeover row, or looks so.
pub fn of_peer(name: &str, heartbeat: Option<&'static str>, token: &str) -> Mutation {
    let heartbeat = heartbeat.map(|heartbeat| ("heartbeat", heartbeat));
    let rest = [("token", token), ("writer", "peer")];
    cells(name, &heartbeat.into_iter().chain(rest).collect::<Vec<_>>())
}

/// How much later than the lease a takeover may come.
const LATENESS: Duration = Duration::from_millis(250);

fn nanoseconds(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_crashed_holders_lock_is_taken_as_soon_as_its_lease_has_run_out() {
    let (world, a, b) = pair().await;
    sleep(LEASE * 2).await;
    let first = a.lock.has_lock().unwrap();
    world.crash(&a).await;
    let last_heartbeat = world.row(LOCK).unwrap().heartbeat.unwrap();

    let second = b.holds().await;
    assert!(second > first);
    let waited = i128::from(second.as_nanoseconds()) - last_heartbeat;
    let expected = nanoseconds(LEASE)..=nanoseconds(LEASE + LATENESS);
    assert!(expected.contains(&waited), "{waited} ns after the last heartbeat");
    assert_eq!(a.lock.has_lock(), None);
    let arbiter = format!("{LOCK}_{:019}", first.as_nanoseconds());
    assert!(world.names().contains(&arbiter), "the takeover row");
}

#[tokio::test(start_paused = true)]
async fn a_release_hands_over_within_a_poll_interval() {
    let (_world, a, b) = pair().await;
    let first = a.lock.has_lock().unwrap();
    let ((), handover) = timed(async {
        a.stop().await;
        assert!(b.holds().await > first);
    })
    .await;
    assert!(handover <= Duration::from_millis(1_050), "{handover:?}");
}

#[tokio::test(start_paused = true)]
async fn a_holder_is_owed_the_longer_lease_whoever_has_it() {
    for (holders, contenders) in [(30, 10), (10, 30)] {
        let world = World::start().await;
        let seconds = Duration::from_secs;
        let a = Contender::run(world.lock("a").lease(seconds(holders)));
        a.holds().await;
        let b = Contender::run(world.lock("b").lease(seconds(contenders)));
        sleep(seconds(60)).await;
        world.crash(&a).await;
        let last_heartbeat = world.row(LOCK).unwrap().heartbeat.unwrap();
        let second = b.holds().await;
        let waited = i128::from(second.as_nanoseconds()) - last_heartbeat;
        assert!(waited >= nanoseconds(seconds(30)), "{holders} s, {contenders} s: {waited} ns");
        assert!(waited <= nanoseconds(seconds(30) + LATENESS), "{waited} ns");
    }
}

#[tokio::test(start_paused = true)]
async fn a_holder_killed_in_the_middle_of_a_heartbeat_holds_nobody_up() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let lease = Duration::from_secs(2);
    let b = Contender::run(world.lock("b").lease(lease));
    a.stop().await;
    b.holds().await;
    let session = world.holders_session().await;
    // The reads still arrive; from the next commit on, the process is no more.
    let commits = Fault::on(Rpc::Commit).session(&session).effect(Effect::Stall);
    let heartbeat = world.spanner.inject(commits);
    until("a heartbeat is under way", || (heartbeat.hits() > 0).then_some(())).await;
    world.cut_off(&session);
    let last_heartbeat = world.row(LOCK).unwrap().heartbeat.unwrap();

    let c = Contender::run(world.lock("c").lease(lease));
    let token = c.holds().await;
    let waited = i128::from(token.as_nanoseconds()) - last_heartbeat;
    assert!(waited <= nanoseconds(lease + LATENESS), "{waited} ns");
}

#[tokio::test(start_paused = true)]
async fn a_holder_killed_inside_a_fenced_write_holds_up_to_the_idle_limit_and_one_pause() {
    let world = World::start().await;
    let lease = Duration::from_secs(2);
    let a = Contender::run(world.lock("a").lease(lease));
    a.holds().await;
    let b = Contender::run(world.lock("b").lease(lease));
    let fence = a.lock.term().unwrap().fence();
    let client = world.client().await;
    let (checked, mut open) = tokio::sync::mpsc::channel(1);
    // A transaction that has read the lock row and then is heard of no more.
    let runner = client.read_write_transaction().build();
    let _killed = tokio::spawn(runner.run(move |transaction: ReadWriteTransaction| {
        let (fence, checked) = (fence.clone(), checked.clone());
        async move {
            fence.check(&transaction).await?;
            checked.send(()).await.unwrap();
            std::future::pending::<spindle::google_cloud_spanner::Result<()>>().await
        }
    }));
    open.recv().await.unwrap();
    world.crash(&a).await;
    let (_, waited) = timed(b.holds()).await;
    let idle_limit = Duration::from_secs(10);
    assert!(waited > lease + LATENESS, "the open transaction protects what it has read");
    // Attempts that failed meanwhile are repeated ever more seldom (I8).
    let longest_pause = Duration::from_secs(10);
    assert!(waited <= idle_limit + longest_pause + lease, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_row_of_a_peer_that_died_halfway_is_written_over_at_once() {
    let world = World::start().await;
    // As a Go peer leaves them: an expired row, its takeover begun, its token never rotated.
    world.write(of_peer(LOCK, Some(PAST), "2020-01-01T00:00:00.000001Z")).await;
    let key = format!("{LOCK}_1577836800000001000");
    world.write(of_peer(&key, None, NOW)).await;
    let (a, waited) = timed(world.elect("a")).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
    assert_eq!(a.lock.verify().await.unwrap(), a.lock.has_lock().unwrap());
    assert_eq!(world.names(), [LOCK.to_string(), key]);
    a.stop().await;
    assert_eq!(world.names(), [LOCK], "by now it is its own");
}

#[tokio::test(start_paused = true)]
async fn an_expired_row_of_a_peer_is_taken_at_once() {
    let world = World::start().await;
    world.write(of_peer(LOCK, Some(PAST), PAST)).await;
    let (_, waited) = timed(world.elect("a")).await;
    assert!(waited < Duration::from_secs(1), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_deletes_the_row_of_the_one_before_and_nothing_else() {
    let world = World::start().await;
    let others = [
        // A lock row that only looks like a takeover row, and locks whose names begin alike.
        ("job_1500000000000000000", Some(PAST)),
        ("job_daily", Some(PAST)),
        ("job_1", Some(PAST)),
        // Takeover rows of peers: of an older token, and of another lock.
        ("job_1400000000000000000", None),
        ("job_1_1400000000000000000", None),
    ];
    world.write_all(others.map(|(name, heartbeat)| of_peer(name, heartbeat, PAST))).await;
    let (_a, _b, table) = (world.contend("a"), world.contend("b"), world.table());
    let mut rows = Vec::new();
    // An eviction and a seizure leave the takeover row to the next takeover, as a crash does.
    for turn in 0..6 {
        let held = || async { table.inspect(LOCK).await.unwrap().is_held() };
        while !held().await {
            sleep(LEASE / 10).await;
        }
        rows = world.names();
        rows.retain(|name| name != LOCK && others.iter().all(|(other, _)| name != other));
        assert!(rows.len() <= 1, "after {turn} takeovers: {rows:?}");
        if turn % 2 == 0 {
            table.evict(LOCK).await.unwrap();
        } else {
            table.evict(LOCK).at_once().await.unwrap();
        }
    }
    assert_eq!(rows.len(), 1, "the takeover row of the last term");
    for (name, _) in others {
        assert!(world.names().iter().any(|found| found == name), "{name} is gone");
    }
}

/// How a transaction of one's own, which has read an order, stands when its process dies.
#[derive(Clone, Debug)]
enum Dying {
    /// It has checked the fence at first, with these reads.
    CheckedFirst(ReadLockMode),
    /// It would have checked the fence at last.
    Unchecked,
}

/// Leaves such a transaction open, for as long as the result is kept.
async fn left_open(world: &World, holder: &Contender, dying: Dying) -> JoinSet<()> {
    let (client, fence) = (world.client().await, holder.lock.term().unwrap().fence());
    let (mode, is_checked) = match dying {
        Dying::CheckedFirst(mode) => (mode, true),
        Dying::Unchecked => (ReadLockMode::Pessimistic, false),
    };
    let (reached, mut is_reached) = mpsc::channel(1);
    let mut process = JoinSet::new();
    process.spawn(async move {
        let runner = client.read_write_transaction().set_read_lock_mode(mode).build();
        let run = runner.run(move |transaction: ReadWriteTransaction| {
            let (fence, reached) = (fence.clone(), reached.clone());
            async move {
                if is_checked {
                    fence.check(&transaction).await?;
                }
                let read = Statement::builder("SELECT id FROM orders").build();
                drop(transaction.execute_query(read).await?.next().await);
                let _is_heard = reached.send(()).await;
                pending::<spindle::google_cloud_spanner::Result<()>>().await
            }
        });
        drop(run.await);
    });
    is_reached.recv().await.unwrap();
    process
}

/// The figures of `docs/agent.md`.
#[tokio::test(start_paused = true)]
async fn a_process_that_dies_in_its_own_transaction_costs_a_lease_unless_that_holds_the_fence() {
    const SHORT: Duration = Duration::from_secs(3);
    const PHASES: u32 = 12;
    let transactions = [
        Dying::CheckedFirst(ReadLockMode::Pessimistic),
        Dying::CheckedFirst(ReadLockMode::Optimistic),
        Dying::Unchecked,
    ];
    for dying in transactions {
        let mut waited = Vec::new();
        for phase in 0..PHASES {
            let world = World::start().await;
            let contend = |id| Contender::run(world.lock(id).lease(SHORT));
            let holder = contend("holder");
            holder.holds().await;
            let next = contend("next");
            let session = world.holders_session().await;
            sleep(SHORT * phase / PHASES).await;
            let _process = left_open(&world, &holder, dying.clone()).await;
            world.cut_off(&session);
            let last_heartbeat = world.row(LOCK).unwrap().heartbeat.unwrap();
            let began = i128::from(next.holds().await.as_nanoseconds());
            waited.push(Duration::from_nanos(u64::try_from(began - last_heartbeat).unwrap()));
        }
        waited.sort();
        let (least, most) = (waited[0], waited[waited.len() - 1]);
        println!("{dying:?}: {least:?}, {:?}, {most:?}", waited[waited.len() / 2]);
        if let Dying::CheckedFirst(ReadLockMode::Pessimistic) = dying {
            // Spanner gives up on a transaction that has been idle for 10 s and is in the way.
            assert!(least > SHORT * 3, "{dying:?}: {least:?}");
        } else {
            assert!(most <= SHORT + LATENESS, "{dying:?}: {most:?}");
        }
    }
}
