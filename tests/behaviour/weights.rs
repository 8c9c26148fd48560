//! Shards by weight: a larger member works more of them, and a dear shard counts for several.

use std::collections::BTreeMap;
use std::time::Duration;

use spindle::fleet::Shards;
use spindle::google_cloud_spanner::mutation::Mutation;
use tokio::time::{sleep, timeout};

use crate::log::Log;
use crate::shards::{AllWork, Worker, member, work_by};
use crate::world::{EVENTUALLY, LEASE, World, until};

const SHARDS: usize = 12;

struct Fleet {
    world: World,
    work: AllWork,
}

impl Fleet {
    async fn start() -> Fleet {
        Fleet { world: World::start().await, work: AllWork::default() }
    }

    fn shards(&self, id: &str) -> Shards {
        member(&self.world, id).shards("partitions", SHARDS)
    }

    fn join(&self, id: &str, with: impl Fn(Shards) -> Shards) -> Worker {
        work_by(with(self.shards(id)), &self.work, id, Duration::ZERO)
    }

    /// Waits until each of these members works so many shards.
    async fn settles<const N: usize>(&self, shares: [(&str, usize); N]) {
        let expected: BTreeMap<String, usize> =
            shares.into_iter().map(|(id, count)| (id.to_string(), count)).collect();
        let is_so = || (self.work.shares() == expected).then_some(());
        let settling = timeout(EVENTUALLY, until("the shards are shared by weight", is_so)).await;
        settling.unwrap_or_else(|_| panic!("{:?}, not {expected:?}", self.work.shares()));
    }

    /// Waits for a while, in which nothing is to move.
    async fn rests(&self) {
        let starts = self.work.starts();
        sleep(LEASE * 5).await;
        assert_eq!(self.work.starts(), starts, "a shard moved");
        self.work.check();
    }

    /// Writes what a member's row says of it.
    async fn rewrite(&self, id: &str, info: &str) {
        let row = Mutation::new_update_builder("locktable");
        let row = row.set("name").to(format!("spindle:share:orders/partitions/{id}"));
        self.world.write(row.set("info").to(info).build()).await;
    }
}

fn plain(shards: Shards) -> Shards {
    shards
}

/// All alike, and none 1.
fn equal(shards: Shards) -> Shards {
    (0..SHARDS).fold(shards.weight(7), |shards, shard| shards.cost(shard, 4))
}

fn heavy(shard: usize) -> impl Fn(Shards) -> Shards {
    move |shards| shards.cost(shard, 11)
}

