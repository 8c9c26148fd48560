//! Shards as the process sees them that works them: who has which, what changes, and what the last
//! owner left.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use spindle::fleet::{Shard, ShardEvent, ShardEvents, Shards};
use spindle::testing::Clock;
use spindle::{CancellationToken, Error};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, World, until};

const SHARDS: usize = 6;

/// A member that works shards, and leaves the next owner of each its id and the shard's number.
struct Worker {
    shards: Shards,
    events: ShardEvents,
    cancel: CancellationToken,
    /// The texts that its tasks found, by their shards: the last ones.
    found: Arc<Mutex<BTreeMap<usize, Option<String>>>>,
    sharing: JoinHandle<Result<(), Error>>,
}

impl Worker {
    fn start(world: &World, id: &'static str) -> Worker {
        let member = world.table().member("orders").id(id).lease(LEASE).clock(Clock::runtime());
        let shards = member.build().unwrap().shards("partitions", SHARDS);
        let (cancel, found) = (CancellationToken::new(), Arc::new(Mutex::new(BTreeMap::new())));
        let (events, running, stop) = (shards.events(), shards.clone(), cancel.clone());
        let texts = Arc::clone(&found);
        let task = move |shard: Shard| {
            let text = shard.handed_over().map(str::to_string);
            texts.lock().unwrap().insert(shard.number(), text);
            async move {
                shard.cancelled().await;
                shard.hand_over(format!("{id} had {}", shard.number())).unwrap();
            }
        };
        let sharing = tokio::spawn(async move { running.run(stop, task).await });
        Worker { shards, events, cancel, found, sharing }
    }

    /// The events up to the next one that says that all is settled.
    async fn until_settled(&mut self) -> Vec<ShardEvent> {
        let mut events = Vec::new();
        let waiting = async {
            while let Some(event) = self.events.next().await {
                if event == ShardEvent::Settled {
                    return;
                }
                events.push(event);
            }
        };
        timeout(EVENTUALLY, waiting).await.expect("it settles");
        events
    }

    async fn leave(self) {
        self.cancel.cancel();
        timeout(EVENTUALLY, self.sharing).await.expect("it leaves").unwrap().unwrap();
    }

    fn found(&self, shard: usize) -> Option<String> {
        self.found.lock().unwrap()[&shard].clone()
    }
}

fn gained(events: &[ShardEvent]) -> BTreeSet<usize> {
    let shard = |event: &ShardEvent| match event {
        ShardEvent::Gained { shard, .. } => Some(*shard),
        _ => None,
    };
    events.iter().filter_map(shard).collect()
}

#[tokio::test(start_paused = true)]
async fn a_member_tells_what_it_gains_and_gives_up_and_who_has_the_rest() {
    let world = World::start().await;
    let mut a = Worker::start(&world, "a");
    assert!(a.shards.mine().is_empty() && a.shards.owners().is_empty());
    let events = a.until_settled().await;
    assert_eq!(gained(&events), (0..SHARDS).collect());
    assert_eq!(a.shards.mine(), (0..SHARDS).collect::<Vec<_>>());
    assert_eq!(a.shards.owners(), vec![Some("a".to_string()); SHARDS]);
    assert!(a.shards.is_settled());

    let mut b = Worker::start(&world, "b");
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
    let world = World::start().await;
    let mut a = Worker::start(&world, "a");
    a.until_settled().await;
    let session = world.spanner.requests().sessions().remove(0);
    let cut = world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    let mut lost = BTreeSet::new();
    while lost.len() < SHARDS {
        match timeout(EVENTUALLY, a.events.next()).await.expect("it is lost") {
            Some(ShardEvent::Lost { shard }) => lost.insert(shard),
            other => panic!("{other:?}"),
        };
    }
    assert!(a.shards.mine().is_empty() && cut.hits() > 0);
    world.spanner.clear_faults();
    until("it has them again", || (a.shards.mine().len() == SHARDS).then_some(())).await;
    let texts = (0..SHARDS).map(|shard| a.found(shard));
    assert!(texts.flatten().next().is_none(), "a lost term leaves nothing");
    a.leave().await;
}

#[tokio::test(start_paused = true)]
async fn the_next_owner_of_a_shard_reads_what_the_last_one_left() {
    let world = World::start().await;
    let mut a = Worker::start(&world, "a");
    a.until_settled().await;
    assert!((0..SHARDS).all(|shard| a.found(shard).is_none()));
    let mut b = Worker::start(&world, "b");
    b.until_settled().await;
    let moved = b.shards.mine();
    for shard in &moved {
        assert_eq!(b.found(*shard), Some(format!("a had {shard}")), "it was handed over");
    }
    let kept = a.shards.mine();
    a.leave().await;
    until("b has all", || (b.shards.mine().len() == SHARDS).then_some(())).await;
    for shard in kept {
        assert_eq!(b.found(shard), Some(format!("a had {shard}")), "a has left");
    }
    b.leave().await;
    let c = Worker::start(&world, "c");
    until("c has all", || (c.shards.mine().len() == SHARDS).then_some(())).await;
    for shard in 0..SHARDS {
        assert_eq!(c.found(shard), Some(format!("b had {shard}")), "the last owner's");
    }
    c.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_text_that_no_row_has_room_for_is_refused() {
    let world = World::start().await;
    let member = world.table().member("orders").lease(LEASE).clock(Clock::runtime());
    let shards = member.build().unwrap().shards("partitions", 1);
    let (told, mut hear) = tokio::sync::mpsc::unbounded_channel();
    let (cancel, running) = (CancellationToken::new(), shards.clone());
    let task = move |shard: Shard| {
        let told = told.clone();
        async move {
            told.send(shard.hand_over("x".repeat(4_001))).unwrap();
            told.send(shard.hand_over("x".repeat(4_000))).unwrap();
            shard.cancelled().await;
        }
    };
    let stop = cancel.clone();
    let sharing = tokio::spawn(async move { running.run(stop, task).await });
    let refused = hear.recv().await.unwrap().unwrap_err();
    assert!(refused.is_config() && refused.to_string().contains("4001 bytes"), "{refused}");
    hear.recv().await.unwrap().unwrap();
    cancel.cancel();
    sharing.await.unwrap().unwrap();
    let row = world.row("spindle:shard:orders/partitions/0").await.unwrap();
    assert_eq!(row.writer.as_deref(), Some(""), "it was released with the text");
}

#[tokio::test(start_paused = true)]
async fn who_asks_and_listens_costs_no_request() {
    let world = World::start().await;
    let mut a = Worker::start(&world, "a");
    a.until_settled().await;
    let requests = world.spanner.requests();
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
