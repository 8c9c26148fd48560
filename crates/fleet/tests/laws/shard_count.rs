//! The count of a group's shards: agreed in a row of its own, and moved by one call.

use std::time::Duration;

use spindle::Error;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::{ShardCount, ShardEvent};
use tokio::time::{Instant, sleep};

use crate::fleet::{FOUR, Fleet, POLL, REST, Worker};
use crate::log::Log;
use crate::world::{LEASE, cells, until};

const FEW: usize = 12;
const MANY: usize = 16;
const COUNT_ROW: &str = "spindle:shard:orders/partitions/count";

impl Fleet {
    /// Four members at rest that share so many shards.
    async fn of_four(count: usize) -> (Fleet, Vec<Worker>) {
        Fleet::at_rest(&FOUR, count, LEASE).await
    }

    /// A member whose code names this count.
    fn join_at(&self, id: &str, count: usize) -> Worker {
        let member = self.world.member(id).build().unwrap();
        self.join_with(id, member.shards("partitions", count))
    }

    async fn resize(&self, to: usize) -> Result<ShardCount, Error> {
        ShardCount::resize(&self.table(), "orders", "partitions", to).await
    }

    async fn agreed(&self) -> Option<ShardCount> {
        ShardCount::read(&self.table(), "orders", "partitions").await.unwrap()
    }

    fn count_row(&self) -> Option<String> {
        self.world.row(COUNT_ROW).and_then(|row| row.writer)
    }

