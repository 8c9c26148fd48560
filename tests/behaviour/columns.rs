//! The information schema says which columns the table has; errors are never used to guess.

use std::time::Duration;

use spindle::CancellationToken;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{Instant, sleep};

use crate::world::{Contender, DATABASE, FOUR_COLUMNS, LOCK, World, lock_of, timed, until};

const UPGRADE: &str = include_str!("../../ddl/googlesql-upgrade.sql");
const SHORT: Duration = Duration::from_secs(2);
const LONG: Duration = Duration::from_secs(12);

/// How long a column counts as missing.
const MISSING_FOR: Duration = Duration::from_secs(60);

fn upgrade(world: &World) {
    let database = world.spanner.database(DATABASE).unwrap();
    database.change_schema(&spindle_emulator::sql::parse_ddl(UPGRADE).unwrap()).unwrap();
}

fn lease_in_row(world: &World) -> Option<i64> {
    world.row(LOCK)?.lease_ms
}

fn contend(world: &World, id: &str, lease: Duration) -> Contender {
    Contender::run(world.lock(id).lease(lease))
}

/// Looks every 5 ms: at no moment do both hold.
async fn never_both(a: &Contender, b: &Contender, during: Duration) {
    let end = Instant::now() + during;
    while Instant::now() < end {
        let both = (a.lock.has_lock(), b.lock.has_lock());
        assert!(both.0.is_none() || both.1.is_none(), "both hold: {both:?}");
        sleep(Duration::from_millis(5)).await;
    }
}

fn silence_the_information_schema(world: &World) -> spindle_emulator::FaultHandle {
    let fault = Fault::on(Rpc::ExecuteStreamingSql).effect(Effect::Fail(Code::Unavailable));
    world.spanner.inject(fault)
}

#[tokio::test(start_paused = true)]
async fn a_contender_older_than_the_column_waits_out_the_longer_lease_of_a_newer_holder() {
    let world = World::with_table(FOUR_COLUMNS).await;
    let a = contend(&world, "a", SHORT);
    a.holds().await;
    upgrade(&world);
    sleep(MISSING_FOR + LONG).await;
    let b = contend(&world, "b", LONG);
    assert!(a.lock.resign_to("b").await.unwrap());
    let token = b.holds().await;
    never_both(&a, &b, LONG * 3).await;
    assert_eq!(b.lock.has_lock(), Some(token), "nobody took it");
}

