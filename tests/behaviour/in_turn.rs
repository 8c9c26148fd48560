//! The line: who waits has the lock in turn.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use spindle::Spindle;
use spindle_emulator::Rpc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::world::{LEASE, LOCK, World, spindle, timed, until};

const POLL: Duration = Duration::from_secs(1);

/// Has the lock again and again, for so long each time, until told to stop.
async fn loops(lock: Spindle, hold: Duration, turns: Arc<AtomicUsize>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let guard = lock.acquire().await.unwrap();
        turns.fetch_add(1, Ordering::Relaxed);
        sleep(hold).await;
        guard.release().await;
    }
}

/// Returns how often each of so many processes had the lock, until all together had it so often. It counts
/// once each has had it twice: the first one has it alone until the others have polled twice.
async fn turns(processes: usize, hold: Duration, all: usize) -> Vec<usize> {
    let world = World::start().await;
    let (mut tasks, stop) = (JoinSet::new(), Arc::<AtomicBool>::default());
    let turns: Vec<Arc<AtomicUsize>> = (0..processes).map(|_| Arc::default()).collect();
    for (index, turns) in turns.iter().enumerate() {
        let lock = spindle(&world, &format!("p{index}"));
        tasks.spawn(loops(lock, hold, Arc::clone(turns), Arc::clone(&stop)));
    }
    let counts = || turns.iter().map(|turns| turns.load(Ordering::Relaxed)).collect::<Vec<_>>();
    let began = Instant::now();
    while counts().iter().any(|turns| *turns < 2) {
        assert!(began.elapsed() < (hold + POLL) * 500, "somebody waits for ever: {:?}", counts());
        sleep(POLL / 10).await;
    }
    let before = counts();
    let since =
        || counts().iter().zip(&before).map(|(now, before)| now - before).collect::<Vec<_>>();
    while since().iter().sum::<usize>() < all {
        sleep(POLL / 10).await;
    }
    stop.store(true, Ordering::Relaxed);
    let since = since();
    tasks.join_all().await;
    since
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_loop_have_the_lock_about_as_often() {
    for (hold, most) in [(100, 2.0), (1_000, 1.5), (10_000, 1.5)] {
        let turns = turns(2, Duration::from_millis(hold), 60).await;
        let (less, more) = (turns[0].min(turns[1]), turns[0].max(turns[1]));
        assert!(more as f64 <= less as f64 * most, "hold {hold} ms: {turns:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn none_of_twenty_processes_is_far_from_the_mean() {
    let turns = turns(20, POLL, 120).await;
    assert!(turns.iter().all(|turns| (2..=18).contains(turns)), "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_the_lock_to_the_one_that_stands_first_by_its_process() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let guard = a.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { b.acquire().await.unwrap() });
    let place = until("it stands in line", || world.row(LOCK)?.next).await;
    assert!(place.starts_with("0 ") && place.contains(" b#"), "{place}");
    let waiter = place.rsplit(' ').next().unwrap().to_string();
    sleep(LEASE * 2).await;
    assert!(!guard.is_cancelled(), "no heartbeat minds it");
    guard.release().await;
    let row = world.row(LOCK).unwrap();
    assert_eq!((row.writer, row.next), (Some(format!(">{waiter}")), None));
    assert_eq!(row.lease_ms, Some(2_000), "two polls of who has let go");
    // One that comes now waits behind.
    let c = spindle(&world, "c");
    assert!(c.try_acquire().await.unwrap().is_none());
    let (_, took) = timed(waiting).await;
    assert!(took <= POLL + POLL / 4, "{took:?}");
    assert_eq!(world.row(LOCK).unwrap().next, None);
}

#[tokio::test(start_paused = true)]
async fn one_that_stood_first_and_is_gone_costs_two_polls_once() {
    let world = World::start().await;
    let (a, b, c) = (spindle(&world, "a"), spindle(&world, "b"), spindle(&world, "c"));
    let guard = a.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { drop(b.acquire().await) });
    until("it stands in line", || world.row(LOCK)?.next).await;
    waiting.abort();
    guard.release().await;
    let (guard, took) = timed(c.acquire()).await;
    assert!((POLL..=POLL * 3 + POLL / 2).contains(&took), "{took:?}");
    guard.unwrap().release().await;
    let (_, took) = timed(a.acquire()).await;
    assert!(took <= POLL / 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_place_in_line_costs_one_transaction_in_a_term() {
    let world = World::start().await;
    let holder = world.elect("a").await;
    let waiting = world.contend("b");
    until("it stands in line", || world.row(LOCK)?.next).await;
    let session = world.holders_session().await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 10).await;
    let others = requests.sessions().into_iter().filter(|of| *of != session);
    let commits: u64 = others.map(|of| requests.of_session(&of, Rpc::Commit)).sum();
    assert_eq!(commits, 0, "it stands there already");
    holder.stop().await;
    waiting.holds().await;
}
