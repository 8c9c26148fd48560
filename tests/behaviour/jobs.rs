//! Scheduled jobs, slot by slot.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use chrono::{DateTime, Utc};
use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::job::{Job, JobOutcome, JobRun, Skip, Slot, SlotState};
use spindle::{CancellationToken, Database, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::stalls::Suspendable;
use crate::world::{
    DATABASE, EVENTUALLY, LEASE, LOCK, NOW, World, cells, keys, lock_of, order, timed, until,
};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const KEY: &str = "spindle:job:job";
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// Spanner's time.
async fn now(world: &World) -> DateTime<Utc> {
    world.table().inspect("nothing").await.unwrap().read_at
}

/// A slot that has just come.
async fn slot(world: &World) -> DateTime<Utc> {
    now(world).await - SECOND
}

fn job(world: &World, id: &str) -> Job {
    world.lock(id).job().retry_pause(SECOND * 5)
}

/// A task that takes a second.
async fn short(_: JobRun) -> &'static str {
    sleep(SECOND).await;
    "done"
}

async fn run(job: Job, slot: DateTime<Utc>) -> JobOutcome<&'static str> {
    let running = job.run_once(slot, async |run| Ok::<_, std::io::Error>(short(run).await));
    timeout(EVENTUALLY, running).await.unwrap().unwrap()
}

/// Why the slot was skipped, and by whom its last start was.
fn skipped<T: std::fmt::Debug>(outcome: JobOutcome<T>) -> (Skip, String) {
    let JobOutcome::Skipped { why, record, .. } = outcome else { panic!("{outcome:?}") };
    (why, record.unwrap().by)
}

/// The state of the last slot, and how many times it was started.
async fn last(world: &World) -> (SlotState, u32) {
    let job = world.table().job(LOCK).await.unwrap().expect("it was started");
    let last = job.last.expect("it is read");
    (last.state, last.starts)
}

/// A node that starts the slot and dies in the middle.
async fn dies(world: &World, id: &str, slot: DateTime<Utc>) {
    let before = world.row(KEY).map(|row| row.token);
    let line = world.line();
    let table = LockTable::new(Database::at(line.endpoint(), DATABASE), "locktable");
    let job = lock_of(&table, LOCK).id(id).job().retry_pause(SECOND * 5);
    let pending = |_| std::future::pending::<()>();
    let node = tokio::spawn(async move { job.run_once(slot, pending).await });
    until("it is started", || (world.row(KEY).map(|row| row.token) != before).then_some(())).await;
    line.cut();
    node.abort();
}

#[tokio::test(start_paused = true)]
async fn of_many_nodes_one_runs_a_slot_and_the_others_skip_it_however_late_they_are() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let nodes: Vec<_> =
        (0..10).map(|n| tokio::spawn(run(job(&world, &format!("n{n}")), slot))).collect();
    let mut ran = 0;
    for node in nodes {
        match node.await.unwrap() {
            JobOutcome::Ran("done") => ran += 1,
            other => assert_eq!(skipped(other).0, Skip::Done),
        }
    }
    assert_eq!(ran, 1);
    assert_eq!(last(&world).await, (SlotState::Done, 1));
    sleep(HOUR * 24).await;
    let (why, by) = skipped(run(job(&world, "late"), slot).await);
    assert!(why == Skip::Done && by.starts_with('n'), "{why:?} {by}");
    let state = world.table().job(LOCK).await.unwrap().unwrap().last.unwrap();
    let took = state.took().unwrap();
    assert!(took >= SECOND && took < SECOND * 2, "{took:?}");
    assert!(state.not_before.is_none() && state.slot == slot, "{state:?}");
}