#[tokio::test(start_paused = true)]
async fn a_holder_older_than_the_column_is_owed_its_longer_lease_by_a_newer_contender() {
    let world = World::with_table(FOUR_COLUMNS).await;
    let a = contend(&world, "a", LONG);
    let token = a.holds().await;
    upgrade(&world);
    sleep(MISSING_FOR + LONG).await;
    let b = contend(&world, "b", SHORT);
    never_both(&a, &b, LONG * 3).await;
    assert_eq!(a.lock.has_lock(), Some(token), "nobody took it");
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_learns_of_the_column_writes_its_lease_with_its_next_heartbeat() {
    let world = World::with_table(FOUR_COLUMNS).await;
    let a = contend(&world, "a", LONG);
    let token = a.holds().await;
    upgrade(&world);
    assert_eq!(world.table().check().await.unwrap().without_lease, [LOCK]);
    let (_, took) = timed(until("it writes its lease", || lease_in_row(&world))).await;
    assert!(took <= MISSING_FOR + LONG, "{took:?}");
    assert_eq!(lease_in_row(&world), Some(12_000));
    assert_eq!(a.lock.has_lock(), Some(token), "the same term");
    let checked = world.table().check().await.unwrap();
    assert!(checked.without_lease.is_empty() && checked.missing_columns.is_empty(), "{checked:?}");
}

#[tokio::test(start_paused = true)]
async fn a_column_is_never_forgotten_whatever_spanner_says_is_not_found() {
    for seed in 0..6 {
        let world = World::start().await;
        let b = contend(&world, "b", LONG);
        b.holds().await;
        let a = contend(&world, "a", SHORT);
        sleep(Duration::from_secs(3)).await;
        let fault = Fault::on(Rpc::StreamingRead).probability(0.5, seed);
        let spurious = world.spanner.inject(fault.times(40).effect(Effect::Fail(Code::NotFound)));
        never_both(&a, &b, LONG * 2).await;
        spurious.remove();
        never_both(&a, &b, LONG * 2).await;
        assert_eq!(b.lock.leader().await.unwrap().map(|it| it.lease.is_some()), Some(true));
    }
}

#[tokio::test(start_paused = true)]
async fn no_takeover_is_attempted_on_old_knowledge_that_a_column_is_missing() {
    let world = World::with_table(FOUR_COLUMNS).await;
    let a = contend(&world, "a", SHORT);
    let token = a.holds().await;
    let b = contend(&world, "b", SHORT);
    sleep(Duration::from_secs(5)).await;
    let silence = silence_the_information_schema(&world);
    sleep(MISSING_FOR + SHORT).await;
    world.crash(&a).await;
    sleep(Duration::from_secs(20)).await;
    assert!(b.lock.has_lock().is_none(), "it can't know whether the holder has a longer lease");
    assert!(!b.lock.health().is_ready(), "{:?}", b.lock.health());
    silence.remove();
    let (next, took) = timed(b.holds()).await;
    assert!(next > token);
    assert!(took < Duration::from_secs(30), "{took:?}");
}

/// The contender has polled the row without its lease when its attempt learns of the column.
#[tokio::test(start_paused = true)]
async fn a_lease_that_was_not_read_is_waited_out_by_who_learns_of_it_at_the_attempt() {
    for tenths in [30, 34, 38, 42] {
        let world = World::with_table(FOUR_COLUMNS).await;
        let first = contend(&world, "first", SHORT);
        first.holds().await;
        let b = contend(&world, "b", SHORT);
        sleep(Duration::from_secs(5)).await;
        let silence = silence_the_information_schema(&world);
        upgrade(&world);
        sleep(MISSING_FOR).await;
        let a = contend(&world, "a", LONG);
        sleep(SHORT).await;
        assert!(first.lock.resign_to("a").await.unwrap());
        let token = a.holds().await;
        assert_eq!(lease_in_row(&world), Some(12_000));
        // By its own lease, `b` takes the lock for vacant until the next heartbeat.
        sleep(Duration::from_millis(tenths * 100)).await;
        silence.remove();
        never_both(&a, &b, LONG * 2).await;
        assert_eq!(a.lock.has_lock(), Some(token), "nobody took it");
    }
}

/// The one that deletes is a member with a short lease, from before the column. While the information
/// schema is silent it reads no lease.
#[tokio::test(start_paused = true)]
async fn nobody_deletes_the_row_of_a_live_member_whose_longer_lease_was_not_read() {
    let world = World::with_table(FOUR_COLUMNS).await;
    let join = async |id: &str, lease: Duration| {
        let member = world.member(id).lease(lease).build().unwrap();
        let running = member.run(CancellationToken::new());
        until("it is a member", || member.token()).await;
        (member, running)
    };
    let old = join("old", SHORT).await;
    sleep(Duration::from_secs(5)).await;
    let silence = silence_the_information_schema(&world);
    upgrade(&world);
    let new = join("new", LONG * 60).await;
    let (name, since) = ("spindle:member:orders/new", new.0.token());
    // Rows of those that are gone are deleted every ten minutes at the latest. The row of
    // `new` looks like one from a minute after each heartbeat, which is most of the time.
    for _ in 0..60 {
        sleep(Duration::from_secs(60)).await;
        assert!(world.row(name).is_some(), "its row was deleted");
    }
    silence.remove();
    sleep(MISSING_FOR * 12).await;
    assert_eq!((new.0.token(), old.0.token().is_some()), (since, true));
}

#[tokio::test(start_paused = true)]
async fn until_the_first_answer_every_column_is_assumed() {
    let world = World::start().await;
    let silence = silence_the_information_schema(&world);
    let a = contend(&world, "a", LONG);
    a.holds().await;
    assert_eq!(lease_in_row(&world), Some(12_000));
    assert!(silence.hits() > 0, "it asks before it looks");
    let before = silence.hits();
    sleep(Duration::from_secs(600)).await;
    let asked = silence.hits() - before;
    assert!((8..=20).contains(&asked), "once a minute after a while: {asked} in ten minutes");
}

#[tokio::test(start_paused = true)]
async fn however_many_locks_wait_for_a_wrong_table_it_is_asked_about_once_a_second() {
    let world = World::with_table(&FOUR_COLUMNS.replace("writer STRING(MAX),", "")).await;
    let table = world.table();
    let waiting: Vec<Contender> = (0..20)
        .map(|n| Contender::run(lock_of(&table, format!("lock-{n}")).lease(SHORT)))
        .collect();
    // The locks share requests; whoever looks by hand comes when it likes.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(60) {
        assert!(table.inspect(LOCK).await.is_err_and(|error| error.is_schema()));
        sleep(Duration::from_millis(100)).await;
    }
    let requests = world.spanner.requests();
    let asked = requests.get(Rpc::ExecuteStreamingSql);
    // The columns, and their options.
    assert!((2..=2 * 61).contains(&asked), "{asked} queries in a minute");
    assert_eq!(requests.get(Rpc::StreamingRead) + requests.get(Rpc::Commit), 0);
    drop(waiting);
}

#[tokio::test(start_paused = true)]
async fn a_table_in_order_is_asked_about_once() {
    let world = World::start().await;
    let a = world.elect("a").await;
    sleep(Duration::from_secs(600)).await;
    let asked = world.spanner.requests().get(Rpc::ExecuteStreamingSql);
    assert_eq!(asked, 2, "its columns, and their options");
    a.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_table_that_cannot_work_is_never_led_on_and_says_the_statement_that_mends_it() {
    for (from, to, mend) in [
        ("writer STRING(MAX)", "writer STRING(8)", "ALTER COLUMN writer STRING(MAX)"),
        (
            "token TIMESTAMP OPTIONS (allow_commit_timestamp=true)",
            "token STRING(MAX)",
            "ADD COLUMN token TIMESTAMP",
        ),
    ] {
        let world = World::with_table(&FOUR_COLUMNS.replace(from, to)).await;
        let a = world.contend("a");
        let trouble =
            until("it says what is wrong", || a.lock.health().trouble.map(|trouble| trouble.error))
                .await;
        assert!(trouble.is_schema() && trouble.to_string().contains(mend), "{trouble}");
        let error = world.table().inspect(LOCK).await.unwrap_err();
        assert!(error.is_schema(), "{error}");
        sleep(Duration::from_secs(30)).await;
        assert_eq!(world.spanner.requests().get(Rpc::Commit), 0, "it writes nothing");
        a.stop().await;
    }
}
