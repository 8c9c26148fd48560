//! Fenced writes of which not everything is known.

use std::time::Duration;

use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};

use crate::world::World;

fn order(id: &str) -> Mutation {
    Mutation::new_insert_builder("orders").set("id").to(id).build()
}

async fn is_there(world: &World, id: &str) -> bool {
    let keys = KeySet::builder().add_key(key![id.to_string()]).build();
    let read = ReadRequest::builder("orders", vec!["id"]).with_keys(keys).build();
    let client = world.client().await;
    let mut rows = client.single_use().build().execute_read(read).await.unwrap();
    rows.next().await.transpose().unwrap().is_some()
}

#[tokio::test(start_paused = true)]
async fn a_fenced_write_whose_commit_is_not_answered_in_time_is_in_doubt_and_not_to_be_repeated() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let client = world.client().await;
    let commit = Fault::on(Rpc::Commit).table("orders").effect(Effect::StallReply);
    let commit = world.spanner.inject(commit);
    // So that the time is over for all of it before it is for the commit alone.
    let slow = Effect::Delay(Duration::from_millis(300));
    world.spanner.inject(Fault::on(Rpc::StreamingRead).table("locktable").effect(slow));
    let fence = a.lock.term().unwrap().fence();
    let writing = fence.transaction(&client).time_limit(Duration::from_secs(1));
    let written = writing.run(|transaction| async move { transaction.buffer([order("o-1")]) });
    let error = written.await.unwrap_err();
    assert!(commit.hits() >= 1);
    assert!(error.is_outcome_unknown() && !error.is_retryable(), "{error}");
    assert!(is_there(&world, "o-1").await, "it was applied");
}

#[tokio::test(start_paused = true)]
async fn a_check_that_could_not_ask_lets_nothing_commit() {
    let world = World::start().await;
    let a = world.elect("a").await;
    let fence = a.lock.term().unwrap().fence();
    a.stop().await;
    // From another process, which has not heard of the end.
    let fence: spindle::Fence =
        serde_json::from_str(&serde_json::to_string(&fence).unwrap()).unwrap();
    let client = world.client().await;
    let read = Fault::on(Rpc::StreamingRead).table("locktable").times(1);
    let read = world.spanner.inject(read.effect(Effect::Fail(Code::Internal)));
    let written =
        client.read_write_transaction().build().run(move |transaction: ReadWriteTransaction| {
            let fence = fence.clone();
            async move {
                // Begins the transaction: the check alone is what fails.
                let keys = KeySet::builder().add_key(key!["other"]).build();
                let other = ReadRequest::builder("orders", vec!["id"]).with_keys(keys).build();
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
    assert!(!is_there(&world, "late").await, "a late write under an old token");
}
