//! Shards: each worked by one member at a time, evenly, and never by two.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use spindle::testing::Clock;
use spindle::{
    CancellationToken, Error, FencingToken,
    fleet::{Member, Shard, Shards},
};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, World, timed, until};

const SHARDS: usize = 12;

/// Keeps the book of who works which shard, and of what must not be.
#[derive(Clone, Default)]
pub struct AllWork(Arc<Mutex<Work>>);

#[derive(Default)]
pub struct Work {
    at_work: BTreeMap<usize, (String, FencingToken)>,
    /// How many tasks of each count of shards are at work.
    counts: BTreeMap<usize, usize>,
    /// How many began while one of another count was at work.
    mixed: usize,
    tokens: BTreeMap<usize, FencingToken>,
    starts: usize,
    wrong: Vec<String>,
    /// When the last task of a shard ended.
    left: BTreeMap<usize, Instant>,
    gaps: Vec<Duration>,
}

/// A task at work; it is over when this is dropped.
pub struct AtWork {
    all: AllWork,
    shard: usize,
    count: usize,
}

impl AllWork {
    pub fn enter(&self, id: &str, shard: &Shard) -> AtWork {
        let mut work = self.0.lock().unwrap();
        let (number, token) = (shard.number(), shard.token());
        if let Some((other, _)) = work.at_work.insert(number, (id.to_string(), token)) {
            work.wrong.push(format!("shard {number}: {id} beside {other}"));
        }
        if work.tokens.insert(number, token).is_some_and(|before| before >= token) {
            work.wrong.push(format!("shard {number}: a token that is no later"));
        }
        work.starts += 1;
        *work.counts.entry(shard.count()).or_default() += 1;
        let at_work = work.counts.values().filter(|at_work| **at_work > 0).count();
        work.mixed += usize::from(at_work > 1);
        if let Some(left) = work.left.get(&number) {
            let gap = left.elapsed();
            work.gaps.push(gap);
        }
        AtWork { all: self.clone(), shard: number, count: shard.count() }
    }

    pub fn owners(&self) -> BTreeMap<usize, String> {
        let work = self.0.lock().unwrap();
        work.at_work.iter().map(|(shard, (id, _))| (*shard, id.clone())).collect()
    }

    pub fn shares(&self) -> BTreeMap<String, usize> {
        let mut shares = BTreeMap::new();
        for id in self.owners().into_values() {
            *shares.entry(id).or_default() += 1;
        }
        shares
    }

    pub fn starts(&self) -> usize {
        self.0.lock().unwrap().starts
    }

    /// Waits until these members share all shards evenly.
    async fn settles(&self, members: usize) {
        let even = || {
            let shares = self.shares();
            let counts = || shares.values();
            let is_even = counts().max()? - counts().min()? <= 1;
            let all = counts().sum::<usize>() == SHARDS;
            (all && is_even && shares.len() == members).then_some(())
        };
        until("all shards are shared evenly", even).await;
    }

    pub fn shards_of(&self, id: &str) -> Vec<usize> {
        let owners = self.owners().into_iter();
        owners.filter(|(_, owner)| owner == id).map(|(shard, _)| shard).collect()
    }

    /// How many tasks began while one of another count of shards was at work.
    pub fn mixed(&self) -> usize {
        self.0.lock().unwrap().mixed
    }

    pub fn forget_gaps(&self) {
        self.0.lock().unwrap().gaps.clear();
    }

    /// The longest time for which a shard was left alone, until now.
    pub fn longest_gap(&self) -> Duration {
        self.0.lock().unwrap().gaps.iter().max().copied().unwrap_or_default()
    }

    pub fn check(&self) {
        assert_eq!(self.0.lock().unwrap().wrong, Vec::<String>::new());
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let mut work = self.all.0.lock().unwrap();
        work.at_work.remove(&self.shard);
        work.counts.entry(self.count).and_modify(|at_work| *at_work -= 1);
        work.left.insert(self.shard, Instant::now());
    }
}

pub struct Worker {
    pub cancel: CancellationToken,
    pub sharing: JoinHandle<Result<(), Error>>,
}

pub fn member(world: &World, id: &str) -> Member {
    let member = world.table().member("orders").id(id).lease(LEASE).clock(Clock::runtime());
    member.build().unwrap()
}

pub fn work_on(world: &World, all_work: &AllWork, id: &str, count: usize) -> Worker {
    work_slowly(world, all_work, id, count, Duration::ZERO)
}

