//! Deploys: members that come and go at the same time hurt the work on shards for polls, not leases.

use std::time::Duration;

use spindle::fleet::Shards;
use spindle::testing::Clock;
use spindle_emulator::{Effect, Fault};
use tokio::time::{Instant, sleep, timeout};

use crate::shards::{AllWork, Worker, work_by};
use crate::world::{EVENTUALLY, LEASE, World, until};

const SHARDS: usize = 60;
const POLL: Duration = Duration::from_secs(1);
/// The time that answers, attempts and jitter take beside the polls.
const REST: Duration = Duration::from_millis(300);

/// Their polls are a second apart, but at the shortest.
const LEASES: [Duration; 3] = [Duration::from_secs(3), LEASE, Duration::from_secs(30)];

struct Fleet {
    world: World,
    work: AllWork,
    lease: Duration,
}

impl Fleet {
    async fn start(lease: Duration) -> Fleet {
        Fleet { world: World::start().await, work: AllWork::default(), lease }
    }

    fn poll(&self) -> Duration {
        POLL.min(self.lease / 5)
    }

    fn shards(&self, id: &str) -> Shards {
        let member = self.world.table().member("orders").id(id).lease(self.lease);
        member.clock(Clock::runtime()).build().unwrap().shards("partitions", SHARDS)
    }

    fn join(&self, id: &str) -> Worker {
        work_by(self.shards(id), &self.work, id, Duration::ZERO)
    }

    /// Waits until so many members share all shards evenly.
    async fn settles(&self, members: usize) {
        let even = || {
            let shares = self.work.shares();
            let (least, most) = (shares.values().min()?, shares.values().max()?);
            let all = shares.values().sum::<usize>() == SHARDS;
            (all && most - least <= 1 && shares.len() == members).then_some(())
        };
        until("all shards are shared evenly", even).await;
    }

    /// A fleet that has come to rest.
    async fn of(ids: &[&str], lease: Duration) -> (Fleet, Vec<Worker>) {
        let fleet = Fleet::start(lease).await;
        let workers = ids.iter().map(|id| fleet.join(id)).collect();
        fleet.settles(ids.len()).await;
        sleep(lease).await;
        fleet.work.forget_gaps();
        (fleet, workers)
    }

    async fn all_at_work(&self) {
        let all = || (self.work.owners().len() == SHARDS).then_some(());
        until("all shards are at work", all).await;
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

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[tokio::test(start_paused = true)]
async fn half_of_the_members_that_leave_at_once_leave_no_shard_alone_for_longer_than_two_polls() {
    for (apart, lease) in
        [0, 3, 40, 300].map(|apart| (apart, LEASE)).into_iter().chain(LEASES.map(|it| (0, it)))
    {
        let (fleet, mut workers) = Fleet::of(&EIGHT, lease).await;
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
        let (fleet, workers) = Fleet::of(&EIGHT[..4], lease).await;
        let before = fleet.work.starts();
        workers.iter().for_each(|worker| worker.cancel.cancel());
        sleep(Duration::from_secs(1)).await;
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
        let (fleet, workers) = Fleet::of(&EIGHT[..4], lease).await;
        let _new = ["e", "f", "g", "h"].map(|id| fleet.join(id));
        sleep(fleet.poll()).await;
        workers.iter().for_each(|worker| worker.cancel.cancel());
        fleet.is_vacant_for(fleet.poll() * 2, 4).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_one_that_leaves_after_anothers_crash_wait_for_four_polls_and_no_lease() {
    let two_seconds = LEASES.map(|lease| (lease, Duration::from_secs(2)));
    for (lease, after) in two_seconds.into_iter().chain([(LEASE, LEASE / 2 + POLL)]) {
        let fleet = Fleet::start(lease).await;
        let doomed = fleet.join("a");
        fleet.settles(1).await;
        let session = fleet.world.spanner.requests().sessions().remove(0);
        let mut workers: Vec<_> = EIGHT[1..4].iter().map(|id| fleet.join(id)).collect();
        fleet.settles(4).await;
        sleep(lease).await;
        fleet.world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
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

const FOUR: [&str; 4] = ["a", "b", "c", "d"];
/// The time between a member's end and its return.
const RESTART: Duration = Duration::from_secs(4);

/// Restarts the members one after the other, and returns how many tasks that started.
async fn roll(restart: impl Fn(&Fleet, &str) -> Worker) -> (Fleet, usize) {
    let fleet = Fleet::start(LEASE).await;
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
    let restart = |fleet: &Fleet, id: &str| {
        work_by(fleet.shards(id).restart_within(LEASE * 3), &fleet.work, id, Duration::ZERO)
    };
    let (fleet, starts) = roll(restart).await;
    assert!(starts <= SHARDS + 4, "{starts} tasks began");
    let longest = fleet.work.longest_gap();
    assert!(longest <= RESTART + POLL + REST, "a shard was left alone for {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn by_default_a_restart_leaves_no_shard_alone_while_it_lasts() {
    let (fleet, _) = roll(|fleet, id| fleet.join(id)).await;
    let longest = fleet.work.longest_gap();
    assert!(longest <= POLL * 2 + REST, "a shard was left alone for {longest:?}");
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_one_that_does_not_come_back_go_to_others_when_its_time_is_over() {
    let limit = LEASE * 2;
    let (fleet, workers) = Fleet::of(&FOUR[..3], LEASE).await;
    let gone = fleet.shards("d").restart_within(limit);
    let gone = work_by(gone, &fleet.work, "d", Duration::ZERO);
    fleet.settles(4).await;
    sleep(LEASE).await;
    fleet.work.forget_gaps();
    gone.leave().await;
    sleep(limit - POLL).await;
    assert_eq!(fleet.work.owners().len(), SHARDS / 4 * 3, "its shards wait for it");
    assert!(fleet.world.names().await.contains(&"spindle:share:orders/partitions/d".to_string()));
    fleet.is_vacant_for(limit + POLL * 2, 3).await;
    drop(workers);
}

/// A fifth member that dies 2 s after its first shard and is started anew, again and again for a
/// minute, costs few task starts, and no shard more than the lease of the dead.
async fn is_damped(id: impl Fn(usize) -> String) {
    let (fleet, _workers) = Fleet::of(&FOUR, LEASE).await;
    let (start, before) = (Instant::now(), fleet.work.starts());
    let requests = fleet.world.spanner.requests();
    let is_over = || start.elapsed() >= Duration::from_secs(60);
    for life in 0.. {
        let (id, sessions) = (id(life), requests.sessions());
        let doomed = fleet.join(&id);
        while fleet.work.shards_of(&id).is_empty() && !is_over() {
            sleep(Duration::from_millis(10)).await;
        }
        if is_over() {
            doomed.cancel.cancel();
            break;
        }
        sleep(Duration::from_secs(2)).await;
        let session = requests.sessions().into_iter().find(|other| !sessions.contains(other));
        fleet.world.spanner.inject(Fault::any().session(session.unwrap()).effect(Effect::Stall));
        doomed.sharing.abort();
        sleep(Duration::from_millis(500)).await;
    }
    let starts = fleet.work.starts() - before;
    assert!(starts <= 50, "{starts} tasks began");
    fleet.is_vacant_for(LEASE + POLL * 4, 4).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_again_and_again_under_one_id_moves_few_shards() {
    is_damped(|_| "e".to_string()).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_dies_again_and_again_under_new_ids_moves_few_shards() {
    is_damped(|life| format!("e{life}")).await;
}
