//! Rules of transactions, by way of what a program can see.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use spindle_emulator::engine::*;

struct World {
    database: Database,
    start: Timestamp,
}

impl World {
    /// Accounts `1` to `count` with a balance of 0 and no note.
    async fn with_accounts(count: i64) -> World {
        let clock =
            TokioClock::starting_at(Timestamp::parse_rfc3339("2026-01-01T00:00:00Z").unwrap());
        let database = Database::new(Arc::new(clock), TransactionNumbers::default());
        let ddl = "CREATE TABLE account (id INT64 NOT NULL, balance INT64, note STRING(10),
                   seen TIMESTAMP OPTIONS (allow_commit_timestamp = true)) PRIMARY KEY (id)";
        database.change_schema(&spindle_emulator::sql::parse_ddl(ddl).unwrap()).unwrap();
        let accounts: Vec<_> = (1..=count).map(|id| set(WriteKind::Insert, id, 0)).collect();
        database.apply(&accounts).await.unwrap();
        let start = database.clock().now();
        World { database, start }
    }

    fn begin(&self) -> TransactionId {
        self.database.begin(&ReadWriteOptions::default())
    }

    fn begin_optimistic(&self) -> TransactionId {
        self.database
            .begin(&ReadWriteOptions { concurrency: Concurrency::Optimistic, previous: None })
    }

    async fn balance(&self, transaction: TransactionId, id: i64) -> Result<Option<i64>> {
        let rows = self.database.read(transaction, balance_of(id)).await?;
        Ok(rows.first().map(|row| number(&row[0])))
    }

    async fn balance_at(&self, moment: Timestamp, id: i64) -> Option<i64> {
        let rows = self.database.read_at(moment, balance_of(id)).await.unwrap();
        rows.first().map(|row| number(&row[0]))
    }

    async fn commit(&self, transaction: TransactionId, id: i64, balance: i64) -> Result<Timestamp> {
        let mutation = set(WriteKind::InsertOrUpdate, id, balance);
        Ok(self.database.commit(transaction, &[mutation]).await?.timestamp)
    }

    fn elapsed(&self) -> Duration {
        self.database.clock().now().since(self.start)
    }
}

fn set(kind: WriteKind, id: i64, balance: i64) -> Mutation {
    Mutation::write(kind, "account", [("id", id.into()), ("balance", balance.into())])
}

fn key(id: i64) -> Key {
    Key(vec![KeyPart::Ascending(Value::Int64(id))])
}

fn balance_of(id: i64) -> Read {
    Read::row("account", ["balance"], key(id))
}

fn number(value: &Value) -> i64 {
    match value {
        Value::Int64(value) => *value,
        other => panic!("not a number: {other}"),
    }
}

fn is_aborted<T: std::fmt::Debug>(result: Result<T>) -> bool {
    result.is_err_and(|error| error.code() == Code::Aborted)
}

/// Returns true if the future is still waiting after everything else has come to rest.
async fn waits<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    tokio::time::timeout(Duration::from_millis(100), future).await.is_err()
}

#[tokio::test(start_paused = true)]
async fn commit_timestamps_strictly_rise_and_have_passed_when_the_commit_is_answered() {
    let world = World::with_accounts(1).await;
    let mut last = Timestamp::EPOCH;
    for balance in 0..50 {
        let sent = world.database.clock().now();
        let id = world.begin();
        let timestamp = world.commit(id, 1, balance).await.unwrap();
        assert!(timestamp > last && timestamp >= sent);
        assert!(timestamp <= world.database.clock().now());
        last = timestamp;
    }
}

#[tokio::test(start_paused = true)]
async fn a_strong_read_shows_every_commit_before_it_and_no_commit_after_it() {
    let world = World::with_accounts(1).await;
    for balance in 1..50 {
        let id = world.begin();
        let committed = world.commit(id, 1, balance).await.unwrap();
        let moment = world.database.read_timestamp(TimestampBound::Strong).unwrap();
        assert!(committed <= moment);
        let next = world.begin();
        let later = world.commit(next, 1, -1).await.unwrap();
        assert!(later > moment);
        assert_eq!(world.balance_at(moment, 1).await, Some(balance));
    }
}