#[tokio::test(start_paused = true)]
async fn a_failure_leaves_the_slot_open_for_others_after_a_pause_that_doubles() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let (started, at) = (Arc::new(AtomicU32::new(0)), Instant::now());
    let starts: Vec<_> = (0..5)
        .map(|n| {
            let (job, started) = (job(&world, &format!("n{n}")).attempts(3), Arc::clone(&started));
            tokio::spawn(async move {
                let task = move |run: JobRun| {
                    let before = started.fetch_add(1, Ordering::SeqCst);
                    assert_eq!(run.start(), before + 1);
                    // The pauses are 5 s and 10 s.
                    let least = [0, 5, 15][before as usize];
                    let waited = at.elapsed();
                    assert!(
                        waited >= SECOND * least && waited < SECOND * (least + 3),
                        "{waited:?}"
                    );
                    async move { if before < 2 { Err("no ink") } else { Ok("done") } }
                };
                timeout(EVENTUALLY, job.run_once(slot, task)).await.unwrap().unwrap()
            })
        })
        .collect();
    let mut ran = 0;
    for start in starts {
        match start.await.unwrap() {
            JobOutcome::Ran("done") => ran += 1,
            other => assert_eq!(skipped(other).0, Skip::Done),
        }
    }
    assert_eq!((ran, started.load(Ordering::SeqCst)), (1, 3));
    assert_eq!(last(&world).await, (SlotState::Done, 3));
}

