//! Many locks of one process: they share requests, and no lock's trouble is another's.

use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::testing::Clock;
use spindle::{CancellationToken, FencingToken, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{Contender, EVENTUALLY, LEASE, World, until};

const LOCKS: usize = 200;
/// Long enough for every term that can't be kept to end.
const A_WHILE: Duration = Duration::from_secs(60);

/// The locks of one process, on one connection.
pub struct Fleet {
    pub locks: Vec<Contender>,
}

impl Fleet {
    pub fn start(table: &LockTable, names: impl IntoIterator<Item = String>) -> Fleet {
        let clock = Clock::runtime();
        let run = |name| Contender::run(table.lock(name).lease(LEASE).clock(clock.clone()));
        Fleet { locks: names.into_iter().map(run).collect() }
    }

    pub async fn holding(table: &LockTable, names: impl IntoIterator<Item = String>) -> Fleet {
        let fleet = Fleet::start(table, names);
        fleet.until_held().await;
        fleet
    }

    async fn until_held(&self) {
        let all = || (self.held() == self.locks.len()).then_some(());
        until("all are held", all).await;
    }

    pub fn held(&self) -> usize {
        self.tokens().iter().flatten().count()
    }

    pub fn tokens(&self) -> Vec<Option<FencingToken>> {
        self.locks.iter().map(|contender| contender.lock.has_lock()).collect()
    }

    /// Watches for a while that these terms go on, all but one.
    pub async fn keeps(&self, tokens: &[Option<FencingToken>], but: usize) {
        let start = Instant::now();
        while start.elapsed() < A_WHILE {
            for (n, (now, before)) in self.tokens().iter().zip(tokens).enumerate() {
                assert!(n == but || now == before, "lock {n} after {:?}", start.elapsed());
            }
            sleep(LEASE / 20).await;
        }
    }
}

pub fn names(locks: usize) -> impl Iterator<Item = String> {
    (0..locks).map(|n| format!("many-{n:04}"))
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_locks_cost_what_one_costs() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    // By then they are in step.
    sleep(LEASE * 2).await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 10).await;
    let of_holders = requests.total();
    assert!((38..=50).contains(&of_holders), "{:?}", requests.each());

    let waiting = Fleet::start(&world.table(), names(LOCKS));
    sleep(LEASE * 2).await;
    requests.reset();
    sleep(LEASE * 10).await;
    let (polls, of_both) = (100, requests.total());
    assert!(of_both - of_holders <= polls + 10, "{:?}", requests.each());
    assert_eq!((fleet.held(), waiting.held()), (LOCKS, 0));
}

