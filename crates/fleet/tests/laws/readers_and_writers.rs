//! Readers and writers: many who read, or one who writes.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::testing::Clock;
use spindle::{Fence, LockTable, ReleaseOutcome};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::{ReadGuard, RwLock, WriteGuard};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::world::{EVENTUALLY, LEASE, LOST, PAST, World, cells, order, timed, travelled, until};

const GATE: &str = "spindle:rw:catalogue";
const WRITE_LOCK: &str = "spindle:rw:catalogue/write";
/// For the polls and the pauses beside a lease.
const MORE: Duration = Duration::from_secs(3);

/// The lock as one process has it.
fn lock(world: &World, id: &str) -> RwLock {
    world.rw_lock(id).build().unwrap()
}

async fn read(lock: &RwLock) -> ReadGuard {
    timeout(EVENTUALLY, lock.read()).await.expect("it reads").unwrap()
}

async fn write(lock: &RwLock) -> WriteGuard {
    timeout(EVENTUALLY, lock.write()).await.expect("it writes").unwrap()
}

/// Returns a writer that has learnt of the eviction from one of its rows.
async fn evicted_writer(world: &World, row: &str) -> WriteGuard {
    let writing = write(&lock(world, "a")).await;
    world.table().evict(row).await.unwrap();
    assert!(timeout(LEASE, writing.cancelled()).await.is_ok(), "it learns that it is to stop");
    writing
}

/// Writes an order under the fence, and says if Spanner refused it.
async fn is_refused(world: &World, fence: &Fence, id: &str) -> bool {
    match fence.write(&world.client().await, [order(id)]).await {
        Ok(_) => false,
        Err(error) => {
            assert!(error.is_fenced(), "{error}");
            true
        }
    }
}

/// From here on Spanner hears nothing of those who have committed, as after a SIGKILL.
fn crash_all_but(world: &World, others: &[String]) {
    for session in world.committing().iter().filter(|session| !others.contains(session)) {
        if let Some(line) = world.line_of(session) {
            line.cut();
        }
    }
}

/// Waits until a writer has stopped new readers.
async fn stopped(world: &World) {
    let is_stopped = || world.row(GATE)?.writer.filter(|writer| !writer.is_empty());
    until("a writer stops new readers", is_stopped).await;
}

/// Each is two commits, of the gate and of the write lock, and the second one loses.
#[tokio::test(start_paused = true)]
async fn a_try_to_write_that_lost_to_another_transaction_writes_all_the_same() {
    for code in [Code::Aborted, Code::NotFound, Code::FailedPrecondition] {
        let world = World::start().await;
        let lock = lock(&world, "a");
        let lost = || Fault::on(Rpc::Commit).skip(1).effect(Effect::Fail(code));
        world.spanner.inject(lost().times(2));
        let writing = lock.try_write().await.unwrap().expect("nobody reads");
        assert_eq!(writing.release().await, ReleaseOutcome::Released);
        let always = world.spanner.inject(lost());
        assert!(timeout(LEASE * 2, lock.try_write()).await.unwrap().is_err(), "{code:?}");
        always.remove();
    }
}