#[tokio::test(start_paused = true)]
async fn a_slot_whose_attempts_all_failed_is_recorded_as_failed_and_all_are_told() {
    let world = World::start().await;
    let slot = slot(&world).await;
    for panics in [false, true] {
        let slot = if panics { slot + HOUR } else { slot };
        if panics {
            sleep(HOUR).await;
        }
        let a = job(&world, "a").attempts(2);
        let failing = a.run_once(slot, move |_| async move {
            assert!(!panics, "no paper");
            Err::<(), _>(std::io::Error::other("no ink"))
        });
        let outcome = timeout(EVENTUALLY, failing).await.unwrap().unwrap();
        let JobOutcome::Failed { record, error, .. } = outcome else { panic!("{outcome:?}") };
        let error = error.expect("it failed here");
        if panics {
            assert!(error.is_panic() && error.to_string().contains("no paper"), "{error}");
        } else {
            assert!(error.is_task_failure(), "{error}");
            assert_eq!(error.cause::<std::io::Error>().unwrap().to_string(), "no ink");
        }
        assert_eq!((record.state, record.starts), (SlotState::Failed, 2));
        assert_eq!(last(&world).await, (SlotState::Failed, 2));
        let elsewhere = run(job(&world, "b"), slot).await;
        let JobOutcome::Failed { record, error, .. } = elsewhere else { panic!("{elsewhere}") };
        assert!(error.is_none() && record.by == "a", "{record}");
    }
    // The next slot is another one.
    sleep(HOUR).await;
    assert!(matches!(run(job(&world, "b"), slot + HOUR * 2).await, JobOutcome::Ran("done")));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_heals_the_crash_of_the_one_that_ran() {
    let world = World::start().await;
    let slot = slot(&world).await;
    dies(&world, "dead", slot).await;
    let ((b, c), took) =
        timed(async { tokio::join!(run(job(&world, "b"), slot), run(job(&world, "c"), slot)) })
            .await;
    let ran = [b, c].into_iter().filter(|it| matches!(it, JobOutcome::Ran("done"))).count();
    assert_eq!(ran, 1);
    assert!(took > LEASE / 2 && took < LEASE * 2, "a lease later: {took:?}");
    assert_eq!(last(&world).await, (SlotState::Done, 2));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_kills_its_node_runs_through_no_fleet() {
    let world = World::start().await;
    let slot = slot(&world).await;
    for n in 1..=3 {
        dies(&world, &format!("n{n}"), slot).await;
        assert_eq!(last(&world).await, (SlotState::Running, n));
        sleep(LEASE * 3).await;
    }
    assert_eq!(last(&world).await, (SlotState::Failed, 3), "nobody has to be there to see it");
    let outcome = run(job(&world, "b"), slot).await;
    let JobOutcome::Failed { record, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((record.starts, &*record.by), (3, "n3"));
    let row = world.row(KEY).unwrap();
    assert!(row.writer.unwrap().contains(" failed 3/3 "), "it is recorded");
    assert_eq!(world.row(LOCK).unwrap().token, row_began(&world).await, "and the lock not taken");
}

/// When the last start of the last slot began.
async fn row_began(world: &World) -> Option<i128> {
    let began = world.table().job(LOCK).await.unwrap().unwrap().last.unwrap().began;
    began.timestamp_nanos_opt().map(i128::from)
}

#[tokio::test(start_paused = true)]
async fn attempts_of_one_are_at_most_one_start() {
    let world = World::start().await;
    let slot = slot(&world).await;
    dies(&world, "dead", slot).await;
    let outcome = run(job(&world, "b").attempts(1), slot).await;
    let JobOutcome::Failed { record, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!(record.starts, 1);
}

#[tokio::test(start_paused = true)]
async fn slots_only_go_up_and_none_begins_beside_another() {
    let world = World::start().await;
    let later = slot(&world).await;
    let earlier = later - HOUR;
    let first = tokio::spawn(run(job(&world, "a"), earlier));
    until("it runs", || world.row(KEY)).await;
    // The older one runs yet: the later waits for it, or is skipped where it may not wait.
    let hasty = job(&world, "c").skip_if_running().run_once(later, short_result);
    let (why, by) = skipped(timeout(SECOND / 2, hasty).await.unwrap().unwrap());
    assert_eq!((why, &*by), (Skip::Running, "a"));
    assert!(matches!(run(job(&world, "b"), later).await, JobOutcome::Ran("done")));
    assert!(matches!(first.await.unwrap(), JobOutcome::Ran("done")));
    let (why, by) = skipped(run(job(&world, "a"), earlier).await);
    assert_eq!((why, &*by), (Skip::Superseded, "b"));
    let job = world.table().job(LOCK).await.unwrap().unwrap();
    let slots: Vec<_> = job.past.iter().map(|past| (past.slot, past.state, &*past.by)).collect();
    assert_eq!(slots, [(earlier, SlotState::Done, "a")]);
    assert!(job.past[0].took().unwrap() >= SECOND, "{:?}", job.past);
}

async fn short_result(run: JobRun) -> std::io::Result<&'static str> {
    Ok(short(run).await)
}

#[tokio::test(start_paused = true)]
async fn who_may_not_wait_is_answered_at_once_while_the_slot_runs_and_told_once_it_is_recorded() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let running = tokio::spawn(run(job(&world, "a"), slot));
    until("it runs", || world.row(KEY)).await;
    for id in ["b", "c"] {
        let hasty = job(&world, id).skip_if_running().run_once(slot, short_result);
        let (outcome, took) = timed(hasty).await;
        assert_eq!(skipped(outcome.unwrap()), (Skip::Running, "a".to_string()));
        assert!(took < SECOND / 4, "{took:?}");
    }
    running.await.unwrap();
    let hasty = job(&world, "b").skip_if_running().run_once(slot, short_result).await;
    assert_eq!(skipped(hasty.unwrap()), (Skip::Done, "a".to_string()));
}

#[tokio::test(start_paused = true)]
async fn a_slot_ahead_of_spanners_clock_is_waited_for_and_refused_beyond_the_limit() {
    let world = World::start().await;
    let slot = now(&world).await + SECOND * 30;
    let (outcome, took) = timed(run(job(&world, "a"), slot)).await;
    assert!(matches!(outcome, JobOutcome::Ran("done")));
    assert!(took >= SECOND * 31 && took < SECOND * 32, "{took:?}");
    let began = world.table().job(LOCK).await.unwrap().unwrap().last.unwrap().began;
    assert!(began >= slot, "{began} {slot}");
    let year = slot + HOUR * 24 * 365;
    let refused = job(&world, "a").run_once(year, short_result).await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("ahead"), "{refused}");
    assert_eq!(last(&world).await, (SlotState::Done, 1), "it was not recorded");
}

/// The process may end as soon as the call has.
#[tokio::test(start_paused = true)]
async fn a_call_that_is_told_to_end_waits_until_a_start_that_is_at_spanner_is_released() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let commit = Fault::on(Rpc::Commit).effect(Effect::Delay(SECOND));
    let slow = world.spanner.inject(commit);
    let until_then = CancellationToken::new();
    let waiting = tokio::spawn(run(job(&world, "a").until(until_then.clone()), slot));
    until("its start is at Spanner", || (slow.hits() > 0).then_some(())).await;
    slow.remove();
    until_then.cancel();
    let outcome = waiting.await.unwrap();
    assert!(matches!(outcome, JobOutcome::Skipped { why: Skip::Cancelled, .. }), "{outcome:?}");
    let left = world.table().inspect(LOCK).await.unwrap();
    assert!(!left.is_held() && left.token.is_some(), "{left:?}");
}

