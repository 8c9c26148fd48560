//! Fenced transactions that meet faults: of the commit, and before it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code::NotFound;
use google_cloud_gax::error::rpc::Status;
use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::{self as client};
use spindle::{Error, Fence, FencedTransaction};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use tokio::time::{sleep, timeout};

use crate::world::{keys, leader, order, timed, until};

/// The longest that an answer of the embedded Spanner takes, repeats after a fault included.
const SOON: Duration = Duration::from_secs(1);

const STOCK: &str = "stock";

/// Returns true if the row is there. The read locks it until the transaction ends.
async fn is_stocked(transaction: &ReadWriteTransaction) -> client::Result<bool> {
    let read = ReadRequest::builder("orders", vec!["id"]).with_keys(keys(STOCK)).build();
    let mut rows = transaction.execute_read(read).await?;
    Ok(rows.next().await.transpose()?.is_some())
}

/// Reads the row, then writes it: two of these can't be under way at once.
async fn restock(transaction: ReadWriteTransaction) -> client::Result<bool> {
    let was_there = is_stocked(&transaction).await?;
    let row = Mutation::new_insert_or_update_builder("orders").set("id").to(STOCK).build();
    transaction.buffer([row])?;
    Ok(was_there)
}

async fn restocked(transaction: FencedTransaction) -> spindle::Result<bool> {
    transaction.run(restock).await.map(|committed| committed.result)
}

fn on_commit(times: u64, effect: Effect) -> Fault {
    Fault::on(Rpc::Commit).table("orders").times(times).effect(effect)
}