/// As `work_on`, by tasks that take so long to stop.
fn work_slowly(
    world: &World,
    all_work: &AllWork,
    id: &str,
    count: usize,
    slow: Duration,
) -> Worker {
    work_by(member(world, id).shards("partitions", count), all_work, id, slow)
}

/// Has a member share these shards.
pub fn work_by(shards: Shards, all_work: &AllWork, id: &str, slow: Duration) -> Worker {
    let cancel = CancellationToken::new();
    let (all_work, name, stop) = (all_work.clone(), id.to_string(), cancel.clone());
    let sharing = tokio::spawn(async move {
        let task = move |shard: Shard| {
            let at_work = all_work.enter(&name, &shard);
            async move {
                let _at_work = at_work;
                shard.cancelled().await;
                sleep(slow).await;
            }
        };
        shards.run(stop, task).await
    });
    Worker { cancel, sharing }
}

fn work(world: &World, all_work: &AllWork, id: &str) -> Worker {
    work_on(world, all_work, id, SHARDS)
}

impl Worker {
    pub async fn leave(self) {
        self.cancel.cancel();
        timeout(EVENTUALLY, self.sharing).await.expect("it leaves").unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn members_that_start_together_share_evenly_and_leave_nothing_but_the_shards() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let workers = ["a", "b", "c"].map(|id| work(&world, &all_work, id));
    let ((), took) = timed(all_work.settles(3)).await;
    assert!(took < LEASE, "{took:?}");
    sleep(LEASE * 5).await;
    assert_eq!(all_work.starts(), SHARDS, "no shard moved");
    for worker in workers {
        worker.leave().await;
    }
    assert!(all_work.owners().is_empty());
    all_work.check();
    let names = world.names().await;
    let others: Vec<&String> = names.iter().filter(|name| name.ends_with("/count")).collect();
    assert_eq!((names.len(), others.len()), (SHARDS + 1, 1), "{names:?}");
}

#[tokio::test(start_paused = true)]
async fn a_join_moves_only_the_joiners_share_and_each_move_is_short() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let _workers = ["a", "b", "c"].map(|id| work(&world, &all_work, id));
    all_work.settles(3).await;
    sleep(LEASE).await;
    let _joiner = work(&world, &all_work, "d");
    let ((), took) = timed(all_work.settles(4)).await;
    assert!(took <= Duration::from_secs(5), "balanced after {took:?}");
    sleep(LEASE * 2).await;
    assert_eq!(all_work.starts(), SHARDS + 3, "the joiner got three");
    let gaps = all_work.0.lock().unwrap().gaps.clone();
    assert!(gaps.iter().all(|gap| *gap < Duration::from_millis(100)), "{gaps:?}");
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn who_leaves_is_gone_before_its_shards_are_free_and_they_move_once() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let leaver = work(&world, &all_work, "a");
    let _workers = ["b", "c"].map(|id| work(&world, &all_work, id));
    all_work.settles(3).await;
    sleep(LEASE).await;
    let start = Instant::now();
    leaver.leave().await;
    all_work.settles(2).await;
    assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    sleep(LEASE * 2).await;
    assert_eq!(all_work.starts(), SHARDS + 4, "no shard moved twice");
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn after_a_crash_every_shard_is_at_work_within_a_lease_and_a_second() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let requests = world.spanner.requests();
    let doomed = work(&world, &all_work, "a");
    // Its session is the only one that commits.
    let alone = || {
        let sessions = requests.sessions();
        sessions.into_iter().find(|session| requests.of_session(session, Rpc::Commit) > 0)
    };
    let session = until("it commits", alone).await;
    let _workers = ["b", "c"].map(|id| work(&world, &all_work, id));
    all_work.settles(3).await;
    sleep(LEASE).await;
    // More than there are shards, if the first one took them all before the others had joined.
    let starts_before = all_work.starts();
    world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    let crashed = Instant::now();
    // A crash takes its tasks along.
    doomed.sharing.abort();
    let shared =
        || all_work.shares().values().sum::<usize>() == SHARDS && all_work.shares().len() == 2;
    until("others work them all", || shared().then_some(())).await;
    let took = crashed.elapsed();
    assert!(took <= LEASE + Duration::from_secs(1), "{took:?}");
    assert!(took >= LEASE / 2, "before its lease was over: {took:?}");
    sleep(LEASE * 2).await;
    assert_eq!(all_work.starts(), starts_before + SHARDS / 3, "only the shards of the dead moved");
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_stops_before_another_starts() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let requests = world.spanner.requests();
    let _cut_off = work(&world, &all_work, "a");
    let alone = || {
        let sessions = requests.sessions();
        sessions.into_iter().find(|session| requests.of_session(session, Rpc::Commit) > 0)
    };
    let session = until("it commits", alone).await;
    let _other = work(&world, &all_work, "b");
    all_work.settles(2).await;
    world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    until("the other works them all", || {
        (all_work.shares() == [("b".into(), SHARDS)].into()).then_some(())
    })
    .await;
    world.spanner.clear_faults();
    all_work.settles(2).await;
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_or_panics_leaves_its_shard_to_others_and_starves_none() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let shards = member(&world, "a").shards("partitions", SHARDS);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let failing = tokio::spawn(async move {
        let task = |shard: Shard| async move {
            assert!(shard.number().is_multiple_of(2), "an odd shard");
        };
        shards.run(stop, task).await
    });
    let _other = work(&world, &all_work, "b");
    until("the other works them all", || {
        (all_work.shares() == [("b".into(), SHARDS)].into()).then_some(())
    })
    .await;
    cancel.cancel();
    timeout(EVENTUALLY, failing).await.expect("it ends").unwrap().unwrap();
    all_work.check();
}