/// A timer stands still while the machine is suspended; the slot does not wait for it.
#[tokio::test(start_paused = true)]
async fn a_slot_that_came_while_the_machine_was_suspended_starts_soon_after_it_wakes() {
    let world = World::start().await;
    let (machine, clock) = Suspendable::new();
    let (slot, asleep) = (now(&world).await + SECOND * 590, SECOND * 580);
    let job = world.lock("a").clock(clock).job();
    let waiting = tokio::spawn(run(job, slot));
    sleep(SECOND * 5).await;
    machine.suspend(asleep);
    world.spanner.advance(asleep);
    let (outcome, took) = timed(waiting).await;
    assert!(matches!(outcome.unwrap(), JobOutcome::Ran("done")));
    assert!(took < SECOND * 20, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_periods_timers_that_fire_early_and_late_name_the_same_slot() {
    let world = World::start().await;
    let since = now(&world).await.timestamp_nanos_opt().unwrap();
    let hour = i64::try_from(HOUR.as_nanos()).unwrap();
    let to_the_hour = Duration::from_nanos(u64::try_from(hour - since % hour).unwrap());
    let early = Duration::from_millis(1);
    sleep(to_the_hour - early).await;
    let hourly = |id| {
        let job = job(&world, id);
        async move { job.run_once(Slot::every(HOUR), short_result).await.unwrap() }
    };
    assert!(matches!(hourly("early").await, JobOutcome::Ran("done")));
    let state = world.table().job(LOCK).await.unwrap().unwrap().last.unwrap();
    assert_eq!(state.slot.timestamp_nanos_opt().unwrap() % hour, 0);
    assert!(state.began >= state.slot, "{state:?}");
    sleep(SECOND * 60).await;
    assert_eq!(skipped(hourly("late").await), (Skip::Done, "early".to_string()));
    sleep(HOUR - SECOND * 62).await;
    assert!(matches!(hourly("late").await, JobOutcome::Ran("done")), "the next hour's");
}

#[tokio::test(start_paused = true)]
async fn the_hour_that_the_end_of_daylight_saving_time_repeats_is_two_slots_and_runs_twice() {
    let world = World::start().await;
    for slot in ["2025-10-26T02:30:00+02:00", "2025-10-26T02:30:00+01:00"] {
        let slot = DateTime::parse_from_rfc3339(slot).unwrap();
        for late in [false, true] {
            let outcome = job(&world, "a").run_once(slot, short_result).await.unwrap();
            assert_eq!(matches!(outcome, JobOutcome::Ran("done")), !late, "{slot}: {outcome:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_takes_longer_than_at_most_is_stopped_and_has_failed() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let job = job(&world, "a").attempts(2).at_most(SECOND * 60);
    let (deaf, told) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU32::new(0)));
    let counters = (Arc::clone(&deaf), Arc::clone(&told));
    let running = job.run_once(slot, move |run: JobRun| {
        let (deaf, told) = counters.clone();
        async move {
            if run.start() == 1 {
                deaf.fetch_add(1, Ordering::SeqCst);
                std::future::pending::<()>().await;
            }
            run.cancelled().await;
            told.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (outcome, took) = timed(running).await;
    let outcome = outcome.unwrap();
    let JobOutcome::Failed { error, .. } = outcome else { panic!("{outcome:?}") };
    assert!(error.unwrap().to_string().contains("took longer than 60s"));
    assert_eq!((deaf.load(Ordering::SeqCst), told.load(Ordering::SeqCst)), (1, 1));
    assert!(took > SECOND * 125 && took < SECOND * 150, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_run_keeps_its_lock_by_heartbeats() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let long = tokio::spawn(job(&world, "a").run_once(slot, |run: JobRun| async move {
        sleep(HOUR).await;
        Ok::<_, std::io::Error>(!run.is_cancelled())
    }));
    until("it runs", || world.row(KEY)).await;
    let waits = job(&world, "b").run_once(slot, short_result);
    let (long, other) = tokio::join!(long, waits);
    assert!(matches!(long.unwrap().unwrap(), JobOutcome::Ran(true)));
    assert_eq!(skipped(other.unwrap()), (Skip::Done, "a".to_string()));
}

/// Writes an order and the end of the run in one transaction.
async fn order_and_finish(run: JobRun, client: DatabaseClient) -> spindle::Result<()> {
    let id = format!("{} {}", run.slot().timestamp(), run.token());
    run.finish(&client, [order(&id)]).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn what_is_written_in_the_transaction_that_records_the_end_is_written_exactly_once() {
    let world = World::start().await;
    let (slot, client) = (slot(&world).await, world.client().await);
    let finishes = |client: DatabaseClient| {
        move |run: JobRun| {
            let client = client.clone();
            async move {
                order_and_finish(run.clone(), client.clone()).await?;
                // A second end is refused, whatever it would write.
                let twice = order_and_finish(run.clone(), client.clone()).await.unwrap_err();
                assert!(twice.to_string().contains("not this run's to end"), "{twice}");
                std::future::pending::<spindle::Result<()>>().await
            }
        }
    };
    let line = world.line();
    let table = LockTable::new(Database::at(line.endpoint(), DATABASE), "locktable");
    let node = lock_of(&table, LOCK).id("a").job();
    let task = finishes(client.clone());
    let node = tokio::spawn(async move { node.run_once(slot, task).await });
    until("it is finished", || (world.orders().len() == 1).then_some(())).await;
    sleep(SECOND).await;
    // It is done before its node has released, and though it dies.
    let (why, by) = skipped(run(job(&world, "b"), slot).await);
    assert_eq!((why, &*by), (Skip::Done, "a"));
    line.cut();
    node.abort();
    sleep(LEASE * 2).await;
    assert_eq!(skipped(run(job(&world, "b"), slot).await).0, Skip::Done);
    assert_eq!(world.orders().len(), 1);
    // The next one begins once the lease of the dead is over.
    assert!(matches!(run(job(&world, "b"), slot + SECOND / 2).await, JobOutcome::Ran("done")));
}

#[tokio::test(start_paused = true)]
async fn an_end_that_comes_late_or_whose_record_was_removed_writes_nothing() {
    for removes in [false, true] {
        let world = World::start().await;
        let (slot, client) = (slot(&world).await, world.client().await);
        let (table, own) = (world.table(), client.clone());
        let mut starts = 0;
        let late = job(&world, "a");
        let late = late.run_once(slot, move |run: JobRun| {
            let (table, client) = (table.clone(), own.clone());
            starts += 1;
            let start = starts;
            async move {
                if start == 2 {
                    return Ok(());
                }
                if removes {
                    let refused = table.remove_job(LOCK).await.unwrap_err();
                    assert!(refused.is_not_vacant(), "{refused}");
                    delete(&client).await;
                } else {
                    table.evict(LOCK).at_once().await.unwrap();
                }
                let late = order_and_finish(run.clone(), client.clone()).await;
                let late = late.expect_err("it is over");
                assert_eq!(late.is_fenced(), !removes, "{late}");
                Err(late)
            }
        });
        let outcome = timeout(EVENTUALLY, late).await.unwrap().unwrap();
        assert!(matches!(outcome, JobOutcome::Ran(())), "{outcome:?}");
        assert_eq!(world.orders(), Vec::<String>::new());
    }
}

async fn delete(client: &DatabaseClient) {
    let gone = Mutation::delete("locktable", keys(KEY));
    client.write_only_transaction().build().write(vec![gone]).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn evicting_seizing_and_removing_the_lock_leave_the_record() {
    let world = World::start().await;
    let (slot, table) = (slot(&world).await, world.table());
    for (starts, evicts) in [(1, true), (2, false)] {
        let node = tokio::spawn(run(job(&world, "a"), slot));
        let is_started = async {
            while world.table().job(LOCK).await.unwrap().is_none_or(|job| {
                job.last
                    .is_none_or(|last| (last.state, last.starts) != (SlotState::Running, starts))
            }) {
                sleep(SECOND / 10).await;
            }
        };
        timeout(EVENTUALLY, is_started).await.unwrap();
        if evicts {
            table.evict(LOCK).await.unwrap();
        } else {
            table.evict(LOCK).at_once().await.unwrap();
        }
        node.abort();
        sleep(LEASE * 2).await;
        assert_eq!(last(&world).await, (SlotState::Open, starts));
    }
    assert!(matches!(run(job(&world, "b"), slot).await, JobOutcome::Ran("done")));
    assert!(table.remove(LOCK).await.unwrap());
    assert_eq!(last(&world).await, (SlotState::Done, 3));
    assert_eq!(skipped(run(job(&world, "c"), slot).await).0, Skip::Done);
    // To forget a record is another matter.
    assert!(table.remove_job(LOCK).await.unwrap());
    assert!(!table.remove_job(LOCK).await.unwrap());
    assert!(matches!(run(job(&world, "c"), slot).await, JobOutcome::Ran("done")));
}

#[tokio::test(start_paused = true)]
async fn a_begin_and_a_release_whose_answers_are_lost_count_once() {
    let world = World::start().await;
    let slot = slot(&world).await;
    for times in [1, 2] {
        let lost = Fault::on(Rpc::Commit).table("locktable").key(LOCK).effect(Effect::LoseReply);
        let begin = world.spanner.inject(lost.clone().times(1));
        let running = tokio::spawn(run(job(&world, "a"), slot + SECOND / 4 * times));
        until("its begin's answer is lost", || (begin.hits() == 1).then_some(())).await;
        // The answer to the release, or those to all of its repeats.
        sleep(SECOND / 2).await;
        let release = world.spanner.inject(lost.times(times as u64));
        let outcome = timeout(EVENTUALLY, running).await.unwrap().unwrap();
        assert!(matches!(outcome, JobOutcome::Ran("done")), "{outcome:?}");
        release.remove();
        assert_eq!(last(&world).await, (SlotState::Done, 1));
    }
}

/// A row that has changed since an answer was lost may be changed by somebody else.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_evicted_while_its_release_was_unknown_is_not_said_to_be_recorded() {
    let world = World::start().await;
    let (slot, table) = (slot(&world).await, world.table());
    let release = Fault::on(Rpc::Commit).table("locktable").key(KEY).skip(1).times(1);
    let release = world.spanner.inject(release.effect(Effect::Stall));
    let running = tokio::spawn(run(job(&world, "a"), slot));
    until("its release is at Spanner", || (release.hits() > 0).then_some(())).await;
    table.evict(LOCK).await.unwrap();
    let outcome = timeout(EVENTUALLY, running).await.unwrap().unwrap();
    assert!(matches!(outcome, JobOutcome::Ran("done")), "{outcome:?}");
    assert_eq!(last(&world).await, (SlotState::Done, 2), "it ran once more");
}

#[tokio::test(start_paused = true)]
async fn a_recorded_run_is_told_to_a_call_that_ends_though_the_answer_to_its_release_was_lost() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let release = Fault::on(Rpc::Commit).table("locktable").key(KEY).skip(1).times(1);
    let release = world.spanner.inject(release.effect(Effect::LoseReply));
    let until_then = CancellationToken::new();
    let running = tokio::spawn(run(job(&world, "a").until(until_then.clone()), slot));
    until("its release is at Spanner", || (release.hits() > 0).then_some(())).await;
    until_then.cancel();
    let outcome = timeout(EVENTUALLY, running).await.unwrap().unwrap();
    assert!(matches!(outcome, JobOutcome::Ran("done")), "{outcome:?}");
    assert_eq!(last(&world).await, (SlotState::Done, 1));
}

#[tokio::test(start_paused = true)]
async fn an_outage_at_the_end_of_a_run_is_waited_out_and_the_slot_recorded() {
    let refused = Effect::Fail(Code::Unavailable);
    // The longer lease outlives the outage.
    let forms = [(Effect::Stall, LEASE, 2), (refused, LEASE, 2), (refused, LEASE * 12, 1)];
    for (effect, lease, most) in forms {
        let world = World::start().await;
        let slot = slot(&world).await;
        let job = world.lock("a").lease(lease).job();
        let running = tokio::spawn(job.run_once(slot, short_result));
        until("it runs", || world.row(KEY)).await;
        sleep(SECOND / 2).await;
        let outage = world.spanner.inject(Fault::any().effect(effect));
        sleep(SECOND * 30).await;
        outage.remove();
        let outcome = timeout(EVENTUALLY, running).await.unwrap().unwrap().unwrap();
        assert!(matches!(outcome, JobOutcome::Ran("done")), "{outcome:?}");
        let (state, starts) = last(&world).await;
        assert!(state == SlotState::Done && starts <= most, "{starts}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_aborts_its_run_and_leaves_the_slot_to_others() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let job_of_a = job(&world, "a");
    let dropped = job_of_a.run_once(slot, |_| std::future::pending::<()>());
    assert!(timeout(SECOND, dropped).await.is_err());
    sleep(SECOND).await;
    assert_eq!(last(&world).await, (SlotState::Open, 1));
    let (outcome, took) = timed(run(job(&world, "b"), slot)).await;
    assert!(matches!(outcome, JobOutcome::Ran("done")));
    assert!(took < SECOND * 7, "after the pause: {took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_told_to_end_starts_nothing_and_leaves_the_slot_to_others() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let cancel = CancellationToken::new();
    let waits = job(&world, "w").until(cancel.clone());
    let told = cancel.clone();
    let running = tokio::spawn(job(&world, "a").until(cancel.clone()).run_once(slot, move |_| {
        let told = told.clone();
        async move {
            told.cancelled().await;
            Err::<(), _>("told to end")
        }
    }));
    until("it runs", || world.row(KEY)).await;
    let waiting = tokio::spawn(waits.run_once(slot, short_result));
    sleep(SECOND).await;
    cancel.cancel();
    let (error, took) = timed(running).await;
    let error = error.unwrap().unwrap_err();
    assert!(error.is_task_failure() && took < SECOND, "{error}");
    let outcome = waiting.await.unwrap().unwrap();
    assert!(matches!(outcome, JobOutcome::Skipped { why: Skip::Cancelled, .. }), "{outcome}");
    assert_eq!(last(&world).await, (SlotState::Open, 1));
    assert!(matches!(run(job(&world, "b"), slot).await, JobOutcome::Ran("done")));
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lapses_is_as_a_crash() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let cancel = CancellationToken::new();
    let ends = cancel.clone();
    let lapsing = job(&world, "a").until(cancel).run_once(slot, move |run: JobRun| {
        run.lapse();
        ends.cancel();
        async { Err::<(), _>("nobody knows") }
    });
    assert!(lapsing.await.unwrap_err().is_task_failure());
    let (outcome, took) = timed(run(job(&world, "b"), slot)).await;
    assert!(matches!(outcome, JobOutcome::Ran("done")));
    assert!(took > LEASE / 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_after_the_slot_is_done_is_an_error_and_starts_nothing() {
    let world = World::start().await;
    let (slot, client) = (slot(&world).await, world.client().await);
    let failing = job(&world, "a");
    let failing = failing.run_once(slot, move |run: JobRun| {
        let client = client.clone();
        async move {
            order_and_finish(run.clone(), client.clone()).await.unwrap();
            Err::<(), _>("no mail")
        }
    });
    let error = timeout(EVENTUALLY, failing).await.unwrap().unwrap_err();
    assert!(error.is_task_failure() && error.to_string().contains("no mail"), "{error}");
    assert_eq!((last(&world).await, world.orders().len()), ((SlotState::Done, 1), 1));
}

#[tokio::test(start_paused = true)]
async fn a_record_that_cannot_be_read_is_refused_by_its_name() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let later = "job2 of a later version";
    world.write(cells(KEY, &[("token", NOW), ("heartbeat", EPOCH), ("writer", later)])).await;
    let refused = job(&world, "a").run_once(slot, short_result).await.unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains(KEY), "{refused}");
    let state = world.table().job(LOCK).await.unwrap().unwrap();
    assert_eq!((state.name.as_str(), state.last), (LOCK, None));
}

#[tokio::test(start_paused = true)]
async fn the_record_of_a_job_is_no_lock() {
    let world = World::start().await;
    let slot = slot(&world).await;
    run(job(&world, "a"), slot).await;
    let table = world.table();
    let mut locks = table.list();
    let mut names = Vec::new();
    while let Some(lock) = locks.next().await.unwrap() {
        names.push(lock.name);
    }
    assert_eq!(names, [LOCK]);
    let refused = [
        table.lock(KEY).build().map(drop).unwrap_err(),
        table.remove(KEY).await.map(drop).unwrap_err(),
        table.evict(KEY).await.map(drop).unwrap_err(),
        table.evict(KEY).at_once().await.map(drop).unwrap_err(),
    ];
    for refused in refused {
        assert!(refused.is_config(), "{refused}");
    }
    let names: Vec<_> = table.jobs().await.unwrap().into_iter().map(|job| job.name).collect();
    assert_eq!(names, [LOCK]);
}

#[tokio::test(start_paused = true)]
async fn settings_that_cannot_work_are_refused_before_anything_is_sent() {
    let world = World::start().await;
    let slot = slot(&world).await;
    let requests = world.spanner.requests();
    requests.reset();
    let day = HOUR * 24;
    for job in [
        job(&world, "a").attempts(0),
        job(&world, "a").attempts(1_001),
        job(&world, "a").at_most(Duration::ZERO),
        job(&world, "a").retry_pause(day + SECOND),
        world.lock("a").by_rank(1).job(),
        world.lock("").job(),
    ] {
        let error = job.run_once(slot, short_result).await.unwrap_err();
        assert!(error.is_config(), "{error}");
    }
    for period in [Duration::ZERO, SECOND / 2, Duration::MAX] {
        let refused = job(&world, "a").run_once(Slot::every(period), short_result).await;
        assert!(refused.unwrap_err().to_string().contains("period"));
    }
    // Beyond the years of a `DateTime`.
    let later = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 43);
    let before = SystemTime::UNIX_EPOCH - SECOND;
    let never = DateTime::<Utc>::MAX_UTC;
    for (slot, year) in [(Slot::at(never), 2262), (Slot::at(later), 2262), (Slot::at(before), 1969)]
    {
        let refused = job(&world, "a").run_once(slot, short_result).await.unwrap_err();
        let named = format!("slot {year}-");
        assert!(refused.is_config() && refused.to_string().contains(&named), "{refused}");
    }
    assert_eq!(requests.total(), 0);
}
