//! The line: who waits has the lock in turn, and so it is with permits.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use spindle::Spindle;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::world::{LEASE, LOCK, World, spindle, timed, until};

const POLL: Duration = Duration::from_secs(1);
/// The row of the first permit.
const PERMIT: &str = "spindle:permit:uploads/0";

/// A process's turns: it has the lock again and again, for so long each time, until told to stop.
#[derive(Clone)]
struct Turns {
    hold: Duration,
    count: Arc<AtomicUsize>,
    stop: Arc<AtomicBool>,
}

type Loop = Pin<Box<dyn Future<Output = ()> + Send>>;

impl Turns {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn has(&self) {
        self.count.fetch_add(1, Ordering::Relaxed);
        sleep(self.hold).await;
    }
}

fn loops(world: &World, id: &str, turns: Turns) -> Loop {
    let lock: Spindle = spindle(world, id);
    Box::pin(async move {
        while turns.goes_on() {
            let guard = lock.acquire().await.unwrap();
            turns.has().await;
            guard.release().await;
        }
    })
}

/// The same with one of so many permits.
fn loops_with_a_permit(permits: usize) -> impl Fn(&World, &str, Turns) -> Loop {
    move |world, id, turns| {
        let semaphore = semaphore(world, id, permits);
        Box::pin(async move {
            while turns.goes_on() {
                let permit = semaphore.acquire().await.unwrap();
                turns.has().await;
                permit.release().await;
            }
        })
    }
}

fn semaphore(world: &World, id: &str, permits: usize) -> Semaphore {
    world.semaphore(id, permits).build().unwrap()
}

