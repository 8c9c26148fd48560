//! Contending by rank: who waits with the highest rank leads next.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spindle::{CancellationToken, LockBuilder, LockTable, Term, TermChange, TermEnd};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{Contender, EVENTUALLY, LEASE, LOCK, World, timed, until};

const POLL: Duration = Duration::from_secs(1);
/// For two polls, an attempt, and jitter.
const SOON: Duration = Duration::from_secs(3);
/// A lease of which ten are soon over.
const SHORT: Duration = Duration::from_secs(2);

/// Waits until this one stands first in line.
async fn stands_first(world: &World, id: &str) {
    let waiter = format!(" {id}#");
    until("it stands first", || world.row(LOCK)?.next.filter(|next| next.contains(&waiter))).await;
}

/// A ranked contender, and the session by which Spanner knows its process.
async fn known(world: &World, builder: LockBuilder) -> (Contender, String) {
    world.known(|| Contender::run(builder)).await
}

fn refused(builder: LockBuilder) -> String {
    let error = builder.build().unwrap_err();
    assert!(error.is_config(), "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_the_highest_rank_takes_a_poll_after_the_lease_is_over() {
    let world = World::start().await;
    let (top, of_top) = known(&world, world.lock("top").by_rank(9)).await;
    top.holds().await;
    let (low, _) = known(&world, world.lock("a").by_rank(1)).await;
    let (high, of_high) = known(&world, world.lock("b").by_rank(2)).await;
    stands_first(&world, "b").await;
    // It is heard of once more: who came since its last heartbeat is left no lock that ran out.
    sleep(LEASE / 2).await;
    world.cut_off(&of_top);
    let (_, took) = timed(high.holds()).await;
    assert!(took <= LEASE + SOON, "{took:?}");
    assert!(low.is_standby());
    // And again: now the last one is left.
    world.cut_off(&of_high);
    let (_, took) = timed(low.holds()).await;
    assert!(took <= LEASE + SOON, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_left_to_the_highest_rank_however_often_the_others_poll() {
    let world = World::start().await;
    let leader = Contender::run(world.lock("x").by_rank(0));
    leader.holds().await;
    let eager = world.lock("a").by_rank(1).poll_interval(Duration::from_millis(20));
    let eager = Contender::run(eager);
    stands_first(&world, "a").await;
    let high = Contender::run(world.lock("b").by_rank(2));
    stands_first(&world, "b").await;
    leader.stop().await;
    let (_, took) = timed(high.holds()).await;
    assert!(took <= SOON, "{took:?}");
    assert!(eager.is_standby());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_preempts_hands_over_to_a_higher_rank_once_its_term_is_ten_leases_old() {
    let world = World::start().await;
    let low = Contender::run(world.lock("a").lease(SHORT).by_rank(1).preempt());
    let mut changes = low.lock.watch();
    let before = low.holds().await;
    let began = Instant::now();
    assert!(matches!(changes.next().await, Some(TermChange::Gained(_))));
    let eager = world.lock("c").lease(SHORT).by_rank(0).poll_interval(Duration::from_millis(20));
    let eager = Contender::run(eager);
    let high = Contender::run(world.lock("b").lease(SHORT).by_rank(2));
    let after = high.holds().await;
    let took = began.elapsed();
    assert!((SHORT * 10..=SHORT * 11 + SOON).contains(&took), "{took:?}");
    assert!(after > before && eager.is_standby());
    let Some(TermChange::Lost(term)) = changes.next().await else { panic!("it let go") };
    assert_eq!(term.ended(), Some(&TermEnd::LetGo));
}

#[tokio::test(start_paused = true)]
async fn without_preempt_a_leader_that_lives_leads_on_and_so_it_does_beside_an_equal_rank() {
    for (rank, preempts) in [(2, false), (1, true)] {
        let world = World::start().await;
        let builder = world.lock("a").lease(SHORT).by_rank(1);
        let low = Contender::run(if preempts { builder.preempt() } else { builder });
        let token = low.holds().await;
        let high = Contender::run(world.lock("b").lease(SHORT).by_rank(rank).preempt());
        stands_first(&world, "b").await;
        sleep(SHORT * 30).await;
        assert_eq!(low.lock.has_lock(), Some(token));
        assert!(high.is_standby());
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_stops_before_its_leader_hands_over_and_a_guard_loses_its_term_at_once() {
    let world = World::start().await;
    let low = world.lock("a").lease(SHORT).by_rank(1).preempt().build().unwrap();
    let high = world.lock("b").lease(SHORT).by_rank(2).build().unwrap();
    let guard = low.acquire().await.unwrap();
    let won = timeout(EVENTUALLY, high.acquire()).await.unwrap().unwrap();
    assert!(guard.is_cancelled() && won.token() > guard.token());
    drop(guard);
    won.release().await;

    let kept = Arc::new(AtomicUsize::new(0));
    let (stop, counted) = (CancellationToken::new(), Arc::clone(&kept));
    let (cancelled, lock) = (stop.clone(), low.clone());
    let leading = tokio::spawn(async move {
        let task = move |term: Term| {
            let kept = Arc::clone(&counted);
            async move {
                term.cancelled().await;
                sleep(SHORT / 4).await;
                kept.fetch_add(usize::from(term.ended().is_none()), Ordering::Relaxed);
                Ok::<(), spindle::Error>(())
            }
        };
        low.lead(cancelled, task).await
    });
    until("it leads", || lock.has_lock()).await;
    let _won = timeout(EVENTUALLY, high.acquire()).await.unwrap().unwrap();
    assert_eq!(kept.load(Ordering::Relaxed), 1, "its term is kept until it has stopped");
    stop.cancel();
    timeout(EVENTUALLY, leading).await.unwrap().unwrap().unwrap();
}

/// For how much of five minutes a lock is led by others than a highest rank that dies 150 ms after each
/// time that it leads, and is started anew.
async fn led_beside_one_that_dies(id: impl Fn(usize) -> String) -> Duration {
    let (world, lease, lasts) = (World::start().await, LEASE / 2, Duration::from_secs(300));
    let low = ["a", "b"].map(|id| world.lock(id).lease(lease).by_rank(1).preempt());
    let low = low.map(Contender::run);
    let (start, led) = (Instant::now(), Arc::new(AtomicUsize::new(0)));
    let (counted, locks) = (Arc::clone(&led), low.each_ref().map(|low| low.lock.clone()));
    let counting = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(10)).await;
            let is_led = locks.iter().any(|lock| lock.has_lock().is_some());
            counted.fetch_add(usize::from(is_led), Ordering::Relaxed);
        }
    });
    for life in 0.. {
        let builder = world.lock(&id(life)).lease(lease).by_rank(9).preempt();
        let (high, session) = known(&world, builder).await;
        while high.is_standby() && start.elapsed() < lasts {
            sleep(Duration::from_millis(10)).await;
        }
        if start.elapsed() >= lasts {
            break;
        }
        sleep(Duration::from_millis(150)).await;
        world.cut_off(&session);
        drop(high);
        sleep(Duration::from_millis(500)).await;
    }
    counting.abort();
    Duration::from_millis(10) * u32::try_from(led.load(Ordering::Relaxed)).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_highest_rank_that_dies_again_and_again_leaves_the_lock_led_most_of_the_time() {
    let least = Duration::from_secs(240);
    let led = led_beside_one_that_dies(|_| "high".to_string()).await;
    assert!(led >= least, "one id: {led:?}");
    let led = led_beside_one_that_dies(|life| format!("high-{life}")).await;
    assert!(led >= least, "new ids: {led:?}");
}

#[tokio::test(start_paused = true)]
async fn one_that_stood_first_and_died_starves_nobody() {
    let world = World::start().await;
    let leader = Contender::run(world.lock("x").by_rank(0));
    leader.holds().await;
    let (high, session) = known(&world, world.lock("z").by_rank(9)).await;
    stands_first(&world, "z").await;
    world.cut_off(&session);
    drop(high);
    let low = Contender::run(world.lock("a").by_rank(1));
    sleep(SOON).await;
    leader.stop().await;
    let (_, took) = timed(low.holds()).await;
    assert!((POLL * 2..=POLL * 4).contains(&took), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn who_leads_follows_from_who_lives_in_every_order_of_starts() {
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let world = World::start().await;
        let mut rivals = Vec::new();
        for rank in order {
            let builder = world.lock(&format!("m{rank}")).lease(SHORT).by_rank(rank).preempt();
            rivals.push((rank, known(&world, builder).await));
            sleep(SOON).await;
        }
        // A process that hears nothing replaces its client in time: who is dead gets no new session.
        world.spanner.inject(Fault::on(Rpc::CreateSession).effect(Effect::Stall));
        let mut dead = Vec::new();
        for rank in [3, 2, 1] {
            let at = rivals.iter().position(|(other, _)| *other == rank).unwrap();
            rivals[at].1.0.holds().await;
            let others = rivals.iter().filter(|(other, _)| *other != rank);
            others.for_each(|(_, (rival, _))| assert!(rival.is_standby(), "{order:?}"));
            sleep(SOON).await;
            let (_, (rival, session)) = rivals.remove(at);
            world.cut_off(&session);
            dead.push(rival);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_ranked_contender_that_waits_costs_what_any_other_does() {
    let world = World::start().await;
    let leader = Contender::run(world.lock("b").by_rank(2));
    leader.holds().await;
    let (_waiting, session) = known(&world, world.lock("a").by_rank(1)).await;
    stands_first(&world, "a").await;
    let requests = world.spanner.requests();
    requests.reset();
    let began = Instant::now();
    sleep(LEASE * 10).await;
    let polls = began.elapsed().as_secs() * 4 / 3;
    let of = |rpc| requests.of_session(&session, rpc);
    assert_eq!(of(Rpc::Commit), 0, "it stands in line already");
    let reads = of(Rpc::StreamingRead);
    assert!(reads <= polls + 2, "{reads} reads");
}

#[tokio::test]
async fn what_cannot_be_ranked_is_refused() {
    let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    assert!(refused(table.lock("job").preempt()).contains("`preempt` without `by_rank`"));
    let ranked = table.lock("job").by_rank(1);
    let refused = ranked.clone().build().unwrap().try_acquire().await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("try_acquire"), "{refused}");
    let slot = spindle::job::Slot::every(Duration::from_secs(60));
    let refused = ranked.run_once(slot, |_| async {}).await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("no ranks"), "{refused}");
}