    /// The row stays, while another count is refused to who comes.
    async fn refuses(&self, count: usize, named: &str) {
        let refused = self.join_at("late", count).ends().await.unwrap_err();
        assert!(spindle_fleet::is_other_count(&refused) && !refused.is_retryable(), "{refused}");
        let said =
            format!("shards `orders/partitions`: {count} asked for, but the group shares {named}");
        assert_eq!(refused.to_string(), said);
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_members_of_a_group_agree_on_one_count_and_others_are_refused() {
    let fleet = Fleet::start(FEW).await;
    assert_eq!(fleet.agreed().await, None);
    // They come at the same moment: one of them writes the row, and the others go by it.
    let workers = FOUR.map(|id| fleet.join_at(id, if id < "c" { FEW } else { MANY }));
    sleep(LEASE).await;
    let count = fleet.agreed().await.unwrap();
    fleet.settles_at(2, count.shards).await;
    for (worker, id) in workers.into_iter().zip(FOUR) {
        let named = if id < "c" { FEW } else { MANY };
        assert_eq!(worker.sharing.is_finished(), named != count.shards, "{id}");
        if named != count.shards {
            assert!(spindle_fleet::is_other_count(&worker.ends().await.unwrap_err()), "{id}");
        }
    }
    assert_eq!(fleet.count_row(), Some(format!("shards {}", count.shards)));
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
    assert_eq!(fleet.count_row().as_deref(), Some("shards 12"));
    fleet.work.check();
}

/// In each round the fleet is out of contact for longer than its lease while others come that name
/// another count, or all of it is gone.
#[tokio::test(start_paused = true)]
async fn an_outage_of_the_whole_fleet_changes_no_count() {
    let (fleet, workers) = Fleet::of_four(FEW).await;
    for outage in [LEASE / 2, LEASE * 2, LEASE * 20] {
        fleet.world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
        let late = fleet.join_at("early-bird", MANY);
        sleep(outage).await;
        fleet.world.spanner.clear_faults();
        assert!(spindle_fleet::is_other_count(&late.ends().await.unwrap_err()), "after {outage:?}");
        fleet.settles_at(4, FEW).await;
    }
    for worker in workers {
        worker.leave().await;
    }
    sleep(LEASE * 100).await;
    fleet.refuses(MANY, "12").await;
    let _again = fleet.join_at("a", FEW);
    fleet.settles_at(1, FEW).await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn after_a_move_those_whose_code_names_the_count_before_may_come_and_go() {
    let (fleet, workers) = Fleet::of_four(FEW).await;
    fleet.resize(MANY).await.unwrap();
    fleet.settles_at(4, MANY).await;
    for worker in workers {
        worker.leave().await;
    }
    let _workers = [fleet.join_at("a", FEW), fleet.join_at("e", MANY)];
    fleet.settles_at(2, MANY).await;
    fleet.refuses(FEW + 1, "16, 12 before that").await;
    fleet.work.check();
}

/// Three polls, and the time that the tasks take to stop.
#[tokio::test(start_paused = true)]
async fn a_move_that_drains_runs_no_shard_beside_one_of_the_other_count() {
    for (from, to) in [(60, 80), (MANY, FEW)] {
        for slow in [Duration::ZERO, POLL * 2] {
            let fleet = Fleet::start(from).await;
            let _workers = FOUR.map(|id| fleet.join_slowly(id, fleet.shards(id), move |_| slow));
            fleet.settles_at(4, from).await;
            sleep(LEASE).await;
            fleet.work.forget_gaps();
            let starts = fleet.work.starts();
            let moved = fleet.resize(to).await.unwrap();
            assert_eq!((moved.shards, moved.before, moved.is_draining), (to, Some(from), true));
            let start = Instant::now();
            fleet.settles_at(4, to).await;
            let took = start.elapsed();
            assert!(took <= POLL * 3 + slow + REST, "{from} to {to}: {took:?}");
            sleep(LEASE * 2).await;
            assert_eq!(fleet.work.mixed(), 0, "{from} to {to}");
            assert_eq!(fleet.work.starts() - starts, to, "each of them begins once");
            let longest = fleet.work.longest_gap();
            assert!(longest <= POLL * 3 + slow + REST, "{from} to {to}: {longest:?}");
            let count = fleet.agreed().await.unwrap();
            assert_eq!(count.to_string(), format!("{to}, {from} before that"));
            fleet.work.check();
        }
    }
}

/// The move is one commit: it is there, or it isn't. Who carries it out is whoever lives.
#[tokio::test(start_paused = true)]
async fn a_mover_that_dies_leaves_a_move_that_is_whole_or_none() {
    for (effect, stands) in [(Effect::Stall, false), (Effect::StallReply, true)] {
        let (fleet, _workers) = Fleet::of_four(FEW).await;
        let commit = Fault::on(Rpc::Commit).key(COUNT_ROW).times(1);
        fleet.world.spanner.inject(commit.effect(effect));
        let lost = fleet.resize(MANY).await.unwrap_err();
        assert!(lost.is_outcome_unknown(), "{lost}");
        let count = if stands { MANY } else { FEW };
        fleet.settles_at(4, count).await;
        let moved = fleet.resize(MANY).await.unwrap();
        assert_eq!(moved.is_draining, !stands, "a repetition does no harm");
        fleet.settles_at(4, MANY).await;
        assert_eq!(fleet.work.mixed(), 0);
        fleet.work.check();
    }
}

/// Each member dies while it gives its shards up, so that nobody is left to finish the move.
#[tokio::test(start_paused = true)]
async fn a_fleet_that_dies_in_the_middle_of_a_move_is_moved_by_the_next_one() {
    let fleet = Fleet::start(FEW).await;
    let workers = FOUR.map(|id| fleet.join_slowly(id, fleet.shards(id), |_| POLL * 3));
    fleet.settles_at(4, FEW).await;
    sleep(LEASE).await;
    fleet.resize(MANY).await.unwrap();
    sleep(POLL * 2).await;
    for session in fleet.world.spanner.requests().sessions() {
        fleet.world.cut_off(&session);
    }
    workers.iter().for_each(|worker| worker.sharing.abort());
    sleep(LEASE * 3).await;
    assert!(fleet.count_row().unwrap().ends_with(" draining"));
    assert!(fleet.agreed().await.unwrap().is_draining);
    let _next = ["e", "f"].map(|id| fleet.join_at(id, MANY));
    fleet.settles_at(2, MANY).await;
    assert_eq!(fleet.count_row().as_deref(), Some("shards 16 from 12"));
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
        let table = fleet.table();
        let late = async move { ShardCount::resize(&table, "orders", "partitions", MANY).await };
        let late = tokio::spawn(late);
        until("it is held up", || (held_up.hits() == 1).then_some(())).await;
        fleet.resize(FEW / 2).await.unwrap();
        assert!(!late.is_finished(), "the race was met");
        let lost = late.await.unwrap().unwrap_err();
        assert!(spindle_fleet::is_other_count(&lost), "{lost}");
        assert!(lost.to_string().contains("the group shares 6, "), "{lost}");
        fleet.settles_at(4, FEW / 2).await;
        assert_eq!(fleet.count_row().as_deref(), Some("shards 6 from 12"));
        fleet.work.check();
    }
}

#[tokio::test(start_paused = true)]
async fn while_a_move_drains_another_one_is_refused_and_the_same_changes_nothing() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let drains = fleet.resize(MANY).await.unwrap();
    let refused = fleet.resize(7).await.unwrap_err();
    assert!(spindle_fleet::is_other_count(&refused), "one drains: {refused}");
    assert_eq!(fleet.resize(MANY).await.unwrap(), drains, "the same again changes nothing");
    fleet.settles_at(4, MANY).await;
    assert_eq!(fleet.resize(7).await.unwrap().before, Some(MANY));
    fleet.settles_at(4, 7).await;
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_cut_off_holds_a_move_up_for_its_lease_and_runs_nothing_beside_it() {
    let fleet = Fleet::start(FEW).await;
    let (_cut_off, session) = fleet.world.known(|| fleet.join("a")).await;
    fleet.settles(1).await;
    let _workers = ["b", "c", "d"].map(|id| fleet.join(id));
    fleet.settles(4).await;
    sleep(LEASE).await;
    let line = fleet.world.cut_off(&session);
    fleet.resize(MANY).await.unwrap();
    let start = Instant::now();
    fleet.settles_at(3, MANY).await;
    assert!(start.elapsed() >= LEASE / 2 - POLL, "{:?}", start.elapsed());
    assert!(start.elapsed() <= LEASE + POLL * 4, "{:?}", start.elapsed());
    line.restore();
    fleet.settles_at(4, MANY).await;
    assert_eq!(fleet.work.mixed(), 0);
    fleet.work.check();
}

/// An attempt to take a shard is under way while the group moves, and succeeds after it, while a shard of
/// the old count still stops.
#[tokio::test(start_paused = true)]
async fn an_attempt_from_before_a_move_runs_nothing_after_it() {
    let mut delayed = 0;
    for after in 0..12 {
        let fleet = Fleet::start(2).await;
        let _settled = fleet.join_slowly("a", fleet.shards("a"), |_| POLL * 2);
        fleet.settles(1).await;
        let (_joins, session) = fleet.world.known(|| fleet.join("b")).await;
        let key = "spindle:shard:orders/partitions/";
        let slow = Fault::on(Rpc::Commit).session(session).key(format!("{key}1"));
        let slow = slow.effect(Effect::Delay(Duration::from_millis(800)));
        let slow = [slow.clone(), slow.key(format!("{key}0"))];
        let slow = slow.map(|slow| fleet.world.spanner.inject(slow));
        until("it is handed a shard", || (fleet.work.owners().len() == 1).then_some(())).await;
        sleep(Duration::from_millis(after * 200)).await;
        fleet.resize(9).await.unwrap();
        sleep(LEASE).await;
        delayed += slow.iter().map(|slow| slow.hits()).sum::<u64>();
        fleet.world.spanner.clear_faults();
        fleet.settles_at(2, 9).await;
        assert_eq!(fleet.work.mixed(), 0, "after {after}");
        fleet.work.check();
    }
    assert!(delayed > 0, "no attempt was under way");
}

#[tokio::test(start_paused = true)]
async fn a_count_that_is_deleted_or_edited_stops_no_task_and_is_healed() {
    let (log, _guard) = Log::capture();
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let starts = fleet.work.starts();
    fleet.world.delete_row(COUNT_ROW).await;
    sleep(POLL * 2).await;
    assert_eq!(fleet.count_row().as_deref(), Some("shards 12"), "they write it again");
    fleet.world.write(cells(COUNT_ROW, &[("writer", "sixty")])).await;
    let refused = fleet.join("late").ends().await.unwrap_err();
    assert!(refused.is_config());
    for part in ["its `writer` is `sixty`; expected", "`shards 80 from 60 draining`"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    sleep(LEASE).await;
    assert_eq!((fleet.work.starts(), fleet.work.owners().len()), (starts, FEW));
    let told = log.saying("the count can't be read");
    assert!(told.iter().any(|line| line.says("names no count")), "{:?}", log.lines());
    fleet.resize(FEW).await.unwrap();
    let _late = fleet.join_at("e", FEW);
    fleet.settles_at(5, FEW).await;
    fleet.work.check();
}

/// Each member would read them at every poll.
#[tokio::test(start_paused = true)]
async fn rows_of_shards_beyond_a_smaller_count_are_deleted_ten_leases_later_and_no_others() {
    let (fleet, _worker) = Fleet::at_rest(&["a"], 4, LEASE).await;
    fleet.resize(2).await.unwrap();
    fleet.settles_at(1, 2).await;
    let beyond = || {
        let is_beyond =
            |name: &&String| ["partitions/2", "partitions/3"].iter().any(|it| name.contains(it));
        fleet.world.names().iter().filter(is_beyond).count()
    };
    sleep(LEASE * 9).await;
    assert_eq!(beyond(), 2);
    sleep(LEASE * 10).await;
    assert_eq!(beyond(), 0);
    assert_eq!(fleet.count_row().as_deref(), Some("shards 2 from 4"));
    assert_eq!(fleet.work.shards_of("a"), [0, 1]);
    fleet.resize(4).await.unwrap();
    fleet.settles_at(1, 4).await;
    fleet.work.check();
}

/// Without its count the group would share nothing, and a move that drains would be undone.
#[tokio::test(start_paused = true)]
async fn the_row_of_a_count_is_neither_evicted_nor_seized_nor_removed() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let table = fleet.table();
    let refused = [
        table.evict(COUNT_ROW).await.unwrap_err(),
        table.evict(COUNT_ROW).at_once().await.unwrap_err(),
        table.remove(COUNT_ROW).await.unwrap_err(),
    ];
    for refused in refused {
        assert!(
            refused.is_config() && refused.to_string().contains("ShardCount::resize"),
            "{refused}"
        );
    }
    assert_eq!(fleet.count_row().as_deref(), Some("shards 12"));
}

#[tokio::test(start_paused = true)]
async fn the_row_of_a_count_is_no_lock() {
    let (fleet, _workers) = Fleet::of_four(FEW).await;
    let table = fleet.table();
    let (mut locks, mut names) = (table.list().prefix("spindle:shard:"), Vec::new());
    while let Some(lock) = locks.next().await.unwrap() {
        names.push(lock.name);
    }
    assert_eq!((names.len(), names.contains(&COUNT_ROW.to_string())), (FEW, false));
    assert!(table.check().await.unwrap().is_empty());
    assert!(!table.inspect(COUNT_ROW).await.unwrap().is_held());
    assert_eq!(fleet.count_row().as_deref(), Some("shards 12"));
    for to in [0, 10_001] {
        assert!(fleet.resize(to).await.unwrap_err().is_config());
    }
    assert!(ShardCount::resize(&table, "orders", "others", 5).await.unwrap_err().is_config());
}

/// Those that both counts have stop last, so that all of the new count have an owner meanwhile.
#[tokio::test(start_paused = true)]
async fn while_a_move_drains_nothing_is_settled() {
    let fleet = Fleet::start(4).await;
    let slow = |number| if number < 2 { POLL * 4 } else { POLL };
    let mut worker = fleet.join_slowly("a", fleet.shards("a"), slow);
    worker.until_settled().await;
    fleet.resize(2).await.unwrap();
    let start = Instant::now();
    let mut settled = 0;
    while worker.events.next().await != Some(ShardEvent::Resized { count: 2 }) {
        settled += usize::from(worker.shards.is_settled() && start.elapsed() > POLL * 2);
    }
    assert!(start.elapsed() > POLL * 4 && settled == 0, "{settled} at {:?}", start.elapsed());
    worker.until_settled().await;
    assert_eq!(worker.shards.mine(), [0, 1]);
    worker.leave().await;
}

/// The task of one number fails under the old count, in every member, until each of them waits for minutes
/// before it tries the number again. Under the new count it is another shard.
#[tokio::test(start_paused = true)]
async fn a_shard_that_failed_under_one_count_is_at_work_at_once_under_another() {
    let fleet = Fleet::start(FEW).await;
    let _workers = FOUR.map(|id| {
        let work = fleet.work.clone();
        Worker::run(fleet.shards(id), move |shard| {
            let at_work = work.enter(id, &shard);
            async move {
                let _at_work = at_work;
                if shard.number() != 0 || shard.count() != FEW {
                    shard.cancelled().await;
                }
            }
        })
    });
    sleep(LEASE * 60).await;
    assert_eq!(fleet.work.owners().len(), FEW - 1, "one fails");
    fleet.resize(MANY).await.unwrap();
    let start = Instant::now();
    fleet.settles_at(4, MANY).await;
    assert!(start.elapsed() <= POLL * 3 + REST, "{:?}", start.elapsed());
    fleet.work.check();
}

#[tokio::test(start_paused = true)]
async fn a_shard_is_not_worked_while_the_count_cannot_be_read() {
    let fleet = Fleet::start(FEW).await;
    let leaver = fleet.join("a");
    let _other = fleet.join("b");
    fleet.settles(2).await;
    let starts = fleet.work.starts();
    // Polls read it in a range, and name no row.
    let unread = Fault::on(Rpc::StreamingRead).key(COUNT_ROW);
    let unread = fleet.world.spanner.inject(unread.effect(Effect::Fail(Code::Unavailable)));
    leaver.leave().await;
    sleep(LEASE).await;
    assert!(unread.hits() > 0, "no shard was won");
    assert_eq!(fleet.work.starts(), starts);
    unread.remove();
    fleet.all_are_of("b").await;
    fleet.work.check();
}
