//! Shards: each worked by one member at a time, evenly, and never by two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use spindle::testing::Clock;
use spindle::{Database, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::Member;
use tokio::time::{Instant, sleep, timeout};

use crate::fleet::{Fleet, POLL, REST, Worker};
use crate::log::Log;
use crate::world::{DATABASE, EVENTUALLY, LEASE, timed, until};

const SHARDS: usize = 12;

#[tokio::test(start_paused = true)]
async fn members_that_start_together_share_evenly_and_leave_nothing_but_the_shards() {
    let fleet = Fleet::start(SHARDS).await;
    let workers = ["a", "b", "c"].map(|id| fleet.join(id));
    let ((), took) = timed(fleet.settles(3)).await;
    assert!(took < LEASE, "{took:?}");
    sleep(LEASE * 5).await;
    assert_eq!(fleet.work.starts(), SHARDS, "no shard moved");
    for worker in workers {
        worker.leave().await;
    }
    assert!(fleet.work.owners().is_empty());
    fleet.work.check();
    let names = fleet.world.names();
    let others: Vec<&String> = names.iter().filter(|name| name.ends_with("/count")).collect();
    assert_eq!((names.len(), others.len()), (SHARDS + 1, 1), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_moves_only_the_joiners_share_and_each_move_is_short() {
    let fleet = Fleet::start(SHARDS).await;
    let _workers = ["a", "b", "c"].map(|id| fleet.join(id));
    fleet.settles(3).await;
    sleep(LEASE).await;
    let _joiner = fleet.join("d");
    let ((), took) = timed(fleet.settles(4)).await;
    assert!(took <= Duration::from_secs(5), "balanced after {took:?}");
    sleep(LEASE * 2).await;
    assert_eq!(fleet.work.starts(), SHARDS + 3, "the joiner got three");
    let longest = fleet.work.longest_gap();
    assert!(longest <= POLL + REST, "{longest:?}");
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_gone_before_its_shards_are_free_and_they_move_once() {
    let fleet = Fleet::start(SHARDS).await;
    let leaver = fleet.join("a");
    let _workers = ["b", "c"].map(|id| fleet.join(id));
    fleet.settles(3).await;
    sleep(LEASE).await;
    let start = Instant::now();
    leaver.leave().await;
    fleet.settles(2).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    sleep(LEASE * 2).await;
    assert_eq!(fleet.work.starts(), SHARDS + 4, "no shard moved twice");
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_not_counted_while_some_of_its_tasks_still_stop() {
    let fleet = Fleet::start(SHARDS).await;
    let slow = |shard| if shard % 2 == 0 { LEASE } else { Duration::ZERO };
    let leaver = fleet.join_slowly("a", fleet.shards("a"), slow);
    let _other = fleet.join("b");
    fleet.settles(2).await;
    sleep(LEASE).await;
    let its = fleet.work.shards_of("a");
    let prompt: Vec<usize> = its.iter().copied().filter(|shard| slow(*shard).is_zero()).collect();
    assert!(!prompt.is_empty() && prompt.len() < its.len(), "{its:?}");
    leaver.cancel.cancel();
    let are_others = || {
        let owners = fleet.work.owners();
        prompt.iter().all(|shard| owners.get(shard).is_some_and(|it| it == "b")).then_some(())
    };
    let ((), took) = timed(until("the other has what is free", are_others)).await;
    assert!(took <= POLL + REST, "{took:?}");
    fleet.all_are_of("b").await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_every_shard_is_at_work_within_a_lease_and_a_second() {
    let fleet = Fleet::start(SHARDS).await;
    let (doomed, session) = fleet.world.known(|| fleet.join("a")).await;
    let _workers = ["b", "c"].map(|id| fleet.join(id));
    fleet.settles(3).await;
    sleep(LEASE).await;
    // More than there are shards, if the first one took them all before the others had joined.
    let starts_before = fleet.work.starts();
    fleet.world.cut_off(&session);
    let crashed = Instant::now();
    // A crash takes its tasks along.
    doomed.sharing.abort();
    fleet.settles(2).await;
    let took = crashed.elapsed();
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
    assert!(took >= LEASE / 2, "before its lease was over: {took:?}");
    sleep(LEASE * 2).await;
    assert_eq!(
        fleet.work.starts(),
        starts_before + SHARDS / 3,
        "only the shards of the dead moved"
    );
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_stops_before_another_starts() {
    let fleet = Fleet::start(SHARDS).await;
    let (_cut_off, session) = fleet.world.known(|| fleet.join("a")).await;
    let _other = fleet.join("b");
    fleet.settles(2).await;
    let line = fleet.world.cut_off(&session);
    fleet.all_are_of("b").await;
    line.restore();
    fleet.settles(2).await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_waits_for_the_table_logs_that_each_minute() {
    let (log, _guard) = Log::capture();
    let fleet = Fleet::start(SHARDS).await;
    let missing = LockTable::new(Database::at(fleet.world.spanner.endpoint(), DATABASE), "missing");
    let member = Member::new(&missing, "orders").id("a").clock(Clock::runtime()).build().unwrap();
    let member = Worker::run(member.shards("partitions", SHARDS), |_| async {});
    sleep(Duration::from_secs(290)).await;
    let told = log.saying("the shards can't be read").len();
    assert!((4..=5).contains(&told), "{told} times: {:?}", log.lines());
    member.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_or_panics_leaves_its_shard_to_others_and_starves_none() {
    let fleet = Fleet::start(SHARDS).await;
    let failing = Worker::run(fleet.shards("a"), |shard| async move {
        assert!(shard.number().is_multiple_of(2), "an odd shard");
    });
    let _other = fleet.join("b");
    fleet.all_are_of("b").await;
    failing.leave().await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_an_error_leaves_its_shard_to_others_and_the_log_says_why() {
    let (log, _guard) = Log::capture();
    let fleet = Fleet::start(SHARDS).await;
    let failing = Worker::run(fleet.shards("a"), |shard| async move {
        if shard.number() == 0 {
            return Err(std::io::Error::other("out of paper"));
        }
        shard.cancelled().await;
        Ok(())
    });
    until("it has failed", || (!log.saying("a shard's task failed").is_empty()).then_some(()))
        .await;
    let failed = log.saying("a shard's task failed").remove(0);
    assert!(failed.says("out of paper") && failed.says("partitions/0"), "{failed:?}");
    let _other = fleet.join("b");
    until("the other has it", || fleet.work.shards_of("b").contains(&0).then_some(())).await;
    failing.leave().await;
    fleet.work.check();
}

/// A failure pauses for twice as long each time; this is none.
#[tokio::test(start_paused = true)]
async fn a_task_that_learns_by_an_error_that_its_term_is_over_has_its_shard_back_without_a_pause() {
    let fleet = Fleet::start(1).await;
    let client = fleet.world.client().await;
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let _worker = Worker::run(fleet.shards("a"), move |shard| {
        let (client, started) = (client.clone(), started.clone());
        async move {
            started.send(Instant::now()).ok();
            // The write hears of it before the next heartbeat does.
            while !shard.is_cancelled() {
                shard.fence().write(&client, []).await?;
                sleep(LEASE / 100).await;
            }
            Ok::<(), spindle::Error>(())
        }
    });
    let table = fleet.world.table();
    timeout(EVENTUALLY, starts.recv()).await.expect("it is at work").unwrap();
    for _ in 0..8 {
        let seized = Instant::now();
        table.evict("spindle:shard:orders/partitions/0").at_once().await.unwrap().unwrap();
        let again = timeout(EVENTUALLY, starts.recv()).await.expect("it is back").unwrap();
        assert!(again - seized < POLL * 3, "{:?}", again - seized);
    }
}

/// No answer is no fault of the task: the pauses between the attempts end at 10 s.
#[tokio::test(start_paused = true)]
async fn a_shard_that_could_not_be_taken_for_minutes_is_at_work_soon_after_it_can() {
    let fleet = Fleet::start(1).await;
    let key = "spindle:shard:orders/partitions/0";
    let refusal = Fault::on(Rpc::Commit).table("locktable").key(key);
    fleet.world.spanner.inject(refusal.effect(Effect::Fail(Code::Unavailable)));
    let _only = fleet.join("a");
    // Failures of the task would have come to pauses of minutes by now.
    sleep(Duration::from_secs(420)).await;
    assert_eq!(fleet.work.owners(), BTreeMap::new());
    fleet.world.spanner.clear_faults();
    let start = Instant::now();
    fleet.all_at_work().await;
    assert!(start.elapsed() < Duration::from_secs(15), "after {:?}", start.elapsed());
    fleet.work.check();
}

/// Polls that fail follow each other ever more seldom, up to 10 s apart.
#[tokio::test(start_paused = true)]
async fn after_an_outage_a_member_takes_shards_as_soon_as_it_is_one_again() {
    let fleet = Fleet::start(SHARDS).await;
    let _only = fleet.join("a");
    for outage in 2..8 {
        fleet.all_at_work().await;
        let token = || fleet.world.row("spindle:share:orders/partitions/a").unwrap().token;
        let before = token();
        for rpc in [Rpc::Commit, Rpc::StreamingRead] {
            fleet.world.spanner.inject(Fault::on(rpc).effect(Effect::Fail(Code::Unavailable)));
        }
        sleep(LEASE * outage).await;
        fleet.world.spanner.clear_faults();
        until("it is a member again", || (token() != before).then_some(())).await;
        let ((), took) = timed(fleet.all_at_work()).await;
        assert!(took <= POLL * 2 + REST, "outage of {outage} leases: {took:?}");
    }
    fleet.work.check();
}

/// The release is not applied, applied without an answer, or applied when nobody expects it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_of_unknown_outcome_moves_its_shard_once_and_within_a_lease() {
    for effect in [Effect::Stall, Effect::StallReply, Effect::ApplyLate { after: LEASE / 5 }] {
        let fleet = Arc::new(Fleet::start(SHARDS).await);
        let session: Arc<OnceLock<String>> = Arc::default();
        let giver = (Arc::clone(&fleet), Arc::clone(&session));
        let giving = Worker::run(fleet.shards("a"), move |shard| {
            let (fleet, session) = giver.clone();
            async move {
                let at_work = fleet.work.enter("a", &shard);
                shard.cancelled().await;
                let key = format!("spindle:shard:orders/partitions/{}", shard.number());
                let release = Fault::on(Rpc::Commit).session(session.get().unwrap()).key(key);
                fleet.world.spanner.inject(release.effect(effect));
                drop(at_work);
            }
        });
        fleet.settles(1).await;
        session.set(fleet.world.spanner.requests().sessions().remove(0)).unwrap();
        let _receiver = fleet.join("b");
        let ((), took) = timed(fleet.settles(2)).await;
        assert!(took <= LEASE * 5, "{effect:?}: {took:?}");
        sleep(LEASE * 4).await;
        assert_eq!(fleet.work.starts(), SHARDS + SHARDS / 2, "{effect:?}: each moves once");
        let longest = fleet.work.longest_gap();
        assert!(longest <= LEASE + Duration::from_secs(1), "{effect:?}: {longest:?}");
        fleet.work.check();
        giving.sharing.abort();
    }
}

/// It counts as a member until its lease is over, though its shards have gone to the others.
#[tokio::test(start_paused = true)]
async fn a_leave_of_which_spanner_hears_nothing_leaves_no_shard_alone_for_longer_than_two_leases() {
    let fleet = Fleet::start(SHARDS).await;
    let (leaver, session) = fleet.world.known(|| fleet.join("a")).await;
    fleet.settles(1).await;
    let _others = ["b", "c"].map(|id| fleet.join(id));
    fleet.settles(3).await;
    sleep(LEASE).await;
    let row = Fault::on(Rpc::Commit).session(session).key("spindle:share:orders/partitions/a");
    fleet.world.spanner.inject(row.effect(Effect::Stall));
    fleet.work.forget_gaps();
    leaver.leave().await;
    sleep(LEASE * 6).await;
    fleet.settles(2).await;
    let longest = fleet.work.longest_gap();
    assert!(longest <= LEASE * 2, "{longest:?}");
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_frees_its_shards_for_others() {
    let fleet = Fleet::start(SHARDS).await;
    let dropped = fleet.join("a");
    let _other = fleet.join("b");
    fleet.settles(2).await;
    sleep(LEASE).await;
    dropped.sharing.abort();
    let ((), took) = timed(fleet.settles(1)).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_of_a_shard_that_has_moved_is_refused() {
    let fleet = Fleet::start(1).await;
    let (give, fences) = tokio::sync::oneshot::channel();
    let give = Mutex::new(Some(give));
    let worker = Worker::run(fleet.shards("a"), move |shard| {
        if let Some(give) = give.lock().unwrap().take() {
            give.send(shard.fence()).ok();
        }
        async move { shard.cancelled().await }
    });
    let fence = timeout(EVENTUALLY, fences).await.unwrap().unwrap();
    worker.leave().await;
    let worker = fleet.join("b");
    fleet.all_at_work().await;
    let client = fleet.world.client().await;
    let refused = fence.write(&client, []).await.unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
    worker.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_steady_fleet_costs_each_member_its_polls_and_two_rounds_of_heartbeats_at_most() {
    let fleet = Fleet::start(SHARDS).await;
    let _workers = ["a", "b", "c"].map(|id| fleet.join(id));
    fleet.settles(3).await;
    sleep(LEASE * 3).await;
    let requests = fleet.world.spanner.requests();
    requests.reset();
    sleep(LEASE * 10).await;
    let each = requests.total() / 3 / 10;
    // A read a second, and two requests for each round of heartbeats.
    assert!(each <= 15, "{each} requests a lease and member: {:?}", requests.each());
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_reserved_for_its_new_owner_and_comes_back_if_that_one_takes_nothing() {
    let fleet = Fleet::start(SHARDS).await;
    let _workers = ["a", "b"].map(|id| fleet.join(id));
    fleet.settles(2).await;
    let (_joiner, session) = fleet.world.known(|| fleet.join("c")).await;
    until("it joins", || fleet.world.row("spindle:share:orders/partitions/c")).await;
    // Its row is there, and it takes nothing from here on.
    fleet.world.cut_off(&session);
    fleet.work.forget_gaps();
    let is_for_c = |shard| {
        let row = fleet.world.row(&format!("spindle:shard:orders/partitions/{shard}"));
        row.unwrap().writer.as_deref() == Some(">c")
    };
    let reserved = until("a shard is released for c", || (0..SHARDS).find(|it| is_for_c(*it)));
    timeout(LEASE, reserved).await.unwrap();
    let ((), took) = timed(fleet.settles(2)).await;
    assert!(took <= LEASE * 3, "{took:?}");
    // The promise is over after two polls, and noticed within one.
    let longest = fleet.work.longest_gap();
    assert!(longest <= Duration::from_millis(3_300), "{longest:?}");
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_waits_until_the_task_has_stopped() {
    let fleet = Fleet::start(SHARDS).await;
    let slow = |_| Duration::from_secs(3);
    let _slow = fleet.join_slowly("a", fleet.shards("a"), slow);
    fleet.settles(1).await;
    let _other = fleet.join("b");
    fleet.settles(2).await;
    fleet.work.check();
    assert_eq!(fleet.work.starts(), SHARDS + SHARDS / 2, "each of them was told to stop once");
}
