//! Shards by weight: a larger member works more of them.

use std::time::Duration;

use spindle_fleet::Shards;
use tokio::time::sleep;

use crate::fleet::{Fleet, Worker};
use crate::world::{LEASE, until};

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
}

fn plain(shards: Shards) -> Shards {
    shards
}

/// All alike, and none 1.
fn equal(shards: Shards) -> Shards {
    shards.weight(7)
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
async fn equal_weights_count_as_none() {
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
async fn a_heavy_member_that_restarts_has_its_shards_again() {
    let fleet = Fleet::start(SHARDS).await;
    let with = |weight| {
        move |shards: Shards| shards.weight(weight).restart_within(Duration::from_secs(60))
    };
    let [a, _b, _c] =
        [("a", 4), ("b", 1), ("c", 1)].map(|(id, weight)| fleet.join_by(id, with(weight)));
    fleet.shares([("a", 8), ("b", 2), ("c", 2)]).await;
    sleep(LEASE * 2).await;
    let (owners, starts) = (fleet.work.owners(), fleet.work.starts());
    a.leave().await;
    let _a = fleet.join_by("a", with(4));
    fleet.all_at_work().await;
    fleet.rests().await;
    assert_eq!((fleet.work.owners(), fleet.work.starts()), (owners, starts + 8));
}

#[tokio::test(start_paused = true)]
async fn weights_that_cannot_be_are_refused() {
    let fleet = Fleet::start(SHARDS).await;
    for (shards, what) in [
        (fleet.shards("a").weight(0), "weight 0 for the shards `partitions`; expected 1 to 1000"),
        (fleet.shards("a").weight(1_001), "weight 1001"),
    ] {
        let refused = fleet.join_with("a", shards).ends().await.unwrap_err();
        assert!(refused.is_config() && refused.to_string().contains(what), "{refused}");
    }
}
