//! Probes and the answers that they get.

use std::time::Duration;

use spindle::health::{Failing, Role};
use spindle::{CancellationToken, LockTable, Term};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep};
use tracing::Level;

use crate::log::Log;
use crate::world::{Contender, LEASE, LOCK, World, lock_of, until};

#[tokio::test(start_paused = true)]
async fn nothing_is_ready_before_spanner_has_answered_once() {
    let world = World::start().await;
    let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
    let a = world.contend("a");
    for _ in 0..200 {
        let health = a.lock.health();
        assert!(!health.is_ready() && !health.is_started() && health.is_alive(), "{health:?}");
        sleep(Duration::from_millis(100)).await;
    }
    silence.remove();
    a.holds().await;
    let health = a.lock.health();
    assert!(health.is_ready() && health.is_started() && health.is_alive(), "{health:?}");
}

#[tokio::test(start_paused = true)]
async fn a_tables_health_is_the_worst_of_all_that_it_runs_and_names_what_is_in_trouble() {
    let world = World::start().await;
    let table = world.table();
    let told = || table.health();
    assert!(told().is_ready() && told().instances == 0, "{:?}", told());
    let idle = lock_of(&table, "idle").build().unwrap();
    let running = Contender::run(lock_of(&table, "runs"));
    assert!(!told().is_started() && told().to_string() == "lock `runs`: no answer yet");
    running.holds().await;
    assert!(told().is_started() && told().is_ready(), "{:?}", told());

    let (failing, cancel) = (lock_of(&table, "fails").build().unwrap(), CancellationToken::new());
    let leading = failing.lead(cancel.clone(), |_| async { Err::<(), _>("out of paper") });
    let leading = tokio::spawn(leading);
    until("it is in trouble", || (!told().is_ready()).then_some(())).await;
    let names = |names: &[&str]| {
        let health = told();
        let told = health.in_trouble.iter().map(|(name, _)| &**name).collect::<Vec<_>>();
        assert_eq!(told, names, "{health}");
        health
    };
    let health = names(&["fails"]);
    assert!(health.is_alive() && health.is_started() && health.instances == 2, "{health:?}");
    assert!(
        health.to_string().contains("lock `fails`") && health.to_string().contains("out of paper")
    );

    // Trouble that has lasted longer stands first.
    let outage = world.spanner.inject(Fault::any().effect(Effect::Stall));
    sleep(LEASE * 3).await;
    names(&["fails", "runs"]);
    outage.remove();
    until("one works again", || (told().in_trouble.len() == 1).then_some(())).await;

    // An end that was asked for is no trouble, nor is a lock that is gone.
    cancel.cancel();
    leading.await.unwrap().unwrap();
    let _ended = running.lock.clone();
    running.stop().await;
    drop((failing, idle));
    until("nothing is left", || (told().instances == 0 && told().is_ready()).then_some(())).await;
}

