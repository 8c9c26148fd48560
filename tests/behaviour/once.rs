//! Scheduled jobs that one node of a fleet runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use spindle::job::{JobOutcome, RunState};
use spindle::{Holding, Term};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, LOCK, World, timed, until};

const AT_LEAST: Duration = Duration::from_secs(60);
const AT_MOST: Duration = Duration::from_secs(300);
const SECOND: Duration = Duration::from_secs(1);

/// A job that takes a second.
async fn short(_: Term) -> &'static str {
    sleep(SECOND).await;
    "done"
}

async fn runs(world: &World, id: &str) -> bool {
    let once = timeout(EVENTUALLY, world.lock(id).run_once(AT_LEAST, AT_MOST, short));
    match once.await.unwrap().unwrap() {
        JobOutcome::Ran("done") => true,
        JobOutcome::Skipped(_) => false,
        other => panic!("{other:?}"),
    }
}

async fn last_run(world: &World) -> (String, RunState) {
    let run = world.table().last_run(LOCK).await.unwrap().expect("it ran");
    (run.by, run.state)
}

#[tokio::test(start_paused = true)]
async fn of_many_nodes_one_runs_and_the_others_skip() {
    let world = World::start().await;
    let ran = Arc::new(AtomicUsize::new(0));
    let nodes: Vec<_> = (0..5)
        .map(|n| {
            let (node, ran) = (world.lock(&format!("n{n}")), Arc::clone(&ran));
            tokio::spawn(node.run_once(AT_LEAST, AT_MOST, move |_| async move {
                ran.fetch_add(1, Ordering::SeqCst);
            }))
        })
        .collect();
    for node in nodes {
        timeout(EVENTUALLY, node).await.unwrap().unwrap().unwrap();
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_late_schedule_does_not_run_it_again_within_at_least_and_does_after() {
    let world = World::start().await;
    assert!(runs(&world, "a").await);
    let took = match last_run(&world).await {
        (by, RunState::Finished { took, .. }) if by == "a" => took,
        other => panic!("{other:?}"),
    };
    assert!(took >= SECOND && took < SECOND * 2, "{took:?}");
    assert_eq!(world.table().inspect(LOCK).await.unwrap().holder(), None);
    // An operator sees for how much longer it is kept.
    let state = world.table().inspect(LOCK).await.unwrap();
    let Holding::Cooldown { remaining: rest, .. } = state.holding else { panic!("{state:?}") };
    assert!(rest > AT_LEAST - SECOND * 2 && rest <= AT_LEAST, "{rest:?}");
    // From its start, not its end; and the process that ran it is gone, so to speak.
    sleep(AT_LEAST - SECOND * 2).await;
    for id in ["a", "b"] {
        assert!(!runs(&world, id).await, "{id} runs it again");
    }
    sleep(SECOND + Duration::from_millis(100)).await;
    assert_eq!(world.table().inspect(LOCK).await.unwrap().holding, Holding::Released);
    assert!(runs(&world, "b").await);
}

#[tokio::test(start_paused = true)]
async fn a_run_longer_than_at_least_frees_the_lock_at_its_end() {
    let world = World::start().await;
    let a = world.lock("a").run_once(SECOND, AT_MOST, |term: Term| async move {
        sleep(AT_LEAST).await;
        !term.is_cancelled()
    });
    assert_eq!(a.await.unwrap(), JobOutcome::Ran(true));
    assert!(runs(&world, "b").await);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_a_run_keeps_it_from_others_until_at_most() {
    let world = World::start().await;
    let dies = world.lock("a").release_limit(SECOND * 5);
    let running = tokio::spawn(dies.run_once(AT_LEAST, AT_MOST, |_| async {
        std::future::pending::<()>().await;
    }));
    sleep(SECOND).await;
    assert_eq!(last_run(&world).await, ("a".to_string(), RunState::Running));
    // Spanner hears nothing of the end.
    let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
    running.abort();
    sleep(SECOND * 30).await;
    silence.remove();

    sleep(AT_LEAST).await;
    let skipped = world.lock("b").run_once(AT_LEAST, AT_MOST, short).await.unwrap();
    let JobOutcome::Skipped(Some(run)) = skipped else { panic!("{skipped:?}") };
    assert_eq!((run.by.as_str(), run.state), ("a", RunState::Running));
    sleep(AT_MOST - AT_LEAST - SECOND * 30).await;
    assert_eq!(last_run(&world).await, ("a".to_string(), RunState::Interrupted));
    assert!(runs(&world, "b").await, "free after at_most");
    assert_eq!(last_run(&world).await.0, "b");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_while_spanner_fails_is_released_when_it_answers_again() {
    for loses_a_reply in [false, true] {
        let world = World::start().await;
        let once = tokio::spawn(world.lock("a").run_once(AT_LEAST, AT_MOST, short));
        until("it runs", || world.row(LOCK)).await;
        let (reads, commits) = (Rpc::StreamingRead, Rpc::Commit);
        // It is applied, and nobody hears that.
        let lost = loses_a_reply
            .then(|| world.spanner.inject(Fault::on(commits).times(1).effect(Effect::LoseReply)));
        let failing = if loses_a_reply {
            until("its reply is lost", || lost.as_ref().filter(|lost| lost.hits() > 0)).await;
            world.spanner.inject(Fault::on(reads))
        } else {
            world.spanner.inject(Fault::any())
        };
        sleep(SECOND * 20).await;
        failing.remove();
        let outcome = timeout(SECOND * 30, once).await.expect("soon").unwrap().unwrap();
        assert_eq!(outcome, JobOutcome::Ran("done"));
        assert!(matches!(last_run(&world).await.1, RunState::Finished { .. }));
        sleep(AT_LEAST).await;
        assert!(runs(&world, "b").await, "long before `at_most`");
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_release_is_given_up_says_for_how_long_it_looks_held() {
    let world = World::start().await;
    let lock = world.lock("a").release_limit(SECOND * 5);
    let once = tokio::spawn(lock.run_once(AT_LEAST, AT_MOST, short));
    until("it runs", || world.row(LOCK)).await;
    let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
    let outcome = timeout(SECOND * 10, once).await.expect("in its limit").unwrap().unwrap();
    let JobOutcome::Unreleased { returned: "done", held_for, .. } = outcome else {
        panic!("{outcome:?}")
    };
    assert!(held_for > AT_MOST - SECOND * 7 && held_for < AT_MOST - SECOND * 5, "{held_for:?}");
    silence.remove();
    sleep(held_for - SECOND).await;
    assert!(!runs(&world, "b").await);
    sleep(SECOND * 2).await;
    assert!(runs(&world, "b").await);
}

#[tokio::test(start_paused = true)]
async fn who_holds_the_lock_otherwise_is_no_run() {
    let world = World::start().await;
    let guard = world.lock("a").build().unwrap().acquire().await.unwrap();
    sleep(LEASE).await;
    assert_eq!(world.table().last_run(LOCK).await.unwrap(), None);
    let skipped = world.lock("b").run_once(AT_LEAST, AT_MOST, short).await.unwrap();
    assert_eq!(skipped, JobOutcome::Skipped(None));
    guard.release().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_before_it_starts_runs_nothing_and_leaves_nothing() {
    let world = World::start().await;
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let silence = world.spanner.inject(Fault::any().effect(Effect::Stall));
    let starting = world.lock("a").run_once(AT_LEAST, AT_MOST, move |_| async move {
        counted.fetch_add(1, Ordering::SeqCst);
    });
    assert!(timeout(SECOND, starting).await.is_err(), "spanner doesn't answer");
    silence.remove();
    sleep(SECOND).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert!(runs(&world, "b").await);
}

/// The begin is applied, its answer lost, and then Spanner is silent for 20 s.
#[tokio::test(start_paused = true)]
async fn a_run_that_could_begin_only_past_its_limit_is_left_to_others() {
    let world = World::start().await;
    assert!(runs(&world, "before").await);
    sleep(AT_LEAST * 2).await;
    let before = last_run(&world).await;

    let lost = Fault::on(Rpc::Commit).table("locktable").key(LOCK).times(1);
    let lost = world.spanner.inject(lost.effect(Effect::LoseReply));
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let late = tokio::spawn(world.lock("a").run_once(AT_LEAST, AT_MOST, move |_| async move {
        counted.fetch_add(1, Ordering::SeqCst);
    }));
    until("the begin is applied", || (lost.hits() == 1).then_some(())).await;
    let outage = world.spanner.inject(Fault::any().effect(Effect::Stall));
    sleep(SECOND * 20).await;
    outage.remove();

    let JobOutcome::TooLate { after, .. } =
        timeout(EVENTUALLY, late).await.unwrap().unwrap().unwrap()
    else {
        panic!("its limit is six seconds")
    };
    assert!(after >= SECOND * 20, "{after:?}");
    assert_eq!(ran.load(Ordering::SeqCst), 0);
    assert_eq!(last_run(&world).await, before, "the row tells of the last run that was");
    assert!(runs(&world, "b").await, "another within its own limit may start at once");
}

#[tokio::test(start_paused = true)]
async fn a_start_limit_that_was_set_counts() {
    let world = World::start().await;
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::DelayReply(SECOND)));
    let hasty = world.lock("a").start_limit(SECOND / 2).run_once(AT_LEAST, AT_MOST, short);
    assert!(matches!(hasty.await.unwrap(), JobOutcome::TooLate { .. }));
    let patient = world.lock("a").start_limit(SECOND * 2).run_once(AT_LEAST, AT_MOST, short);
    assert_eq!(patient.await.unwrap(), JobOutcome::Ran("done"));
    for limit in [Duration::ZERO, AT_MOST + SECOND] {
        let refused = world.lock("a").start_limit(limit).run_once(AT_LEAST, AT_MOST, short);
        assert!(refused.await.unwrap_err().is_config());
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_that_overruns_is_told_to_stop_and_aborted_before_others_may_run_it() {
    let world = World::start().await;
    let overrun = world.lock("a").run_once(SECOND, AT_LEAST, |term: Term| async move {
        term.cancelled().await;
        assert!(!term.remaining().is_zero());
        "stopped"
    });
    let (overrun, took) = timed(overrun).await;
    assert_eq!(overrun.unwrap(), JobOutcome::Overran(Some("stopped")));
    assert!(took > AT_LEAST / 2 && took < AT_LEAST, "{took:?}");
    sleep(AT_LEAST).await;
    let deaf = world.lock("a").run_once(SECOND, AT_LEAST, |_| std::future::pending::<()>());
    let (deaf, took) = timed(deaf).await;
    assert_eq!(deaf.unwrap(), JobOutcome::Overran(None));
    assert!(took < AT_LEAST, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_and_a_drop_are_runs_all_the_same_and_seen_as_what_they_were() {
    let world = World::start().await;
    let panics = world.lock("a").run_once(AT_LEAST, AT_MOST, |_| async {
        sleep(SECOND).await;
        assert_eq!(SECOND, AT_LEAST, "no ink");
    });
    let error = panics.await.unwrap_err();
    assert!(error.is_panic() && error.to_string().contains("no ink"), "{error}");
    assert_eq!(last_run(&world).await, ("a".to_string(), RunState::Panicked));
    assert!(!runs(&world, "b").await, "it was started");

    sleep(AT_LEAST).await;
    let dropped = world.lock("b").run_once(AT_LEAST, AT_MOST, |_| std::future::pending::<()>());
    assert!(timeout(SECOND, dropped).await.is_err());
    sleep(SECOND).await;
    assert_eq!(last_run(&world).await, ("b".to_string(), RunState::Aborted));
    assert!(!runs(&world, "a").await, "it was started");
}

#[tokio::test(start_paused = true)]
async fn durations_that_cannot_work_are_refused_before_anything_is_sent() {
    let world = World::start().await;
    let requests = world.spanner.requests();
    requests.reset();
    for (at_least, at_most) in [
        (Duration::ZERO, AT_MOST),
        (AT_MOST, AT_LEAST),
        (Duration::from_nanos(1), Duration::from_millis(99)),
        (AT_LEAST, Duration::MAX),
    ] {
        let error = world.lock("a").run_once(at_least, at_most, short).await.unwrap_err();
        assert!(error.is_config(), "{error}");
    }
    let nameless = world.table().lock("").run_once(AT_LEAST, AT_MOST, short);
    assert!(nameless.await.unwrap_err().is_config());
    assert_eq!(requests.total(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_others_get_in_the_way_of_is_skipped_or_too_late_and_no_error() {
    let world = World::start().await;
    let reads = Fault::on(Rpc::StreamingRead).table("locktable").times(2).effect(Effect::Abort);
    let aborted = world.spanner.inject(reads);
    assert!(runs(&world, "a").await);
    assert_eq!(aborted.hits(), 2);
    // Its transactions end for longer than it may be started.
    for effect in [Effect::Abort, Effect::Fail(Code::NotFound)] {
        sleep(AT_LEAST).await;
        let commits = Fault::on(Rpc::Commit).table("locktable").effect(effect);
        let ended = world.spanner.inject(commits);
        let once = world.lock("b").run_once(AT_LEAST, AT_MOST, short);
        let outcome = timeout(EVENTUALLY, once).await.unwrap().unwrap();
        assert!(matches!(outcome, JobOutcome::TooLate { .. }), "{effect:?}: {outcome:?}");
        assert!(ended.hits() > 0);
        ended.remove();
    }
}
