//! Shards as the process sees them that works them: who has which, and what changes.

use std::collections::BTreeSet;

use spindle_emulator::Rpc;
use spindle_fleet::ShardEvent;
use tokio::time::{sleep, timeout};

use crate::fleet::Fleet;
use crate::threads::at_once;
use crate::world::{EVENTUALLY, LEASE};

const SHARDS: usize = 6;

fn gained(events: &[ShardEvent]) -> BTreeSet<usize> {
    let shard = |event: &ShardEvent| match event {
        ShardEvent::Gained { shard, .. } => Some(*shard),
        _ => None,
    };
    events.iter().filter_map(shard).collect()
}

#[tokio::test(start_paused = true)]
async fn a_member_tells_what_it_gains_and_gives_up_and_who_has_the_rest() {
    let fleet = Fleet::start(SHARDS).await;
    let mut a = fleet.join("a");
    assert!(a.shards.mine().is_empty() && a.shards.owners().is_empty());
    let events = a.until_settled().await;
    assert_eq!(gained(&events), (0..SHARDS).collect());
    assert_eq!(a.shards.mine(), (0..SHARDS).collect::<Vec<_>>());
    assert_eq!(a.shards.owners(), vec![Some("a".to_string()); SHARDS]);
    assert!(a.shards.is_settled());

    let mut b = fleet.join("b");
    let (of_a, of_b) = (a.until_settled().await, b.until_settled().await);
    let moved = gained(&of_b);
    assert_eq!(moved.len(), SHARDS / 2);
    for shard in &moved {
        let to = Some("b".to_string());
        let gives = of_a
            .iter()
            .position(|it| *it == ShardEvent::GivingUp { shard: *shard, to: to.clone() });
        let gave = of_a.iter().position(|it| *it == ShardEvent::GivenUp { shard: *shard });
        assert!(gives.is_some() && gives < gave, "{of_a:?}");
    }
    assert_eq!(of_a.len(), SHARDS, "and nothing else: {of_a:?}");
    assert_eq!(b.shards.mine(), moved.iter().copied().collect::<Vec<_>>());
    assert!(a.shards.mine().iter().all(|shard| !moved.contains(shard)));
    let owners = a.shards.owners();
    let expected = |shard| if moved.contains(&shard) { "b" } else { "a" };
    assert!((0..SHARDS).all(|shard| owners[shard].as_deref() == Some(expected(shard))));

    let (mut events, shards) = (b.shards.events(), b.shards.clone());
    b.leave().await;
    assert!(shards.mine().is_empty() && shards.owners().is_empty() && !shards.is_settled());
    for _ in &moved {
        assert!(matches!(events.next().await, Some(ShardEvent::GivingUp { to: None, .. })));
    }
    assert_eq!(gained(&a.until_settled().await), moved);
    a.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_tells_what_it_has_lost() {
    let fleet = Fleet::start(SHARDS).await;
    let (mut a, session) = fleet.world.known(|| fleet.join("a")).await;
    a.until_settled().await;
    let cut = fleet.world.cut_off(&session);
    let mut lost = BTreeSet::new();
    while lost.len() < SHARDS {
        match timeout(EVENTUALLY, a.events.next()).await.expect("it is lost") {
            Some(ShardEvent::Lost { shard }) => lost.insert(shard),
            other => panic!("{other:?}"),
        };
    }
    assert!(a.shards.mine().is_empty());
    cut.restore();
    fleet.all_are_of("a").await;
    a.leave().await;
}

#[test]
fn shards_that_went_with_their_runtime_are_told_as_lost() {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_all().start_paused(true).build().unwrap();
    let (shards, mut events) = runtime.block_on(async {
        let fleet = Fleet::start(SHARDS).await;
        let mut a = fleet.join("a");
        a.until_settled().await;
        (a.shards.clone(), a.shards.events())
    });
    assert_eq!(shards.mine().len(), SHARDS);
    drop(runtime);
    assert!(shards.mine().is_empty() && shards.owners().is_empty() && !shards.is_settled());
    assert!(matches!(at_once(events.next()), Some(ShardEvent::Lost { .. })));
}

#[tokio::test(start_paused = true)]
async fn who_asks_and_listens_costs_no_request() {
    let fleet = Fleet::start(SHARDS).await;
    let mut a = fleet.join("a");
    a.until_settled().await;
    let requests = fleet.world.spanner.requests();
    let mut reads = Vec::new();
    for asks in [0, 1_000] {
        requests.reset();
        for _ in 0..asks {
            assert_eq!(a.shards.owners().len(), SHARDS);
            assert!(a.shards.is_settled() && a.shards.mine().len() == SHARDS);
        }
        sleep(LEASE * 5).await;
        reads.push(requests.get(Rpc::StreamingRead));
    }
    assert!(reads[0].abs_diff(reads[1]) <= 4, "{reads:?}");
    a.leave().await;
}
