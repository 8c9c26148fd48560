//! Guards: the lock for the life of a value.

use std::pin::pin;
use std::time::Duration;

use futures_util::FutureExt as _;
use spindle::health::Role;
use spindle::{
    CancellationToken, Database, Guard, LockTable, ReleaseOutcome, Spindle, Term, TermEnd,
};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_protocol::Succession;
use tokio::time::{Instant, sleep, timeout};

use crate::log::Log;
use crate::world::{DATABASE, EVENTUALLY, LEASE, LOCK, World, lock_of, spindle, timed, until};

async fn acquire(lock: &Spindle) -> Guard {
    timeout(EVENTUALLY, lock.acquire()).await.expect("it acquires").unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_guard_is_renewed_for_as_long_as_it_is_there_and_released_when_told() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let guard = acquire(&lock).await;
    assert_eq!(lock.has_lock(), Some(guard.token()));
    sleep(LEASE * 5).await;
    assert_eq!(lock.has_lock(), Some(guard.token()));
    assert!(guard.remaining() > LEASE / 2 && !guard.is_cancelled());
    let term = Term::clone(&guard);
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    assert_eq!((lock.has_lock(), term.ended()), (None, Some(&TermEnd::LetGo)));
    assert!(world.is_released());
}

#[tokio::test(start_paused = true)]
async fn who_neither_waits_nor_holds_asks_spanner_nothing() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    acquire(&lock).await.release().await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 20).await;
    assert_eq!(requests.total(), 0, "{:?}", requests.each());
    assert_eq!(lock.health().role, Role::Idle);
    assert!(lock.health().is_ready());
    assert!(acquire(&lock).await.remaining() > LEASE / 2, "and yet it comes back");
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_poll_no_more_than_one() {
    let world = World::start().await;
    let _held = acquire(&spindle(&world, "a")).await;
    let lock = spindle(&world, "b");
    let waits = || {
        let lock = lock.clone();
        async move { drop(lock.acquire().await) }
    };
    let [one, fifty] = world.reads_of_waiters(waits).await;
    assert!(one > 25, "it polls: {one}");
    assert!(fifty <= one + one / 10, "{fifty} reads by 50, {one} by one");
}

#[tokio::test(start_paused = true)]
async fn those_who_wait_in_one_process_hold_one_after_the_other_in_their_order() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let mut tokens = Vec::new();
    let first = acquire(&lock).await;
    let waiting: Vec<_> = (0..5)
        .map(|_| {
            let lock = lock.clone();
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                sleep(Duration::from_millis(100)).await;
                assert!(!guard.is_cancelled());
                let token = guard.token();
                assert_eq!(guard.release().await, ReleaseOutcome::Released);
                token
            })
        })
        .collect();
    sleep(LEASE).await;
    tokens.push(first.token());
    drop(first);
    for waiter in waiting {
        tokens.push(timeout(EVENTUALLY, waiter).await.unwrap().unwrap());
    }
    assert!(tokens.is_sorted_by(|earlier, later| earlier < later), "{tokens:?}");
}