/// Returns how often each of so many processes had its turn, until all together had it so often. It
/// counts once each has had it twice: the first one has it alone until the others have polled twice.
async fn turns(
    processes: usize,
    hold: Duration,
    all: usize,
    start: impl Fn(&World, &str, Turns) -> Loop,
) -> Vec<usize> {
    let world = World::start().await;
    let (mut tasks, stop) = (JoinSet::new(), Arc::<AtomicBool>::default());
    let turns: Vec<Arc<AtomicUsize>> = (0..processes).map(|_| Arc::default()).collect();
    for (index, count) in turns.iter().enumerate() {
        let turns = Turns { hold, count: Arc::clone(count), stop: Arc::clone(&stop) };
        tasks.spawn(start(&world, &format!("p{index}"), turns));
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
        let turns = turns(2, Duration::from_millis(hold), 60, loops).await;
        let (less, more) = (turns[0].min(turns[1]), turns[0].max(turns[1]));
        assert!(more as f64 <= less as f64 * most, "hold {hold} ms: {turns:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn none_of_twenty_processes_is_far_from_the_mean() {
    let turns = turns(20, POLL, 120, loops).await;
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

#[tokio::test(start_paused = true)]
async fn two_processes_that_loop_have_a_permit_about_as_often() {
    for (hold, most) in [(100, 2.0), (1_000, 1.5)] {
        let hold = Duration::from_millis(hold);
        let turns = turns(2, hold, 60, loops_with_a_permit(1)).await;
        let (less, more) = (turns[0].min(turns[1]), turns[0].max(turns[1]));
        assert!(more as f64 <= less as f64 * most, "hold {hold:?}: {turns:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn none_of_six_processes_is_far_from_the_mean_though_there_are_three_permits() {
    // A process that holds for so short a time has several turns in a row: it takes more to be even.
    for (hold, mean) in [(100, 60), (1_000, 10)] {
        let hold = Duration::from_millis(hold);
        let turns = turns(6, hold, 6 * mean, loops_with_a_permit(3)).await;
        let is_fair = turns.iter().all(|turns| (mean / 3..=mean * 3).contains(turns));
        assert!(is_fair, "hold {hold:?}: {turns:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_leaves_the_permit_to_the_process_that_stands_first() {
    let world = World::start().await;
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    let permit = a.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { b.acquire().await.unwrap() });
    let place = until("it stands in line", || world.row(PERMIT)?.next).await;
    assert!(place.starts_with("0 ") && place.contains(" b#"), "{place}");
    let waiter = place.rsplit(' ').next().unwrap().to_string();
    permit.release().await;
    let row = world.row(PERMIT).unwrap();
    assert_eq!((row.writer, row.next), (Some(format!(">{waiter}")), None));
    assert_eq!(row.lease_ms, Some(2_000), "two polls of who has given it back");
    assert!(a.try_acquire().await.unwrap().is_none(), "it is another's for that time");
    assert_eq!(a.available().await.unwrap(), 0);
    let (permit, took) = timed(waiting).await;
    assert!(took <= POLL + POLL / 4, "{took:?}");
    let row = world.row(PERMIT).unwrap();
    assert!(!row.writer.unwrap().starts_with(&waiter), "each attempt has a nonce of its own");
    assert_eq!(row.next, None);
    permit.unwrap().release().await;
}

#[tokio::test(start_paused = true)]
async fn a_process_that_stood_first_before_a_permit_and_is_gone_costs_two_polls_once() {
    let world = World::start().await;
    let [a, b, c] = ["a", "b", "c"].map(|id| semaphore(&world, id, 1));
    let permit = a.acquire().await.unwrap();
    let waiting = tokio::spawn(async move { drop(b.acquire().await) });
    until("it stands in line", || world.row(PERMIT)?.next).await;
    waiting.abort();
    permit.release().await;
    let (permit, took) = timed(c.acquire()).await;
    assert!((POLL..=POLL * 3 + POLL / 2).contains(&took), "{took:?}");
    permit.unwrap().release().await;
    let (_, took) = timed(a.acquire()).await;
    assert!(took <= POLL / 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_tries_or_waits_for_less_than_two_polls_takes_no_place_before_a_permit() {
    let world = World::start().await;
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    let _permit = a.acquire().await.unwrap();
    for _ in 0..3 {
        assert!(b.try_acquire().await.unwrap().is_none());
        assert!(b.acquire().within(POLL / 2).await.unwrap_err().is_not_acquired());
        sleep(POLL * 2).await;
        assert_eq!(world.row(PERMIT).unwrap().next, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_place_before_a_permit_that_cannot_be_written_is_tried_each_ten_seconds() {
    let world = World::start().await;
    let (a, b) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    let _permit = a.acquire().await.unwrap();
    let (waiting, session) = world.known(|| tokio::spawn(async move { b.acquire().await })).await;
    let refused = Fault::on(Rpc::Commit).session(session).effect(Effect::Fail(Code::Unavailable));
    let refused = world.spanner.inject(refused);
    sleep(POLL * 60).await;
    assert!((4..=7).contains(&refused.hits()), "{}", refused.hits());
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_given_back_here_is_missed_by_nobody_here_who_was_late_for_another() {
    let world = World::start().await;
    let slow = |id| world.semaphore(id, 2).poll_interval(LEASE).build().unwrap();
    let (here, there) = (slow("a"), slow("b"));
    let (held, session) = world
        .known(|| {
            tokio::spawn({
                let here = here.clone();
                async move { here.acquire().await.unwrap() }
            })
        })
        .await;
    let (held, theirs) = (held.await.unwrap(), there.acquire().await.unwrap());
    let key = format!("spindle:permit:uploads/{}", theirs.number());
    let mut waiting: JoinSet<_> = (0..2)
        .map(|_| {
            let here = here.clone();
            async move { here.acquire().await.unwrap() }
        })
        .collect();
    sleep(POLL).await;
    theirs.release().await;
    // One tries what it saw free, and another process is faster.
    let slow = Fault::on(Rpc::StreamingRead).session(session).key(key);
    let slow = world.spanner.inject(slow.effect(Effect::Delay(POLL)));
    until("one of them tries", || (slow.hits() > 0).then_some(())).await;
    let _theirs = there.try_acquire().await.unwrap().expect("it is free");
    sleep(POLL * 2).await;
    let (next, took) = timed(async {
        held.release().await;
        waiting.join_next().await
    })
    .await;
    assert!(took <= POLL, "{took:?}");
    drop(next);
}
