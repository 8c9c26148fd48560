//! Deploys: members that come and go at the same time hurt the work on shards for polls, not leases.

use std::time::Duration;

use spindle::CancellationToken;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::fleet::{FOUR, Fleet, POLL, REST, Worker};
use crate::world::{EVENTUALLY, LEASE, PAST, cells, timed, until};

const SHARDS: usize = 60;

/// Their polls are a second apart, but at the shortest.
const LEASES: [Duration; 3] = [Duration::from_secs(3), LEASE, Duration::from_secs(30)];

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

impl Fleet {
    fn poll(&self) -> Duration {
        POLL.min(self.lease / 5)
    }

    /// Waits until that has settled, and sees that no shard was left alone for longer.
    async fn is_vacant_for(&self, most: Duration, members: usize) {
        self.settles(members).await;
        sleep(self.lease * 2).await;
        let longest = self.work.longest_gap();
        assert!(longest <= most + REST, "a shard was left alone for {longest:?}");
        self.work.check();
    }
}

#[tokio::test(start_paused = true)]
async fn half_of_the_members_that_leave_at_once_leave_no_shard_alone_for_longer_than_two_polls() {
    let leaves = [(3, LEASE), (40, LEASE), (300, LEASE)].into_iter();
    for (apart, lease) in leaves.chain(LEASES.map(|lease| (0, lease))) {
        let (fleet, mut workers) = Fleet::at_rest(&EIGHT, SHARDS, lease).await;
        let before = fleet.work.starts();
        for worker in workers.drain(..4) {
            worker.cancel.cancel();
            sleep(Duration::from_millis(apart)).await;
        }
        fleet.is_vacant_for(fleet.poll() * 2, 4).await;
        // A leaver's shards may go first to another that is about to leave.
        let moved = fleet.work.starts() - before;
        assert!((SHARDS / 2..=SHARDS / 4 * 3).contains(&moved), "{apart} ms apart: {moved} moved");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_starts_after_all_have_left_is_at_work_within_two_polls() {
    for lease in LEASES {
        let (fleet, workers) = Fleet::at_rest(&FOUR, SHARDS, lease).await;
        let before = fleet.work.starts();
        workers.iter().for_each(|worker| worker.cancel.cancel());
        sleep(POLL).await;
        let start = Instant::now();
        let _new = ["e", "f", "g", "h"].map(|id| fleet.join(id));
        fleet.all_at_work().await;
        assert!(start.elapsed() <= fleet.poll() * 2 + REST, "{lease:?}: {:?}", start.elapsed());
        fleet.settles(4).await;
        sleep(lease).await;
        assert_eq!(fleet.work.starts() - before, SHARDS, "no shard moved twice");
        fleet.work.check();
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_come_as_others_go_are_at_work_within_two_polls() {
    for lease in LEASES {
        let (fleet, workers) = Fleet::at_rest(&FOUR, SHARDS, lease).await;
        let _new = ["e", "f", "g", "h"].map(|id| fleet.join(id));
        sleep(fleet.poll()).await;
        workers.iter().for_each(|worker| worker.cancel.cancel());
        fleet.is_vacant_for(fleet.poll() * 2, 4).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_one_that_leaves_after_anothers_crash_wait_for_four_polls_and_no_lease() {
    let two_seconds = LEASES.map(|lease| (lease, POLL * 2));
    for (lease, after) in two_seconds.into_iter().chain([(LEASE, LEASE / 2 + POLL)]) {
        let fleet = Fleet { lease, ..Fleet::start(SHARDS).await };
        let (doomed, session) = fleet.world.known(|| fleet.join("a")).await;
        fleet.settles(1).await;
        let mut workers: Vec<_> = EIGHT[1..4].iter().map(|id| fleet.join(id)).collect();
        fleet.settles(4).await;
        sleep(lease).await;
        fleet.world.cut_off(&session);
        doomed.sharing.abort();
        sleep(after).await;
        let of_leaver = fleet.work.shards_of("b");
        workers.remove(0).leave().await;
        let at_work = || {
            let owners = fleet.work.owners();
            of_leaver.iter().all(|shard| owners.contains_key(shard)).then_some(())
        };
        let start = Instant::now();
        until("the leaver's shards are at work", at_work).await;
        let most = fleet.poll() * 4 + REST;
        assert!(start.elapsed() <= most, "{lease:?}: {:?}", start.elapsed());
        fleet.settles(2).await;
        fleet.work.check();
    }
}

/// The time between a member's end and its return.
const RESTART: Duration = Duration::from_secs(4);

/// Restarts the members one after the other, and returns how many tasks that started.
async fn roll(restart: impl Fn(&Fleet, &str) -> Worker) -> (Fleet, usize) {
    let fleet = Fleet::start(SHARDS).await;
    let mut workers = FOUR.map(|id| restart(&fleet, id));
    fleet.settles(4).await;
    sleep(LEASE).await;
    let before = fleet.work.starts();
    fleet.work.forget_gaps();
    for (worker, id) in workers.iter_mut().zip(FOUR) {
        worker.cancel.cancel();
        let left = timeout(EVENTUALLY, &mut worker.sharing).await;
        left.expect("it leaves").unwrap().unwrap();
        sleep(RESTART).await;
        *worker = restart(&fleet, id);
        fleet.settles(4).await;
        sleep(LEASE / 2).await;
    }
    fleet.work.check();
    let starts = fleet.work.starts() - before;
    (fleet, starts)
}

#[tokio::test(start_paused = true)]
async fn a_rolling_restart_begins_each_shard_once_where_they_are_kept_for_their_members() {
    let restart =
        |fleet: &Fleet, id: &str| fleet.join_with(id, fleet.shards(id).restart_within(LEASE * 3));
    let (fleet, starts) = roll(restart).await;
    assert!(starts <= SHARDS + 4, "{starts} tasks began");
    let longest = fleet.work.longest_gap();
    assert!(longest <= RESTART + POLL + REST, "a shard was left alone for {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn by_default_a_restart_leaves_no_shard_alone_while_it_lasts() {
    let (fleet, _) = roll(Fleet::join).await;
    let longest = fleet.work.longest_gap();
    assert!(longest <= POLL * 2 + REST, "a shard was left alone for {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_one_that_does_not_come_back_go_to_others_when_its_time_is_over() {
    let limit = LEASE * 2;
    let (fleet, _workers) = Fleet::at_rest(&FOUR[..3], SHARDS, LEASE).await;
    let gone = fleet.join_with("d", fleet.shards("d").restart_within(limit));
    fleet.settles(4).await;
    sleep(LEASE).await;
    fleet.work.forget_gaps();
    gone.leave().await;
    sleep(limit - POLL).await;
    assert_eq!(fleet.work.owners().len(), SHARDS / 4 * 3, "its shards wait for it");
    assert!(fleet.world.row("spindle:share:orders/partitions/d").is_some());
    fleet.is_vacant_for(limit + POLL * 2, 3).await;
}

#[tokio::test(start_paused = true)]
async fn shards_are_kept_for_a_member_whose_tasks_end_by_the_services_own_shutdown() {
    let fleet = Fleet::start(SHARDS).await;
    let (shutdown, work) = (CancellationToken::new(), fleet.work.clone());
    let shards = fleet.shards("a").restart_within(LEASE * 2);
    let member = Worker::run_until(shutdown.clone(), shards, move |shard| {
        let (at_work, shutdown) = (work.enter("a", &shard), shutdown.clone());
        async move {
            let _at_work = at_work;
            shutdown.cancelled().await;
        }
    });
    fleet.settles(1).await;
    member.leave().await;
    for shard in 0..SHARDS {
        let row = fleet.world.row(&format!("spindle:shard:orders/partitions/{shard}")).unwrap();
        assert_eq!(row.writer.as_deref(), Some(">a"), "shard {shard}");
    }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_a_member_that_is_to_come_back_are_told_to_stop_at_once_though_spanner_does_not_answer()
 {
    let fleet = Fleet::start(SHARDS).await;
    let (member, session) =
        fleet.world.known(|| fleet.join_with("a", fleet.shards("a").restart_within(LEASE))).await;
    fleet.settles(1).await;
    fleet.world.cut_off(&session);
    member.cancel.cancel();
    let stopped = || fleet.work.owners().is_empty().then_some(());
    let ((), took) = timed(until("its tasks have stopped", stopped)).await;
    assert!(took <= REST, "{took:?}");
}

/// Its process may end next, and with it what would have released them.
#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_in_the_middle_of_an_attempt_to_take_shards_leaves_none_held() {
    let fleet = Fleet::start(2).await;
    let key = |shard| format!("spindle:shard:orders/partitions/{shard}");
    let late = Fault::on(Rpc::Commit).key(key(0)).times(1).effect(Effect::DelayReply(POLL));
    let late = fleet.world.spanner.inject(late);
    let member = fleet.join("a");
    until("it takes a shard", || (late.hits() > 0).then_some(())).await;
    member.leave().await;
    for shard in 0..2 {
        let row = fleet.world.row(&key(shard));
        assert!(row.is_none_or(|row| row.heartbeat == Some(0)), "shard {shard} is held by nobody");
    }
    assert_eq!(fleet.work.starts(), 0);
}

/// Has the first member delete the row of one that is long dead, which takes for ever.
async fn tidies_slowly(fleet: &Fleet) {
    let dead = "spindle:share:orders/partitions/dead";
    let term = "dead#0123456789abcdef-1";
    fleet.world.write(cells(dead, &[("heartbeat", PAST), ("token", PAST), ("writer", term)])).await;
    let slow = Fault::on(Rpc::Commit).key(dead).effect(Effect::Stall);
    let slow = fleet.world.spanner.inject(slow);
    until("the row of the dead is being deleted", || (slow.hits() > 0).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_tidies_takes_shards_meanwhile() {
    let (fleet, mut workers) = Fleet::at_rest(&FOUR[..2], SHARDS, LEASE).await;
    tidies_slowly(&fleet).await;
    workers.remove(1).leave().await;
    let ((), took) = timed(fleet.all_are_of("a")).await;
    assert!(took <= POLL * 2 + REST, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_tidies_leaves_at_once_though_that_is_slow() {
    let (fleet, mut workers) = Fleet::at_rest(&["a"], 1, LEASE).await;
    tidies_slowly(&fleet).await;
    let ((), took) = timed(workers.remove(0).leave()).await;
    assert!(took <= REST, "{took:?}");
}

/// A fifth member that dies 2 s after its first shard and is started anew `back` later, again and again
/// for ten minutes. Returns how many tasks started a minute. No shard waits for longer than the lease of
/// the dead.
async fn crash_loop(ids: &str, id: impl Fn(usize) -> String, back: Duration) -> f64 {
    let (fleet, _workers) = Fleet::at_rest(&FOUR, SHARDS, LEASE).await;
    let (start, before) = (Instant::now(), fleet.work.starts());
    let minutes = 10;
    let is_over = || start.elapsed() >= Duration::from_secs(60) * minutes;
    for life in 0.. {
        let id = id(life);
        let (doomed, session) = fleet.world.known(|| fleet.join(&id)).await;
        while fleet.work.shards_of(&id).is_empty() && !is_over() {
            sleep(Duration::from_millis(10)).await;
        }
        if is_over() {
            doomed.cancel.cancel();
            break;
        }
        sleep(POLL * 2).await;
        fleet.world.cut_off(&session);
        doomed.sharing.abort();
        sleep(back).await;
    }
    let starts = fleet.work.starts() - before;
    fleet.is_vacant_for(LEASE + POLL * 4, 4).await;
    let a_minute = starts as f64 / f64::from(minutes);
    let back = back.as_secs_f64();
    println!(
        "crash-loop-{ids}: ok shards={SHARDS} back_after_s={back} starts_a_minute={a_minute:.1}"
    );
    a_minute
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_again_and_again_under_one_id_moves_few_shards() {
    for (back, most) in [(Duration::from_millis(500), 50.0), (Duration::from_secs(10), 47.0)] {
        let starts = crash_loop("one-id", |_| "e".to_string(), back).await;
        assert!(starts <= most, "{starts} tasks began a minute, back after {back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_again_and_again_under_new_ids_moves_few_shards() {
    for (back, most) in [(Duration::from_millis(500), 70.0), (Duration::from_secs(10), 47.0)] {
        let starts = crash_loop("new-ids", |life| format!("e{life}"), back).await;
        assert!(starts <= most, "{starts} tasks began a minute, back after {back:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn who_takes_the_row_of_one_that_died_says_so_however_long_it_has_waited_for_that() {
    let fleet = Fleet::start(SHARDS).await;
    let (doomed, session) = fleet.world.known(|| fleet.join("a")).await;
    fleet.settles(1).await;
    let _waits = fleet.join("a");
    sleep(LEASE * 2).await;
    fleet.world.cut_off(&session);
    doomed.sharing.abort();
    sleep(LEASE + POLL).await;
    let row = fleet.table().inspect("spindle:share:orders/partitions/a").await.unwrap();
    assert_eq!((row.info.as_deref(), row.is_held()), (Some("shards 60 ran-out"), true));
}

/// Eight pods share 80 shards, and every 5 s one of them leaves and a new one comes under a new id.
#[tokio::test(start_paused = true)]
async fn a_rolling_deploy_of_new_ids_piles_up_on_nobody_and_settles_within_five_polls() {
    const PODS: usize = 8;
    const SHARDS: usize = 80;
    for lease in [10, 30].map(Duration::from_secs) {
        let (fleet, workers) = Fleet::at_rest(&EIGHT, SHARDS, lease).await;
        let before = fleet.work.starts();
        let (mut peak, mut new) = (0, Vec::new());
        let mut watched = async |time: Duration| {
            let end = Instant::now() + time;
            while Instant::now() < end {
                peak = peak.max(fleet.work.shares().into_values().max().unwrap_or_default());
                sleep(Duration::from_millis(50)).await;
            }
        };
        for (at, worker) in workers.into_iter().enumerate() {
            worker.cancel.cancel();
            new.push(fleet.join(&format!("new-{at}")));
            if at + 1 < PODS {
                watched(Duration::from_secs(5)).await;
            }
        }
        let last = Instant::now();
        watched(fleet.poll() * 5).await;
        let shares = fleet.work.shares();
        fleet.settles(PODS).await;
        let settled = last.elapsed();
        sleep(lease * 3).await;
        let starts = fleet.work.starts() - before;
        println!(
            "deploy: ok pods={PODS} shards={SHARDS} lease_s={} largest_share={peak} \
             starts_a_shard={:.1} settled_after_s={:.1}",
            lease.as_secs(),
            starts as f64 / SHARDS as f64,
            settled.as_secs_f64()
        );
        assert!(settled <= fleet.poll() * 5 + REST, "lease {lease:?}: {settled:?}, {shares:?}");
        assert!(peak * PODS * 2 <= SHARDS * 3, "lease {lease:?}: a share of {peak}");
        assert!(starts * 10 <= SHARDS * 22, "lease {lease:?}: {starts} tasks began");
        fleet.work.check();
    }
}

/// The members poll every third of the lease, as a large group does.
#[tokio::test(start_paused = true)]
async fn at_a_poll_of_ten_seconds_a_leave_leaves_no_shard_alone_for_longer_than_two_polls() {
    let poll = Duration::from_secs(10);
    let lease = Duration::from_secs(30);
    let fleet = Fleet { lease, ..Fleet::start(SHARDS).await };
    let join = |id: &str| {
        let member = fleet.world.member(id).lease(lease).poll_interval(poll).build().unwrap();
        fleet.join_with(id, member.shards("partitions", SHARDS))
    };
    let workers = FOUR.map(join);
    fleet.settles(4).await;
    sleep(lease).await;
    fleet.work.forget_gaps();
    for (at, worker) in workers.into_iter().enumerate() {
        worker.leave().await;
        // It goes on without its handle.
        drop(join(&format!("new-{at}")));
        sleep(poll * 4).await;
    }
    fleet.settles(4).await;
    let longest = fleet.work.longest_gap();
    assert!(longest <= poll * 2 + REST, "a shard was left alone for {longest:?}");
    fleet.work.check();
}