#[tokio::test(start_paused = true)]
async fn a_member_of_weight_three_beside_one_of_weight_one_works_three_quarters() {
    let fleet = Fleet::start().await;
    let b = fleet.join("b", plain);
    fleet.settles([("b", SHARDS)]).await;
    let a = fleet.join("a", |shards| shards.weight(3));
    fleet.settles([("a", 9), ("b", 3)]).await;
    assert_eq!(fleet.work.starts(), SHARDS + 9, "the join moved what the joiner got");
    fleet.rests().await;
    let c = fleet.join("c", |shards| shards.weight(2));
    fleet.settles([("a", 6), ("b", 2), ("c", 4)]).await;
    assert_eq!(fleet.work.starts(), SHARDS + 9 + 4);
    c.leave().await;
    fleet.settles([("a", 9), ("b", 3)]).await;
    a.leave().await;
    fleet.settles([("b", SHARDS)]).await;
    let _a = fleet.join("a", plain);
    fleet.settles([("a", 6), ("b", 6)]).await;
    fleet.rests().await;
    b.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_costs_as_much_as_all_others_is_its_owners_only_one() {
    let fleet = Fleet::start().await;
    let _workers = ["a", "b"].map(|id| fleet.join(id, heavy(7)));
    let lone = || {
        let owner = fleet.work.owners().remove(&7)?;
        let shares = fleet.work.shares();
        (shares[&owner] == 1 && shares.values().sum::<usize>() == SHARDS).then_some(())
    };
    until("the dear shard is alone", lone).await;
    fleet.rests().await;
}

#[tokio::test(start_paused = true)]
async fn equal_weights_and_costs_count_as_none() {
    let mut ends = Vec::new();
    for with in [plain, equal] {
        let fleet = Fleet::start().await;
        // The first one has all, so who has which follows from more than the order of the ids.
        let _b = fleet.join("b", with);
        fleet.settles([("b", SHARDS)]).await;
        let a = fleet.join("a", with);
        fleet.settles([("a", 6), ("b", 6)]).await;
        let _c = fleet.join("c", with);
        fleet.settles([("a", 4), ("b", 4), ("c", 4)]).await;
        fleet.rests().await;
        ends.push((fleet.work.owners(), fleet.work.starts()));
        a.leave().await;
        let _a = fleet.join("a", with);
        fleet.settles([("a", 4), ("b", 4), ("c", 4)]).await;
        fleet.rests().await;
    }
    assert_eq!(ends[0], ends[1]);
}

#[tokio::test(start_paused = true)]
async fn a_heavy_member_that_restarts_has_its_dear_shards_again() {
    let fleet = Fleet::start().await;
    let with = |weight| {
        let of = move |shards: Shards| shards.weight(weight).cost(10, 6).cost(11, 6);
        move |shards| of(shards).restart_within(Duration::from_secs(60))
    };
    let [a, _b, _c] =
        [("a", 4), ("b", 1), ("c", 1)].map(|(id, weight)| fleet.join(id, with(weight)));
    // Both of the dear ones are its own: 12 of a fair share of 14 and two thirds.
    let is_at_work = || (fleet.work.owners().len() == SHARDS).then_some(());
    until("all are at work", is_at_work).await;
    sleep(LEASE * 2).await;
    let (owners, starts) = (fleet.work.owners(), fleet.work.starts());
    let of_a = fleet.work.shards_of("a");
    assert!(of_a.ends_with(&[10, 11]) && of_a.len() < 6, "{owners:?}");
    a.leave().await;
    let _a = fleet.join("a", with(4));
    until("all are at work", is_at_work).await;
    fleet.rests().await;
    assert_eq!((fleet.work.owners(), fleet.work.starts()), (owners, starts + of_a.len()));
}

#[tokio::test(start_paused = true)]
async fn beside_a_member_of_a_version_without_weights_all_count_alike() {
    let (log, _guard) = Log::capture();
    let fleet = Fleet::start().await;
    let _workers = [fleet.join("a", |shards| shards.weight(3)), fleet.join("b", plain)];
    fleet.settles([("a", 9), ("b", 3)]).await;
    assert!(log.saying("count as 1").is_empty());
    fleet.rewrite("b", &format!("shards {SHARDS} plan 1")).await;
    fleet.settles([("a", 6), ("b", 6)]).await;
    fleet.rests().await;
    let said = log.the("all weights and costs of these shards count as 1");
    assert!(said.says("weight=3") && said.says("partitions/a"), "{said:?}");
    fleet.rewrite("b", &format!("shards {SHARDS} plan 2")).await;
    fleet.settles([("a", 9), ("b", 3)]).await;
    fleet.rests().await;
}

#[tokio::test(start_paused = true)]
async fn of_members_that_name_different_costs_the_first_one_decides_until_it_leaves() {
    let (log, _guard) = Log::capture();
    let fleet = Fleet::start().await;
    let a = fleet.join("a", heavy(0));
    fleet.settles([("a", SHARDS)]).await;
    let _b = fleet.join("b", heavy(5));
    let _c = fleet.join("c", heavy(5));
    let is_alone = |shard| {
        let owners = fleet.work.owners();
        let owner = owners.get(&shard)?;
        (owners.len() == SHARDS && fleet.work.shares()[owner] == 1).then_some(())
    };
    until("the dear shard of the first is alone", || is_alone(0)).await;
    fleet.rests().await;
    let said = log.saying("these shards cost what the first member says");
    let of = |id: &str| said.iter().filter(|line| line.says(&format!("partitions/{id}"))).count();
    assert_eq!([of("a"), of("b"), of("c")], [0, 1, 1], "{said:?}");
    a.leave().await;
    until("the dear shard of those that are left is alone", || is_alone(5)).await;
    fleet.rests().await;
}

#[tokio::test(start_paused = true)]
async fn weights_and_costs_that_cannot_be_are_refused() {
    let fleet = Fleet::start().await;
    let many = (0..SHARDS).map(|shard| (shard, 1_000 - u32::try_from(shard).unwrap()));
    let many = many.fold(fleet.shards("a"), |shards, (shard, cost)| shards.cost(shard, cost));
    let worker = work_by(many, &fleet.work, "a", Duration::ZERO);
    fleet.settles([("a", SHARDS)]).await;
    worker.leave().await;
    let long = member(&fleet.world, "a").shards("partitions", 2_000);
    let long =
        (0..2_000).fold(long, |shards, shard| shards.cost(shard, 2 + u32::from(shard % 2 == 0)));
    for (shards, what) in [
        (fleet.shards("a").weight(0), "weight 0 for the shards `partitions`; expected 1 to 1000"),
        (fleet.shards("a").weight(1_001), "weight 1001"),
        (fleet.shards("a").cost(3, 0), "cost 0 of shard 3 of 12"),
        (fleet.shards("a").cost(3, 1_001), "cost 1001 of shard 3"),
        (fleet.shards("a").cost(12, 2), "expected 1 to 1000, of a shard below 12"),
        (long, "at most 4000: let neighbours cost the same"),
    ] {
        let worker = work_by(shards, &fleet.work, "a", Duration::ZERO);
        let refused = timeout(EVENTUALLY, worker.sharing).await.unwrap().unwrap().unwrap_err();
        assert!(refused.is_config() && refused.to_string().contains(what), "{refused}");
    }
}
