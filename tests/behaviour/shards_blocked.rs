//! Tasks of shards that block their threads, so that nobody can stop them.

use std::sync::mpsc;
use std::time::Duration;

use spindle::fleet::Shard;
use spindle::{CancellationToken, Error};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use crate::lead::{Blocking, on_real_threads};
use crate::world::{EVENTUALLY, World, until};

const LEASE: Duration = Duration::from_secs(1);
const SHARD: &str = "spindle:shard:orders/partitions/0";

/// Has a member work one shard by the system's clock; its task is aborted soon after it was told to stop.
fn work(
    world: &World,
    id: &str,
    task: Blocking,
    cancel: &CancellationToken,
) -> JoinHandle<Result<(), Error>> {
    let member = world.table().member("orders").id(id).lease(LEASE);
    let member = member.stop_limit(LEASE / 10).build().unwrap();
    let (shards, cancel) = (member.shards("partitions", 1), cancel.clone());
    tokio::spawn(async move {
        shards.run(cancel, move |shard: Shard| task.clone().work((*shard).clone())).await
    })
}

/// Returns a task that blocks its thread in the work of a member, with what lets it go on, and its `run`.
async fn blocked(
    world: &World,
    cancel: &CancellationToken,
) -> (Blocking, mpsc::Sender<()>, JoinHandle<Result<(), Error>>) {
    let (task, let_go) = Blocking::new();
    let sharing = work(world, "a", task.clone(), cancel);
    until("it blocks", || (task.begun() == 1).then_some(())).await;
    (task, let_go, sharing)
}

#[test]
fn run_leaves_a_shard_whose_task_blocks_its_thread_to_the_lease_and_says_so() {
    on_real_threads(async {
        let world = World::start().await;
        let cancel = CancellationToken::new();
        let (_task, let_go, sharing) = blocked(&world, &cancel).await;
        cancel.cancel();
        let ended = timeout(EVENTUALLY / 5, sharing).await.expect("it doesn't wait for the task");
        let error = ended.unwrap().unwrap_err();
        assert!(error.is_unstoppable() && error.to_string().contains(SHARD), "{error}");
        let row = world.row(SHARD).await.unwrap();
        assert_ne!(row.heartbeat, Some(0), "nothing is released over work that goes on");

        let (cancel, (other, _)) = (CancellationToken::new(), Blocking::new());
        let sharing = work(&world, "b", other.clone(), &cancel);
        until("another works it", || (other.begun() == 1).then_some(())).await;
        cancel.cancel();
        let _ = timeout(EVENTUALLY, sharing).await.unwrap().unwrap();
        drop(let_go);
    });
}

#[test]
fn no_second_task_of_a_shard_starts_beside_one_that_blocks_its_thread() {
    on_real_threads(async {
        let world = World::start().await;
        let cancel = CancellationToken::new();
        let (task, let_go, sharing) = blocked(&world, &cancel).await;
        world.delete_row(SHARD).await;
        // The pause after a task that failed is a second.
        sleep(LEASE * 4).await;
        assert_eq!(task.begun(), 1);
        let_go.send(()).unwrap();
        until("the next one starts", || (task.begun() == 2).then_some(())).await;
        cancel.cancel();
        timeout(EVENTUALLY, sharing).await.unwrap().unwrap().unwrap();
    });
}
