//! Fenced writes: of the term, or not at all.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::{self as client};
use spindle::{Error, Fence};
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::sleep;

use crate::world::{Contender, LEASE, LOCK, World, timed};

/// A leader with its fence, and a client to write with.
async fn leader() -> (World, Contender, Fence, DatabaseClient) {
    let world = World::start().await;
    let a = world.elect("a").await;
    let fence = a.lock.term().unwrap().fence();
    let client = world.client().await;
    (world, a, fence, client)
}

/// Writes one order under the fence.
async fn write(client: &DatabaseClient, fence: &Fence, id: &str) -> Result<(), client::Error> {
    let (fence, order) = (fence.clone(), order(id));
    let written =
        client.read_write_transaction().build().run(move |transaction: ReadWriteTransaction| {
            let (fence, order) = (fence.clone(), order.clone());
            async move {
                fence.check(&transaction).await?;
                transaction.buffer([order])
            }
        });
    written.await.map(|_| ())
}

fn is_fenced(error: &client::Error) -> bool {
    Error::extract(error).is_some_and(Error::is_fenced)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_slept_through_its_lease_cannot_commit() {
    let (world, a, fence, client) = leader().await;
    let b = world.contend("b");
    // Not even by its own process does this one know that the term has ended.
    let sleeper = travelled(&fence);
    write(&client, &sleeper, "on time").await.unwrap();
    world.crash(&a).await;
    let successor = b.holds().await;
    let refused = write(&client, &sleeper, "late").await.unwrap_err();
    assert!(is_fenced(&refused), "{refused}");
    let said = Error::extract(&refused).unwrap().to_string();
    let expected =
        format!("lock `{LOCK}`: token {} superseded by {successor}, held by `b`", sleeper.token());
    assert_eq!(said, expected);
    write(&client, &b.lock.term().unwrap().fence(), "next").await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn ignoring_a_failed_check_does_not_help() {
    let (world, a, fence, client) = leader().await;
    for deleted in [false, true] {
        if deleted {
            world.delete_row(LOCK).await;
        } else {
            assert!(a.lock.resign().await);
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

#[tokio::test(start_paused = true)]
async fn a_fenced_write_that_is_open_keeps_the_next_term_from_beginning() {
    let (world, a, fence, client) = leader().await;
    let b = world.contend("b");
    let (checked, mut has_checked) = tokio::sync::mpsc::channel(1);
    let order = order("slow");
    let writing = tokio::spawn(async move {
        let run = client.read_write_transaction().build().run(
            move |transaction: ReadWriteTransaction| {
                let (fence, order, checked) = (fence.clone(), order.clone(), checked.clone());
                async move {
                    fence.check(&transaction).await?;
                    // The closure may run again after an abort; one notice is enough.
                    let _ = checked.try_send(());
                    sleep(LEASE / 2).await;
                    transaction.buffer([order])
                }
            },
        );
        run.await.map(|committed| committed.commit_timestamp().unwrap())
    });
    has_checked.recv().await.unwrap();
    a.stop().await;
    let next = i128::from(b.holds().await.as_nanoseconds());
    match writing.await.unwrap() {
        Ok(committed) => {
            let committed = crate::world::nanoseconds(committed);
            assert!(committed < next, "a write of the old term, {committed}, after {next}");
        }
        Err(error) => assert!(is_fenced(&error), "{error}"),
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

fn order(id: &str) -> Mutation {
    Mutation::new_insert_builder("orders").set("id").to(id).build()
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_costs_one_read_and_its_commit() {
    let (world, _a, fence, client) = leader().await;
    fence.write(&client, [order("first")]).await.unwrap();
    let requests = world.spanner.requests();
    let sessions = requests.sessions();
    let commits_before = |session: &String| requests.of_session(session, Rpc::Commit);
    let before: Vec<_> = sessions.iter().map(commits_before).collect();
    requests.reset();
    fence
        .transaction(&client)
        .run(|transaction| async move { transaction.buffer([order("second")]) })
        .await
        .unwrap();
    let each = requests.each();
    assert_eq!((each.get(&Rpc::StreamingRead), each.get(&Rpc::Commit)), (Some(&1), Some(&1)));
    assert_eq!(requests.total(), 2, "{each:?}; before: {before:?}");
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_of_a_past_term_says_so_by_itself() {
    let (world, a, fence, client) = leader().await;
    let b = world.contend("b");
    let travelled = travelled(&fence);
    travelled.write(&client, [order("on time")]).await.unwrap();
    world.crash(&a).await;
    let successor = b.holds().await;
    let refused = travelled.write(&client, [order("late")]).await.unwrap_err();
    assert!(refused.is_fenced() && !refused.is_retryable() && !refused.is_outcome_unknown());
    assert_eq!(
        refused.to_string(),
        format!(
            "lock `{LOCK}`: token {} superseded by {successor}, held by `b`",
            travelled.token()
        )
    );
    assert_eq!(orders(&client).await, ["on time"]);
}

#[tokio::test(start_paused = true)]
async fn a_fence_of_a_term_that_has_ended_here_asks_nobody() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let term = a.lock.term().unwrap();
    let fence = term.fence();
    let client = world.client().await;
    fence.write(&client, [order("on time")]).await.unwrap();
    assert!(a.lock.resign().await);
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
    // Inside somebody else's transaction it spoils that as well.
    let ignored = client.read_write_transaction().build();
    let ignored = ignored.run(move |transaction: ReadWriteTransaction| {
        let fence = fence.clone();
        async move {
            assert!(fence.check(&transaction).await.unwrap_err().is_fenced());
            transaction.buffer([order("careless")])
        }
    });
    assert!(ignored.await.is_err());
    assert_eq!(orders(&client).await, ["on time"]);
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
    assert_eq!(orders(&client).await, ["third time"]);
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
    let (_world, _a, fence, client) = leader().await;
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
    assert_eq!(orders(&client).await, ["once"]);
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
async fn a_fenced_transaction_that_is_open_keeps_the_next_term_from_beginning() {
    let (world, a, fence, client) = leader().await;
    let b = world.contend("b");
    let fence = travelled(&fence);
    let (checked, mut has_checked) = tokio::sync::mpsc::channel(1);
    let writing = tokio::spawn(async move {
        fence
            .transaction(&client)
            .run(move |transaction| {
                // It may run again after an abort; one notice is enough.
                let _ = checked.try_send(());
                async move {
                    sleep(LEASE / 2).await;
                    transaction.buffer([order("slow")])
                }
            })
            .await
            .map(|committed| committed.commit_timestamp().unwrap())
    });
    has_checked.recv().await.unwrap();
    a.stop().await;
    let next = i128::from(b.holds().await.as_nanoseconds());
    match writing.await.unwrap() {
        Ok(committed) => {
            let committed = crate::world::nanoseconds(committed);
            assert!(committed < next, "a write of the old term, {committed}, after {next}");
        }
        Err(error) => assert!(error.is_fenced(), "{error}"),
    }
}

#[tokio::test(start_paused = true)]
async fn fenced_writers_do_not_hold_each_other_up() {
    let (_world, a, fence, client) = leader().await;
    let (open, mut opened) = tokio::sync::mpsc::channel(16);
    let all_open = Arc::new(tokio::sync::Barrier::new(16));
    let writers: Vec<_> = (0..16)
        .map(|n| {
            let (fence, client, open) = (fence.clone(), client.clone(), open.clone());
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
                open.send(()).await.unwrap();
            })
        })
        .collect();
    for _ in 0..16 {
        opened.recv().await.unwrap();
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(orders(&client).await.len(), 16);
    assert!(a.lock.has_lock().is_some());
}

/// The fence as another process of the same job has it: without the term.
fn travelled(fence: &Fence) -> Fence {
    let sent = serde_json::to_string(fence).unwrap();
    let arrived = serde_json::from_str(&sent).unwrap();
    assert_eq!(*fence, arrived);
    arrived
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_no_term_can_have_is_refused_where_it_arrives() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let fence = a.lock.term().unwrap().fence();
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

/// Returns the content of the `orders` table.
async fn orders(client: &DatabaseClient) -> Vec<String> {
    let read = client::read::ReadRequest::builder("orders", vec!["id"])
        .with_keys(client::key::KeySet::all())
        .build();
    let mut rows = client.single_use().build().execute_read(read).await.unwrap();
    let mut ids = Vec::new();
    while let Some(row) = rows.next().await.transpose().unwrap() {
        ids.push(row.get("id").unwrap());
    }
    ids
}

#[tokio::test(start_paused = true)]
async fn dml_with_the_fences_predicate_changes_nothing_after_the_term() {
    let (_world, a, fence, client) = leader().await;
    let fence = travelled(&fence);
    fence.write(&client, [order("o-1"), order("o-2")]).await.unwrap();
    let delete = |id: &'static str| {
        let (fence, client) = (fence.clone(), client.clone());
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
    assert_eq!(delete("o-1").await, 1);
    assert!(a.lock.resign().await);
    assert_eq!(delete("o-2").await, 0);
    assert_eq!(orders(&client).await, ["o-2"]);
}
