//! Many locks of one process: they share requests, and no lock's trouble is another's.

use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::{CancellationToken, FencingToken, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};

use crate::world::{Contender, EVENTUALLY, LEASE, World, cells, keys, lock_of, until};

const LOCKS: usize = 200;
/// Long enough for every term that can't be kept to end.
const A_WHILE: Duration = Duration::from_secs(60);

/// The locks of one process, on one connection.
pub struct Locks(Vec<Contender>);

impl Locks {
    pub fn start(table: &LockTable, names: impl IntoIterator<Item = String>) -> Locks {
        Locks(names.into_iter().map(|name| Contender::run(lock_of(table, name))).collect())
    }

    pub async fn holding(table: &LockTable, names: impl IntoIterator<Item = String>) -> Locks {
        let locks = Locks::start(table, names);
        locks.until_held().await;
        locks
    }

    async fn until_held(&self) {
        self.until_so_many_held(self.0.len()).await;
    }

    /// Waits until so many are held, and returns how long that took.
    pub async fn until_so_many_held(&self, count: usize) -> Duration {
        let start = Instant::now();
        until("so many are held", || (self.held() >= count).then_some(())).await;
        start.elapsed()
    }

    pub fn held(&self) -> usize {
        self.tokens().iter().flatten().count()
    }

    pub fn tokens(&self) -> Vec<Option<FencingToken>> {
        self.0.iter().map(|contender| contender.lock.has_lock()).collect()
    }

    /// The least time that any of those that hold has left.
    pub fn remaining(&self) -> Duration {
        let terms = self.0.iter().filter_map(|contender| contender.lock.term());
        terms.map(|term| term.remaining()).min().unwrap_or_default()
    }