/// Nothing of the earlier transaction is in the way of this one.
async fn assert_unhindered(fence: &Fence, client: &DatabaseClient) {
    let (written, took) = timed(restocked(fence.transaction(client))).await;
    written.unwrap();
    assert!(took <= SOON, "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn one_fault_of_a_fenced_commit_costs_one_repetition() {
    for limit in [2, 5, 10] {
        for effect in
            [Effect::Fail(Code::Unavailable), Effect::FailAfterApplying(Code::Unavailable)]
        {
            let (world, a, fence, client) = leader().await;
            let fault = world.spanner.inject(on_commit(1, effect));
            let limited = fence.transaction(&client).time_limit(Duration::from_secs(limit));
            let (written, took) = timed(restocked(limited)).await;
            assert!(!written.unwrap(), "{effect:?}: it was applied once");
            assert!(took <= SOON, "{effect:?}: {took:?}");
            assert_eq!(fault.hits(), 1);
            assert_unhindered(&fence, &client).await;
            // The release writes what the fence has read, and isn't held up either.
            let (released, took) = timed(a.lock.resign()).await;
            assert!(released.unwrap() && took <= SOON, "{effect:?}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_was_lost_is_asked_for_again_and_nothing_is_written_twice() {
    let (world, _a, fence, client) = leader().await;
    let lost = [
        Effect::FailAfterApplying(Code::Unavailable),
        Effect::LoseReply,
        Effect::StallReply,
        Effect::Stall,
        Effect::DropConnection,
        Effect::ApplyLate { after: Duration::from_millis(300) },
    ];
    for effect in lost {
        let fault = world.spanner.inject(on_commit(1, effect));
        let (id, runs) = (format!("{effect:?}"), Arc::new(AtomicU32::new(0)));
        let (inserted, counted) = (id.clone(), Arc::clone(&runs));
        let inserting = fence.transaction(&client).run(move |transaction| {
            counted.fetch_add(1, Ordering::Relaxed);
            let order = order(&inserted);
            async move { transaction.buffer([order]) }
        });
        // A second insert of the row would fail.
        let (committed, took) = timed(inserting).await;
        let committed = committed.unwrap_or_else(|error| panic!("{id}: {error}"));
        assert!(committed.commit_timestamp().is_some());
        assert!(took <= Duration::from_secs(6), "{id}: {took:?}");
        assert_eq!((fault.hits(), runs.load(Ordering::Relaxed)), (1, 1), "{id}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_abort_of_a_commit_in_doubt_says_that_it_was_not_applied_and_the_work_is_done_anew() {
    let (world, _a, fence, client) = leader().await;
    let _unclear = world.spanner.inject(on_commit(1, Effect::Fail(Code::Unavailable)));
    let _aborted = world.spanner.inject(on_commit(1, Effect::Abort));
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let written = fence.transaction(&client).run(move |transaction| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { transaction.buffer([order("o-1")]) }
    });
    written.await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_not_found_after_a_lost_answer_stays_unknown() {
    for said in [Code::NotFound, Code::AlreadyExists, Code::FailedPrecondition, Code::Unknown] {
        let (world, _a, fence, client) = leader().await;
        let lost = Effect::FailAfterApplying(Code::Unavailable);
        let lost = world.spanner.inject(on_commit(1, lost));
        let said = world.spanner.inject(on_commit(1, Effect::Fail(said)));
        let unknown = restocked(fence.transaction(&client)).await.unwrap_err();
        assert_eq!((lost.hits(), said.hits()), (1, 1));
        assert!(unknown.is_outcome_unknown() && !unknown.is_retryable(), "{unknown}");
        assert!(!unknown.is_fenced());
        assert!(restocked(fence.transaction(&client)).await.unwrap(), "it was applied");
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_never_answered_is_an_unknown_outcome_within_the_limit() {
    let (world, _a, fence, client) = leader().await;
    let limit = Duration::from_secs(2);
    for effect in [
        Effect::FailAfterApplying(Code::Unavailable),
        Effect::StallReply,
        Effect::Stall,
        Effect::Fail(Code::Unavailable),
    ] {
        let fault = world.spanner.inject(on_commit(u64::MAX, effect));
        let limited = fence.transaction(&client).time_limit(limit);
        let writing = limited.run(|transaction| async move { transaction.buffer([order("o")]) });
        let (written, took) = timed(writing).await;
        let unknown = written.unwrap_err();
        assert!(unknown.is_outcome_unknown() && !unknown.is_retryable(), "{unknown}");
        assert!(took <= limit + Duration::from_millis(10), "{took:?}");
        assert!((2..60).contains(&fault.hits()), "{effect:?}: {} commits", fault.hits());
        fault.remove();
        world.write(Mutation::delete("orders", keys("o"))).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_that_ends_early_leaves_nothing_in_the_way() {
    let (world, _a, fence, client) = leader().await;
    // Its first rollback is lost as well.
    let lose_rollback = || {
        let lost = Fault::on(Rpc::Rollback).times(1).effect(Effect::Fail(Code::Unavailable));
        world.spanner.inject(lost)
    };
    let rolled_back = async |when: &str| {
        let requests = world.spanner.requests();
        until(when, || (requests.get(Rpc::Rollback) == 2).then_some(())).await;
        requests.reset();
    };
    let lost = lose_rollback();
    let given_up = fence.transaction(&client).run(|transaction| async move {
        restock(transaction).await?;
        Err::<(), _>(Error::give_up("sold out"))
    });
    assert!(!given_up.await.unwrap_err().is_outcome_unknown());
    assert_eq!(lost.hits(), 1, "the work gave up");
    rolled_back("after it gave up").await;
    assert_unhindered(&fence, &client).await;

    let stuck = || {
        fence.transaction(&client).time_limit(Duration::from_secs(2)).run(
            |transaction| async move {
                restock(transaction).await?;
                sleep(Duration::from_secs(60)).await;
                Ok(())
            },
        )
    };
    let lost = lose_rollback();
    assert!(stuck().await.unwrap_err().is_retryable());
    rolled_back("after its time").await;
    assert_eq!(lost.hits(), 1);
    assert_unhindered(&fence, &client).await;

    let lost = lose_rollback();
    assert!(timeout(SOON, stuck()).await.is_err());
    rolled_back("after its future was dropped").await;
    assert_eq!(lost.hits(), 1);
    assert_unhindered(&fence, &client).await;
}

#[tokio::test(start_paused = true)]
async fn a_reason_to_give_up_ends_the_transaction_whatever_its_text() {
    let (_world, _a, fence, client) = leader().await;
    for reason in ["transaction not found: 42", "invalid transaction"] {
        let runs = AtomicU32::new(0);
        let transaction = fence.transaction(&client).time_limit(Duration::from_secs(2));
        let given_up = transaction.run(|_| {
            runs.fetch_add(1, Ordering::SeqCst);
            async { Err::<(), _>(Error::give_up(std::io::Error::other(reason))) }
        });
        let given_up = given_up.await.unwrap_err();
        assert!(given_up.cause::<std::io::Error>().is_some(), "{given_up}");
        assert!(given_up.to_string().contains(reason), "{given_up}");
        assert!(!given_up.is_retryable() && runs.load(Ordering::SeqCst) == 1, "{given_up}");
    }
}

/// The answer of Google's emulator once the session has begun another transaction.
fn gone() -> client::Error {
    let said = Status::default().set_code(NotFound).set_message("Transaction not found: 7");
    client::Error::service(said)
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_was_applied_cannot_be_aborted_when_it_is_repeated() {
    let (world, _a, fence, client) = leader().await;
    let lost = world.spanner.inject(on_commit(1, Effect::FailAfterApplying(Code::Unavailable)));
    let aborted = world.spanner.inject(on_commit(1, Effect::Abort));
    assert!(!restocked(fence.transaction(&client)).await.unwrap(), "it ran once");
    assert_eq!((lost.hits(), aborted.hits()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_that_spanner_forgot_is_begun_anew() {
    let (_world, _a, fence, client) = leader().await;
    let runs = Arc::new(AtomicU32::new(0));
    let forgotten = |times: u32| {
        let runs = Arc::clone(&runs);
        // It was not aborted, so these attempts don't count.
        fence.transaction(&client).attempts_max(1).run(move |transaction| {
            let is_forgotten = runs.fetch_add(1, Ordering::Relaxed) < times;
            async move {
                transaction.buffer([order("o-1")])?;
                if is_forgotten {
                    return Err(gone());
                }
                Ok(())
            }
        })
    };
    forgotten(2).await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 3);
    runs.store(0, Ordering::Relaxed);
    let (given_up, took) = timed(forgotten(u32::MAX)).await;
    let given_up = given_up.unwrap_err();
    assert!(given_up.is_retryable() && !given_up.is_outcome_unknown(), "{given_up}");
    assert!(took <= Duration::from_secs(11), "{took:?}");
    assert!((5..100).contains(&runs.load(Ordering::Relaxed)), "with pauses");
}

/// Each attempt that ends in doubt would be in the way of the next ones, if it held locks.
#[tokio::test(start_paused = true)]
async fn once_a_fault_is_over_a_short_time_limit_is_enough() {
    for (limit, effect) in [
        (2, Effect::Fail(Code::Unavailable)),
        (2, Effect::Stall),
        (2, Effect::StallReply),
        (5, Effect::Fail(Code::Unavailable)),
        (5, Effect::Stall),
    ] {
        let (world, a, fence, client) = leader().await;
        let fault = world.spanner.inject(on_commit(u64::MAX, effect));
        let limited = || fence.transaction(&client).time_limit(Duration::from_secs(limit));
        for _ in 0..3 {
            assert!(restocked(limited()).await.unwrap_err().is_outcome_unknown());
        }
        fault.remove();
        let (written, took) = timed(restocked(limited())).await;
        assert!(written.is_ok() && took <= SOON, "{effect:?}: {took:?}, {written:?}");
        let (released, took) = timed(a.lock.resign()).await;
        assert!(released.unwrap() && took <= SOON, "{effect:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_fenced_transaction_that_is_aborted_time_and_again_locks_what_it_reads() {
    let (_world, _a, fence, client) = leader().await;
    let rival = client.clone();
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    // A rival inserts or deletes the row each time, between the read and the commit.
    let written = fence.transaction(&client).run(move |transaction| {
        let (rival, run) = (rival.clone(), counted.fetch_add(1, Ordering::Relaxed));
        async move {
            restock(transaction).await?;
            let delete = Mutation::delete("orders", keys(STOCK));
            let row = if run % 2 == 0 { order(STOCK) } else { delete };
            let writing = rival.write_only_transaction().build().write_at_least_once(vec![row]);
            // Who meets a lock waits for it, and doesn't come before the commit.
            let _ = timeout(SOON, writing).await;
            Ok(())
        }
    });
    written.await.unwrap();
    assert_eq!(runs.load(Ordering::Relaxed), 6, "five optimistic attempts");
}
