//! A table that lacks a column: Spanner's refusal tells, and nothing is asked before it.

use std::time::Duration;

use futures_util::future::join_all;
use google_cloud_spanner::mutation::Mutation;
use spindle::Error;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep, timeout};
use tracing::Level;

use crate::log::Log;
use crate::world::{
    Contender, EVENTUALLY, FOUR_COLUMNS, LEASE, LOCK, TABLE, World, lock_of, spindle, timed, until,
};

const UPGRADE: &str = include_str!("../../ddl/googlesql-upgrade.sql");
const WRITER: &str = "ALTER TABLE locktable ADD COLUMN writer STRING(MAX);";
const SHORT: Duration = Duration::from_secs(2);

/// Tables that lack columns, the first that Spanner misses, and the statements that add them.
fn old_tables() -> [(String, &'static str, String); 3] {
    let three = FOUR_COLUMNS.replace("writer STRING(MAX),", "");
    let five = TABLE.replace("info STRING(MAX),", "");
    let info = UPGRADE.lines().find(|line| line.contains(" info ")).unwrap();
    [
        (FOUR_COLUMNS.to_string(), "lease_ms", UPGRADE.to_string()),
        (three, "writer", format!("{WRITER}\n{UPGRADE}")),
        (five, "info", info.to_string()),
    ]
}

/// Names the column, its statements, and the command that adds it.
fn says(error: &Error, column: &str) {
    let text = error.to_string();
    assert!(error.is_schema() && !error.is_retryable(), "{error:?}");
    for part in [
        &format!("table `locktable` has no column `{column}`"),
        &format!("ALTER TABLE locktable ADD COLUMN {column} "),
        "in PostgreSQL",
        "`spindle init`",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_instance_asks_slowly_until_the_table_has_its_columns_and_then_begins() {
    for (table, missing, upgrade) in old_tables() {
        let (log, _guard) = Log::capture();
        let world = World::with_table(&table).await;
        let a = world.contend("a");
        let trouble = until("it says what is wrong", || a.lock.health().trouble).await;
        says(&trouble.error, missing);
        sleep(LEASE * 6).await;
        assert!(a.is_standby() && !a.lock.health().is_ready(), "{:?}", a.lock.health());
        let failed = log.saying("requests fail locks=").remove(0);
        assert!(failed.level == Level::WARN && failed.says("cure=`spindle init`"), "{failed:?}");
        assert!(failed.says(&format!("no column `{missing}`")), "{failed:?}");

        let requests = world.spanner.requests();
        requests.reset();
        sleep(LEASE * 6).await;
        // A poll names no `info`. So where that is missing the begin is told, by three requests with its poll.
        assert!((5..=20).contains(&requests.total()), "in a minute: {:?}", requests.each());
        world.alter(&upgrade);
        let (_, took) = timed(a.holds()).await;
        assert!(took <= LEASE * 2, "{took:?}");
        assert!(a.lock.health().is_ready(), "{:?}", a.lock.health());
        assert_eq!(world.row(LOCK).unwrap().lease_ms, Some(10_000));
        a.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_is_told_at_once_what_the_table_lacks() {
    for (table, missing, _) in old_tables() {
        let world = World::with_table(&table).await;
        let table = world.table();
        let lock = lock_of(&table, LOCK).build().unwrap();
        let run = async {
            let once =
                lock_of(&table, "nightly").run_once(spindle::job::Slot::every(LEASE), |_| async {});
            once.await.map(drop)
        };
        let begun = Instant::now();
        for error in [
            timeout(EVENTUALLY, lock.acquire()).await.expect("it is told").map(drop),
            lock.try_acquire().await.map(drop),
            lock.inspect().await.map(drop),
            table.inspect(LOCK).await.map(drop),
            table.list().next().await.map(drop),
            table.check().await.map(drop),
            run.await,
        ] {
            let error = error.unwrap_err();
            assert!(error.is_schema(), "{error:?}");
            let name = format!("no column `{missing}`");
            assert!(error.to_string().contains(&name), "{error}");
        }
        assert!(begun.elapsed() < LEASE, "{:?}", begun.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_asks_once_the_table_is_mended_is_told_nothing_of_before() {
    // Writes alone name `info`.
    let [.., (table, _, upgrade)] = old_tables();
    for tries in [false, true] {
        let world = World::with_table(&table).await;
        let lock = spindle(&world, "a");
        assert!(lock.acquire().await.unwrap_err().is_schema());
        world.alter(&upgrade);
        let asked =
            async { if tries { lock.try_acquire().await } else { lock.acquire().await.map(Some) } };
        assert!(timeout(EVENTUALLY, asked).await.unwrap().unwrap().is_some());
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_names_a_missing_column_is_told_as_a_read_is() {
    let world = World::with_table(&TABLE.replace("lease_ms INT64,", "")).await;
    let error = world.table().evict(LOCK).to("b").await.unwrap_err();
    says(&error, "lease_ms");
    assert_eq!(world.row(LOCK), None);
}

#[tokio::test(start_paused = true)]
async fn a_term_outlives_the_loss_of_a_column_that_its_heartbeats_do_not_name() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let token = a.lock.has_lock();
    world.alter("ALTER TABLE locktable DROP COLUMN info");
    sleep(LEASE * 3).await;
    assert_eq!(a.lock.has_lock(), token);
}

#[tokio::test(start_paused = true)]
async fn nothing_asks_the_information_schema_but_a_check() {
    let world = World::start().await;
    let denied = Fault::on(Rpc::ExecuteStreamingSql).effect(Effect::Fail(Code::PermissionDenied));
    let denied = world.spanner.inject(denied);
    let (_a, b) = (world.elect("a").await, world.contend("b"));
    let table = world.table();
    sleep(LEASE * 6).await;
    table.inspect(LOCK).await.unwrap();
    assert!(table.list().next().await.unwrap().is_some());
    assert!(table.history(LOCK).next().await.unwrap().is_some());
    assert!(table.evict(LOCK).await.unwrap().is_some());
    table.evict(LOCK).to("b").await.unwrap();
    b.holds().await;
    assert_eq!(denied.hits(), 0);
    assert!(table.check().await.unwrap_err().is_denied());
    assert!(denied.hits() > 0);
}

#[tokio::test(start_paused = true)]
async fn twenty_locks_that_wait_for_a_column_ask_no_more_often_than_one() {
    let world = World::with_table(FOUR_COLUMNS).await;
    let table = world.table();
    let lock = |n| lock_of(&table, format!("lock-{n}")).lease(SHORT);
    let waiting: Vec<Contender> = (0..20).map(|n| Contender::run(lock(n))).collect();
    sleep(LEASE).await;
    let requests = world.spanner.requests();
    requests.reset();
    sleep(Duration::from_secs(60)).await;
    // Every 10 s; each of them alone would send 60 and more.
    assert!((3..=20).contains(&requests.total()), "in a minute: {:?}", requests.each());
    world.alter(UPGRADE);
    join_all(waiting.iter().map(Contender::holds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_row_whose_holder_wrote_no_lease_is_judged_by_the_contenders_own() {
    let world = World::start().await;
    let peers = Mutation::new_insert_builder("locktable");
    let peers = peers.set("name").to(LOCK).set("writer").to("a-peer");
    let peers = peers.set("heartbeat").to("spanner.commit_timestamp()");
    world.write(peers.set("token").to("spanner.commit_timestamp()").build()).await;
    assert_eq!(world.table().check().await.unwrap(), [LOCK]);
    let (a, begun) = (world.contend("a"), Instant::now());
    a.holds().await;
    assert!((LEASE..LEASE * 2).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert!(world.table().check().await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_column_of_another_type_is_said_to_be_one_and_the_lock_is_never_held() {
    let wrong = TABLE.replace("lease_ms INT64", "lease_ms STRING(MAX)");
    let world = World::with_table(&wrong).await;
    let row = Mutation::new_insert_builder("locktable").set("name").to(LOCK);
    world.write(row.set("lease_ms").to("ten seconds").build()).await;
    let a = world.contend("a");
    let trouble = until("it says what is wrong", || a.lock.health().trouble).await.error;
    assert!(trouble.is_schema() && trouble.to_string().contains("spindle doctor"), "{trouble}");
    sleep(LEASE * 3).await;
    assert_eq!(world.spanner.requests().get(Rpc::Commit), 1, "the test's own");

    let short = TABLE.replace("writer STRING(MAX)", "writer STRING(8)");
    let world = World::with_table(&short).await;
    let a = world.contend("a");
    let trouble = until("it says what is wrong", || a.lock.health().trouble).await.error;
    assert!(trouble.to_string().contains("writer"), "{trouble}");
    sleep(LEASE * 3).await;
    assert!(a.is_standby() && world.row(LOCK).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_column_is_the_same_in_capitals() {
    for column in ["name", "heartbeat", "token", "writer", "lease_ms", "next"] {
        let [lower, upper] = [column.to_string(), column.to_uppercase()];
        let table = TABLE.replace(&format!("  {lower} "), &format!("  {upper} "));
        let table = table.replace(&format!("({lower})"), &format!("({upper})"));
        let world = World::with_table(&table).await;
        world.table().check().await.unwrap();
        let (a, b) = (world.elect("a").await, world.contend("b"));
        let token = a.lock.has_lock();
        sleep(LEASE * 3).await;
        assert_eq!((a.lock.has_lock(), b.lock.has_lock()), (token, None), "{column}");
        a.stop().await;
        let (_, took) = timed(b.holds()).await;
        assert!(took < LEASE / 5, "{column}: {took:?}");
    }
}