#[tokio::test(start_paused = true)]
async fn many_read_at_once_and_one_writes_alone() {
    let world = World::start().await;
    let (a, b) = (lock(&world, "a"), lock(&world, "b"));
    let (one, other, third) = (read(&a).await, read(&a).await, read(&b).await);
    let c = lock(&world, "c");
    assert!(c.try_write().await.unwrap().is_none());
    assert!(world.row(GATE).is_none(), "who only tries stops nobody");
    sleep(LEASE * 3).await;
    for guard in [one, other, third] {
        assert!(!guard.is_cancelled(), "it is renewed");
        assert_eq!(guard.release().await, ReleaseOutcome::Released);
    }
    assert_eq!(world.names(), Vec::<String>::new(), "readers leave no rows");

    let writing = c.try_write().await.unwrap().expect("nobody reads");
    assert!(a.try_read().await.unwrap().is_none() && a.try_write().await.unwrap().is_none());
    sleep(LEASE * 3).await;
    assert!(!writing.is_cancelled() && a.try_read().await.unwrap().is_none(), "it is renewed");
    assert_eq!(writing.release().await, ReleaseOutcome::Released);
    assert!(a.try_read().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn nobody_is_at_work_beside_a_writer() {
    let world = World::start().await;
    let (readers, writers) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let most = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for process in 0..4 {
        let lock = lock(&world, &format!("p{process}"));
        let (readers, writers, most) = (readers.clone(), writers.clone(), most.clone());
        tasks.spawn(async move {
            for turn in 0..6 {
                if (process + turn) % 3 == 0 {
                    let guard = write(&lock).await;
                    assert_eq!(writers.fetch_add(1, Ordering::SeqCst), 0);
                    assert_eq!(readers.load(Ordering::SeqCst), 0);
                    sleep(Duration::from_millis(300)).await;
                    assert_eq!(readers.load(Ordering::SeqCst), 0);
                    writers.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await;
                } else {
                    let guard = read(&lock).await;
                    most.fetch_max(readers.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    assert_eq!(writers.load(Ordering::SeqCst), 0);
                    sleep(Duration::from_millis(700)).await;
                    assert_eq!(writers.load(Ordering::SeqCst), 0);
                    readers.fetch_sub(1, Ordering::SeqCst);
                    guard.release().await;
                }
            }
        });
    }
    timeout(EVENTUALLY, tasks.join_all()).await.expect("all have had their turns");
    assert!(most.load(Ordering::SeqCst) > 1, "some have read at once");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_writer_stops_new_readers_and_its_token_is_later_than_theirs() {
    let world = World::start().await;
    let (a, b, c) = (lock(&world, "a"), lock(&world, "b"), lock(&world, "c"));
    let reading = read(&a).await;
    let waiting = tokio::spawn(async move { write(&b).await });
    stopped(&world).await;
    assert!(c.try_read().await.unwrap().is_none());
    let late = tokio::spawn({
        let c = c.clone();
        async move { read(&c).await }
    });
    sleep(LEASE * 2).await;
    assert!(!waiting.is_finished() && !late.is_finished() && !reading.is_cancelled());
    let token = reading.token();
    reading.release().await;
    let (writing, took) = timed(waiting).await;
    let writing = writing.unwrap();
    assert!(took <= Duration::from_secs(1), "by the next poll: {took:?}");
    assert!(writing.token() > token && !late.is_finished());
    let token = writing.token();
    writing.release().await;
    assert!(late.await.unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_dies_at_the_gate_keeps_readers_for_a_lease_and_no_longer() {
    let world = World::start().await;
    let a = lock(&world, "a");
    let _reading = read(&a).await;
    let others = world.committing();
    let waiting = tokio::spawn({
        let b = lock(&world, "b");
        async move { b.write().await }
    });
    stopped(&world).await;
    crash_all_but(&world, &others);
    let c = lock(&world, "c");
    assert!(c.try_read().await.unwrap().is_none());
    let (_guard, took) = timed(read(&c)).await;
    assert!(took <= LEASE + MORE, "{took:?}");
    waiting.abort();
}

#[tokio::test(start_paused = true)]
async fn a_writer_begins_a_lease_after_a_reader_has_died_and_refuses_its_late_write() {
    let world = World::start().await;
    let reading = read(&lock(&world, "a")).await;
    let fence = travelled(&reading.fence());
    assert!(!is_refused(&world, &fence, "in time").await);
    crash_all_but(&world, &[]);
    let waiting = tokio::spawn({
        let b = lock(&world, "b");
        async move { timed(write(&b)).await }
    });
    stopped(&world).await;
    let last = fence.write(&world.client().await, [order("last")]).await.unwrap();
    let last = last.commit_timestamp.expect("a commit has a time");
    let last = last.seconds() * 1_000_000_000 + i64::from(last.nanos());
    let (writing, took) = waiting.await.unwrap();
    assert!(took <= LEASE + MORE, "{took:?}");
    assert!(reading.is_cancelled() && writing.token() > reading.token());
    assert!(writing.token().as_nanoseconds() > last.unsigned_abs(), "later than what it read");
    assert!(is_refused(&world, &fence, "too late").await);
    assert!(!is_refused(&world, &travelled(&writing.fence()), "written").await);
    assert_eq!(world.names(), [GATE, WRITE_LOCK], "the reader's row is gone");
}

#[tokio::test(start_paused = true)]
async fn a_writer_clears_thousands_of_dead_readers_away_without_slowing_down() {
    const PAGES: u32 = 8;
    let world = World::start().await;
    let row = |reader: u32| {
        let name = format!("{GATE}/dead-{reader:016x}");
        cells(&name, &[("heartbeat", PAST), ("token", PAST), ("writer", "dead")])
    };
    world.write_all((0..PAGES * 1_000 + 1).map(row)).await;
    let (writing, took) = timed(write(&lock(&world, "a"))).await;
    // Pauses that double would make it 30 s. A busy machine may take more than a poll for one.
    let polls = Duration::from_secs(1) * PAGES;
    assert!(took <= 2 * polls + MORE, "a poll for each thousand: {took:?}");
    assert_eq!(world.names(), [GATE, WRITE_LOCK]);
    writing.release().await;
}

#[tokio::test(start_paused = true)]
async fn a_reader_begins_a_lease_after_the_writer_has_died_and_refuses_its_late_write() {
    let world = World::start().await;
    let writing = write(&lock(&world, "a")).await;
    let fence = travelled(&writing.fence());
    assert!(!is_refused(&world, &fence, "in time").await);
    crash_all_but(&world, &[]);
    let (reading, took) = timed(read(&lock(&world, "b"))).await;
    assert!(took <= LEASE + MORE, "{took:?}");
    assert!(writing.is_cancelled() && reading.token() > writing.token());
    assert!(is_refused(&world, &fence, "too late").await);
    assert!(!is_refused(&world, &travelled(&reading.fence()), "read").await);
}

#[tokio::test(start_paused = true)]
async fn a_writer_whose_heartbeat_was_cleared_by_hand_is_refused_once_a_reader_has_begun() {
    for cleared in [None, Some("1970-01-01T00:00:00Z")] {
        let world = World::start().await;
        let writing = write(&lock(&world, "a")).await;
        for name in [GATE, WRITE_LOCK] {
            let row = Mutation::new_update_builder("locktable").set("name").to(name);
            let cleared = cleared.map(str::to_string);
            world.write(row.set("heartbeat").to(cleared).build()).await;
        }
        let reading = lock(&world, "b").try_read().await.unwrap().expect("a manual edit freed it");
        assert!(reading.token() > writing.token());
        assert!(is_refused(&world, &travelled(&writing.fence()), "late").await);
        assert!(timeout(LEASE, writing.cancelled()).await.is_ok(), "it learns that it was ended");
    }
}

#[tokio::test(start_paused = true)]
async fn a_begin_whose_reply_is_lost_is_found_to_be_ours() {
    for effect in LOST {
        // A reader's begin and its end, the gate's begin and the write lock's.
        for skipped in 0..4 {
            let world = World::start().await;
            let commit = Fault::on(Rpc::Commit).table("locktable").skip(skipped).times(1);
            let lost = world.spanner.inject(commit.effect(effect));
            let lock = lock(&world, "a");
            let (_, took) = timed(async {
                if skipped == 0 {
                    read(&lock).await.release().await;
                    return;
                }
                let token = read(&lock).await.token();
                // Dropped: the release is the second commit.
                sleep(MORE).await;
                let writing = write(&lock).await;
                assert!(writing.token() > token);
                assert!(!is_refused(&world, &travelled(&writing.fence()), "written").await);
                assert_eq!(writing.release().await, ReleaseOutcome::Released);
            })
            .await;
            assert_eq!(lost.hits(), 1, "{effect:?} {skipped}");
            assert!(took < LEASE + MORE, "{effect:?} {skipped}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_writers_begin_whose_reply_is_lost_is_found_to_be_ours() {
    for effect in [Effect::LoseReply, Effect::StallReply, Effect::ApplyLate { after: MORE }] {
        let world = World::start().await;
        let commit = Fault::on(Rpc::Commit).table("locktable").key(WRITE_LOCK).times(1);
        let lost = world.spanner.inject(commit.effect(effect));
        let (writing, took) = timed(write(&lock(&world, "a"))).await;
        assert_eq!(lost.hits(), 1, "{effect:?}");
        assert!(took < LEASE, "{effect:?}: {took:?}");
        assert!(!is_refused(&world, &travelled(&writing.fence()), "written").await, "{effect:?}");
        sleep(LEASE * 2).await;
        assert!(!writing.is_cancelled(), "{effect:?}: it is renewed");
        assert_eq!(writing.release().await, ReleaseOutcome::Released);
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_gives_up_waiting_leaves_nothing_behind() {
    let world = World::start().await;
    let lock = lock(&world, "a");
    for limit in (0..24).map(|step| Duration::from_micros(step * 400)) {
        // At whichever await it is dropped.
        drop(timeout(limit, lock.read()).await);
        sleep(Duration::from_millis(500)).await;
        drop(timeout(limit, lock.write()).await);
        sleep(Duration::from_millis(500)).await;
    }
    sleep(LEASE).await;
    let is_kept = |name: &String| [GATE, WRITE_LOCK].contains(&&**name);
    assert!(world.names().iter().all(is_kept), "{:?}", world.names());
    for name in [GATE, WRITE_LOCK] {
        assert!(world.row(name).is_none_or(|row| row.heartbeat == Some(0)));
    }
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 3).await;
    assert_eq!(requests.get(Rpc::Commit) + requests.get(Rpc::StreamingRead), 0, "no task is left");
}

/// How often each side had its turn, and how long one of them waited at most.
#[derive(Clone, Default)]
struct Turns {
    reads: Arc<AtomicUsize>,
    writes: Arc<AtomicUsize>,
    longest: Arc<Mutex<Duration>>,
}

impl Turns {
    /// The same turns, for those whose waits don't count.
    fn of_others(&self) -> Turns {
        Turns { longest: Arc::default(), ..self.clone() }
    }

    fn began(&self, turns: &AtomicUsize, waited: Duration) {
        turns.fetch_add(1, Ordering::SeqCst);
        let mut longest = self.longest.lock().unwrap();
        *longest = waited.max(*longest);
    }

    fn read_on(&self, lock: &RwLock, time: Duration) {
        let (turns, lock) = (self.clone(), lock.clone());
        tokio::spawn(async move {
            loop {
                let (guard, waited) = timed(read(&lock)).await;
                turns.began(&turns.reads, waited);
                sleep(time).await;
                guard.release().await;
            }
        });
    }

    fn write_on(&self, lock: &RwLock) {
        let (turns, lock) = (self.clone(), lock.clone());
        tokio::spawn(async move {
            loop {
                let (guard, waited) = timed(write(&lock)).await;
                turns.began(&turns.writes, waited);
                sleep(WRITE).await;
                guard.release().await;
            }
        });
    }

    fn said(&self) -> (usize, usize, Duration) {
        let [reads, writes] = [&self.reads, &self.writes].map(|turns| turns.load(Ordering::SeqCst));
        (reads, writes, *self.longest.lock().unwrap())
    }
}

/// How long each of them writes.
const WRITE: Duration = Duration::from_millis(600);

#[tokio::test(start_paused = true)]
async fn a_reader_has_its_turn_though_writers_of_all_processes_follow_each_other() {
    for (processes, writers) in [(1, 4), (3, 2)] {
        let world = World::start().await;
        let turns = Turns::default();
        for process in 0..processes {
            let lock = lock(&world, &format!("w{process}"));
            (0..writers).for_each(|_| turns.of_others().write_on(&lock));
        }
        sleep(MORE).await;
        turns.read_on(&lock(&world, "r"), WRITE);
        sleep(LEASE * 5).await;
        let (reads, writes, longest) = turns.said();
        // Two polls until it has its place, and the turns of those before it, each with a poll.
        let bound = (Duration::from_secs(1) + WRITE) * (processes + 3);
        assert!(reads >= 5 && longest <= bound, "{processes}: {reads} reads, {longest:?}");
        assert!(writes >= 15, "{processes}: {writes} writes");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_no_more_than_one_read_though_readers_of_all_processes_overlap() {
    let world = World::start().await;
    let turns = Turns::default();
    let time = Duration::from_secs(4);
    for process in 0..3 {
        let lock = lock(&world, &format!("r{process}"));
        for reader in 0..3 {
            turns.of_others().read_on(&lock, time);
            sleep(Duration::from_millis(300 * reader)).await;
        }
    }
    turns.write_on(&lock(&world, "w"));
    sleep(LEASE * 5).await;
    let (reads, writes, longest) = turns.said();
    assert!(writes >= 6 && longest <= time + MORE, "{writes} writes, {longest:?}");
    assert!(reads >= 9 * 3, "{reads} reads");
}

#[tokio::test(start_paused = true)]
async fn writers_of_two_processes_have_their_turns() {
    let world = World::start().await;
    let all = ["a", "b"].map(|id| {
        let (turns, lock) = (Turns::default(), lock(&world, id));
        (0..3).for_each(|_| turns.write_on(&lock));
        turns
    });
    sleep(LEASE * 20).await;
    let [(_, a, first), (_, b, second)] = all.each_ref().map(Turns::said);
    assert!(a.min(b) >= 50 && a.max(b) <= a.min(b) * 2, "{a} and {b} writes");
    // The turns of all six.
    let bound = (Duration::from_secs(1) + WRITE) * 7;
    assert!(first.max(second) <= bound, "{first:?} {second:?}");
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_process_have_their_turns_in_order_and_readers_pass_who_waits_for_readers() {
    let world = World::start().await;
    let a = lock(&world, "a");
    let order = Arc::new(Mutex::new(Vec::new()));
    let holding = write(&a).await;
    let mut callers = JoinSet::new();
    for (number, writes) in [true, false, false, true, false].into_iter().enumerate() {
        let (a, order) = (a.clone(), Arc::clone(&order));
        callers.spawn(async move {
            let began = || order.lock().unwrap().push(number);
            if writes {
                let guard = write(&a).await;
                began();
                guard.release().await;
            } else {
                let guard = read(&a).await;
                began();
                sleep(LEASE).await;
                guard.release().await;
            }
        });
        sleep(LEASE / 7).await;
    }
    holding.release().await;
    callers.join_all().await;
    let order = order.lock().unwrap();
    // While the second writer waits for the first two readers, the third may be one of their tasks.
    let readers = BTreeSet::from([order[1], order[2], order[3]]);
    assert_eq!((order[0], readers, order[4]), (0, BTreeSet::from([1, 2, 4]), 3));
}

#[tokio::test(start_paused = true)]
async fn who_waits_goes_before_a_later_try_of_the_same_process() {
    for writes in [true, false] {
        let world = World::start().await;
        let (a, b) = (lock(&world, "a"), lock(&world, "b"));
        let held = write(&b).await;
        let waiting = tokio::spawn({
            let a = a.clone();
            async move {
                if writes {
                    drop(write(&a).await);
                } else {
                    drop(read(&a).await);
                }
            }
        });
        // After one poll: it has no place in line yet, which would keep others out by itself.
        sleep(LEASE / 30).await;
        held.release().await;
        assert!(!waiting.is_finished(), "it has not polled yet");
        if writes {
            assert!(a.try_read().await.unwrap().is_none());
        }
        assert!(a.try_write().await.unwrap().is_none());
        timeout(EVENTUALLY, waiting).await.expect("it has its turn").unwrap();
        sleep(MORE).await;
        assert!(a.try_write().await.unwrap().is_some(), "nobody waits any more");
    }
}

#[tokio::test(start_paused = true)]
async fn a_writer_that_loses_its_gate_is_told_and_still_alone_until_it_lets_go() {
    let world = World::start().await;
    let writing = evicted_writer(&world, GATE).await;
    let next = tokio::spawn({
        let b = lock(&world, "b");
        async move { write(&b).await }
    });
    sleep(LEASE * 3).await;
    assert!(!next.is_finished() && lock(&world, "c").try_read().await.unwrap().is_none());
    assert!(!is_refused(&world, &travelled(&writing.fence()), "the last of it").await);
    let token = writing.token();
    assert_eq!(writing.release().await, ReleaseOutcome::Released);
    assert!(timeout(LEASE, next).await.expect("it has the gate").unwrap().token() > token);
}

#[tokio::test(start_paused = true)]
async fn a_release_says_that_the_gate_is_still_held_whatever_became_of_the_write_lock() {
    let world = World::start().await;
    let writing = evicted_writer(&world, WRITE_LOCK).await;
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Stall));
    let release = writing.release().await;
    assert!(matches!(release, ReleaseOutcome::Unacknowledged { .. }), "{release:?}");
}

/// Of commits by which writers of the library began before they had two locks.
#[tokio::test(start_paused = true)]
async fn the_row_of_an_earlier_writer_is_vacant_once_its_lease_is_over() {
    let world = World::start().await;
    let (now, writer) = ("spanner.commit_timestamp()", "w#000000000000feed-4294967297");
    world.write(cells(GATE, &[("heartbeat", now), ("token", now), ("writer", writer)])).await;
    let b = lock(&world, "b");
    assert!(b.try_read().await.unwrap().is_none());
    let (reading, took) = timed(read(&b)).await;
    assert!(took <= LEASE + MORE, "{took:?}");
    reading.release().await;
    assert!(b.try_write().await.unwrap().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_dropped_guard_lets_others_in_soon_after() {
    let world = World::start().await;
    let (a, b) = (lock(&world, "a"), lock(&world, "b"));
    drop(read(&a).await);
    let (writing, took) = timed(write(&b)).await;
    assert!(took <= MORE, "{took:?}");
    drop(writing);
    let (_reading, took) = timed(read(&a)).await;
    assert!(took <= MORE, "{took:?}");
}

/// Two handles of one process to the same lock.
fn two_handles(world: &World) -> (RwLock, RwLock) {
    let table = world.table();
    let build =
        || RwLock::new(&table, "catalogue").lease(LEASE).clock(Clock::runtime()).build().unwrap();
    (build(), build())
}

#[tokio::test(start_paused = true)]
async fn a_writer_waits_for_all_who_read_in_its_own_process() {
    let world = World::start().await;
    let (one, other) = two_handles(&world);
    let (reading, again) = (read(&one).await, read(&other).await);
    let writing = tokio::spawn({
        let one = one.clone();
        async move { write(&one).await }
    });
    for handle in [&one, &other, &one.clone()] {
        assert!(handle.try_write().await.unwrap().is_none());
        assert!(handle.write().within(LEASE).await.unwrap_err().is_not_acquired());
    }
    reading.release().await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE).await;
    assert!(!writing.is_finished(), "there is another guard");
    // They are the other reader's heartbeats: the writer asks for nothing, and stops nobody elsewhere.
    assert!(requests.get(Rpc::Commit) <= 4, "{:?}", requests.each());
    again.release().await;
    let (writing, took) = timed(writing).await;
    assert!(took <= MORE, "{took:?}");
    writing.unwrap().release().await;
}

/// By the handle that writes or by another one of its process, where the writer has come first too.
#[tokio::test(start_paused = true)]
async fn who_reads_and_reads_again_does_not_wait_for_a_writer_that_waits_for_it() {
    let world = World::start().await;
    let (one, other) = two_handles(&world);
    for (first, second) in [(&one, &one), (&one, &other), (&other, &one), (&other, &other)] {
        for pause in [Duration::ZERO, Duration::from_millis(5), MORE] {
            let begun = first.read();
            let writing = tokio::spawn({
                let one = one.clone();
                async move {
                    sleep(pause).await;
                    write(&one).await
                }
            });
            let reading = timeout(EVENTUALLY, begun).await.expect("it reads").unwrap();
            sleep(LEASE).await;
            let (again, took) = timed(read(second)).await;
            assert!(took <= MORE, "{took:?}");
            for guard in [reading, again] {
                guard.release().await;
            }
            let writing = timeout(LEASE, writing).await.expect("nobody reads any more");
            writing.unwrap().release().await;
        }
    }
}

/// As `RwLock::read` says: the writer waits for the first guard.
#[tokio::test(start_paused = true)]
async fn who_reads_beside_another_processs_writer_must_not_ask_to_read_once_more() {
    let world = World::start().await;
    let (one, other) = (lock(&world, "a"), lock(&world, "b"));
    let reading = read(&one).await;
    let writing = tokio::spawn(async move { write(&other).await });
    stopped(&world).await;
    assert!(one.read().within(LEASE * 5).await.unwrap_err().is_not_acquired());
    assert!(!writing.is_finished());
    reading.release().await;
    writing.await.unwrap().release().await;
    read(&one).await.release().await;
}

#[tokio::test(start_paused = true)]
async fn many_who_wait_to_read_poll_no_more_than_one() {
    let world = World::start().await;
    let _writing = write(&lock(&world, "a")).await;
    let other = lock(&world, "b");
    let waits = || {
        let other = other.clone();
        async move { drop(other.read().await) }
    };
    let [one, fifty] = world.reads_of_waiters(waits).await;
    assert!(one > 25, "it polls: {one}");
    assert!(one.abs_diff(fifty) <= one / 10, "{fifty} reads by 50, {one} by one");
}

#[tokio::test(start_paused = true)]
async fn rows_of_readers_long_gone_are_deleted_though_nobody_writes() {
    for way in 0..3 {
        let world = World::start().await;
        let _dead = read(&lock(&world, "a")).await;
        crash_all_but(&world, &[]);
        let b = lock(&world, "b");
        let reading = read(&b).await;
        assert_eq!(world.names().len(), 2);
        reading.release().await;
        sleep(LEASE * 90).await;
        let _again = match way {
            0 => read(&b).await,
            1 => b.read().within(LEASE).await.unwrap(),
            _ => b.try_read().await.unwrap().expect("nobody writes"),
        };
        let names = world.names();
        assert!(names.len() == 1 && names[0].contains("/b-"), "{way}: {names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_waited_out_and_told_when_the_time_is_over() {
    let world = World::start().await;
    let lock = lock(&world, "a");
    world.spanner.inject(Fault::any().effect(Effect::Fail(Code::Unavailable)));
    let refused = lock.read().within(LEASE * 2).await.unwrap_err();
    assert!(refused.is_not_acquired() && refused.to_string().len() > 60, "{refused}");
    let refused = lock.write().within(LEASE * 2).await.unwrap_err();
    assert!(refused.is_not_acquired() && refused.to_string().contains("UNAVAILABLE"), "{refused}");
    world.spanner.clear_faults();
    let begin = Fault::on(Rpc::Commit).table("locktable").key(WRITE_LOCK);
    world.spanner.inject(begin.effect(Effect::Fail(Code::PermissionDenied)));
    let refused = lock.write().within(LEASE / 4).await.unwrap_err();
    assert!(refused.to_string().contains("PERMISSION_DENIED"), "{refused}");
    world.spanner.clear_faults();
    read(&lock).await.release().await;
    write(&lock).await.release().await;
}

#[tokio::test]
async fn what_no_such_lock_can_be_is_refused() {
    let table = LockTable::new("projects/p/instances/i/databases/d", "locktable");
    for name in ["a/b", "", "a\n"] {
        let refused = RwLock::new(&table, name).build().unwrap_err();
        assert!(refused.is_config() && refused.to_string().contains("readers"), "{refused}");
    }
    assert!(RwLock::new(&table, "a").id("x/y").build().unwrap_err().is_config());
    let lock = RwLock::new(&table, "a").build().unwrap();
    assert!(lock.read().within(Duration::ZERO).await.unwrap_err().is_config());
    assert!(lock.write().within(Duration::MAX).await.unwrap_err().is_config());
    assert!(table.lock("spindle:rw:a").build().unwrap_err().is_config());
}