/// No answer is no fault of the task: the pauses between the attempts end at 10 s.
#[tokio::test(start_paused = true)]
async fn a_shard_that_could_not_be_taken_for_minutes_is_at_work_soon_after_it_can() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let key = "spindle:shard:orders/partitions/0";
    let refusal = Fault::on(Rpc::Commit).table("locktable").key(key);
    world.spanner.inject(refusal.effect(Effect::Fail(Code::Unavailable)));
    let _only = work_on(&world, &all_work, "a", 1);
    // Failures of the task would have come to pauses of minutes by now.
    sleep(Duration::from_secs(420)).await;
    assert_eq!(all_work.owners(), BTreeMap::new());
    world.spanner.clear_faults();
    let start = Instant::now();
    until("it is at work", || (all_work.owners().len() == 1).then_some(())).await;
    assert!(start.elapsed() < Duration::from_secs(15), "after {:?}", start.elapsed());
    all_work.check();
}

/// The release is not applied, applied without an answer, or applied when nobody expects it.
#[tokio::test(start_paused = true)]
async fn a_hand_over_of_unknown_outcome_moves_its_shard_once_and_within_a_lease() {
    for effect in [Effect::Stall, Effect::StallReply, Effect::ApplyLate { after: LEASE / 5 }] {
        let world = Arc::new(World::start().await);
        let all_work = AllWork::default();
        let shards = member(&world, "a").shards("partitions", SHARDS);
        let session: Arc<OnceLock<String>> = Arc::default();
        let (book, giver) = (all_work.clone(), (Arc::clone(&world), Arc::clone(&session)));
        let giving = tokio::spawn(async move {
            let task = move |shard: Shard| {
                let (at_work, (world, session)) = (book.enter("a", &shard), giver.clone());
                async move {
                    shard.cancelled().await;
                    let key = format!("spindle:shard:orders/partitions/{}", shard.number());
                    let release = Fault::on(Rpc::Commit).session(session.get().unwrap()).key(key);
                    world.spanner.inject(release.effect(effect));
                    drop(at_work);
                }
            };
            shards.run(CancellationToken::new(), task).await
        });
        all_work.settles(1).await;
        session.set(world.spanner.requests().sessions().remove(0)).unwrap();
        let _receiver = work(&world, &all_work, "b");
        let ((), took) = timed(all_work.settles(2)).await;
        assert!(took <= LEASE * 5, "{effect:?}: {took:?}");
        sleep(LEASE * 4).await;
        assert_eq!(all_work.starts(), SHARDS + SHARDS / 2, "{effect:?}: each moves once");
        let longest = all_work.longest_gap();
        assert!(longest <= LEASE + Duration::from_secs(1), "{effect:?}: {longest:?}");
        all_work.check();
        giving.abort();
    }
}