#[tokio::test(start_paused = true)]
async fn more_locks_than_fit_into_a_request_are_held_all_the_same() {
    let world = World::start().await;
    let table = world.table();
    let requests = world.spanner.requests();
    let fleet = Fleet::holding(&table, names(1_500)).await;
    let of_beginning = requests.total();
    assert!(of_beginning < 100, "{:?}", requests.each());
    let tokens = fleet.tokens();
    sleep(LEASE * 2).await;
    assert_eq!(fleet.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn a_row_edited_by_hand_ends_its_own_term_and_no_other() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    let tokens = fleet.tokens();
    let edit = Mutation::new_update_builder("locktable").set("name").to("many-0007");
    world.write(edit.set("writer").to("somebody").build()).await;
    fleet.keeps(&tokens, 7).await;
    assert_ne!(fleet.tokens()[7], tokens[7], "its term is over");
}

#[tokio::test(start_paused = true)]
async fn a_row_deleted_by_hand_or_evicted_ends_its_own_term_and_no_other() {
    let world = World::start().await;
    let table = world.table();
    let fleet = Fleet::holding(&table, names(LOCKS)).await;
    let mut tokens = fleet.tokens();
    world.delete_row("many-0003").await;
    fleet.keeps(&tokens, 3).await;
    tokens = fleet.tokens();
    table.evict("many-0100").await.unwrap();
    fleet.keeps(&tokens, 100).await;
    assert_ne!(fleet.tokens()[100], tokens[100], "its term is over");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_row_in_the_way_holds_up_its_own_lock_and_no_other() {
    let world = World::start().await;
    let dead = Fleet::holding(&world.table(), names(LOCKS)).await;
    let in_the_way = dead.tokens()[5].unwrap().as_nanoseconds();
    let row = Mutation::new_insert_builder("locktable");
    let row = row.set("name").to(format!("many-0005_{in_the_way:019}"));
    world.write(row.set("writer").to("a peer that died halfway").build()).await;
    world.crash(&dead.locks[0]).await;
    let next = Fleet::start(&world.table(), names(LOCKS));
    let begun = Instant::now();
    let others = || (next.held() >= LOCKS - 1).then_some(());
    until("all others are held", others).await;
    assert!(begun.elapsed() < LEASE * 2, "{:?}", begun.elapsed());
    assert_eq!(next.tokens()[5], None, "it is owed to the peer for a lease");
    next.until_held().await;
}

#[tokio::test(start_paused = true)]
async fn a_name_at_the_size_limit_travels_with_short_ones() {
    let world = World::start().await;
    let longest = "n".repeat(1_000);
    let fleet = Fleet::holding(&world.table(), names(LOCKS).chain([longest])).await;
    let tokens = fleet.tokens();
    fleet.keeps(&tokens, usize::MAX).await;
}

/// Opens a transaction that holds locks on a row, and ends it when told.
async fn hold_row(client: DatabaseClient, name: &str, end: CancellationToken) {
    // Of the heartbeat's own cell: more than any fence takes.
    let columns = vec!["heartbeat", "token", "writer"];
    let keys = KeySet::builder().add_key(key![name.to_string()]).build();
    let read = ReadRequest::builder("locktable", columns).with_keys(keys).build();
    let update = format!("UPDATE locktable SET info = 'mine' WHERE name = '{name}'");
    let held = client.read_write_transaction().build();
    let held = held.run(move |transaction: ReadWriteTransaction| {
        let (read, update, end) = (read.clone(), update.clone(), end.clone());
        async move {
            transaction.execute_read(read).await?.next().await.transpose()?;
            transaction.execute_update(update).await?;
            end.cancelled().await;
            Ok(())
        }
    });
    // Spanner may have ended it before.
    let _ = held.await;
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_holds_a_rows_locks_delays_no_heartbeat_of_others() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    let tokens = fleet.tokens();
    let (client, end) = (world.client().await, CancellationToken::new());
    let held = tokio::spawn({
        let end = end.clone();
        async move { hold_row(client, "many-0009", end).await }
    });
    fleet.keeps(&tokens, 9).await;
    end.cancel();
    timeout(EVENTUALLY, held).await.expect("it ends").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_writes_never_come_back_delays_no_heartbeat_of_others() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    let tokens = fleet.tokens();
    let slow = Fault::on(Rpc::Commit).key("many-0011").effect(Effect::Stall);
    world.spanner.inject(slow);
    fleet.keeps(&tokens, 11).await;
    assert_eq!(fleet.tokens()[11], None, "its own heartbeats stall");
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_begin_keeps_no_other_from_beginning() {
    let world = World::start().await;
    world.spanner.inject(Fault::on(Rpc::Commit).key("many-0011").effect(Effect::Stall));
    let fleet = Fleet::start(&world.table(), names(LOCKS));
    let start = Instant::now();
    until("all others are held", || (fleet.held() == LOCKS - 1).then_some(())).await;
    assert!(start.elapsed() < LEASE * 3, "{:?}", start.elapsed());
    let tokens = fleet.tokens();
    fleet.keeps(&tokens, 11).await;
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_as_a_whole_is_halved_until_all_are_held() {
    let world = World::start().await;
    // Every commit of more than one row aborts, so to speak: the first forty do.
    world.spanner.inject(Fault::on(Rpc::Commit).times(40).effect(Effect::Abort));
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    let tokens = fleet.tokens();
    sleep(LEASE * 2).await;
    assert_eq!(fleet.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_lost_is_unknown_for_every_row_and_found_out_together() {
    let world = World::start().await;
    let requests = world.spanner.requests();
    world.spanner.inject(Fault::on(Rpc::Commit).times(1).effect(Effect::LoseReply));
    let start = Instant::now();
    let fleet = Fleet::holding(&world.table(), names(LOCKS)).await;
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    assert!(requests.total() < 30, "{:?}", requests.each());
    let tokens = fleet.tokens();
    sleep(LEASE * 2).await;
    assert_eq!(fleet.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_begin_the_same_locks_at_once_share_them_out() {
    let world = World::start().await;
    let (a, b) =
        (Fleet::start(&world.table(), names(LOCKS)), Fleet::start(&world.table(), names(LOCKS)));
    let start = Instant::now();
    until("every lock is held", || (a.held() + b.held() == LOCKS).then_some(())).await;
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    for (one, other) in a.tokens().iter().zip(b.tokens()) {
        assert!(one.is_some() != other.is_some(), "one of them holds, not both");
    }
}

#[tokio::test(start_paused = true)]
async fn locks_of_all_kinds_travel_together_and_dropping_one_leaves_the_others() {
    let world = World::start().await;
    let table = world.table();
    let clock = Clock::runtime();
    let fleet = Fleet::holding(&table, names(LOCKS)).await;
    let tokens = fleet.tokens();
    let lease = Duration::from_secs(2);
    let guarded = table.lock("guarded").lease(lease).clock(clock.clone()).build().unwrap();
    let guard = guarded.acquire().await.unwrap();
    let short = Contender::run(table.lock("short").lease(lease).clock(clock.clone()));
    short.holds().await;
    for n in 0..50 {
        let brief =
            Contender::run(table.lock(format!("brief-{n}")).lease(lease).clock(clock.clone()));
        if n % 2 == 0 {
            brief.holds().await;
        }
        // Whatever is under way.
        drop((brief.lock, brief.running));
    }
    fleet.keeps(&tokens, usize::MAX).await;
    assert!(short.lock.has_lock().is_some());
    assert!(!guard.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_hundreds_that_dies_is_followed_as_soon_as_one_of_one() {
    let world = World::start().await;
    let dead = Fleet::holding(&world.table(), names(LOCKS)).await;
    let next = Fleet::start(&world.table(), names(LOCKS));
    sleep(LEASE).await;
    world.crash(&dead.locks[0]).await;
    let crashed = Instant::now();
    next.until_held().await;
    assert!(crashed.elapsed() < LEASE + Duration::from_secs(1), "{:?}", crashed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_ten_minutes_all_locks_are_held_again() {
    const LOCKS: usize = 30;
    let world = World::start().await;
    let a = Fleet::holding(&world.table(), names(LOCKS)).await;
    let b = Fleet::start(&world.table(), names(LOCKS));
    for effect in [Effect::Stall, Effect::Fail(Code::Unavailable)] {
        world.spanner.inject(Fault::any().effect(effect));
        sleep(Duration::from_secs(600)).await;
        assert_eq!(a.held() + b.held(), 0);
        world.spanner.clear_faults();
        let over = Instant::now();
        until("every lock is held", || (a.held() + b.held() == LOCKS).then_some(())).await;
        let limit = LEASE * 3 + Duration::from_secs(60);
        assert!(over.elapsed() < limit, "{effect:?}: {:?}", over.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_is_repeated_no_more_than_the_bound_on_load_allows() {
    let world = World::start().await;
    let fleet = Fleet::start(&world.table(), names(LOCKS));
    let requests = world.spanner.requests();
    world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::Fail(Code::Unavailable)));
    // The first attempts, which healthy locks make too.
    sleep(Duration::from_secs(1)).await;
    for _ in 0..12 {
        requests.reset();
        sleep(Duration::from_secs(10)).await;
        // Ten polls, as a healthy process of contenders has them, and three more a second.
        assert!(requests.total() <= 40, "{:?}", requests.each());
    }
    drop(fleet);
}

/// In real time: a runtime that is blocked moves no virtual clock.
#[test]
fn a_blocked_runtime_costs_its_own_locks_and_none_on_threads_of_their_own() {
    const LEASE: Duration = Duration::from_secs(3);
    let elsewhere = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let world = elsewhere.block_on(World::start());
    let service = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    service.block_on(async {
        let table = world.table();
        let ends = |lock: &spindle::Spindle| lock.term().unwrap();
        let shared = Contender::run(table.lock("shared").lease(LEASE));
        let apart = Contender::run(table.lock("apart").lease(LEASE).own_thread());
        shared.holds().await;
        apart.holds().await;
        let (shared_term, apart_term) = (ends(&shared.lock), ends(&apart.lock));
        std::thread::sleep(LEASE * 3);
        assert_eq!(shared.lock.has_lock(), None, "nobody sent its heartbeats");
        assert_eq!(apart.lock.has_lock(), Some(apart_term.token()));
        until("its term is over", || shared_term.is_cancelled().then_some(())).await;
        assert!(!apart_term.is_cancelled());
    });
}

#[tokio::test(start_paused = true)]
async fn time_spent_in_the_batcher_shortens_a_term_and_never_lengthens_it() {
    let world = World::start().await;
    let fleet = Fleet::holding(&world.table(), names(64)).await;
    // By then they are in step.
    sleep(LEASE * 2).await;
    let commits = || Fault::on(Rpc::Commit).table("locktable");
    let lost = world.spanner.inject(commits().times(1).effect(Effect::StallReply));
    let slow = world.spanner.inject(commits().skip(1).effect(Effect::DelayReply(LEASE / 100)));
    let tokens = fleet.tokens();
    until("their heartbeats leave", || (lost.hits() > 0).then_some(())).await;
    let decided = Instant::now();
    // The heartbeats that are not answered leave again in parts, of which most wait for their turn.
    sleep(LEASE / 8).await;

    assert!(slow.hits() > 16, "{} parts", slow.hits());
    assert_eq!(fleet.tokens(), tokens, "every term goes on");
    for contender in &fleet.locks {
        let valid = contender.lock.term().unwrap().remaining() + decided.elapsed();
        assert!(valid > LEASE / 10 * 9, "it was renewed: {valid:?}");
        let margin = LEASE / 100;
        assert!(valid <= LEASE - margin + Duration::from_millis(5), "{valid:?}");
    }
}