    /// Watches for a while that these terms go on, all but some.
    pub async fn keeps(&self, tokens: &[Option<FencingToken>], but: &[usize]) {
        let start = Instant::now();
        while start.elapsed() < A_WHILE {
            for (n, (now, before)) in self.tokens().iter().zip(tokens).enumerate() {
                assert!(but.contains(&n) || now == before, "lock {n} after {:?}", start.elapsed());
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
    let locks = Locks::holding(&world.table(), names(LOCKS)).await;
    // By then they are in step.
    sleep(LEASE * 2).await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(LEASE * 10).await;
    let of_holders = requests.total();
    assert!((57..=72).contains(&of_holders), "{:?}", requests.each());

    let waiting = Locks::start(&world.table(), names(LOCKS));
    sleep(LEASE * 2).await;
    requests.reset();
    sleep(LEASE * 10).await;
    let (polls, of_both) = (100, requests.total());
    assert!(of_both - of_holders <= polls + 10, "{:?}", requests.each());
    assert_eq!((locks.held(), waiting.held()), (LOCKS, 0));
}

#[tokio::test(start_paused = true)]
async fn more_locks_than_fit_into_a_request_are_held_all_the_same() {
    let world = World::start().await;
    let table = world.table();
    let requests = world.spanner.requests();
    let locks = Locks::holding(&table, names(1_500)).await;
    let of_beginning = requests.total();
    assert!(of_beginning < 100, "{:?}", requests.each());
    let tokens = locks.tokens();
    sleep(LEASE * 2).await;
    assert_eq!(locks.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn a_row_edited_or_deleted_by_hand_or_evicted_ends_its_own_term_and_no_other() {
    let world = World::start().await;
    let table = world.table();
    let locks = Locks::holding(&table, names(LOCKS)).await;
    let mut tokens = locks.tokens();
    world.write(cells("many-0007", &[("writer", "somebody")])).await;
    locks.keeps(&tokens, &[7]).await;
    assert_ne!(locks.tokens()[7], tokens[7], "its term is over");
    tokens = locks.tokens();
    world.delete_row("many-0003").await;
    locks.keeps(&tokens, &[3]).await;
    assert_ne!(locks.tokens()[3], tokens[3], "its term is over");
    tokens = locks.tokens();
    table.evict("many-0100").await.unwrap();
    locks.keeps(&tokens, &[100]).await;
    assert_ne!(locks.tokens()[100], tokens[100], "its term is over");
}

#[tokio::test(start_paused = true)]
async fn a_takeover_row_of_a_peer_holds_up_no_lock() {
    let world = World::start().await;
    let dead = Locks::holding(&world.table(), names(LOCKS)).await;
    let in_the_way = dead.tokens()[5].unwrap().as_nanoseconds();
    let key = format!("many-0005_{in_the_way:019}");
    world.write(cells(&key, &[("writer", "a peer that died halfway")])).await;
    world.crash(&dead.0[0]).await;
    let next = Locks::start(&world.table(), names(LOCKS));
    let took = next.until_so_many_held(LOCKS).await;
    assert!(took < LEASE * 2, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_name_at_the_size_limit_travels_with_short_ones() {
    let world = World::start().await;
    let longest = "n".repeat(1_000);
    let locks = Locks::holding(&world.table(), names(LOCKS).chain([longest])).await;
    let tokens = locks.tokens();
    locks.keeps(&tokens, &[]).await;
}

/// Opens a transaction that holds locks on a row, and ends it when told.
async fn hold_row(client: DatabaseClient, name: &str, end: CancellationToken) {
    // Of the heartbeat's own cell: more than any fence takes.
    let columns = vec!["heartbeat", "token", "writer"];
    let read = ReadRequest::builder("locktable", columns).with_keys(keys(name)).build();
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
    let locks = Locks::holding(&world.table(), names(LOCKS)).await;
    let tokens = locks.tokens();
    let (client, end) = (world.client().await, CancellationToken::new());
    let held = tokio::spawn({
        let end = end.clone();
        async move { hold_row(client, "many-0009", end).await }
    });
    locks.keeps(&tokens, &[9]).await;
    end.cancel();
    timeout(EVENTUALLY, held).await.expect("it ends").unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_is_refused_as_a_whole_is_halved_until_all_are_held() {
    let world = World::start().await;
    // Every commit of more than one row aborts, so to speak: the first forty do.
    world.spanner.inject(Fault::on(Rpc::Commit).times(40).effect(Effect::Abort));
    let locks = Locks::holding(&world.table(), names(LOCKS)).await;
    let tokens = locks.tokens();
    sleep(LEASE * 2).await;
    assert_eq!(locks.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn a_reply_that_is_lost_is_unknown_for_every_row_and_found_out_together() {
    let world = World::start().await;
    let requests = world.spanner.requests();
    world.spanner.inject(Fault::on(Rpc::Commit).times(1).effect(Effect::LoseReply));
    let start = Instant::now();
    let locks = Locks::holding(&world.table(), names(LOCKS)).await;
    assert!(start.elapsed() < LEASE, "{:?}", start.elapsed());
    assert!(requests.total() < 30, "{:?}", requests.each());
    let tokens = locks.tokens();
    sleep(LEASE * 2).await;
    assert_eq!(locks.tokens(), tokens);
}

#[tokio::test(start_paused = true)]
async fn two_processes_that_begin_the_same_locks_at_once_share_them_out() {
    let world = World::start().await;
    let (a, b) =
        (Locks::start(&world.table(), names(LOCKS)), Locks::start(&world.table(), names(LOCKS)));
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
    let locks = Locks::holding(&table, names(LOCKS)).await;
    let tokens = locks.tokens();
    let lease = Duration::from_secs(2);
    let guarded = lock_of(&table, "guarded").lease(lease).build().unwrap();
    let guard = guarded.acquire().await.unwrap();
    let short = Contender::run(lock_of(&table, "short").lease(lease));
    short.holds().await;
    for n in 0..50 {
        let brief = Contender::run(lock_of(&table, format!("brief-{n}")).lease(lease));
        if n % 2 == 0 {
            brief.holds().await;
        }
        // Whatever is under way.
        drop((brief.lock, brief.running));
    }
    locks.keeps(&tokens, &[]).await;
    assert!(short.lock.has_lock().is_some());
    assert!(!guard.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_holder_of_hundreds_that_dies_is_followed_as_soon_as_one_of_one() {
    let world = World::start().await;
    let dead = Locks::holding(&world.table(), names(LOCKS)).await;
    let next = Locks::start(&world.table(), names(LOCKS));
    sleep(LEASE).await;
    world.crash(&dead.0[0]).await;
    let crashed = Instant::now();
    next.until_held().await;
    assert!(crashed.elapsed() < LEASE + Duration::from_secs(1), "{:?}", crashed.elapsed());
}

#[tokio::test(start_paused = true)]
async fn after_an_outage_of_ten_minutes_all_locks_are_held_again() {
    const LOCKS: usize = 30;
    let world = World::start().await;
    let a = Locks::holding(&world.table(), names(LOCKS)).await;
    let b = Locks::start(&world.table(), names(LOCKS));
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
async fn a_short_outage_that_refuses_costs_no_term_however_many_are_held() {
    let world = World::start().await;
    let table = world.table();
    let latency = Duration::from_millis(10);
    let _slow = world.spanner.inject(Fault::on(Rpc::Commit).effect(Effect::DelayReply(latency)));
    let locks = Locks::holding(&table, names(1_000)).await;
    // By then they are in step.
    sleep(LEASE * 2).await;
    let tokens = locks.tokens();
    let requests = world.spanner.requests();
    let beats = requests.get(Rpc::Commit);
    until("a heartbeat", || (requests.get(Rpc::Commit) > beats).then_some(())).await;
    // Just before the next one: so the outage lasts longest beyond the last success.
    sleep(LEASE * 3 / 10).await;
    let refuses = Fault::any().effect(Effect::Fail(Code::Unavailable));
    let refuses = world.spanner.inject(refuses);
    sleep(LEASE * 2 / 5).await;
    refuses.remove();
    sleep(LEASE).await;
    let lost = locks.tokens().iter().zip(&tokens).filter(|(now, then)| now != then).count();
    assert_eq!(lost, 0);
}

#[tokio::test(start_paused = true)]
async fn time_spent_in_the_batcher_shortens_a_term_and_never_lengthens_it() {
    let world = World::start().await;
    let locks = Locks::holding(&world.table(), names(64)).await;
    // By then they are in step.
    sleep(LEASE * 2).await;
    let commits = || Fault::on(Rpc::Commit).table("locktable");
    let lost = world.spanner.inject(commits().times(1).effect(Effect::StallReply));
    let slow = world.spanner.inject(commits().skip(1).effect(Effect::DelayReply(LEASE / 100)));
    let tokens = locks.tokens();
    until("their heartbeats leave", || (lost.hits() > 0).then_some(())).await;
    let decided = Instant::now();
    // The heartbeats that are not answered leave again on another flow, and then in parts, of which
    // most wait for their turn.
    sleep(LEASE * 13 / 40).await;

    assert!(slow.hits() > 16, "{} parts", slow.hits());
    assert_eq!(locks.tokens(), tokens, "every term goes on");
    for contender in &locks.0 {
        let valid = contender.lock.term().unwrap().remaining() + decided.elapsed();
        assert!(valid > LEASE / 10 * 9, "it was renewed: {valid:?}");
        let margin = LEASE / 100;
        assert!(valid <= LEASE - margin + Duration::from_millis(5), "{valid:?}");
    }
}
