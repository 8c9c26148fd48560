//! Fenced writes: of the term, or not at all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use chrono::SecondsFormat;
use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::{self as client};
use spindle::{Database, Ddl, Error, Fence, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::world::{
    Contender, DATABASE, LEASE, LOCK, World, cells, keys, leader, lock_of, nanoseconds, order,
    timed, travelled,
};

/// Writes one order under the fence, in somebody else's transaction.
async fn write(client: &DatabaseClient, fence: &Fence, id: &str) -> Result<(), Error> {
    let (fence, order) = (fence.clone(), order(id));
    let written =
        client.read_write_transaction().build().run(move |transaction: ReadWriteTransaction| {
            let (fence, order) = (fence.clone(), order.clone());
            async move {
                fence.check(&transaction).await?;
                transaction.buffer([order])
            }
        });
    written.await.map(drop).map_err(|error| Error::extract(&error).expect("it is fenced").clone())
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_through_its_lease_cannot_commit_in_any_way() {
    let (world, a, fence, client) = leader().await;
    let b = world.contend("b");
    // Not even by its own process does this one know that the term has ended.
    let sleeper = travelled(&fence);
    write(&client, &sleeper, "checked").await.unwrap();
    sleeper.write(&client, [order("on time")]).await.unwrap();
    world.crash(&a).await;
    let successor = b.holds().await;
    let expected =
        format!("lock `{LOCK}`: token {} superseded by {successor}, held by `b`", sleeper.token());
    let checked = write(&client, &sleeper, "late").await.unwrap_err();
    let written = sleeper.write(&client, [order("late")]).await.unwrap_err();
    for refused in [checked, written] {
        assert!(refused.is_fenced() && !refused.is_retryable() && !refused.is_outcome_unknown());
        assert_eq!(refused.to_string(), expected);
    }
    write(&client, &b.lock.term().unwrap().fence(), "next").await.unwrap();
    assert_eq!(world.orders(), ["checked", "next", "on time"]);
}

#[tokio::test(start_paused = true)]
async fn a_fence_refuses_at_once_whatever_the_name_of_its_lock_reads_like() {
    let world = World::start().await;
    let a = Contender::run(lock_of(&world.table(), "invalid transactions"));
    a.holds().await;
    let fence = travelled(&a.lock.term().unwrap().fence());
    a.stop().await;
    let client = world.client().await;
    let (refused, took) = timed(fence.write(&client, [order("late")])).await;
    let refused = refused.unwrap_err();
    assert!(refused.is_fenced() && took < LEASE / 10, "{took:?}: {refused}");
}

#[tokio::test(start_paused = true)]
async fn ignoring_a_failed_check_does_not_help() {
    let (world, a, fence, client) = leader().await;
    for deleted in [false, true] {
        if deleted {
            world.delete_row(LOCK).await;
        } else {
            assert!(a.lock.resign().await.unwrap());
        }
        let careless = fence.clone();
        let order = order("careless");
        let written = client.read_write_transaction().build().run(
            move |transaction: ReadWriteTransaction| {
                let (fence, order) = (careless.clone(), order.clone());
                async move {
                    let _ignored = fence.check(&transaction).await;
                    transaction.buffer([order])
                }
            },
        );
        assert!(written.await.is_err(), "committed although the check had failed");
    }
}

/// Opens a transaction that checks the fence, and stays open for half a lease before it writes an order.
async fn write_slowly(
    client: DatabaseClient,
    fence: Fence,
    checked: mpsc::Sender<()>,
    by_check: bool,
) -> Result<i128, Error> {
    let work = move |transaction: ReadWriteTransaction, fence: Option<Fence>| {
        let checked = checked.clone();
        async move {
            if let Some(fence) = fence {
                fence.check(&transaction).await?;
            }
            // It may run again after an abort; one notice is enough.
            let _ = checked.try_send(());
            sleep(LEASE / 2).await;
            transaction.buffer([order("slow")])
        }
    };
    let committed = if by_check {
        let runner = client.read_write_transaction().build();
        let run = runner.run(move |transaction| work(transaction, Some(fence.clone())));
        let committed = run.await.map_err(|error| Error::extract(&error).unwrap().clone())?;
        committed.commit_timestamp()
    } else {
        let run = fence.transaction(&client).run(move |transaction| work(transaction, None));
        run.await?.commit_timestamp()
    };
    Ok(nanoseconds(committed.unwrap()))
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_that_is_open_keeps_the_next_term_from_beginning() {
    for by_check in [true, false] {
        let (world, a, fence, client) = leader().await;
        let b = world.contend("b");
        let (checked, mut has_checked) = mpsc::channel(1);
        let writing = write_slowly(client, travelled(&fence), checked, by_check);
        let writing = tokio::spawn(writing);
        has_checked.recv().await.unwrap();
        a.stop().await;
        let next = i128::from(b.holds().await.as_nanoseconds());
        match writing.await.unwrap() {
            Ok(committed) => {
                assert!(committed < next, "a write of the old term, {committed}, after {next}");
            }
            Err(error) => assert!(error.is_fenced(), "{error}"),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fenced_writes_do_not_hold_up_heartbeats() {
    let (_world, a, fence, client) = leader().await;
    let token = a.lock.has_lock();
    for n in 0..200 {
        write(&client, &fence, &format!("order-{n}")).await.unwrap();
        sleep(LEASE / 20).await;
        assert_eq!(a.lock.has_lock(), token);
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_that_stays_open_holds_up_no_heartbeat() {
    let (_world, a, fence, client) = leader().await;
    let token = a.lock.has_lock();
    let slow = client.read_write_transaction().build().run(move |open: ReadWriteTransaction| {
        let fence = fence.clone();
        async move {
            // Spanner ends those that are idle for 10 s.
            for _ in 0..4 {
                fence.check(&open).await?;
                sleep(LEASE / 2).await;
            }
            open.buffer([order("slow")])
        }
    });
    slow.await.unwrap();
    assert_eq!(a.lock.has_lock(), token, "the leader has lost its lock meanwhile");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_costs_one_read_and_its_commit() {
    let (world, _a, fence, client) = leader().await;
    fence.write(&client, [order("first")]).await.unwrap();
    let requests = world.spanner.requests();
    requests.reset();
    fence
        .transaction(&client)
        .run(|transaction| async move { transaction.buffer([order("second")]) })
        .await
        .unwrap();
    let each = requests.each();
    assert_eq!((each.get(&Rpc::StreamingRead), each.get(&Rpc::Commit)), (Some(&1), Some(&1)));
    assert_eq!(requests.total(), 2, "{each:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fence_of_a_term_that_has_ended_here_asks_nobody() {
    let (world, a, fence, client) = leader().await;
    fence.write(&client, [order("on time")]).await.unwrap();
    assert!(a.lock.resign().await.unwrap());
    let requests = world.spanner.requests();
    requests.reset();
    let refused = fence.write(&client, [order("late")]).await.unwrap_err();
    assert!(refused.is_fenced(), "{refused}");
    let expected = format!(
        "lock `{LOCK}`: token {} ended in this process: its holder let go of it",
        fence.token()
    );
    assert_eq!(refused.to_string(), expected);
    assert_eq!(requests.total(), 0);
    // Inside somebody else's transaction it poisons that as well.
    let ignored = client.read_write_transaction().build();
    let ignored = ignored.run(move |transaction: ReadWriteTransaction| {
        let fence = fence.clone();
        async move {
            assert!(fence.check(&transaction).await.unwrap_err().is_fenced());
            transaction.buffer([order("careless")])
        }
    });
    assert!(ignored.await.is_err());
    assert_eq!(world.orders(), ["on time"]);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_that_is_aborted_is_tried_again_and_not_for_ever() {
    let (world, _a, fence, client) = leader().await;
    let aborting = |times: u64| {
        let fault = Fault::on(Rpc::Commit).table("orders").times(times).effect(Effect::Abort);
        world.spanner.inject(fault)
    };
    let run = |attempts, id: &'static str| {
        let tries = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&tries);
        let running = fence.transaction(&client).attempts_max(attempts).run(move |transaction| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move { transaction.buffer([order(id)]) }
        });
        async move { (running.await, tries.load(Ordering::Relaxed)) }
    };
    let _aborts = aborting(2);
    let (committed, tries) = run(3, "third time").await;
    committed.unwrap();
    assert_eq!(tries, 3);

    let aborts = aborting(u64::MAX);
    let (given_up, tries) = run(4, "never").await;
    let given_up = given_up.unwrap_err();
    assert!(given_up.is_retryable() && !given_up.is_outcome_unknown(), "{given_up}");
    assert_eq!(tries, 4);
    // Time bounds it as well, and an abort leaves nothing in doubt.
    let limit = Duration::from_millis(500);
    let bounded = fence.transaction(&client).attempts_max(u32::MAX).time_limit(limit);
    let bounded = bounded.run(|transaction| async move { transaction.buffer([order("never")]) });
    let (given_up, waited) = timed(bounded).await;
    assert!(given_up.unwrap_err().is_retryable());
    assert!(waited <= limit + Duration::from_millis(10), "{waited:?}");
    aborts.remove();
    assert_eq!(world.orders(), ["third time"]);
}

#[derive(Debug)]
struct SoldOut;

impl fmt::Display for SoldOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sold out")
    }
}

impl std::error::Error for SoldOut {}

#[tokio::test(start_paused = true)]
async fn what_the_work_says_comes_out_and_nothing_is_written() {
    let (world, _a, fence, client) = leader().await;
    let given_up = fence.transaction(&client).run(|transaction| async move {
        transaction.buffer([order("never")])?;
        Err::<(), _>(Error::give_up(SoldOut))
    });
    let given_up = given_up.await.unwrap_err();
    assert!(given_up.cause::<SoldOut>().is_some(), "{given_up}");
    assert!(!given_up.is_fenced() && !given_up.is_retryable() && !given_up.is_outcome_unknown());

    fence.write(&client, [order("once")]).await.unwrap();
    let twice = fence.write(&client, [order("once")]).await.unwrap_err();
    assert!(!twice.is_fenced() && !twice.is_outcome_unknown(), "{twice}");
    let said = twice.spanner().and_then(|error| error.status()).unwrap();
    assert_eq!(said.code.name(), "ALREADY_EXISTS");
    assert_eq!(world.orders(), ["once"]);
}

#[tokio::test(start_paused = true)]
async fn bounds_of_zero_and_limits_without_end_are_refused_before_anything_is_sent() {
    let (world, _a, fence, client) = leader().await;
    world.spanner.requests().reset();
    let work = |transaction: ReadWriteTransaction| async move { transaction.buffer([order("o")]) };
    let bounded = [
        fence.transaction(&client).attempts_max(0),
        fence.transaction(&client).time_limit(Duration::ZERO),
        fence.transaction(&client).time_limit(Duration::MAX),
    ];
    for transaction in bounded {
        assert!(transaction.run(work).await.unwrap_err().is_config());
    }
    assert_eq!(world.spanner.requests().total(), 0);
}

#[tokio::test(start_paused = true)]
async fn fenced_writers_do_not_hold_each_other_up() {
    let (world, a, fence, client) = leader().await;
    let all_open = Arc::new(tokio::sync::Barrier::new(16));
    let writers: Vec<_> = (0..16)
        .map(|n| {
            let (fence, client) = (fence.clone(), client.clone());
            let all_open = Arc::clone(&all_open);
            tokio::spawn(async move {
                let committed =
                    fence.transaction(&client).attempts_max(1).run(move |transaction| {
                        let all_open = Arc::clone(&all_open);
                        async move {
                            // All sixteen have read the lock row and none has committed.
                            all_open.wait().await;
                            transaction.buffer([order(&format!("order-{n:02}"))])
                        }
                    });
                committed.await.unwrap();
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(world.orders().len(), 16);
    assert!(a.lock.has_lock().is_some());
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_no_term_can_have_is_refused_where_it_arrives() {
    let (_world, _a, fence, _client) = leader().await;
    let sent = serde_json::to_value(&fence).unwrap();
    assert_eq!(sent["token"], serde_json::json!(fence.token().to_string()));
    for (field, value) in [
        ("table", "orders; DROP TABLE orders"),
        ("lock", ""),
        ("lock", "job_1795000000123456000"),
        ("token", "-1"),
        // Such a writer stands in a row that was released or evicted.
        ("writer", ""),
        ("writer", ">b"),
    ] {
        let mut forged = sent.clone();
        forged[field] = serde_json::json!(value);
        assert!(serde_json::from_value::<Fence>(forged).is_err(), "{field}: {value}");
    }
}

#[tokio::test(start_paused = true)]
async fn dml_with_the_fences_predicate_changes_nothing_after_the_term() {
    let (world, a, fence, client) = leader().await;
    let fence = travelled(&fence);
    fence.write(&client, [order("o-1"), order("o-2")]).await.unwrap();
    let delete = |fence: Fence, id: &'static str| {
        let client = client.clone();
        async move {
            let runner = client.read_write_transaction().build();
            let run = runner.run(move |transaction: ReadWriteTransaction| {
                let sql = format!("DELETE FROM orders WHERE id = @id AND {}", fence.predicate());
                let statement = client::statement::Statement::builder(sql).add_param("id", id);
                let statement = fence.bind(statement).build();
                async move { transaction.execute_update(statement).await }
            });
            run.await.unwrap().result
        }
    };
    assert_eq!(delete(fence.clone(), "o-1").await, 1);
    assert!(a.lock.resign().await.unwrap());
    assert_eq!(delete(fence.clone(), "o-2").await, 0);
    // The token alone, as a manual edit may set it back, is not the term.
    let token = fence.token().to_datetime().to_rfc3339_opts(SecondsFormat::Nanos, true);
    world.write(cells(LOCK, &[("token", &token), ("writer", "b#000000000000000b-1")])).await;
    assert_eq!(delete(fence, "o-2").await, 0);
    assert_eq!(world.orders(), ["o-2"]);
    world.delete_row(LOCK).await;
    // A table may be called by a keyword.
    let ddl = LockTable::ddl(Ddl::GoogleSql).replace("locktable", "`order`");
    let database = world.spanner.database(DATABASE).unwrap();
    database.change_schema(&spindle_emulator::sql::parse_ddl(&ddl).unwrap()).unwrap();
    let table = LockTable::new(Database::at(world.spanner.endpoint(), DATABASE), "order");
    let guard = lock_of(&table, LOCK).build().unwrap().acquire().await.unwrap();
    assert_eq!(delete(guard.fence(), "o-2").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_whose_commit_is_not_answered_in_time_is_in_doubt_and_not_to_be_repeated() {
    let (world, _a, fence, client) = leader().await;
    let commit = Fault::on(Rpc::Commit).table("orders").effect(Effect::StallReply);
    let commit = world.spanner.inject(commit);
    // So that the time is over for all of it before it is for the commit alone.
    let slow = Effect::Delay(Duration::from_millis(300));
    world.spanner.inject(Fault::on(Rpc::StreamingRead).table("locktable").effect(slow));
    let writing = fence.transaction(&client).time_limit(Duration::from_secs(1));
    let written = writing.run(|transaction| async move { transaction.buffer([order("o-1")]) });
    let error = written.await.unwrap_err();
    assert!(commit.hits() >= 1);
    assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");
    assert_eq!(world.orders(), ["o-1"], "it was applied");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_could_not_ask_lets_nothing_commit() {
    let (world, a, fence, client) = leader().await;
    a.stop().await;
    // From another process, which has not heard of the end.
    let fence = travelled(&fence);
    let read = Fault::on(Rpc::StreamingRead).table("locktable").times(1);
    let read = world.spanner.inject(read.effect(Effect::Fail(Code::Internal)));
    let written =
        client.read_write_transaction().build().run(move |transaction: ReadWriteTransaction| {
            let fence = fence.clone();
            async move {
                // Begins the transaction: the check alone is what fails.
                let other = ReadRequest::builder("orders", vec!["id"]);
                let other = other.with_keys(keys("other")).build();
                let mut rows = transaction.execute_read(other).await?;
                while rows.next().await.transpose()?.is_some() {}
                let checked = fence.check(&transaction).await;
                assert!(checked.is_err(), "the read failed");
                // Careless: it goes on.
                transaction.buffer([order("late")])
            }
        });
    let written = written.await;
    assert_eq!(read.hits(), 1);
    assert!(written.is_err(), "committed although nobody knew");
    assert_eq!(world.orders(), [""; 0], "a late write under an old token");
}
