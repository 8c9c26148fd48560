//! The count of a group's shards: agreed in a row of its own, and moved by one call.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle::fleet::{Shard, ShardEvent};
use spindle::{CancellationToken, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::log::Log;
use crate::schema::FOUR_COLUMNS;
use crate::shards::{AllWork, Worker, member, work_by, work_on};
use crate::world::{EVENTUALLY, LEASE, World, until};

const FEW: usize = 12;
const MANY: usize = 16;
const POLL: Duration = Duration::from_secs(1);
/// The time that answers, attempts and jitter take beside the polls.
const REST: Duration = Duration::from_millis(400);
const FOUR: [&str; 4] = ["a", "b", "c", "d"];
const COUNT_ROW: &str = "spindle:shard:orders/partitions/count";

struct Fleet {
    world: World,
    work: AllWork,
}

impl Fleet {
    async fn start() -> Fleet {
        Fleet { world: World::start().await, work: AllWork::default() }
    }

    /// Four members at rest that share so many shards.
    async fn of_four(count: usize) -> (Fleet, Vec<Worker>) {
        let fleet = Fleet::start().await;
        let workers = FOUR.iter().map(|id| fleet.join(id, count)).collect();
        fleet.settles(4, count).await;
        sleep(LEASE).await;
        fleet.work.forget_gaps();
        (fleet, workers)
    }

    fn join(&self, id: &str, count: usize) -> Worker {
        work_on(&self.world, &self.work, id, count)
    }

    fn join_late(&self, id: &str, count: usize) -> Worker {
        let shards = member(&self.world, id).shards("partitions", count).wait_for_count();
        work_by(shards, &self.work, id, Duration::ZERO)
    }

    /// Waits until so many members share just these shards evenly.
    async fn settles(&self, members: usize, count: usize) {
        let even = || {
            let shares = self.work.shares();
            let (least, most) = (shares.values().min()?, shares.values().max()?);
            let numbers: Vec<usize> = self.work.owners().into_keys().collect();
            let all = numbers.iter().copied().eq(0..count);
            (all && most - least <= 1 && shares.len() == members).then_some(())
        };
        until("all shards are shared evenly", even).await;
    }

    fn table(&self) -> LockTable {
        self.world.table()
    }

    async fn count_row(&self) -> Option<String> {
        self.world.row(COUNT_ROW).await.and_then(|row| row.writer)
    }

    /// The row stays, while another count is refused to who comes.
    async fn refuses(&self, count: usize, named: &str) {
        let refused = timeout(EVENTUALLY, self.join("late", count).sharing).await;
        let refused = refused.expect("it ends").unwrap().unwrap_err();
        assert!(refused.is_other_count() && !refused.is_retryable(), "{refused}");
        let said =
            format!("shards `orders/partitions`: {count} asked for, but the group shares {named}");
        assert_eq!(refused.to_string(), said);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_members_of_a_group_agree_on_one_count_and_others_are_refused() {
    let fleet = Fleet::start().await;
    assert_eq!(fleet.table().shard_count("orders", "partitions").await.unwrap(), None);
    // They come at the same moment: one of them writes the row, and the others go by it.
    let workers = FOUR.map(|id| fleet.join(id, if id < "c" { FEW } else { MANY }));
    sleep(LEASE).await;
    let count = fleet.table().shard_count("orders", "partitions").await.unwrap().unwrap();
    fleet.settles(2, count.shards).await;
    for (worker, id) in workers.into_iter().zip(FOUR) {
        let named = if id < "c" { FEW } else { MANY };
        assert_eq!(worker.sharing.is_finished(), named != count.shards, "{id}");
        if named != count.shards {
            assert!(worker.sharing.await.unwrap().unwrap_err().is_other_count(), "{id}");
        }
    }
    assert_eq!(fleet.count_row().await, Some(format!("shards {}", count.shards)));
    assert_eq!((count.before, count.is_draining), (None, false));
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_deploy_of_another_count_beside_a_running_fleet_fails_and_moves_nothing() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let before = fleet.work.starts();
    fleet.refuses(MANY, "12").await;
    sleep(LEASE * 3).await;
    assert_eq!((fleet.work.starts(), fleet.work.owners().len()), (before, FEW));
    assert_eq!(fleet.count_row().await.as_deref(), Some("shards 12"));
    fleet.work.check();
}

/// In each round the fleet is out of contact for longer than its lease while others come that name
/// another count, or all of it is gone.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_whole_fleet_changes_no_count() {
    let (fleet, workers) = Fleet::of_four(FEW).await;
    for outage in [LEASE / 2, LEASE * 2, LEASE * 20] {
        fleet.world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
        let late = fleet.join("early-bird", MANY);
        sleep(outage).await;
        fleet.world.spanner.clear_faults();
        let refused = timeout(EVENTUALLY, late.sharing).await.expect("it ends").unwrap();
        assert!(refused.unwrap_err().is_other_count(), "after {outage:?}");
        fleet.settles(4, FEW).await;
    }
    for worker in workers {
        worker.leave().await;
    }
    sleep(LEASE * 100).await;
    fleet.refuses(MANY, "12").await;
    let _again = fleet.join("a", FEW);
    fleet.settles(1, FEW).await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn one_that_waits_for_its_count_does_nothing_before_the_move_and_works_after_it() {
    let (log, _guard) = Log::capture();
    let (fleet, workers) = Fleet::of_four(FEW).await;
    let late = fleet.join_late("e", MANY);
    sleep(LEASE * 2).await;
    assert!(!late.sharing.is_finished() && fleet.work.shards_of("e").is_empty());
    assert_eq!(log.saying("the group shares another count").len(), 1, "it says so once");
    fleet.table().resize_shards("orders", "partitions", MANY).keep_numbers().await.unwrap();
    fleet.settles(5, MANY).await;
    // Those whose code names the count before may come and go until they are deployed anew.
    for worker in workers {
        worker.leave().await;
    }
    let _old = fleet.join("a", FEW);
    fleet.settles(2, MANY).await;
    fleet.refuses(FEW + 1, "16, 12 before that").await;
    late.leave().await;
    fleet.work.check();
}

/// Two polls, and the time that the tasks take to stop.
#[tokio::test(start_paused = true)]
async fn a_move_that_drains_runs_no_shard_beside_one_of_the_other_count() {
    for (from, to) in [(60, 80), (MANY, FEW)] {
        for slow in [Duration::ZERO, POLL * 2] {
            let fleet = Fleet::start().await;
            let _workers = FOUR.map(|id| {
                work_by(member(&fleet.world, id).shards("partitions", from), &fleet.work, id, slow)
            });
            fleet.settles(4, from).await;
            sleep(LEASE).await;
            fleet.work.forget_gaps();
            let starts = fleet.work.starts();
            let moved = fleet.table().resize_shards("orders", "partitions", to).await.unwrap();
            assert_eq!((moved.shards, moved.before, moved.is_draining), (to, Some(from), true));
            let start = Instant::now();
            fleet.settles(4, to).await;
            let took = start.elapsed();
            assert!(took <= POLL * 2 + slow + REST, "{from} to {to}: {took:?}");
            sleep(LEASE * 2).await;
            assert_eq!(fleet.work.mixed(), 0, "{from} to {to}");
            assert_eq!(fleet.work.starts() - starts, to, "each of them begins once");
            let longest = fleet.work.longest_gap();
            assert!(longest <= POLL * 2 + slow + REST, "{from} to {to}: {longest:?}");
            let count = fleet.table().shard_count("orders", "partitions").await.unwrap().unwrap();
            assert_eq!(count.to_string(), format!("{to}, {from} before that"));
            fleet.work.check();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_move_that_keeps_numbers_stops_none_of_those_that_both_counts_have() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let starts = fleet.work.starts();
    let resize = |to| fleet.table().resize_shards("orders", "partitions", to).keep_numbers();
    let moved = resize(MANY).await.unwrap();
    assert_eq!((moved.shards, moved.before, moved.is_draining), (MANY, Some(FEW), false));
    let start = Instant::now();
    fleet.settles(4, MANY).await;
    assert!(start.elapsed() <= POLL + REST, "{:?}", start.elapsed());
    sleep(LEASE * 2).await;
    assert_eq!(fleet.work.starts() - starts, MANY - FEW, "the new ones begin, and no other");
    resize(FEW).await.unwrap();
    let start = Instant::now();
    fleet.settles(4, FEW).await;
    assert!(start.elapsed() <= POLL + REST, "{:?}", start.elapsed());
    sleep(LEASE * 2).await;
    assert_eq!(fleet.work.starts() - starts, MANY - FEW, "nothing begins");
    fleet.work.check();
}

/// A table that can't say what its rows are about: the count stands in `writer`.
#[tokio::test(start_paused = true)]
async fn a_table_of_four_columns_has_room_for_the_count() {
    let fleet = Fleet { world: World::with_table(FOUR_COLUMNS).await, work: AllWork::default() };
    let _workers = FOUR.map(|id| fleet.join(id, 12));
    fleet.settles(4, 12).await;
    fleet.refuses(13, "12").await;
    fleet.table().resize_shards("orders", "partitions", 16).await.unwrap();
    fleet.settles(4, 16).await;
    assert_eq!(fleet.work.mixed(), 0);
    fleet.work.check();
}

/// The move is one commit: it is there, or it isn't. Who carries it out is whoever lives.
#[tokio::test(start_paused = true)]
async fn a_mover_that_dies_leaves_a_move_that_is_whole_or_none() {
    for (effect, stands) in [(Effect::Stall, false), (Effect::StallReply, true)] {
        let (fleet, _workers) = Fleet::of_four(FEW).await;
        let commit = Fault::on(Rpc::Commit).key(COUNT_ROW).times(1);
        fleet.world.spanner.inject(commit.effect(effect));
        let lost = fleet.table().resize_shards("orders", "partitions", MANY).await.unwrap_err();
        assert!(lost.is_outcome_unknown(), "{lost}");
        let count = if stands { MANY } else { FEW };
        fleet.settles(4, count).await;
        let moved = fleet.table().resize_shards("orders", "partitions", MANY).await.unwrap();
        assert_eq!(moved.is_draining, !stands, "a repetition does no harm");
        fleet.settles(4, MANY).await;
        assert_eq!(fleet.work.mixed(), 0);
        fleet.work.check();
    }
}

/// Each member dies while it gives its shards up, so that nobody is left to finish the move.
#[tokio::test(start_paused = true)]
async fn a_fleet_that_dies_in_the_middle_of_a_move_is_moved_by_the_next_one() {
    let fleet = Fleet::start().await;
    let workers = FOUR.map(|id| {
        work_by(member(&fleet.world, id).shards("partitions", FEW), &fleet.work, id, POLL * 3)
    });
    fleet.settles(4, FEW).await;
    sleep(LEASE).await;
    fleet.table().resize_shards("orders", "partitions", MANY).await.unwrap();
    sleep(POLL * 2).await;
    for session in fleet.world.spanner.requests().sessions() {
        fleet.world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    }
    workers.iter().for_each(|worker| worker.sharing.abort());
    sleep(LEASE * 3).await;
    assert!(fleet.count_row().await.unwrap().ends_with(" draining"));
    assert!(fleet.table().shard_count("orders", "partitions").await.unwrap().unwrap().is_draining);
    let _next = ["e", "f"].map(|id| fleet.join(id, MANY));
    fleet.settles(2, MANY).await;
    assert_eq!(fleet.count_row().await.as_deref(), Some("shards 16 from 12"));
    assert_eq!(fleet.work.mixed(), 0);
    fleet.work.check();
}

/// The reply to the first mover's look, or to the read of its transaction, is held up until the second
/// has moved the group.
#[tokio::test(start_paused = true)]
async fn of_two_movers_one_wins_and_the_other_is_told_by_whom_it_was_beaten() {
    for reads_before in [0, 1] {
        let (fleet, _workers) = Fleet::of_four(FEW).await;
        let read = Fault::on(Rpc::StreamingRead).key(COUNT_ROW).skip(reads_before).times(1);
        let held_up = fleet.world.spanner.inject(read.effect(Effect::DelayReply(LEASE / 4)));
        let late = fleet.table().resize_shards("orders", "partitions", MANY).into_future();
        let late = tokio::spawn(late);
        until("it is held up", || (held_up.hits() == 1).then_some(())).await;
        let early = fleet.table().resize_shards("orders", "partitions", FEW / 2).keep_numbers();
        let won = early.await.unwrap();
        assert!(!late.is_finished(), "the race was met");
        let lost = late.await.unwrap().unwrap_err();
        assert!(lost.is_other_count(), "{lost}");
        assert!(lost.to_string().contains(&format!("the group shares {won}")), "{lost}");
        fleet.settles(4, FEW / 2).await;
        assert!(fleet.count_row().await.unwrap().starts_with("shards 6 from 12 since "));
        fleet.work.check();
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_move_drains_another_one_is_refused_and_the_same_changes_nothing() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let moves = |to| fleet.table().resize_shards("orders", "partitions", to).into_future();
    let drains = moves(MANY).await.unwrap();
    let refused = moves(7).await.unwrap_err();
    assert!(refused.is_other_count(), "one drains: {refused}");
    assert_eq!(moves(MANY).await.unwrap(), drains, "the same again changes nothing");
    fleet.settles(4, MANY).await;
    assert_eq!(moves(7).await.unwrap().before, Some(MANY));
    fleet.settles(4, 7).await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_holds_a_move_up_for_its_lease_and_runs_nothing_beside_it() {
    let fleet = Fleet::start().await;
    let _cut_off = fleet.join("a", FEW);
    fleet.settles(1, FEW).await;
    let session = fleet.world.spanner.requests().sessions().remove(0);
    let _workers = ["b", "c", "d"].map(|id| fleet.join(id, FEW));
    fleet.settles(4, FEW).await;
    sleep(LEASE).await;
    fleet.world.spanner.inject(Fault::any().session(session).effect(Effect::Stall));
    fleet.table().resize_shards("orders", "partitions", MANY).await.unwrap();
    let start = Instant::now();
    fleet.settles(3, MANY).await;
    assert!(start.elapsed() >= LEASE / 2 - POLL, "{:?}", start.elapsed());
    assert!(start.elapsed() <= LEASE + POLL * 4, "{:?}", start.elapsed());
    fleet.world.spanner.clear_faults();
    fleet.settles(4, MANY).await;
    assert_eq!(fleet.work.mixed(), 0);
    fleet.work.check();
}

/// An attempt to take a shard is under way while the group moves, and succeeds after it, while a shard of
/// the old count still stops.
#[tokio::test(start_paused = true)]
async fn an_attempt_from_before_a_move_runs_nothing_after_it() {
    let mut delayed = 0;
    for after in 0..12 {
        let fleet = Fleet::start().await;
        let shards = member(&fleet.world, "a").shards("partitions", 2);
        let _settled = work_by(shards, &fleet.work, "a", POLL * 2);
        fleet.settles(1, 2).await;
        let sessions = fleet.world.spanner.requests().sessions();
        let _joins = fleet.join("b", 2);
        let key = "spindle:shard:orders/partitions/";
        let commits = || {
            let requests = fleet.world.spanner.requests();
            requests.sessions().into_iter().find(|session| !sessions.contains(session))
        };
        let session = until("it polls", commits).await;
        let slow = Fault::on(Rpc::Commit).session(session).key(format!("{key}1"));
        let slow = slow.effect(Effect::Delay(Duration::from_millis(1_150)));
        let slow = [slow.clone(), slow.key(format!("{key}0"))];
        let slow = slow.map(|slow| fleet.world.spanner.inject(slow));
        until("it is handed a shard", || (fleet.work.owners().len() == 1).then_some(())).await;
        sleep(Duration::from_millis(after * 100)).await;
        fleet.table().resize_shards("orders", "partitions", 9).await.unwrap();
        sleep(LEASE).await;
        delayed += slow.iter().map(|slow| slow.hits()).sum::<u64>();
        fleet.world.spanner.clear_faults();
        fleet.settles(2, 9).await;
        assert_eq!(fleet.work.mixed(), 0, "after {after}");
        fleet.work.check();
    }
    assert!(delayed > 0, "no attempt was under way");
}

#[tokio::test(start_paused = true)]
async fn a_count_that_is_deleted_or_edited_stops_no_task_and_is_healed() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let starts = fleet.work.starts();
    fleet.world.delete_row(COUNT_ROW).await;
    sleep(POLL * 2).await;
    assert_eq!(fleet.count_row().await.as_deref(), Some("shards 12"), "they write it again");
    let edit = spindle::google_cloud_spanner::mutation::Mutation::new_update_builder("locktable");
    fleet.world.write(edit.set("name").to(COUNT_ROW).set("writer").to("sixty").build()).await;
    let late = timeout(EVENTUALLY, fleet.join("late", FEW).sharing).await.unwrap().unwrap();
    assert!(late.unwrap_err().is_config());
    sleep(LEASE).await;
    assert_eq!((fleet.work.starts(), fleet.work.owners().len()), (starts, FEW));
    fleet.table().resize_shards("orders", "partitions", FEW).keep_numbers().await.unwrap();
    let _late = fleet.join("e", FEW);
    fleet.settles(5, FEW).await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_count_is_no_lock_and_no_leftover() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let table = fleet.table();
    let (mut locks, mut names) = (table.list().prefix("spindle:shard:"), Vec::new());
    while let Some(lock) = locks.next().await.unwrap() {
        names.push(lock.name);
    }
    assert_eq!((names.len(), names.contains(&COUNT_ROW.to_string())), (FEW, false));
    table.sweep().await.unwrap();
    assert_eq!(table.check().await.unwrap().without_lease, Vec::<String>::new());
    assert!(!table.inspect(COUNT_ROW).await.unwrap().is_held());
    assert_eq!(fleet.count_row().await.as_deref(), Some("shards 12"));
    for to in [0, 10_001] {
        assert!(table.resize_shards("orders", "partitions", to).await.unwrap_err().is_config());
    }
    assert!(table.resize_shards("orders", "others", 5).await.unwrap_err().is_config());
}

/// Each task leaves a text for the next owner of its number, which means another thing after a move.
/// Those that both counts have stop last, so that all of the new count have an owner meanwhile.
#[tokio::test(start_paused = true)]
async fn while_a_move_drains_nothing_is_settled_and_no_text_outlives_the_numbers() {
    let world = World::start().await;
    let shards = member(&world, "a").shards("partitions", 4);
    let (mut events, cancel) = (shards.events(), CancellationToken::new());
    let found = Arc::new(Mutex::new(Vec::new()));
    let (running, stop, texts) = (shards.clone(), cancel.clone(), Arc::clone(&found));
    let sharing = tokio::spawn(async move {
        let task = move |shard: Shard| {
            let text = shard.handed_over().map(str::to_string);
            texts.lock().unwrap().push((shard.count(), text));
            async move {
                shard.cancelled().await;
                sleep(if shard.number() < 2 { POLL * 4 } else { POLL }).await;
                shard.hand_over(format!("of {}", shard.count())).unwrap();
            }
        };
        running.run(stop, task).await
    });
    while events.next().await != Some(ShardEvent::Settled) {}
    world.table().resize_shards("orders", "partitions", 2).await.unwrap();
    let start = Instant::now();
    let mut settled = 0;
    while events.next().await != Some(ShardEvent::Resized { count: 2 }) {
        settled += usize::from(shards.is_settled() && start.elapsed() > POLL * 2);
    }
    assert!(start.elapsed() > POLL * 4 && settled == 0, "{settled} at {:?}", start.elapsed());
    while events.next().await != Some(ShardEvent::Settled) {}
    assert_eq!(shards.mine(), [0, 1]);
    let of_two: Vec<_> =
        found.lock().unwrap().iter().filter(|(count, _)| *count == 2).cloned().collect();
    assert_eq!(of_two, vec![(2, None), (2, None)]);
    cancel.cancel();
    sharing.await.unwrap().unwrap();
}

/// The texts are left before the move, by one that is gone then.
#[tokio::test(start_paused = true)]
async fn a_move_that_keeps_numbers_keeps_the_texts_for_their_next_owners() {
    let world = World::start().await;
    let found = Arc::new(Mutex::new(Vec::new()));
    let work = |id: &str, count: usize| {
        let (shards, cancel) =
            (member(&world, id).shards("partitions", count), CancellationToken::new());
        let (stop, texts) = (cancel.clone(), Arc::clone(&found));
        let task = move |shard: Shard| {
            let text = shard.handed_over().map(str::to_string);
            texts.lock().unwrap().push((shard.number(), text));
            async move {
                shard.cancelled().await;
                shard.hand_over(format!("of {}", shard.number())).unwrap();
            }
        };
        (cancel, tokio::spawn(async move { shards.run(stop, task).await }))
    };
    for (id, count) in [("a", 2), ("b", 3), ("c", 4)] {
        found.lock().unwrap().clear();
        let (cancel, sharing) = work(id, count);
        until("all are at work", || (found.lock().unwrap().len() == count).then_some(())).await;
        cancel.cancel();
        sharing.await.unwrap().unwrap();
        world
            .table()
            .resize_shards("orders", "partitions", count + 1)
            .keep_numbers()
            .await
            .unwrap();
    }
    let mut found = found.lock().unwrap().clone();
    found.sort();
    let text = |number| (number, Some(format!("of {number}")));
    assert_eq!(found, [text(0), text(1), text(2), (3, None)]);
}

/// The task of one number fails under the old count, in every member, until each of them waits for minutes
/// before it tries the number again. Under the new count it is another shard.
#[tokio::test(start_paused = true)]
async fn a_shard_that_failed_under_one_count_is_at_work_at_once_under_another() {
    let fleet = Fleet::start().await;
    let _workers = FOUR.map(|id| {
        let shards = member(&fleet.world, id).shards("partitions", FEW);
        let (work, id) = (fleet.work.clone(), id.to_string());
        tokio::spawn(async move {
            let task = move |shard: Shard| {
                let at_work = work.enter(&id, &shard);
                async move {
                    let _at_work = at_work;
                    if shard.number() == 0 && shard.count() == FEW {
                        return;
                    }
                    shard.cancelled().await;
                }
            };
            shards.run(CancellationToken::new(), task).await
        })
    });
    sleep(LEASE * 60).await;
    assert_eq!(fleet.work.owners().len(), FEW - 1, "one fails");
    fleet.table().resize_shards("orders", "partitions", MANY).await.unwrap();
    let start = Instant::now();
    fleet.settles(4, MANY).await;
    assert!(start.elapsed() <= POLL * 2 + REST, "{:?}", start.elapsed());
    fleet.work.check();
}

/// The next owner of two shards takes them while the group moves, and wins after the move.
#[tokio::test(start_paused = true)]
async fn a_move_that_keeps_numbers_keeps_the_texts_of_shards_that_are_just_taken() {
    let (world, found) = (World::start().await, Arc::new(Mutex::new(Vec::new())));
    let work = |id: &str| {
        let (shards, cancel) =
            (member(&world, id).shards("partitions", 2), CancellationToken::new());
        let (stop, texts) = (cancel.clone(), Arc::clone(&found));
        let task = move |shard: Shard| {
            let text = shard.handed_over().map(str::to_string);
            texts.lock().unwrap().push((shard.number(), shard.count(), text));
            async move {
                shard.cancelled().await;
                shard.hand_over(format!("of {}", shard.number())).unwrap();
            }
        };
        (cancel, tokio::spawn(async move { shards.run(stop, task).await }))
    };
    let all_of = |count| {
        let found = Arc::clone(&found);
        until("all are at work", move || (found.lock().unwrap().len() == count).then_some(()))
    };
    let (cancel, sharing) = work("a");
    all_of(2).await;
    cancel.cancel();
    sharing.await.unwrap().unwrap();
    found.lock().unwrap().clear();
    let commit = Fault::on(Rpc::Commit).key("spindle:shard:orders/partitions/0").times(1);
    let slow = world.spanner.inject(commit.effect(Effect::Delay(POLL / 2)));
    let _b = work("b");
    until("they are being taken", || (slow.hits() == 1).then_some(())).await;
    world.table().resize_shards("orders", "partitions", 3).keep_numbers().await.unwrap();
    all_of(3).await;
    let mut found = found.lock().unwrap().clone();
    found.sort();
    let text = |number| (number, 3, Some(format!("of {number}")));
    assert_eq!(found, [text(0), text(1), (2, 3, None)]);
}