#[tokio::test(start_paused = true)]
async fn an_old_moment_is_shown_for_an_hour_and_refused_afterwards() {
    let world = World::with_accounts(1).await;
    let before = world.database.read_timestamp(TimestampBound::Strong).unwrap();
    world.commit(world.begin(), 1, 7).await.unwrap();
    world.database.clock().advance(Duration::from_secs(3_590));
    world.commit(world.begin(), 1, 8).await.unwrap();
    assert_eq!(world.balance_at(before, 1).await, Some(0));
    let stale = TimestampBound::ExactStaleness(Duration::from_secs(1_800));
    let half_an_hour_ago = world.database.read_timestamp(stale).unwrap();
    assert_eq!(world.balance_at(half_an_hour_ago, 1).await, Some(7));

    world.database.clock().advance(Duration::from_secs(20));
    let error = world.database.read_at(before, balance_of(1)).await.unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
    let error = world.database.read_timestamp(TimestampBound::ReadTimestamp(before)).unwrap_err();
    assert_eq!(error.code(), Code::FailedPrecondition);
}

#[tokio::test(start_paused = true)]
async fn a_moment_that_the_clock_shows_can_be_written_at_once() {
    let world = World::with_accounts(1).await;
    world.database.clock().advance(Duration::from_nanos(1_700));
    let shown = world.database.clock().now();
    let seen = [("id", 1.into()), ("seen", shown.into())];
    let mutation = Mutation::write(WriteKind::Update, "account", seen);
    let committed = world.database.apply(&[mutation]).await.unwrap();
    assert!(committed.timestamp >= shown);
}

