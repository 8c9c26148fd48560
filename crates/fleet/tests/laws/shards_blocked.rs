//! Tasks of shards that block their threads, so that nobody can stop them.

use spindle::testing::Clock;
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault, Rpc};
use spindle_fleet::Member;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use tokio::time::{sleep, timeout};

use crate::fleet::{Fleet, Worker};
use crate::threads::{Blocking, on_real_threads};
use crate::world::{EVENTUALLY, World, until};

const LEASE: Duration = Duration::from_secs(1);
const SHARD: &str = "spindle:shard:orders/partitions/0";

/// Has a member work one shard by the system's clock; its task is aborted soon after it was told to stop.
fn work(world: &World, id: &str, task: Blocking) -> Worker {
    let member = Member::new(&world.table(), "orders").id(id).lease(LEASE);
    let shards = member.stop_limit(LEASE / 10).build().unwrap().shards("partitions", 1);
    Worker::run(shards, move |shard| task.clone().work((*shard).clone()))
}

/// Returns a task that blocks its thread in the work of a member, with what lets it go on, and the member.
async fn blocked(world: &World) -> (Blocking, mpsc::Sender<()>, Worker) {
    let (task, let_go) = Blocking::new();
    let worker = work(world, "a", task.clone());
    until("it blocks", || (task.begun() == 1).then_some(())).await;
    (task, let_go, worker)
}

#[test]
fn run_leaves_a_shard_whose_task_blocks_its_thread_to_the_lease_and_says_so() {
    on_real_threads(async {
        let world = World::start().await;
        let (_task, let_go, worker) = blocked(&world).await;
        worker.cancel.cancel();
        let ended = timeout(EVENTUALLY / 5, worker.ends()).await;
        let error = ended.expect("it doesn't wait for the task").unwrap_err();
        assert!(error.is_unstoppable() && error.to_string().contains(SHARD), "{error}");
        let row = world.row(SHARD).unwrap();
        assert_ne!(row.heartbeat, Some(0), "nothing is released over work that goes on");

        let (other, _) = Blocking::new();
        let worker = work(&world, "b", other.clone());
        until("another works it", || (other.begun() == 1).then_some(())).await;
        worker.cancel.cancel();
        let _ = worker.ends().await;
        drop(let_go);
    });
}

#[test]
fn no_second_task_of_a_shard_starts_beside_one_that_blocks_its_thread() {
    on_real_threads(async {
        let world = World::start().await;
        let (task, let_go, worker) = blocked(&world).await;
        world.delete_row(SHARD).await;
        // The pause after a task that failed is a second.
        sleep(LEASE * 4).await;
        assert_eq!(task.begun(), 1);
        let_go.send(()).unwrap();
        until("the next one starts", || (task.begun() == 2).then_some(())).await;
        worker.cancel.cancel();
        // A busy machine may abort its task for not having stopped in time.
        let ended = worker.ends().await;
        assert!(ended.as_ref().err().is_none_or(|error| error.is_unstoppable()), "{ended:?}");
    });
}

/// The count of the shards is read once more under the term, which may be over by the answer. The faults are
/// there before the process joins, since the clock is a real one.
#[test]
fn a_shard_whose_term_is_over_before_its_task_begins_is_not_worked() {
    on_real_threads(async {
        let fleet = Fleet { lease: LEASE, ..Fleet::start(2).await };
        let _giver = fleet.join("a");
        fleet.settles(1).await;
        let table = fleet.table();
        let asks = table.clone();
        let asks = || tokio::spawn(async move { asks.check().await });
        let (asked, session) = fleet.world.known(asks).await;
        asked.await.unwrap().unwrap();
        let inject = |fault: Fault, key, effect| {
            let key = SHARD.replace("/0", key);
            fleet.world.spanner.inject(fault.session(&*session).key(key).skip(1).effect(effect))
        };
        // The first is the one by which it begins to share.
        let slow = inject(Fault::on(Rpc::StreamingRead), "/count", Effect::Delay(LEASE * 2));
        // The first of each is its begin.
        let unheard = Effect::Fail(Code::Unavailable);
        let _unheard = ["/0", "/1"].map(|key| inject(Fault::on(Rpc::Commit), key, unheard));
        let member = Member::new(&table, "orders").id("b").lease(LEASE).clock(Clock::runtime());
        let late = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&late);
        let joins = Worker::run(member.build().unwrap().shards("partitions", 2), move |shard| {
            counted.fetch_add(usize::from(shard.is_cancelled()), Ordering::SeqCst);
            async move { shard.cancelled().await }
        });
        until("it has won a shard", || (slow.hits() > 0).then_some(())).await;
        sleep(LEASE * 3).await;
        assert_eq!(late.load(Ordering::SeqCst), 0, "a task began under a term that was over");
        joins.leave().await;
        fleet.all_are_of("a").await;
        fleet.work.check();
    });
}