/// Ten leases are less than the two minutes, to which each process adds up to a fifth.
#[tokio::test(start_paused = true)]
async fn silence_calls_for_a_restart_on_a_client_that_was_given_and_on_no_other() {
    let (log, _capturing) = Log::capture();
    let world = World::start().await;
    let table = LockTable::new(world.client().await, "locktable");
    let holder = Contender::run(lock_of(&table, LOCK));
    holder.holds().await;
    let standby = Contender::run(lock_of(&table, LOCK));
    let own = [Contender::run(world.lock("b")), Contender::run(lock_of(&world.table(), "other"))];
    own[1].holds().await;

    let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
    let (began, two_minutes) = (Instant::now(), Duration::from_secs(120));
    let mut dead_after = None;
    while began.elapsed() < two_minutes * 5 {
        let given = [&holder, &standby].map(|one| one.lock.health());
        if given.iter().any(|health| !health.is_alive()) {
            dead_after.get_or_insert_with(|| began.elapsed());
        }
        assert!(own.iter().all(|one| one.lock.health().is_alive()), "it connects anew");
        sleep(Duration::from_millis(500)).await;
    }
    let dead_after = dead_after.expect("it says so");
    assert!(dead_after >= two_minutes && dead_after < two_minutes * 13 / 10, "{dead_after:?}");
    for health in [holder.lock.health(), standby.lock.health()] {
        assert!(!health.is_alive() && !health.is_ready(), "{health:?}");
        let trouble = health.trouble.unwrap();
        assert_eq!(trouble.what, Failing::Client);
        let text = trouble.error.to_string();
        assert!(text.contains("lock `job`") && text.contains("restart the process"), "{text}");
    }
    let said = log.the("the client that was given is dead: restart the process");
    assert!(said.level == Level::ERROR && said.says("lock=job"), "{said:?}");

    silence.remove();
    until("both have answers", || {
        [&holder, &standby].iter().all(|one| one.lock.health().is_alive()).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_client_with_answers_for_anybody_is_not_dead() {
    let world = World::start().await;
    let table = LockTable::new(world.client().await, "locktable");
    let (a, b) = (Contender::run(lock_of(&table, LOCK)), Contender::run(lock_of(&table, "other")));
    let _held = (a.holds().await, b.holds().await);
    world.spanner.inject(Fault::any().key(LOCK).effect(Effect::Stall));
    for _ in 0..600 {
        assert!(a.lock.health().is_alive() && b.lock.health().is_alive(), "{:?}", a.lock.health());
        sleep(Duration::from_secs(1)).await;
    }
    assert!(!a.lock.health().is_ready() && b.lock.has_lock().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_write_that_fails_is_not_made_good_by_the_reads_in_between() {
    let world = World::start().await;
    let denied = Fault::on(Rpc::Commit).effect(Effect::Fail(Code::PermissionDenied));
    let denied = world.spanner.inject(denied);
    let a = world.contend("a");
    let fails_again = || a.lock.health().trouble.filter(|trouble| trouble.count > 1).map(|_| ());
    until("the second write fails", fails_again).await;
    for _ in 0..250 {
        sleep(Duration::from_millis(100)).await;
        let health = a.lock.health();
        assert!(!health.is_ready() && health.is_started(), "{health:?}");
    }
    let trouble = a.lock.health().trouble.unwrap();
    assert!(trouble.what == Failing::Writes && trouble.error.is_denied(), "{trouble:?}");
    assert!(trouble.lasting >= Duration::from_secs(25), "{trouble:?}");
    denied.remove();
    a.holds().await;
    assert!(a.lock.health().is_ready());
}

#[tokio::test(start_paused = true)]
async fn one_missed_heartbeat_is_told_and_harmless_and_two_are_not() {
    let world = World::start().await;
    let a = world.elect("a").await;
    for (missed, is_ready) in [(1, true), (2, false)] {
        let lost = Fault::on(Rpc::Commit).effect(Effect::Fail(Code::PermissionDenied));
        world.spanner.inject(lost.times(missed));
        let count = || a.lock.health().trouble.map(|trouble| trouble.count);
        until("they are missed", || count().filter(|count| *count == missed)).await;
        assert_eq!(a.lock.health().is_ready(), is_ready, "{:?}", a.lock.health());
        until("it recovers", || a.lock.health().trouble.is_none().then_some(())).await;
        assert!(a.lock.health().is_ready() && a.lock.has_lock().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_failed_is_no_trouble_once_another_holds() {
    let world = World::start().await;
    let requests = world.spanner.requests();
    requests.reset();
    let denied = Fault::on(Rpc::Commit).effect(Effect::Fail(Code::PermissionDenied)).times(1);
    world.spanner.inject(denied);
    let b = world.contend("b");
    let what = || b.lock.health().trouble.map(|trouble| trouble.what);
    assert_eq!(until("its write fails", what).await, Failing::Writes);
    // From here on it can't write at all, so another wins.
    for session in requests.sessions() {
        let denied = Fault::on(Rpc::Commit).session(session);
        world.spanner.inject(denied.effect(Effect::Fail(Code::PermissionDenied)));
    }
    until("it is not ready", || (!b.lock.health().is_ready()).then_some(())).await;
    let a = world.elect("a").await;
    until("it is ready", || b.lock.health().is_ready().then_some(())).await;
    assert!(a.lock.health().is_ready());
}

/// Not for the moment in which it has lost the lock, either.
#[tokio::test(start_paused = true)]
async fn a_leader_that_loses_its_lock_in_an_outage_is_not_ready_until_that_is_over() {
    let world = World::start().await;
    let (log, _guard) = Log::capture();
    let lock = world.lock("a").build().unwrap();
    let leading = lock.clone();
    tokio::spawn(async move {
        leading.lead(CancellationToken::new(), async |term: Term| term.cancelled().await).await
    });
    until("it leads", || lock.has_lock()).await;
    let outage = world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    until("it is not ready", || (!lock.health().is_ready()).then_some(())).await;
    for _ in 0..300 {
        sleep(Duration::from_millis(100)).await;
        assert!(!lock.health().is_ready(), "{:?}", lock.health());
    }
    assert_eq!(lock.has_lock(), None);
    outage.remove();
    until("it leads", || lock.has_lock()).await;
    assert!(lock.health().is_ready(), "{:?}", lock.health());
    // One cause, be it heartbeats or polls that fail of it; and each kind that failed is over.
    log.the("requests fail locks=");
    log.the("requests fail no more");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_nobody_wants_is_idle_and_ready() {
    let world = World::start().await;
    let lock = world.lock("a").build().unwrap();
    let idle = || {
        let health = lock.health();
        health.role == Role::Idle && health.is_ready() && health.is_started() && health.is_alive()
    };
    assert!(idle(), "{:?}", lock.health());
    lock.acquire().await.unwrap().release().await;
    until("it is idle again", || idle().then_some(())).await;
    world.spanner.inject(Fault::any().effect(Effect::Stall));
    assert!(lock.acquire().within(LEASE).await.is_err());
    until("it is idle again", || idle().then_some(())).await;
    sleep(LEASE * 10).await;
    assert!(idle(), "{:?}", lock.health());
}

#[tokio::test(start_paused = true)]
async fn a_namesake_that_holds_ends_the_trouble_of_taking_the_lock() {
    let world = World::start().await;
    let refuse = |fault: Fault| world.spanner.inject(fault.effect(Effect::Fail(Code::Internal)));
    let refused = refuse(Fault::on(Rpc::Commit).table("locktable"));
    let first = world.contend("same");
    let fails_again = || first.lock.health().trouble.filter(|trouble| trouble.count > 1);
    until("it can't take the lock", fails_again).await;
    let session = world.spanner.requests().sessions().remove(0);
    let _refused_to_it = refuse(Fault::on(Rpc::Commit).session(session));
    refused.remove();
    let second = world.elect("same").await;
    sleep(LEASE).await;
    let health = first.lock.health();
    assert!(first.is_standby() && health.is_ready(), "there is nothing to write: {health:?}");
    second.stop().await;
    first.stop().await;
}