#[tokio::test(start_paused = true)]
async fn a_read_at_a_future_moment_waits_for_it() {
    let world = World::with_accounts(1).await;
    let moment = world.database.clock().now().checked_add(Duration::from_secs(5)).unwrap();
    let bound = TimestampBound::ReadTimestamp(moment);
    assert_eq!(world.database.read_timestamp(bound).unwrap(), moment);
    let (shown, ()) = tokio::join!(world.balance_at(moment, 1), async {
        world.commit(world.begin(), 1, 3).await.unwrap();
    });
    assert_eq!(shown, Some(3));
    assert!(world.database.clock().now() >= moment);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_has_committed_cannot_be_made_to_fail() {
    let world = World::with_accounts(1).await;
    let transaction = world.begin();
    assert!(!world.database.has_committed(transaction));
    let committed = world.commit(transaction, 1, 5).await.unwrap();
    assert!(world.database.has_committed(transaction));
    assert!(!world.database.fail(transaction, Error::aborted("too late")), "it was open no more");
    assert_eq!(world.commit(transaction, 1, 5).await.unwrap(), committed, "the same answer again");
    assert!(!world.database.was_aborted(transaction));

    let failed = world.begin();
    assert!(world.database.fail(failed, Error::aborted("in time")));
    assert!(is_aborted(world.commit(failed, 1, 6).await));
    assert!(!world.database.has_committed(failed));
}

#[tokio::test(start_paused = true)]
async fn an_older_transaction_aborts_a_younger_one_in_its_way() {
    let world = World::with_accounts(2).await;
    let (older, younger) = (world.begin(), world.begin());
    world.balance(older, 2).await.unwrap();
    world.balance(younger, 1).await.unwrap();
    world.commit(older, 1, 5).await.unwrap();
    assert!(is_aborted(world.commit(younger, 2, 5).await));
    assert!(world.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_younger_transaction_waits_for_an_older_one_in_its_way() {
    let world = World::with_accounts(1).await;
    let (older, younger) = (world.begin(), world.begin());
    world.balance(older, 1).await.unwrap();
    let commit = world.commit(younger, 1, 5);
    tokio::pin!(commit);
    assert!(waits(commit.as_mut()).await);
    world.database.rollback(older).unwrap();
    commit.await.unwrap();
    assert!(world.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn age_counts_from_the_first_read_and_not_from_the_beginning() {
    let world = World::with_accounts(1).await;
    let (begun_first, read_first) = (world.begin(), world.begin());
    world.balance(read_first, 1).await.unwrap();
    world.balance(begun_first, 1).await.unwrap();
    world.commit(read_first, 1, 5).await.unwrap();
    assert!(is_aborted(world.commit(begun_first, 1, 6).await));
}

#[tokio::test(start_paused = true)]
async fn a_retry_keeps_the_age_of_the_attempt_before() {
    let world = World::with_accounts(1).await;
    let (winner, loser) = (world.begin(), world.begin());
    world.balance(winner, 1).await.unwrap();
    world.balance(loser, 1).await.unwrap();
    world.commit(winner, 1, 5).await.unwrap();
    assert!(is_aborted(world.balance(loser, 1).await));

    let newcomer = world.begin();
    world.balance(newcomer, 1).await.unwrap();
    let retry = world
        .database
        .begin(&ReadWriteOptions { previous: Some(loser), ..ReadWriteOptions::default() });
    world.balance(retry, 1).await.unwrap();
    world.commit(retry, 1, 6).await.unwrap();
    assert!(is_aborted(world.commit(newcomer, 1, 7).await));
}

#[tokio::test(start_paused = true)]
async fn blind_writers_of_one_cell_do_not_meet() {
    let world = World::with_accounts(1).await;
    let (one, other) = (world.begin(), world.begin());
    let first = world.commit(other, 1, 1).await.unwrap();
    let second = world.commit(one, 1, 2).await.unwrap();
    assert!(first < second);
}

#[tokio::test(start_paused = true)]
async fn a_reader_of_one_column_does_not_meet_a_writer_of_another() {
    let world = World::with_accounts(1).await;
    let (reader, writer) = (world.begin(), world.begin());
    let note = Read::row("account", ["note"], key(1));
    world.database.read(reader, note).await.unwrap();
    world.database.commit(writer, &[set(WriteKind::Update, 1, 9)]).await.unwrap();
    world.commit(reader, 1, 10).await.unwrap();
    assert!(world.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn no_lost_update() {
    for optimistic in [false, true] {
        let world = World::with_accounts(1).await;
        let begin = || if optimistic { world.begin_optimistic() } else { world.begin() };
        let (one, other) = (begin(), begin());
        assert_eq!(world.balance(one, 1).await.unwrap(), Some(0));
        assert_eq!(world.balance(other, 1).await.unwrap(), Some(0));
        world.commit(one, 1, 1).await.unwrap();
        assert!(is_aborted(world.commit(other, 1, 1).await));
    }
}

#[tokio::test(start_paused = true)]
async fn no_write_skew() {
    for optimistic in [false, true] {
        let world = World::with_accounts(2).await;
        let begin = || if optimistic { world.begin_optimistic() } else { world.begin() };
        let (one, other) = (begin(), begin());
        world.balance(one, 1).await.unwrap();
        world.balance(other, 2).await.unwrap();
        world.commit(one, 2, 1).await.unwrap();
        assert!(is_aborted(world.commit(other, 1, 1).await));
    }
}

#[tokio::test(start_paused = true)]
async fn no_phantom_in_a_range_that_was_read() {
    for optimistic in [false, true] {
        let world = World::with_accounts(0).await;
        let begin = || if optimistic { world.begin_optimistic() } else { world.begin() };
        let (one, other) = (begin(), begin());
        let range = KeyRange { start: key(10), end: key(20) };
        let read = Read { keys: vec![range], ..Read::all("account", ["id"]) };
        assert!(world.database.read(one, read.clone()).await.unwrap().is_empty());
        assert!(world.database.read(other, read).await.unwrap().is_empty());
        world.commit(one, 15, 1).await.unwrap();
        assert!(is_aborted(world.commit(other, 16, 1).await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_row_that_a_statement_has_written_is_the_same_by_an_index() {
    for optimistic in [false, true] {
        let world = World::with_accounts(1).await;
        let ddl = "CREATE INDEX by_balance ON account (balance) STORING (note)";
        world.database.change_schema(&spindle_emulator::sql::parse_ddl(ddl).unwrap()).unwrap();
        let one = if optimistic { world.begin_optimistic() } else { world.begin() };
        world.database.write(one, &[set(WriteKind::Update, 1, 5)]).await.unwrap();

        let cells = [("id", 1.into()), ("balance", 3.into()), ("note", "new".into())];
        let mutations = [Mutation::write(WriteKind::Update, "account", cells)];
        let commit = world.database.apply(&mutations);
        tokio::pin!(commit);
        assert_eq!(waits(commit.as_mut()).await, !optimistic);
        let by_table = Read::all("account", ["id", "balance", "note"]);
        let by_index = Read { index: Some("by_balance".into()), ..by_table.clone() };
        let entries = world.database.read(one, by_index).await.unwrap();
        assert_eq!(entries, [[Value::Int64(1), Value::Int64(5), Value::Null]]);
        if optimistic {
            assert!(is_aborted(world.database.commit(one, &[]).await));
        } else {
            assert_eq!(world.database.read(one, by_table).await.unwrap(), entries);
            world.database.commit(one, &[]).await.unwrap();
            commit.await.unwrap();
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_optimistic_transaction_does_not_outlive_the_versions_that_it_sees() {
    let world = World::with_accounts(2).await;
    let database = world.database.clone().with_retention(Duration::from_secs(1));
    let (writer, reader) = (world.begin_optimistic(), world.begin_optimistic());
    world.balance(writer, 1).await.unwrap();
    world.balance(reader, 2).await.unwrap();
    let keys = vec![KeyRange::prefix(key(1))];
    database.apply(&[Mutation::Delete { table: "account".into(), keys }]).await.unwrap();
    world.commit(world.begin(), 2, 5).await.unwrap();
    database.clock().advance(Duration::from_secs(2));
    world.begin();
    assert!(is_aborted(world.commit(writer, 2, 6).await));
    assert!(is_aborted(world.balance(reader, 2).await));
}

#[tokio::test(start_paused = true)]
async fn a_read_may_take_its_time_though_no_version_is_to_be_kept() {
    let world = World::with_accounts(1).await;
    let database = world.database.clone().with_retention(Duration::ZERO);
    let moment = database.read_timestamp(TimestampBound::Strong).unwrap();
    database.clock().advance(Duration::from_millis(900));
    assert_eq!(world.balance_at(moment, 1).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn an_optimistic_transaction_sees_one_moment_and_holds_up_nobody() {
    let world = World::with_accounts(2).await;
    let optimistic = world.begin_optimistic();
    assert_eq!(world.balance(optimistic, 1).await.unwrap(), Some(0));
    world.commit(world.begin(), 2, 5).await.unwrap();
    assert_eq!(world.balance(optimistic, 2).await.unwrap(), Some(0));
    assert!(is_aborted(world.commit(optimistic, 1, 1).await));

    let untouched = world.begin_optimistic();
    world.balance(untouched, 1).await.unwrap();
    world.commit(world.begin(), 2, 6).await.unwrap();
    world.commit(untouched, 1, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn an_idle_transaction_keeps_its_locks_for_ten_seconds_and_no_longer() {
    let world = World::with_accounts(1).await;
    let idle = world.begin();
    world.balance(idle, 1).await.unwrap();
    world.commit(world.begin(), 1, 5).await.unwrap();
    let waited = world.elapsed();
    assert!(waited >= IDLE_LIMIT && waited < IDLE_LIMIT + Duration::from_millis(100), "{waited:?}");
    assert!(is_aborted(world.balance(idle, 1).await));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_is_idle_too_long_is_aborted_even_if_nobody_minds() {
    let world = World::with_accounts(1).await;
    let idle = world.begin();
    world.balance(idle, 1).await.unwrap();
    world.database.clock().advance(IDLE_LIMIT - Duration::from_millis(1));
    world.balance(idle, 1).await.unwrap();
    world.database.clock().advance(IDLE_LIMIT);
    assert!(is_aborted(world.commit(idle, 1, 1).await));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_is_not_idle() {
    let world = World::with_accounts(1).await;
    let (older, younger) = (world.begin(), world.begin());
    world.balance(older, 1).await.unwrap();
    let commit = world.commit(younger, 1, 5);
    tokio::pin!(commit);
    for _ in 0..5 {
        assert!(waits(commit.as_mut()).await);
        world.database.clock().advance(Duration::from_secs(6));
        world.balance(older, 1).await.unwrap();
    }
    world.database.rollback(older).unwrap();
    commit.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_withdrawn_request_stops_waiting_and_lets_others_pass() {
    let world = World::with_accounts(1).await;
    let (oldest, middle, youngest) = (world.begin(), world.begin(), world.begin());
    world.balance(oldest, 1).await.unwrap();
    world.balance(middle, 1).await.unwrap();
    {
        let commit = world.commit(middle, 1, 5);
        tokio::pin!(commit);
        assert!(waits(commit.as_mut()).await);
        let read = world.balance(youngest, 1);
        tokio::pin!(read);
        assert!(waits(read.as_mut()).await, "nobody overtakes an older writer");
    }
    assert_eq!(world.balance(youngest, 1).await.unwrap(), Some(0));
    world.commit(oldest, 1, 6).await.unwrap();
    assert!(is_aborted(world.commit(middle, 1, 5).await));
    assert!(world.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_request_that_gets_less_than_it_waited_for_lets_others_pass() {
    let world = World::with_accounts(0).await;
    for id in [10, 20] {
        world.commit(world.begin(), id, 0).await.unwrap();
    }
    let start = world.database.clock().now();
    let (oldest, middle, youngest) = (world.begin(), world.begin(), world.begin());
    let exclusive = |ids: &[i64]| Read {
        exclusive: true,
        keys: ids.iter().map(|id| KeyRange::prefix(key(*id))).collect(),
        ..Read::all("account", ["balance"])
    };
    world.database.read(oldest, exclusive(&[10])).await.unwrap();
    world.balance(middle, 20).await.unwrap();
    let waits_first = world.database.read(youngest, exclusive(&[7, 10]));
    tokio::pin!(waits_first);
    assert!(waits(waits_first.as_mut()).await);
    let first_row = Read { limit: Some(1), ..Read::all("account", ["id"]) };
    let waits_second = world.database.read(middle, first_row);
    tokio::pin!(waits_second);
    assert!(waits(waits_second.as_mut()).await);

    // The first row is now one that nobody else wants.
    world.commit(oldest, 5, 0).await.unwrap();
    let (rows, found) = tokio::join!(waits_first, waits_second);
    assert_eq!((rows.unwrap().len(), found.unwrap()), (1, vec![vec![Value::Int64(5)]]));
    assert!(world.database.clock().now().since(start) < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_read_of_no_rows_is_done_and_locks_nothing() {
    let world = World::with_accounts(1).await;
    let none = Read { limit: Some(0), ..Read::all("account", ["id"]) };
    let reader = world.begin();
    assert_eq!(world.database.read(reader, none).await, Ok(Vec::new()));
    world.commit(world.begin(), 1, 5).await.unwrap();
    assert!(world.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_commit_of_its_own_that_is_withdrawn_leaves_nothing_behind() {
    let world = World::with_accounts(1).await;
    let reader = world.begin();
    world.balance(reader, 1).await.unwrap();
    {
        let mutations = [set(WriteKind::Update, 1, 5)];
        let commit = world.database.apply(&mutations);
        tokio::pin!(commit);
        assert!(waits(commit.as_mut()).await);
    }
    world.database.rollback(reader).unwrap();
    let moment = world.database.read_timestamp(TimestampBound::Strong).unwrap();
    assert_eq!(world.balance_at(moment, 1).await, Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_commit_gets_the_same_answer() {
    let world = World::with_accounts(1).await;
    let id = world.begin();
    let insert = [set(WriteKind::Insert, 2, 5)];
    let first = world.database.commit(id, &insert).await.unwrap();
    assert_eq!(world.database.commit(id, &insert).await.unwrap(), first);
    assert!(world.database.rollback(id).is_err());
}

#[tokio::test(start_paused = true)]
async fn waiters_wake_when_their_moment_comes_however_it_comes() {
    let clock = TokioClock::new();
    let start = clock.now();
    clock.wait_until(start.checked_add(Duration::from_secs(5)).unwrap()).await;
    assert_eq!(clock.now().since(start), Duration::from_secs(5));

    let in_an_hour = clock.now().checked_add(Duration::from_secs(3_600)).unwrap();
    let before = tokio::time::Instant::now();
    tokio::join!(clock.wait_until(in_an_hour), async {
        clock.advance(Duration::from_secs(3_600));
    });
    assert_eq!(before.elapsed(), Duration::ZERO);
}
