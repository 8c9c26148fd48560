//! Contending by rank: who leads follows from who lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spindle::testing::Clock;
use spindle::{CancellationToken, LeadOptions, LockBuilder, LockTable, Term, TermChange, TermEnd};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{Contender, EVENTUALLY, LEASE, LOCK, World, timed, until};

/// Two polls.
const GRACE: Duration = Duration::from_secs(2);
/// For a poll, an attempt, and jitter.
const SOON: Duration = Duration::from_secs(3);

/// Waits until this one is listed among the members of the lock.
async fn is_member(world: &World, id: &str) {
    let is_live =
        || world.row(&format!("spindle:member:{LOCK}/{id}"))?.heartbeat.filter(|it| *it > 0);
    until("it joins", is_live).await;
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
async fn after_a_crash_the_highest_rank_takes_as_soon_as_the_lease_is_over() {
    let world = World::start().await;
    let (top, of_top) = known(&world, world.lock("top").by_rank(9)).await;
    top.holds().await;
    let (low, _) = known(&world, world.lock("a").by_rank(1)).await;
    let (high, of_high) = known(&world, world.lock("b").by_rank(2)).await;
    is_member(&world, "a").await;
    is_member(&world, "b").await;
    world.cut_off(&of_top);
    let (_, took) = timed(high.holds()).await;
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
    assert!(low.is_standby());
    // And again: now the last one is left.
    world.cut_off(&of_high);
    let (_, took) = timed(low.holds()).await;
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_is_left_to_the_highest_rank_however_often_the_others_poll() {
    let world = World::start().await;
    let leader = Contender::run(world.lock("x").by_rank(0));
    leader.holds().await;
    let eager = world.lock("a").by_rank(1).poll_interval(Duration::from_millis(20));
    let eager = Contender::run(eager);
    let high = Contender::run(world.lock("b").by_rank(2));
    is_member(&world, "a").await;
    is_member(&world, "b").await;
    leader.stop().await;
    let (_, took) = timed(high.holds()).await;
    assert!(took <= SOON, "{took:?}");
    assert!(eager.is_standby());
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_preempts_hands_over_to_a_higher_rank_by_name() {
    let world = World::start().await;
    let low = Contender::run(world.lock("a").by_rank(1).preempt());
    let mut changes = low.lock.watch();
    let before = low.holds().await;
    assert!(matches!(changes.next().await, Some(TermChange::Gained(_))));
    let eager = world.lock("c").by_rank(0).poll_interval(Duration::from_millis(20));
    let eager = Contender::run(eager);
    is_member(&world, "c").await;
    let high = Contender::run(world.lock("b").by_rank(2));
    let (after, took) = timed(high.holds()).await;
    assert!(took <= SOON, "{took:?}");
    assert!(after > before && eager.is_standby());
    let Some(TermChange::Lost(term)) = changes.next().await else { panic!("it let go") };
    assert_eq!(term.ended(), Some(&TermEnd::LetGo));
}

#[tokio::test(start_paused = true)]
async fn one_that_has_handed_over_contends_no_more_for_a_lease() {
    let world = World::start().await;
    let _low = Contender::run(world.lock("a").by_rank(1).preempt());
    is_member(&world, "a").await;
    let high = Contender::run(world.lock("b").by_rank(2));
    high.holds().await;
    sleep(LEASE / 2).await;
    // A contender that counted it as one would wait for it in vain.
    assert_eq!(world.row("spindle:member:job/a"), None);
    is_member(&world, "a").await;
}

#[tokio::test(start_paused = true)]
async fn a_contender_has_no_turn_before_others_can_see_it() {
    let world = World::start().await;
    let late = Fault::on(Rpc::Commit).key("spindle:member:job/a");
    world.spanner.inject(late.effect(Effect::Delay(Duration::from_millis(600))));
    let low = Contender::run(world.lock("a").by_rank(1));
    sleep(Duration::from_millis(200)).await;
    let high = Contender::run(world.lock("b").by_rank(2));
    high.holds().await;
    assert!(low.is_standby());
}

#[tokio::test(start_paused = true)]
async fn one_that_has_handed_over_is_handed_the_lock_back_when_the_higher_rank_leaves() {
    let world = World::start().await;
    let low = Contender::run(world.lock("a").by_rank(1).preempt());
    low.holds().await;
    let middle = Contender::run(world.lock("b").by_rank(2).preempt());
    middle.holds().await;
    let top = Contender::run(world.lock("c").by_rank(3).preempt());
    top.holds().await;
    // It backs off still, so that the lowest is the only one to take.
    sleep(LEASE / 5).await;
    top.stop().await;
    sleep(LEASE * 3).await;
    let token = middle.holds().await;
    sleep(LEASE * 3).await;
    assert_eq!(middle.lock.has_lock(), Some(token));
    assert!(low.is_standby());
}

#[tokio::test(start_paused = true)]
async fn one_that_lost_the_lock_and_not_its_membership_is_handed_it_back_once() {
    let world = World::start().await;
    let (high, session) = known(&world, world.lock("b").by_rank(2)).await;
    high.holds().await;
    let low = Contender::run(world.lock("a").by_rank(1).preempt());
    is_member(&world, "a").await;
    // The commits that write the lock's row fail, and those of the member's row don't.
    let fault = Fault::on(Rpc::Commit).session(session).key(LOCK);
    let failing = world.spanner.inject(fault.effect(Effect::Fail(Code::Unavailable)));
    low.holds().await;
    failing.remove();
    is_member(&world, "b").await;
    sleep(LEASE - SOON).await;
    assert!(low.lock.has_lock().is_some(), "the other may be out of order for a while");
    let (_, took) = timed(high.holds()).await;
    assert!(took <= SOON * 2, "{took:?}");

    sleep(LEASE * 2).await;
    world.table().evict(LOCK).await.unwrap();
    let token = low.holds().await;
    sleep(LEASE * 4).await;
    assert_eq!(low.lock.has_lock(), Some(token), "once in its membership");
}

#[tokio::test(start_paused = true)]
async fn one_that_was_evicted_is_handed_the_lock_back() {
    let world = World::start().await;
    let high = Contender::run(world.lock("b").by_rank(2));
    high.holds().await;
    let low = Contender::run(world.lock("a").by_rank(1).preempt());
    is_member(&world, "a").await;
    sleep(LEASE).await;
    world.table().evict(LOCK).await.unwrap();
    let evicted = Instant::now();
    low.holds().await;
    high.holds().await;
    let took = evicted.elapsed();
    assert!((LEASE..=LEASE * 2 + SOON * 2).contains(&took), "{took:?}");
}

/// The release is not applied, applied without an answer, or applied when nobody expects it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_of_unknown_outcome_delays_the_higher_rank_by_a_lease_and_counts_as_one() {
    for effect in [Effect::Stall, Effect::StallReply, Effect::ApplyLate { after: SOON }] {
        let world = World::start().await;
        let (low, session) = known(&world, world.lock("a").by_rank(1).preempt()).await;
        low.holds().await;
        let high = Contender::run(world.lock("b").by_rank(2));
        is_member(&world, "b").await;
        let fault = Fault::on(Rpc::Commit).session(session).key(LOCK);
        let unheard = world.spanner.inject(fault.effect(effect));
        let (_, took) = timed(high.holds()).await;
        assert!(took <= LEASE + SOON, "{effect:?}: {took:?}");
        unheard.remove();
        sleep(LEASE * 2).await;
        // It loses the lock without letting go, and stays a member.
        world.table().evict(LOCK).await.unwrap();
        high.holds_no_more().await;
        let token = low.holds().await;
        sleep(LEASE * 4).await;
        assert_eq!(low.lock.has_lock(), Some(token), "{effect:?}: handed over once");
    }
}

#[tokio::test(start_paused = true)]
async fn without_preempt_a_leader_that_lives_leads_on() {
    let world = World::start().await;
    let low = Contender::run(world.lock("a").by_rank(1));
    let token = low.holds().await;
    let high = Contender::run(world.lock("b").by_rank(2).preempt());
    sleep(LEASE * 4).await;
    assert_eq!(low.lock.has_lock(), Some(token));
    assert!(high.is_standby());
}

#[tokio::test(start_paused = true)]
async fn a_higher_rank_whose_task_keeps_failing_does_not_flap() {
    let world = World::start().await;
    let high = world.lock("b").by_rank(2).build().unwrap();
    let (cancel, runs) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let options = LeadOptions::default().pauses(LEASE / 20, LEASE / 2);
    let (stop, counted) = (cancel.clone(), Arc::clone(&runs));
    let leading = tokio::spawn(async move {
        let task = move |_: Term| {
            counted.fetch_add(1, Ordering::Relaxed);
            async { Err::<(), &str>("out of order") }
        };
        high.lead_with(options, stop, task).await
    });
    let low = Contender::run(world.lock("a").by_rank(1).preempt());
    let (gains, mut changes) = (Arc::new(AtomicUsize::new(0)), low.lock.watch());
    let counted = Arc::clone(&gains);
    let counting = tokio::spawn(async move {
        while let Some(change) = changes.next().await {
            if matches!(change, TermChange::Gained(_)) {
                counted.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    low.holds().await;
    // It hands over once, and backs off for a lease.
    sleep(LEASE * 4).await;
    let (before, token) = (runs.load(Ordering::Relaxed), low.holds().await);
    sleep(LEASE * 20).await;
    assert_eq!(low.lock.has_lock(), Some(token), "it leads on");
    assert_eq!(runs.load(Ordering::Relaxed), before);
    assert!(gains.load(Ordering::Relaxed) <= 2, "it hands over once");
    counting.abort();
    cancel.cancel();
    timeout(EVENTUALLY, leading).await.unwrap().unwrap().unwrap();
}

/// For how much of its first and of its third minute a lock is led by others than a highest rank that
/// dies 150 ms after each time that it leads, and is started anew.
async fn led_beside_one_that_dies(id: impl Fn(usize) -> String) -> (Duration, Duration) {
    let (world, lease, minute) = (World::start().await, LEASE / 2, Duration::from_secs(60));
    let low = ["a", "b"].map(|id| world.lock(id).lease(lease).by_rank(1).preempt());
    let low = low.map(Contender::run);
    is_member(&world, "a").await;
    is_member(&world, "b").await;
    let (start, led) = (Instant::now(), Arc::new([const { AtomicUsize::new(0) }; 3]));
    let (counted, locks) = (Arc::clone(&led), low.each_ref().map(|low| low.lock.clone()));
    let counting = tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(10)).await;
            let at = start.elapsed().as_secs() / minute.as_secs();
            let is_led = locks.iter().any(|lock| lock.has_lock().is_some());
            if let Some(led) = counted.get(usize::try_from(at).unwrap()).filter(|_| is_led) {
                led.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
    for life in 0.. {
        let builder = world.lock(&id(life)).lease(lease).by_rank(9).preempt();
        let (high, session) = known(&world, builder).await;
        while high.is_standby() && start.elapsed() < minute * 3 {
            sleep(Duration::from_millis(10)).await;
        }
        if start.elapsed() >= minute * 3 {
            break;
        }
        sleep(Duration::from_millis(150)).await;
        world.cut_off(&session);
        drop(high);
        sleep(Duration::from_millis(500)).await;
    }
    counting.abort();
    let time = |at: usize| {
        Duration::from_millis(10) * u32::try_from(led[at].load(Ordering::Relaxed)).unwrap()
    };
    (time(0), time(2))
}

#[tokio::test(start_paused = true)]
async fn a_highest_rank_that_dies_again_and_again_is_waited_for_later_each_time() {
    let is_led = |(first, third): (Duration, Duration), ids: &str| {
        let (half, most) = (Duration::from_secs(30), Duration::from_secs(48));
        assert!(first >= half && third >= most, "{ids}: led for {first:?} and {third:?}");
    };
    is_led(led_beside_one_that_dies(|_| "high".to_string()).await, "one id");
    is_led(led_beside_one_that_dies(|life| format!("high-{life}")).await, "new ids");
}

#[tokio::test(start_paused = true)]
async fn an_evicted_leader_sits_out_a_grace_whatever_its_rank() {
    let world = World::start().await;
    let high = Contender::run(world.lock("b").by_rank(2));
    high.holds().await;
    sleep(LEASE).await;
    world.table().evict(LOCK).await.unwrap();
    let evicted = world.row(LOCK).unwrap();
    let token = until("it leads again", || {
        high.lock
            .has_lock()
            .filter(|token| i128::from(token.as_nanoseconds()) > evicted.token.unwrap())
    });
    let waited = i128::from(token.await.as_nanoseconds()) - evicted.heartbeat.unwrap();
    assert!(waited >= (LEASE + GRACE).as_nanos().cast_signed(), "{waited}");

    let low = Contender::run(world.lock("a").by_rank(1));
    is_member(&world, "a").await;
    sleep(LEASE).await;
    world.table().evict(LOCK).await.unwrap();
    low.holds().await;
    assert!(high.is_standby());
}

#[tokio::test(start_paused = true)]
async fn of_two_equal_ranks_the_lesser_id_is_first() {
    let world = World::start().await;
    let leader = Contender::run(world.lock("x").by_rank(5));
    leader.holds().await;
    let second = Contender::run(world.lock("b").by_rank(1).preempt());
    let first = Contender::run(world.lock("a").by_rank(1).preempt());
    is_member(&world, "a").await;
    is_member(&world, "b").await;
    leader.stop().await;
    let (token, took) = timed(first.holds()).await;
    assert!(took <= SOON, "{took:?}");
    sleep(LEASE * 2).await;
    assert_eq!(first.lock.has_lock(), Some(token), "no higher rank is there");
    assert!(second.is_standby());
}

#[tokio::test(start_paused = true)]
async fn a_member_that_cannot_take_starves_nobody() {
    let world = World::start().await;
    // It says that it contends, and does not.
    let idle = world.table().member(LOCK).id("z").info("rank 9").lease(LEASE);
    let idle = idle.clock(Clock::runtime()).build().unwrap();
    let running = idle.run(CancellationToken::new());
    until("it is a member", || idle.token()).await;
    let low = Contender::run(world.lock("a").by_rank(1));
    let (_, took) = timed(low.holds()).await;
    assert!((GRACE..=GRACE + SOON).contains(&took), "{took:?}");
    drop(running);
}

#[tokio::test(start_paused = true)]
async fn who_leads_follows_from_who_lives_in_every_order_of_starts() {
    for order in [[1, 2, 3], [1, 3, 2], [2, 1, 3], [2, 3, 1], [3, 1, 2], [3, 2, 1]] {
        let world = World::start().await;
        let mut rivals = Vec::new();
        for rank in order {
            let builder = world.lock(&format!("m{rank}")).by_rank(rank).preempt();
            rivals.push((rank, known(&world, builder).await));
            is_member(&world, &format!("m{rank}")).await;
        }
        // A process that hears nothing replaces its client in time: who is dead gets no new session.
        world.spanner.inject(Fault::on(Rpc::CreateSession).effect(Effect::Stall));
        let mut dead = Vec::new();
        for rank in [3, 2, 1] {
            let at = rivals.iter().position(|(other, _)| *other == rank).unwrap();
            rivals[at].1.0.holds().await;
            let others = rivals.iter().filter(|(other, _)| *other != rank);
            others.for_each(|(_, (rival, _))| assert!(rival.is_standby(), "{order:?}"));
            let (_, (rival, session)) = rivals.remove(at);
            world.cut_off(&session);
            dead.push(rival);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn guards_and_tasks_wait_for_their_turn_and_leave_the_group_with_the_lock() {
    let world = World::start().await;
    let low = world.lock("a").by_rank(1).preempt().build().unwrap();
    let guard = low.acquire().await.unwrap();
    let high = world.lock("b").by_rank(2).build().unwrap();
    let won = timeout(EVENTUALLY, high.acquire()).await.unwrap().unwrap();
    assert!(guard.is_cancelled() && won.token() > guard.token(), "a guard is taken from, too");
    drop(guard);
    won.release().await;
    until("no member's row is left", || (world.names() == [LOCK]).then_some(())).await;
    let stop = CancellationToken::new();
    let led = low
        .lead(stop, |term: Term| async move { Ok::<_, spindle::Error>(term.token()) })
        .await
        .unwrap();
    assert!(led.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_ranked_contender_costs_a_read_a_poll_and_heartbeats() {
    let world = World::start().await;
    let leader = Contender::run(world.lock("b").by_rank(2));
    leader.holds().await;
    let (_waiting, session) = known(&world, world.lock("a").by_rank(1)).await;
    is_member(&world, "a").await;
    let requests = world.spanner.requests();
    sleep(LEASE).await;
    requests.reset();
    let began = Instant::now();
    sleep(LEASE * 10).await;
    let (polls, leases) = (began.elapsed().as_secs() * 4 / 3, 10_u64);
    let of = |rpc| requests.of_session(&session, rpc);
    assert!(of(Rpc::Commit) <= 2 * leases + 10, "{} commits", of(Rpc::Commit));
    let reads = of(Rpc::StreamingRead);
    assert!(reads <= polls + 3 * leases, "{reads} reads");
}

#[tokio::test]
async fn what_cannot_be_ranked_is_refused() {
    let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    assert!(refused(table.lock("job").preempt()).contains("`preempt` without `by_rank`"));
    assert!(refused(table.lock("a/b").by_rank(1)).contains("lock name"));
    assert!(refused(table.lock("job").id("a/b").by_rank(1)).contains("id \"a/b\""));
    let ranked = table.lock("job").by_rank(1);
    let refused = ranked.clone().build().unwrap().try_acquire().await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("try_acquire"), "{refused}");
    let minute = Duration::from_secs(60);
    let refused = ranked.run_once(minute, minute, |_| async {}).await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("run_once"), "{refused}");
}
