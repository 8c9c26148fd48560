//! Fenced writes: of the term, or not at all.

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::{self as client};
use spindle::{Error, Fence};
use tokio::time::sleep;

use crate::world::{LEASE, LOCK, World};

/// Writes one order under the fence.
async fn write(client: &DatabaseClient, fence: &Fence, id: &str) -> Result<(), client::Error> {
    let order = Mutation::new_insert_builder("orders").set("id").to(id).build();
    let fence = fence.clone();
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
    let world = World::start().await;
    let a = world.elect("a").await;
    let b = world.contend("b");
    let sleeper = a.lock.term().unwrap().fence();
    let client = world.client().await;
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
    let world = World::start().await;
    let a = world.elect("a").await;
    let fence = a.lock.term().unwrap().fence();
    let client = world.client().await;
    for deleted in [false, true] {
        if deleted {
            world.delete_row(LOCK).await;
        } else {
            assert!(a.lock.resign().await);
        }
        let careless = fence.clone();
        let order = Mutation::new_insert_builder("orders").set("id").to("careless").build();
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
    let world = World::start().await;
    let a = world.elect("a").await;
    let b = world.contend("b");
    let fence = a.lock.term().unwrap().fence();
    let client = world.client().await;
    let (checked, mut has_checked) = tokio::sync::mpsc::channel(1);
    let order = Mutation::new_insert_builder("orders").set("id").to("slow").build();
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
    let world = World::start().await;
    let a = world.elect("a").await;
    let token = a.lock.has_lock();
    let fence = a.lock.term().unwrap().fence();
    let client = world.client().await;
    for n in 0..200 {
        write(&client, &fence, &format!("order-{n}")).await.unwrap();
        sleep(LEASE / 20).await;
        assert_eq!(a.lock.has_lock(), token);
    }
}
