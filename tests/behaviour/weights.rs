//! Shards by weight: a larger member works more of them, and a dear shard counts for several.

use std::time::Duration;

use spindle::fleet::Shards;
use tokio::time::sleep;

use crate::fleet::{Fleet, Worker};
use crate::log::Log;
use crate::world::{LEASE, cells, until};

const SHARDS: usize = 12;

impl Fleet {
    fn join_by(&self, id: &str, with: impl Fn(Shards) -> Shards) -> Worker {
        self.join_with(id, with(self.shards(id)))
    }

    /// Waits until each of these members works so many shards.
    async fn shares<const N: usize>(&self, shares: [(&str, usize); N]) {
        let expected = shares.map(|(id, count)| (id.to_string(), count)).into();
        let is_so = || (self.work.shares() == expected).then_some(());
        until(&format!("the shards are shared as {expected:?}"), is_so).await;
    }

    /// Waits until this shard is the only one of its owner.
    async fn is_alone(&self, shard: usize) {
        let alone = || {
            let owners = self.work.owners();
            let owner = owners.get(&shard)?;
            (owners.len() == SHARDS && self.work.shares()[owner] == 1).then_some(())
        };
        until("the dear shard is alone", alone).await;
    }

    /// Writes what a member's row says of it.
    async fn rewrite(&self, id: &str, info: &str) {
        let name = format!("spindle:share:orders/partitions/{id}");
        self.world.write(cells(&name, &[("info", info)])).await;
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
    let fleet = Fleet::start(SHARDS).await;
    let b = fleet.join_by("b", plain);
    fleet.shares([("b", SHARDS)]).await;
    let a = fleet.join_by("a", |shards| shards.weight(3));
    fleet.shares([("a", 9), ("b", 3)]).await;
    assert_eq!(fleet.work.starts(), SHARDS + 9, "the join moved what the joiner got");
    fleet.rests().await;
    let c = fleet.join_by("c", |shards| shards.weight(2));
    fleet.shares([("a", 6), ("b", 2), ("c", 4)]).await;
    assert_eq!(fleet.work.starts(), SHARDS + 9 + 4);
    c.leave().await;
    fleet.shares([("a", 9), ("b", 3)]).await;
    a.leave().await;
    fleet.shares([("b", SHARDS)]).await;
    let _a = fleet.join_by("a", plain);
    fleet.shares([("a", 6), ("b", 6)]).await;
    fleet.rests().await;
    b.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_shard_that_costs_as_much_as_all_others_is_its_owners_only_one() {
    let fleet = Fleet::start(SHARDS).await;
    let _workers = ["a", "b"].map(|id| fleet.join_by(id, heavy(7)));
    fleet.is_alone(7).await;
    fleet.rests().await;
}

#[tokio::test(start_paused = true)]
async fn equal_weights_and_costs_count_as_none() {
    let mut ends = Vec::new();
    for with in [plain, equal] {
        let fleet = Fleet::start(SHARDS).await;
        // The first one has all, so who has which follows from more than the order of the ids.
        let _b = fleet.join_by("b", with);
        fleet.shares([("b", SHARDS)]).await;
        let a = fleet.join_by("a", with);
        fleet.shares([("a", 6), ("b", 6)]).await;
        let _c = fleet.join_by("c", with);
        fleet.shares([("a", 4), ("b", 4), ("c", 4)]).await;
        fleet.rests().await;
        ends.push((fleet.work.owners(), fleet.work.starts()));
        a.leave().await;
        let _a = fleet.join_by("a", with);
        fleet.shares([("a", 4), ("b", 4), ("c", 4)]).await;
        fleet.rests().await;
    }
    assert_eq!(ends[0], ends[1]);
}

#[tokio::test(start_paused = true)]
async fn a_heavy_member_that_restarts_has_its_dear_shards_again() {
    let fleet = Fleet::start(SHARDS).await;
    let with = |weight| {
        let of = move |shards: Shards| shards.weight(weight).cost(10, 6).cost(11, 6);
        move |shards| of(shards).restart_within(Duration::from_secs(60))
    };
    let [a, _b, _c] =
        [("a", 4), ("b", 1), ("c", 1)].map(|(id, weight)| fleet.join_by(id, with(weight)));
    // Both of the dear ones are its own: 12 of a fair share of 14 and two thirds.
    fleet.all_at_work().await;
    sleep(LEASE * 2).await;
    let (owners, starts) = (fleet.work.owners(), fleet.work.starts());
    let of_a = fleet.work.shards_of("a");
    assert!(of_a.ends_with(&[10, 11]) && of_a.len() < 6, "{owners:?}");
    a.leave().await;
    let _a = fleet.join_by("a", with(4));
    fleet.all_at_work().await;
    fleet.rests().await;
    assert_eq!((fleet.work.owners(), fleet.work.starts()), (owners, starts + of_a.len()));
}

#[tokio::test(start_paused = true)]
async fn beside_a_member_of_a_version_without_weights_all_count_alike() {
    let (log, _guard) = Log::capture();
    let fleet = Fleet::start(SHARDS).await;
    let _workers = [fleet.join_by("a", |shards| shards.weight(3)), fleet.join_by("b", plain)];
    fleet.shares([("a", 9), ("b", 3)]).await;
    assert!(log.saying("count as 1").is_empty());
    fleet.rewrite("b", &format!("shards {SHARDS} plan 1")).await;
    fleet.shares([("a", 6), ("b", 6)]).await;
    fleet.rests().await;
    let said = log.the("all weights and costs of these shards count as 1");
    assert!(said.says("weight=3") && said.says("partitions/a"), "{said:?}");
    fleet.rewrite("b", &format!("shards {SHARDS} plan 2")).await;
    fleet.shares([("a", 9), ("b", 3)]).await;
    fleet.rests().await;
}

#[tokio::test(start_paused = true)]
async fn of_members_that_name_different_costs_the_first_one_decides_until_it_leaves() {
    let (log, _guard) = Log::capture();
    let fleet = Fleet::start(SHARDS).await;
    let a = fleet.join_by("a", heavy(0));
    fleet.shares([("a", SHARDS)]).await;
    let _b = fleet.join_by("b", heavy(5));
    let _c = fleet.join_by("c", heavy(5));
    fleet.is_alone(0).await;
    fleet.rests().await;
    let said = log.saying("these shards cost what the first member says");
    let of = |id: &str| said.iter().filter(|line| line.says(&format!("partitions/{id}"))).count();
    assert_eq!([of("a"), of("b"), of("c")], [0, 1, 1], "{said:?}");
    a.leave().await;
    fleet.is_alone(5).await;
    fleet.rests().await;
}

#[tokio::test(start_paused = true)]
async fn weights_and_costs_that_cannot_be_are_refused() {
    let fleet = Fleet::start(SHARDS).await;
    let many = (0..SHARDS).map(|shard| (shard, 1_000 - u32::try_from(shard).unwrap()));
    let many = many.fold(fleet.shards("a"), |shards, (shard, cost)| shards.cost(shard, cost));
    let worker = fleet.join_with("a", many);
    fleet.shares([("a", SHARDS)]).await;
    worker.leave().await;
    let long = fleet.world.member("a").build().unwrap().shards("partitions", 2_000);
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
        let refused = fleet.join_with("a", shards).ends().await.unwrap_err();
        assert!(refused.is_config() && refused.to_string().contains(what), "{refused}");
    }
}