/// It waits for a poll interval before its own callers have their turn. Others poll at a phase of their own, and
/// about half of the phases come before it.
#[tokio::test(start_paused = true)]
async fn one_that_lets_go_leaves_the_lock_to_others_before_its_own_who_wait() {
    let world = World::start().await;
    let mut won_by_others = 0;
    for _ in 0..24 {
        let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
        let guard = acquire(&a).await;
        let [own, other] = [a.clone(), b.clone()].map(|lock| {
            tokio::spawn(async move {
                let guard = acquire(&lock).await;
                let token = guard.token();
                guard.release().await;
                token
            })
        });
        // Nobody has polled often enough to stand in line.
        sleep(LEASE / 20).await;
        guard.release().await;
        let (own, other) = (own.await.unwrap(), other.await.unwrap());
        won_by_others += u32::from(other < own);
    }
    assert!(won_by_others >= 2, "{won_by_others} of 24");
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_its_own_guard_is_told_so_when_its_time_is_over() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let guard = acquire(&lock).await;
    let refused = lock.acquire().within(LEASE).await.unwrap_err();
    assert!(refused.is_not_acquired(), "{refused}");
    let told = format!("a guard of this very instance has it, token {}", guard.token());
    assert!(refused.to_string().contains(&told), "{refused}");
    // The same call is right where another task gives the lock back in time.
    let again = lock.acquire().within(LEASE);
    let (again, _) = tokio::join!(again, guard.release());
    again.unwrap().release().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_waits_for_a_guard_that_it_took_itself_is_warned_at_once_and_others_never() {
    const WARNING: &str = "waits for a guard that it took itself";
    let (log, _capturing) = Log::capture();
    let world = World::start().await;
    let lock = spindle(&world, "a");
    // Also outside of any task.
    let guard = acquire(&lock).await;
    let nested = |within: Duration| timeout(within, lock.acquire());
    let asked = Instant::now();
    assert!(nested(Duration::from_millis(1)).await.is_err());
    let warning = log.the(WARNING);
    assert!(asked.elapsed() < Duration::from_millis(10));
    let token = guard.token();
    assert!(warning.says(&format!("lock=job id=a token={token}")), "{warning:?}");
    assert!(nested(Duration::from_secs(50)).await.is_err());
    assert_eq!(log.saying(WARNING).len(), 1, "once a minute at most");

    let other = lock.clone();
    let other = tokio::spawn(async move { drop(other.acquire().await.unwrap()) });
    sleep(LEASE * 2).await;
    assert_eq!(log.saying(WARNING).len(), 1, "another task only has to wait");
    drop(guard);
    // The loop has heard nothing of the drop yet.
    let guard = acquire(&lock).await;
    other.await.unwrap();
    assert_eq!(log.saying(WARNING).len(), 1, "the guard was gone");

    guard.release().await;
    let (task, its_own) = (lock.clone(), log.clone());
    let task = tokio::spawn(async move {
        let _guard = acquire(&task).await;
        assert!(timeout(LEASE, task.acquire()).await.is_err());
        its_own.saying(WARNING).len()
    });
    assert_eq!(task.await.unwrap(), 2);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_guard_frees_the_lock_soon() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let guard = acquire(&a).await;
    let waiting = tokio::spawn(async move { acquire(&b).await });
    sleep(LEASE).await;
    let token = guard.token();
    drop(guard);
    let (next, waited) = timed(waiting).await;
    assert!(next.unwrap().token() > token);
    assert!(waited <= Duration::from_millis(1_100), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn trying_takes_what_is_vacant_at_once_and_says_who_holds_what_is_not() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let (won, waited) = timed(a.try_acquire()).await;
    let Some(guard) = won.unwrap() else { panic!("nobody holds") };
    assert!(waited < Duration::from_millis(500), "{waited:?}");
    for lock in [&a, &b] {
        let (tried, waited) = timed(lock.try_acquire()).await;
        assert!(tried.unwrap().is_none(), "a holds");
        let by = lock.known_leader().unwrap();
        assert_eq!((by.holder(), by.token), (Some("a"), Some(guard.token())));
        assert!(waited < Duration::from_millis(500), "{waited:?}");
    }
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    assert!(b.try_acquire().await.unwrap().is_some(), "a release made it vacant");
}

#[tokio::test(start_paused = true)]
async fn trying_takes_an_expired_lock_on_the_first_poll() {
    let world = World::start().await;
    let a = world.elect("a").await;
    world.crash(&a).await;
    sleep(LEASE * 2).await;
    let (won, waited) = timed(spindle(&world, "b").try_acquire()).await;
    assert!(won.unwrap().is_some());
    assert!(waited < Duration::from_millis(500), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn one_of_many_who_try_at_once_wins_and_the_others_hear_who() {
    for was_held_before in [false, true] {
        let world = World::start().await;
        if was_held_before {
            let before = acquire(&spindle(&world, "before")).await;
            assert_eq!(before.release().await, ReleaseOutcome::Released);
        }
        many_try_at_once(&world).await;
    }
}

async fn many_try_at_once(world: &World) {
    let tries: Vec<_> = (0..8)
        .map(|n| {
            let lock = spindle(world, &format!("n{n}"));
            tokio::spawn(async move { (lock.try_acquire().await.unwrap(), lock) })
        })
        .collect();
    let mut held = Vec::new();
    let mut told = Vec::new();
    for tried in tries {
        match timeout(EVENTUALLY, tried).await.unwrap().unwrap() {
            (Some(guard), lock) => held.push((guard, lock)),
            (None, lock) => told.push(lock.known_leader().unwrap()),
        }
    }
    assert_eq!((held.len(), told.len()), (1, 7));
    let winner = held[0].1.id();
    assert!(told.iter().all(|by| by.holder() == Some(winner)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn waiting_has_an_end_if_one_is_given_and_leaves_nothing_behind() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let guard = acquire(&a).await;
    let limit = Duration::from_secs(3);
    let wait = b.acquire().within(LEASE * 100).within(limit);
    sleep(LEASE).await;
    assert!(b.health().role == Role::Idle, "it begins with the first poll, by the last limit");
    let (refused, waited) = timed(wait).await;
    let refused = refused.unwrap_err();
    assert!(refused.is_not_acquired() && refused.is_retryable(), "{refused}");
    assert_eq!(waited.as_secs(), 3);
    until("it is idle", || (b.health().role == Role::Idle).then_some(())).await;
    drop(guard);
    sleep(LEASE * 2).await;
    assert!(world.is_released(), "nobody wants it");
    for limit in [Duration::ZERO, Duration::MAX] {
        assert!(b.acquire().within(limit).await.unwrap_err().is_config());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_says_so_before_the_lease_has_run_out() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let guard = acquire(&lock).await;
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    timeout(EVENTUALLY, guard.cancelled()).await.expect("it is lost");
    assert!(!guard.remaining().is_zero(), "there is time to stop");
    assert_eq!(lock.has_lock(), None);
    let ended = guard.release().await;
    let is_lost = matches!(&ended, ReleaseOutcome::EndedBefore(TermEnd::OutOfContact { .. }));
    assert!(is_lost, "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_that_is_not_answered_says_so() {
    let world = World::start().await;
    let guard = acquire(&spindle(&world, "a")).await;
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    let (release, waited) = timed(guard.release()).await;
    let ReleaseOutcome::Unacknowledged { held_for, .. } = release else { panic!("{release:?}") };
    // The margin, and the tick of a timer.
    assert!(held_for <= LEASE / 90, "{held_for:?}");
    assert!(waited > LEASE / 2 && waited <= LEASE, "for as long as the row is held: {waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_row_taken_from_under_a_guard_is_not_released() {
    let world = World::start().await;
    let guard = acquire(&spindle(&world, "a")).await;
    world.delete_row(LOCK).await;
    let ReleaseOutcome::EndedBefore(TermEnd::Superseded { by: None, .. }) = guard.release().await
    else {
        panic!("the row is gone");
    };
}

#[tokio::test(start_paused = true)]
async fn an_instance_is_driven_by_run_or_by_guards_and_never_by_both() {
    let world = World::start().await;
    let running = world.elect("a").await;
    let refused = running.lock.acquire().await.unwrap_err();
    assert!(refused.is_config() && running.lock.has_lock().is_some(), "{refused}");
    assert!(running.lock.try_acquire().await.unwrap_err().is_config());
    running.stop().await;

    let lock = spindle(&world, "b");
    let guard = acquire(&lock).await;
    assert!(lock.run(CancellationToken::new()).await.unwrap_err().is_config());
    assert!(!guard.is_cancelled());
    let unusable = Spindle::new(world.client().await, "no table", "job");
    assert!(unusable.acquire().await.unwrap_err().is_config());
}

#[tokio::test(start_paused = true)]
async fn what_waiting_cannot_cure_is_said_at_once() {
    let world = World::start().await;
    let table = LockTable::new(Database::at(world.spanner.endpoint(), DATABASE), "missing");
    let lock = lock_of(&table, LOCK).build().unwrap();
    let refused = timeout(EVENTUALLY, lock.acquire()).await.unwrap().unwrap_err();
    assert!(refused.is_schema(), "{refused}");
    assert!(timeout(EVENTUALLY, lock.try_acquire()).await.unwrap().unwrap_err().is_schema());
    let elsewhere = DATABASE.replace("/databases/", "/databases/no-");
    let table = LockTable::new(Database::at(world.spanner.endpoint(), elsewhere), "locktable");
    let lock = lock_of(&table, LOCK).build().unwrap();
    let (refused, took) = timed(lock.try_acquire()).await;
    assert!(took < LEASE, "{took:?}: {}", refused.unwrap_err());
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out() {
    let world = World::start().await;
    let outage = world.spanner.inject(Fault::any());
    let lock = spindle(&world, "a");
    let refused = lock.acquire().within(LEASE).await.unwrap_err();
    assert!(refused.is_not_acquired(), "{refused}");
    assert!(lock.try_acquire().await.is_err(), "it could not poll");
    let waiting = tokio::spawn(async move { acquire(&lock).await });
    sleep(LEASE * 3).await;
    outage.remove();
    timeout(EVENTUALLY, waiting).await.unwrap().unwrap().release().await;
}

/// Reads are answered, and what they show is a lock that anybody may take.
#[tokio::test(start_paused = true)]
async fn a_try_whose_writes_fail_ends_with_the_reason() {
    let refused = Effect::Fail(Code::Unavailable);
    for (effect, was_held) in [refused, Effect::Stall, Effect::Fail(Code::Aborted)]
        .into_iter()
        .flat_map(|effect| [(effect, false), (effect, true)])
    {
        let world = World::start().await;
        let lock = spindle(&world, "a");
        if was_held {
            acquire(&lock).await.release().await;
        }
        let outage = world.spanner.inject(Fault::on(Rpc::Commit).effect(effect));
        for _ in 0..2 {
            let (tried, took) = timed(timeout(EVENTUALLY, lock.try_acquire())).await;
            let tried = tried.unwrap_or_else(|_| panic!("{effect:?}, {was_held}: no answer"));
            let Err(reason) = tried else { panic!("{effect:?}, {was_held}: {tried:?}") };
            assert!(reason.is_retryable() || reason.is_outcome_unknown(), "{reason}");
            // The last attempt may wait for its turn until its limit, and a little longer for the answer.
            let longest = LEASE * 2 + Duration::from_millis(10);
            assert!(took <= longest, "{effect:?}, {was_held}: {took:?}");
        }
        outage.remove();
        let won = timeout(EVENTUALLY, lock.try_acquire()).await.unwrap().unwrap();
        assert!(won.is_some(), "{effect:?}, {was_held}");
    }
}

/// On Google's emulator each transaction ends the others of its session.
#[tokio::test(start_paused = true)]
async fn a_try_whose_transaction_another_one_ended_has_the_lock_all_the_same() {
    for code in [Code::Aborted, Code::NotFound, Code::FailedPrecondition] {
        let world = World::start().await;
        let lock = spindle(&world, "a");
        for _ in 0..2 {
            world.spanner.inject(Fault::on(Rpc::Commit).times(3).effect(Effect::Fail(code)));
            let (won, took) = timed(lock.try_acquire()).await;
            won.unwrap().expect("nobody has it").release().await;
            assert!(took < LEASE, "{code:?}: {took:?}");
        }
        world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Fail(code)));
        let (refused, took) = timed(timeout(EVENTUALLY, lock.try_acquire())).await;
        assert!(refused.unwrap().is_err() && took < LEASE * 2, "{code:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_named_successor_has_first_refusal_and_then_anyone() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let (b, c) = (world.contend("b"), world.contend("c"));
    sleep(LEASE).await;
    assert!(a.lock.resign().to("c").await.unwrap());
    c.holds().await;
    assert!(b.is_standby());
    // Nobody is called so: the lock is vacant for a lease, then anyone's.
    let (_, waited) = timed(async {
        assert!(c.lock.resign().to("nobody").await.unwrap());
        until("someone holds", || [&a, &b, &c].into_iter().find_map(|it| it.lock.has_lock())).await
    })
    .await;
    assert!(waited >= LEASE && waited <= LEASE + Duration::from_millis(1_500), "{waited:?}");
    for id in ["", ">b", "b\n"] {
        assert!(a.lock.resign().to(id).await.unwrap_err().is_config(), "{id:?}");
    }
    let day = Duration::from_secs(24 * 60 * 60);
    for grace in [Duration::ZERO, day + Duration::from_secs(1)] {
        assert!(a.lock.resign().to("b").grace(grace).await.unwrap_err().is_config(), "{grace:?}");
    }
    assert!(a.lock.resign().grace(LEASE).await.unwrap_err().is_config(), "nobody to wait for");
}

#[tokio::test(start_paused = true)]
async fn a_successor_that_is_not_there_has_its_grace_and_no_longer() {
    let world = World::start().await;
    let (a, grace) = (world.elect("a").await, LEASE * 3);
    let b = world.contend("b");
    let (_, waited) = timed(async {
        assert!(a.lock.resign().to("nobody").grace(grace).await.unwrap());
        until("someone holds", || [&a, &b].into_iter().find_map(|it| it.lock.has_lock())).await
    })
    .await;
    assert!(waited >= grace && waited <= grace + Duration::from_millis(1_500), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn resigning_under_a_guard_ends_its_term() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let guard = acquire(&lock).await;
    assert!(lock.resign().await.unwrap());
    assert_eq!(guard.ended(), Some(&TermEnd::LetGo));
    assert!(world.is_released());
    assert_eq!(guard.release().await, ReleaseOutcome::EndedBefore(TermEnd::LetGo));
    assert!(!lock.resign().await.unwrap());
    let (tried, took) = timed(lock.try_acquire()).await;
    assert!(tried.unwrap().is_none() && took < LEASE / 10, "it keeps away for a lease: {took:?}");
    let (_, took) = timed(acquire(&lock)).await;
    assert!(took > LEASE / 10 * 9 && took < LEASE * 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_beside_a_resignation_hears_that_the_lock_is_free() {
    let world = World::start().await;
    let lock = spindle(&world, "a");
    let guard = acquire(&lock).await;
    let (released, resigned) = tokio::join!(guard.release(), lock.resign());
    assert_eq!(released, ReleaseOutcome::Released);
    assert!(resigned.unwrap() && world.is_released());
}

#[tokio::test(start_paused = true)]
async fn one_that_resigned_leaves_the_lock_to_others_though_its_callers_ask_at_once() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let guard = acquire(&a).await;
    let mut acquiring = pin!(b.acquire());
    assert!(timeout(LEASE, &mut acquiring).await.is_err(), "it is held");
    let again = async {
        guard.cancelled().await;
        acquire(&a).await
    };
    let resigning = async {
        assert!(a.resign().await.unwrap());
        acquiring.await.unwrap()
    };
    tokio::select! {
        biased;
        again = again => panic!("it took its lock back: {again:?}"),
        other = resigning => drop(other),
    }
}

#[tokio::test(start_paused = true)]
async fn a_try_while_the_lock_is_held_here_takes_nothing_back_before_others_have_polled() {
    let world = World::start().await;
    let (a, b) = (spindle(&world, "a"), spindle(&world, "b"));
    let guard = acquire(&a).await;
    assert!(a.try_acquire().await.unwrap().is_none());
    let mut here = pin!(a.acquire());
    let mut elsewhere = pin!(b.acquire());
    // It polls once, and has no place in line.
    let both = async {
        tokio::select! { _ = &mut here => {}, _ = &mut elsewhere => {} }
    };
    assert!(timeout(Duration::from_millis(500), both).await.is_err(), "it is held");
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
    tokio::select! {
        _ = here => panic!("it was taken back"),
        other = elsewhere => drop(other.unwrap()),
    }
}

#[tokio::test(start_paused = true)]
async fn verifying_does_not_confirm_a_term_that_ended_while_it_asked() {
    let world = World::start().await;
    let a = world.elect("a").await;
    // Right after a heartbeat: from here on none comes through, and the answer takes its time.
    world.holders_session().await;
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let slow = Duration::from_secs(4);
    until("the term is nearly over", || (a.lock.term()?.remaining() < slow / 2).then_some(()))
        .await;
    world.spanner.inject(Fault::on(Rpc::StreamingRead).effect(Effect::Delay(slow)));
    let verified = a.lock.verify().await;
    assert_eq!(a.lock.has_lock(), None, "the term was over when the answer came");
    let refused = verified.unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
}

#[tokio::test(start_paused = true)]
async fn each_heartbeat_of_a_guard_is_told_with_the_time_that_it_gives() {
    let world = World::start().await;
    let guard = world.lock("a").build().unwrap().acquire().await.unwrap();
    for _ in 0..5 {
        let renewed = guard.renewed();
        let before = Instant::now() + guard.remaining();
        timeout(LEASE, renewed).await.unwrap();
        let after = Instant::now() + guard.remaining();
        // By how much depends on the ticks at which the locks of this process act together.
        assert!(after > before, "it is longer when it is told");
    }
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    let renewed = guard.renewed();
    tokio::select! {
        () = renewed => panic!("nothing was renewed"),
        () = guard.cancelled() => {}
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_lapses_sends_nothing_and_its_lease_runs_out() {
    let world = World::start().await;
    let guard = world.lock("a").build().unwrap().acquire().await.unwrap();
    let term = (*guard).clone();
    let began = Instant::now();
    guard.lapse().await;
    assert_eq!(term.ended(), Some(&TermEnd::Lapsed));
    assert!(term.is_cancelled() && began.elapsed() < LEASE / 10, "it is over at once");
    let state = world.table().inspect(LOCK).await.unwrap();
    assert_eq!(state.token, Some(term.token()), "and was not released");
    let next = world.lock("b").build().unwrap().acquire().await.unwrap();
    assert!(began.elapsed() >= LEASE * 9 / 10, "{:?}", began.elapsed());
    assert!(next.token() > term.token());
}

#[tokio::test(start_paused = true)]
async fn what_a_guard_said_counts_though_it_was_the_last_handle_and_nobody_waits_for_the_answer() {
    let world = World::start().await;
    let guard = world.lock("a").build().unwrap().acquire().await.unwrap();
    let (token, began) = (guard.token(), Instant::now());
    assert!(guard.lapse().now_or_never().is_none());
    let guard = world.lock("b").build().unwrap().acquire().await.unwrap();
    assert!(began.elapsed() >= LEASE * 9 / 10, "it lapsed: {:?}", began.elapsed());
    assert!(guard.token() > token);
    let next = Succession::Successor { id: "c".into(), grace: LEASE };
    assert!(guard.release_to(next).now_or_never().is_none());
    let row = until("it is released", || world.row(LOCK).filter(|row| row.heartbeat == Some(0)));
    let writer = row.await.writer.unwrap();
    assert!(writer.contains('c'), "{writer}");
}
