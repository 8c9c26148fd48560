//! Deploys: members that come and go at the same time hurt the work on shards for polls, not leases.

use std::time::Duration;

use spindle_emulator::{Effect, Fault};
use tokio::time::{Instant, sleep};

use crate::shards::{AllWork, Worker, work_on};
use crate::world::{LEASE, World, until};

const SHARDS: usize = 60;
const POLL: Duration = Duration::from_secs(1);
/// The time that answers, attempts and jitter take beside the polls.
const REST: Duration = Duration::from_millis(300);

struct Fleet {
    world: World,
    work: AllWork,
}

impl Fleet {
    async fn start() -> Fleet {
        Fleet { world: World::start().await, work: AllWork::default() }
    }

    fn join(&self, id: &str) -> Worker {
        work_on(&self.world, &self.work, id, SHARDS)
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
    async fn of(ids: &[&str]) -> (Fleet, Vec<Worker>) {
        let fleet = Fleet::start().await;
        let workers = ids.iter().map(|id| fleet.join(id)).collect();
        fleet.settles(ids.len()).await;
        sleep(LEASE).await;
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
        sleep(LEASE * 2).await;
        let longest = self.work.longest_gap();
        assert!(longest <= most + REST, "a shard was left alone for {longest:?}");
        self.work.check();
    }
}

const EIGHT: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[tokio::test(start_paused = true)]
async fn half_of_the_members_that_leave_at_once_leave_no_shard_alone_for_longer_than_two_polls() {
    for apart in [0, 3, 40, 300] {
        let (fleet, mut workers) = Fleet::of(&EIGHT).await;
        let before = fleet.work.starts();
        for worker in workers.drain(..4) {
            worker.cancel.cancel();
            sleep(Duration::from_millis(apart)).await;
        }
        fleet.is_vacant_for(POLL * 2, 4).await;
        // A leaver's shards may go first to another that is about to leave.
        let moved = fleet.work.starts() - before;
        assert!((SHARDS / 2..=SHARDS / 4 * 3).contains(&moved), "{apart} ms apart: {moved} moved");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fleet_that_starts_after_all_have_left_is_at_work_within_two_polls() {
    let (fleet, workers) = Fleet::of(&EIGHT[..4]).await;
    let before = fleet.work.starts();
    workers.iter().for_each(|worker| worker.cancel.cancel());
    sleep(POLL).await;
    let start = Instant::now();
    let _new = ["e", "f", "g", "h"].map(|id| fleet.join(id));
    fleet.all_at_work().await;
    assert!(start.elapsed() <= POLL * 2 + REST, "{:?}", start.elapsed());
    fleet.settles(4).await;
    sleep(LEASE).await;
    assert_eq!(fleet.work.starts() - before, SHARDS, "no shard moved twice");
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn members_that_come_as_others_go_are_at_work_within_two_polls() {
    let (fleet, workers) = Fleet::of(&EIGHT[..4]).await;
    let _new = ["e", "f", "g", "h"].map(|id| fleet.join(id));
    sleep(POLL).await;
    workers.iter().for_each(|worker| worker.cancel.cancel());
    fleet.is_vacant_for(POLL * 2, 4).await;
}

#[tokio::test(start_paused = true)]
async fn the_shards_of_one_that_leaves_after_anothers_crash_wait_for_four_polls_and_no_lease() {
    for after in [POLL * 2, LEASE / 2 + POLL] {
        let fleet = Fleet::start().await;
        let doomed = fleet.join("a");
        fleet.settles(1).await;
        let session = fleet.world.spanner.requests().sessions().remove(0);
        let mut workers: Vec<_> = EIGHT[1..4].iter().map(|id| fleet.join(id)).collect();
        fleet.settles(4).await;
        sleep(LEASE).await;
        fleet.world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
        doomed.sharing.abort();
        sleep(after).await;
        let of_leaver = fleet.work.shards_of("b");
        fleet.work.forget_gaps();
        workers.remove(0).leave().await;
        let at_work = || {
            let owners = fleet.work.owners();
            of_leaver.iter().all(|shard| owners.contains_key(shard)).then_some(())
        };
        let start = Instant::now();
        until("the leaver's shards are at work", at_work).await;
        assert!(start.elapsed() <= POLL * 4 + REST, "{:?}", start.elapsed());
        fleet.settles(2).await;
        fleet.work.check();
    }
}