/// It counts as a member until its lease is over, though its shards have gone to the others.
#[tokio::test(start_paused = true)]
async fn a_leave_of_which_spanner_hears_nothing_leaves_no_shard_alone_for_longer_than_two_leases() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let leaver = work(&world, &all_work, "a");
    all_work.settles(1).await;
    let session = world.spanner.requests().sessions().remove(0);
    let _others = ["b", "c"].map(|id| work(&world, &all_work, id));
    all_work.settles(3).await;
    sleep(LEASE).await;
    let row = Fault::on(Rpc::Commit).session(session).key("spindle:share:orders/partitions/a");
    world.spanner.inject(row.effect(Effect::Stall));
    all_work.forget_gaps();
    leaver.leave().await;
    sleep(LEASE * 6).await;
    all_work.settles(2).await;
    let longest = all_work.longest_gap();
    assert!(longest <= LEASE * 2, "{longest:?}");
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn a_dropped_run_frees_its_shards_for_others() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let dropped = work(&world, &all_work, "a");
    let _other = work(&world, &all_work, "b");
    all_work.settles(2).await;
    sleep(LEASE).await;
    dropped.sharing.abort();
    let ((), took) = timed(all_work.settles(1)).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_of_a_shard_that_has_moved_is_refused() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let (give, fences) = tokio::sync::oneshot::channel();
    let give = Mutex::new(Some(give));
    let shards = member(&world, "a").shards("partitions", 1);
    let cancel = CancellationToken::new();
    let stop = cancel.clone();
    let sharing = tokio::spawn(async move {
        let task = move |shard: Shard| {
            if let Some(give) = give.lock().unwrap().take() {
                give.send(shard.fence()).ok();
            }
            async move { shard.cancelled().await }
        };
        shards.run(stop, task).await
    });
    let fence = timeout(EVENTUALLY, fences).await.unwrap().unwrap();
    cancel.cancel();
    sharing.await.unwrap().unwrap();
    let shards = work_on(&world, &all_work, "b", 1);
    until("the other works it", || (all_work.starts() == 1).then_some(())).await;
    let client = world.client().await;
    let refused = fence.write(&client, []).await.unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
    shards.leave().await;
}

#[tokio::test(start_paused = true)]
async fn a_steady_fleet_costs_each_member_its_polls_and_two_rounds_of_heartbeats_at_most() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let _workers = ["a", "b", "c"].map(|id| work(&world, &all_work, id));
    all_work.settles(3).await;
    sleep(LEASE * 3).await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 10).await;
    let each = requests.total() / 3 / 10;
    // A read a second, and two requests for each round of heartbeats.
    assert!(each <= 15, "{each} requests a lease and member: {:?}", requests.each());
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_reserved_for_its_new_owner_and_comes_back_if_that_one_takes_nothing() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let _workers = ["a", "b"].map(|id| work(&world, &all_work, id));
    all_work.settles(2).await;
    let requests = world.spanner.requests();
    let before = requests.sessions();
    let _joiner = work(&world, &all_work, "c");
    let joiners = || {
        let new = requests.sessions().into_iter().filter(|session| !before.contains(session));
        new.into_iter().find(|session| requests.of_session(session, Rpc::Commit) > 0)
    };
    let session = until("it joins", joiners).await;
    // Its row is there, and it takes nothing from here on.
    world.spanner.inject(Fault::on(Rpc::Commit).session(session).effect(Effect::Stall));
    all_work.forget_gaps();
    let reserved = async {
        loop {
            for shard in 0..SHARDS {
                let row = world.row(&format!("spindle:shard:orders/partitions/{shard}")).await;
                if row.unwrap().writer.as_deref() == Some(">c") {
                    return;
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(LEASE, reserved).await.expect("a shard is released for c");
    let ((), took) = timed(all_work.settles(2)).await;
    assert!(took <= LEASE * 3, "{took:?}");
    // The promise is over after two polls, and noticed within one.
    let longest = all_work.longest_gap();
    assert!(longest <= Duration::from_millis(3_300), "{longest:?}");
    all_work.check();
}

#[tokio::test(start_paused = true)]
async fn a_hand_over_waits_until_the_task_has_stopped() {
    let world = World::start().await;
    let all_work = AllWork::default();
    let slow = Duration::from_secs(3);
    let _slow = work_slowly(&world, &all_work, "a", SHARDS, slow);
    all_work.settles(1).await;
    let _other = work(&world, &all_work, "b");
    all_work.settles(2).await;
    all_work.check();
    let ended = all_work.0.lock().unwrap().left.len();
    assert_eq!(ended, SHARDS / 2, "each of them was told to stop once");
}
