//! Permits: so many at a time, and each of them a lock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spindle::testing::Clock;
use spindle::{LockTable, ReleaseOutcome};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::{Permit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{sleep, timeout};
use tracing::Level;

use crate::log::Log;
use crate::world::{EVENTUALLY, LEASE, World, timed, until};

/// The semaphore as one process has it.
fn semaphore(world: &World, id: &str, permits: usize) -> Semaphore {
    world.semaphore(id, permits).build().unwrap()
}

async fn acquire(semaphore: &Semaphore) -> Permit {
    timeout(EVENTUALLY, semaphore.acquire()).await.expect("it acquires").unwrap()
}

#[tokio::test(start_paused = true)]
async fn each_permit_is_held_once_and_no_more_than_there_are() {
    let world = World::start().await;
    let (one, other) = (semaphore(&world, "a", 3), semaphore(&world, "b", 3));
    assert_eq!(one.available().await.unwrap(), 3);
    let permits = [acquire(&one).await, acquire(&other).await, acquire(&other).await];
    let numbers: BTreeSet<usize> = permits.iter().map(Permit::number).collect();
    assert_eq!(numbers, BTreeSet::from([0, 1, 2]));
    assert!(one.try_acquire().await.unwrap().is_none());
    sleep(LEASE * 5).await;
    assert_eq!(other.available().await.unwrap(), 0, "they are renewed");
    let refused = one.acquire().within(LEASE).await.unwrap_err();
    assert!(refused.is_not_acquired(), "{refused}");

    let [first, ..] = permits;
    let (number, token) = (first.number(), first.token());
    assert_eq!(first.release().await, ReleaseOutcome::Released);
    assert_eq!(one.available().await.unwrap(), 1);
    let next = other.try_acquire().await.unwrap().expect("one is free");
    assert!(next.number() == number && next.token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_finds_several_permits_taken_polls_anew_instead_of_trying_all() {
    const PERMITS: usize = 60;
    let world = World::start().await;
    let (one, other) = (semaphore(&world, "a", PERMITS), semaphore(&world, "b", PERMITS));
    acquire(&one).await.release().await;
    let mut all = Vec::new();
    for _ in 0..PERMITS {
        all.push(acquire(&other).await);
    }
    let requests = world.spanner.requests();
    requests.reset();
    let refused = one.acquire().within(Duration::from_secs(3)).await.unwrap_err();
    assert!(refused.is_not_acquired(), "{refused}");
    let reads = requests.each()[&Rpc::StreamingRead];
    assert!(reads <= 25, "{reads} reads");
}

#[tokio::test(start_paused = true)]
async fn at_no_time_are_more_at_work_than_there_are_permits() {
    let world = World::start().await;
    let (at_work, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut tasks = JoinSet::new();
    for process in ["a", "b", "c"] {
        let semaphore = semaphore(&world, process, 4);
        for _ in 0..6 {
            let (at_work, most) = (Arc::clone(&at_work), Arc::clone(&most));
            let semaphore = semaphore.clone();
            tasks.spawn(async move {
                for _ in 0..3 {
                    let permit = acquire(&semaphore).await;
                    most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(Duration::from_millis(300)).await;
                    assert!(!permit.is_cancelled());
                    at_work.fetch_sub(1, Ordering::SeqCst);
                    permit.release().await;
                }
            });
        }
    }
    timeout(EVENTUALLY, tasks.join_all()).await.expect("all have had their turns");
    assert_eq!(most.load(Ordering::SeqCst), 4);
}

#[tokio::test(start_paused = true)]
async fn a_permit_of_the_dead_is_free_when_its_lease_is_over() {
    let world = World::start().await;
    let dead = acquire(&semaphore(&world, "a", 1)).await;
    world.cut_off(&world.committing()[0]);
    let successor = semaphore(&world, "b", 1);
    let (permit, took) = timed(acquire(&successor)).await;
    assert!(permit.token() > dead.token() && dead.is_cancelled());
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_permit_is_free_soon_after() {
    let world = World::start().await;
    let semaphore = semaphore(&world, "a", 1);
    drop(acquire(&semaphore).await);
    let (_permit, took) = timed(acquire(&semaphore)).await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_leaves_nothing_held() {
    let world = World::start().await;
    let semaphore = semaphore(&world, "a", 2);
    let slow = Effect::Delay(Duration::from_millis(10));
    let _slow = [Rpc::StreamingRead, Rpc::Commit]
        .map(|rpc| world.spanner.inject(Fault::on(rpc).effect(slow)));
    let mut acquired = 0;
    for limit in (0..60).map(Duration::from_millis) {
        // At whichever request it is dropped.
        acquired += usize::from(timeout(limit, semaphore.acquire()).await.is_ok());
        // Sooner than any lease is over, which would free what is left.
        sleep(LEASE / 5).await;
        assert_eq!(semaphore.available().await.unwrap(), 2, "given up after {limit:?}");
    }
    assert!((5..50).contains(&acquired), "{acquired}");
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_poll_no_more_than_one() {
    let world = World::start().await;
    let _held = acquire(&semaphore(&world, "a", 1)).await;
    let other = semaphore(&world, "b", 1);
    let waits = || {
        let other = other.clone();
        async move { drop(other.acquire().await) }
    };
    let reads = world.reads_of_waiters(waits).await;
    assert!(reads[1] <= reads[0] + 3, "{reads:?}");
}

/// The only permit, and a caller of the same process that waits for it.
async fn one_holds_and_one_waits(world: &World) -> (Permit, JoinHandle<Permit>) {
    let semaphore = semaphore(world, "a", 1);
    let held = acquire(&semaphore).await;
    let next = tokio::spawn(async move { acquire(&semaphore).await });
    (held, next)
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_given_back_here_has_those_who_wait_here_poll_at_once() {
    let world = World::start().await;
    let (held, next) = one_holds_and_one_waits(&world).await;
    sleep(LEASE / 7).await;
    let (_permit, took) = timed(async {
        held.release().await;
        next.await.unwrap()
    })
    .await;
    assert!(took < Duration::from_millis(40), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_is_dropped_here_has_those_who_wait_here_poll_soon() {
    let world = World::start().await;
    let (held, next) = one_holds_and_one_waits(&world).await;
    // The last poll is a moment ago.
    sleep(LEASE / 7).await;
    let polls = || world.spanner.requests().get(Rpc::StreamingRead);
    let before = polls();
    until("it polls", || (polls() > before).then_some(())).await;
    sleep(Duration::from_millis(20)).await;
    let (_permit, took) = timed(async {
        drop(held);
        next.await.unwrap()
    })
    .await;
    assert!(took < Duration::from_millis(300), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_before_a_later_try_of_the_same_process() {
    let world = World::start().await;
    let (one, other) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    let held = acquire(&one).await;
    let waiting = tokio::spawn({
        let other = other.clone();
        async move { acquire(&other).await.release().await }
    });
    sleep(LEASE / 7).await;
    held.release().await;
    assert!(!waiting.is_finished(), "it has not polled yet");
    assert!(other.try_acquire().await.unwrap().is_none());
    timeout(EVENTUALLY, waiting).await.expect("it has its turn").unwrap();
    assert!(other.try_acquire().await.unwrap().is_some(), "nobody waits any more");
}

/// Callers that want a permit again and again, and how often each of them has had one.
async fn turns(
    semaphores: &[Semaphore],
    callers: usize,
    hold: Duration,
    time: Duration,
) -> Vec<usize> {
    let mut all = Vec::new();
    for semaphore in semaphores {
        for _ in 0..callers {
            let (semaphore, turns) = (semaphore.clone(), Arc::new(AtomicUsize::new(0)));
            all.push(Arc::clone(&turns));
            tokio::spawn(async move {
                loop {
                    let permit = semaphore.acquire().await.unwrap();
                    turns.fetch_add(1, Ordering::SeqCst);
                    sleep(hold).await;
                    permit.release().await;
                }
            });
        }
    }
    sleep(time).await;
    all.iter().map(|turns| turns.load(Ordering::SeqCst)).collect()
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_process_have_their_turns_in_order() {
    for (permits, callers) in [(1, 5), (3, 10)] {
        let world = World::start().await;
        let (semaphore, hold) = (semaphore(&world, "a", permits), LEASE / 50);
        let turns = turns(&[semaphore], callers, hold, LEASE * 3).await;
        let (least, most) = (turns.iter().min().unwrap(), turns.iter().max().unwrap());
        assert!(*least > 10 && *least * 5 >= *most * 4, "{turns:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn processes_share_a_permit_though_each_of_them_has_callers_that_wait() {
    let world = World::start().await;
    let processes = ["a", "b", "c"].map(|id| semaphore(&world, id, 1));
    let turns = turns(&processes, 2, LEASE / 5, LEASE * 12).await;
    let each: Vec<usize> = turns.chunks(2).map(|turns| turns.iter().sum()).collect();
    let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
    assert!(*least > 10 && most * 2 <= least * 3, "{turns:?}");
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_told_when_the_time_is_over() {
    let world = World::start().await;
    let semaphore = semaphore(&world, "a", 1);
    let outage = Fault::any().effect(Effect::Fail(Code::Unavailable));
    world.spanner.inject(outage);
    let refused = semaphore.acquire().within(LEASE * 2).await.unwrap_err();
    assert!(refused.is_not_acquired() && refused.to_string().len() > 60, "{refused}");
    assert!(refused.to_string().starts_with("semaphore `uploads`: not acquired"), "{refused}");
    world.spanner.clear_faults();
    acquire(&semaphore).await.release().await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_that_is_over_is_no_reason_why_a_permit_is_not_acquired() {
    let world = World::start().await;
    let (one, other) = (semaphore(&world, "a", 1), semaphore(&world, "b", 1));
    let _held = acquire(&one).await;
    let acquire = {
        let other = other.clone();
        async move { other.acquire().await }
    };
    let (waiting, session) = world.known(|| tokio::spawn(acquire)).await;
    sleep(LEASE).await;
    let outage = Fault::on(Rpc::StreamingRead).session(session);
    let outage = world.spanner.inject(outage.effect(Effect::Fail(Code::Unavailable)));
    until("a poll fails", || (outage.hits() > 0).then_some(())).await;
    outage.remove();
    sleep(LEASE * 2).await;
    let refused = other.acquire().within(LEASE).await.unwrap_err();
    assert_eq!(refused.to_string(), "semaphore `uploads`: not acquired within 10s");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn permits_that_cannot_be_read_are_logged_each_minute_until_they_can() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let refusal = Fault::on(Rpc::StreamingRead).effect(Effect::Fail(Code::PermissionDenied));
    world.spanner.inject(refusal);
    let semaphore = semaphore(&world, "a", 1);
    let waiting = tokio::spawn(async move { acquire(&semaphore).await });
    sleep(Duration::from_secs(50)).await;
    let first = log.the("the permits can't be read");
    assert!(first.level == Level::WARN && first.says("lock=spindle:permit:uploads"), "{first:?}");
    sleep(Duration::from_secs(50)).await;
    assert_eq!(log.saying("the permits can't be read").len(), 2, "{:?}", log.lines());
    world.spanner.clear_faults();
    waiting.await.unwrap().release().await;
    assert_eq!(log.the("the permits can be read again").level, Level::INFO);
}

#[tokio::test(start_paused = true)]
async fn fifty_semaphores_that_cannot_be_read_are_a_line_a_minute() {
    let (log, _guard) = Log::capture();
    let world = World::start().await;
    let table = world.table();
    world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    let _waiting: JoinSet<_> = (0..50)
        .map(|n| {
            let semaphore = Semaphore::new(&table, format!("uploads-{n}"), 1).id("a").lease(LEASE);
            let semaphore = semaphore.clock(Clock::runtime()).build().unwrap();
            async move { drop(semaphore.acquire().await) }
        })
        .collect();
    sleep(Duration::from_secs(170)).await;
    let told = log.saying("the permits can't be read");
    assert!((2..=3).contains(&told.len()), "{told:?}");
    assert!(told[1].says("locks=50 "), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_cannot_be_written_keeps_nobody_from_the_others() {
    let world = World::start().await;
    let row = Fault::on(Rpc::Commit).key("spindle:permit:uploads/0");
    let row = world.spanner.inject(row.effect(Effect::Fail(Code::Unavailable)));
    while row.hits() < 5 {
        let semaphore = semaphore(&world, "a", 3);
        let (permits, took) =
            timed(async { [acquire(&semaphore).await, acquire(&semaphore).await] }).await;
        let numbers = BTreeSet::from(permits.each_ref().map(Permit::number));
        assert_eq!(numbers, BTreeSet::from([1, 2]));
        // The virtual clock of a busy machine passes answers that are still in the kernel.
        assert!(took <= LEASE * 6, "{took:?}");
        for permit in permits {
            permit.release().await;
        }
    }
}

/// Another process names one permit, which goes from hand to hand there; the others can't be written.
#[tokio::test(start_paused = true)]
async fn permits_that_cannot_be_written_cost_nobody_a_turn_at_the_others() {
    for permits in [2, 4] {
        let world = World::start().await;
        let refusal = Fault::on(Rpc::Commit).effect(Effect::Fail(Code::PermissionDenied));
        let refuse = |number| {
            let row = refusal.clone().key(format!("spindle:permit:uploads/{number}"));
            world.spanner.inject(row)
        };
        let rows: Vec<_> = (1..permits).map(refuse).collect();
        let (busy, other) = (semaphore(&world, "a", 1), semaphore(&world, "b", permits));
        let _busy = tokio::spawn(async move { turns(&[busy], 3, LEASE / 10, EVENTUALLY).await });
        sleep(LEASE).await;
        for _ in 0..3 {
            let (permit, took) = timed(acquire(&other)).await;
            assert!(permit.number() == 0 && took <= LEASE * 4, "{took:?}");
            permit.release().await;
        }
        assert!(rows.iter().all(|row| row.hits() > 0), "each has been tried");
    }
}

#[tokio::test(start_paused = true)]
async fn a_permit_that_could_not_be_written_for_a_while_delays_no_later_caller() {
    let world = World::start().await;
    let (one, other) = (semaphore(&world, "a", 2), semaphore(&world, "b", 2));
    let held = acquire(&one).await;
    let row = format!("spindle:permit:uploads/{}", 1 - held.number());
    let row = Fault::on(Rpc::Commit).key(row).effect(Effect::Fail(Code::PermissionDenied));
    let row = world.spanner.inject(row);
    let first = tokio::spawn({
        let other = other.clone();
        async move { acquire(&other).await }
    });
    sleep(LEASE * 6).await;
    row.remove();
    let _first = first.await.unwrap();
    held.release().await;
    let (_permit, took) = timed(acquire(&other)).await;
    assert!(took <= Duration::from_secs(3), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permit_whose_release_is_not_acknowledged_is_no_free_one() {
    let world = World::start().await;
    let semaphore = semaphore(&world, "a", 1);
    let permit = acquire(&semaphore).await;
    let unheard = world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let release = permit.release().await;
    assert!(matches!(release, ReleaseOutcome::Unacknowledged { .. }), "{release:?}");
    unheard.remove();
    sleep(LEASE).await;
    let requests = world.spanner.requests();
    requests.reset();
    acquire(&semaphore).await.release().await;
    assert_eq!(requests.get(Rpc::StreamingRead), 4, "a poll comes first: {:?}", requests.each());
}

#[tokio::test]
async fn what_no_semaphore_can_be_is_refused() {
    let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    for (name, permits) in [("a/b", 1), ("", 1), ("a\n", 1), ("a", 0), ("a", 1_001)] {
        let refused = Semaphore::new(&table, name, permits).build().unwrap_err();
        assert!(refused.is_config() && refused.to_string().contains("semaphore"), "{refused}");
    }
    assert!(Semaphore::new(&table, "a", 1_000).build().is_ok());
}
