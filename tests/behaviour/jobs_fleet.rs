//! A fleet that calls for one slot after the other, by clocks that are off, while tasks fail, nodes die and
//! Spanner is out.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use chrono::{DateTime, Utc};
use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};
use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::job::{JobOutcome, JobRun};
use spindle::{Database, LockTable};
use spindle_emulator::engine::Code;
use spindle_emulator::{Effect, Fault};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::line::Line;
use crate::world::{DATABASE, LOCK, World, lock_of, order};

const SECOND: Duration = Duration::from_secs(1);
const HOUR: Duration = Duration::from_secs(3_600);
const YEAR: Duration = Duration::from_secs(365 * 24 * 3_600);
const ATTEMPTS: u32 = 3;

/// The notes of all nodes.
#[derive(Default)]
struct Seen {
    starts: Mutex<BTreeMap<i64, u32>>,
    at_work: AtomicI64,
    overlaps: AtomicU32,
    ran: AtomicU32,
    failed: AtomicU32,
    killed: AtomicU32,
    refused: AtomicU32,
    outages: AtomicU32,
    random: Mutex<Option<SmallRng>>,
}

/// Work that goes on.
struct AtWork(Arc<Seen>);

impl AtWork {
    fn begins(seen: &Arc<Seen>, slot: i64) -> AtWork {
        if seen.at_work.fetch_add(1, Ordering::SeqCst) > 0 {
            seen.overlaps.fetch_add(1, Ordering::SeqCst);
        }
        *seen.starts.lock().unwrap().entry(slot).or_default() += 1;
        AtWork(Arc::clone(seen))
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.at_work.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Seen {
    fn chance(&self, one_in: u32) -> bool {
        self.random.lock().unwrap().as_mut().unwrap().random_ratio(1, one_in)
    }

    fn up_to(&self, most: Duration) -> Duration {
        self.random.lock().unwrap().as_mut().unwrap().random_range(Duration::ZERO..=most)
    }
}

#[derive(Clone)]
struct Node {
    line: Line,
    table: LockTable,
    /// Fires when it is killed.
    killed: Arc<Notify>,
}

impl Node {
    fn start(world: &World) -> Node {
        let line = world.line();
        let table = LockTable::new(Database::at(line.endpoint(), DATABASE), "locktable");
        Node { line, table, killed: Arc::default() }
    }
}

/// Runs the task of one start; half of the slots record their end in the task's own transaction.
async fn task(
    run: JobRun,
    node: Node,
    world: Arc<World>,
    client: DatabaseClient,
    seen: Arc<Seen>,
) -> Result<(), String> {
    let slot = run.slot().timestamp();
    let _at_work = AtWork::begins(&seen, slot);
    sleep(seen.up_to(SECOND * 5)).await;
    if seen.chance(5) {
        seen.killed.fetch_add(1, Ordering::SeqCst);
        node.killed.notify_one();
        std::future::pending::<()>().await;
    }
    if seen.chance(5) {
        return Err("no ink".to_string());
    }
    if seen.chance(5) {
        seen.outages.fetch_add(1, Ordering::SeqCst);
        let stalls = seen.chance(2);
        let effect = if stalls { Effect::Stall } else { Effect::Fail(Code::Unavailable) };
        let outage = world.spanner.inject(Fault::any().effect(effect));
        tokio::spawn(async move {
            sleep(SECOND * 10).await;
            outage.remove();
        });
    }
    if slot / 3_600 % 2 == 0 {
        let row = order(&format!("{slot} {}", run.token()));
        run.finish(&client, [row]).await.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// Calls for one slot; true if it was answered, false if the node was killed meanwhile.
async fn call(
    node: Node,
    id: String,
    slot: DateTime<Utc>,
    world: Arc<World>,
    client: DatabaseClient,
    seen: Arc<Seen>,
) -> bool {
    let job = lock_of(&node.table, LOCK).id(id).job().attempts(ATTEMPTS);
    let (of, told) = (node.clone(), Arc::clone(&seen));
    let task =
        move |run: JobRun| task(run, of.clone(), world.clone(), client.clone(), told.clone());
    let outcome = tokio::select! {
        outcome = timeout(HOUR / 2, job.run_once(slot, task)) => outcome.expect("it is recorded"),
        () = node.killed.notified() => {
            node.line.cut();
            return false;
        }
    };
    match outcome {
        Ok(JobOutcome::Ran(())) => seen.ran.fetch_add(1, Ordering::SeqCst),
        Ok(JobOutcome::Failed { error: Some(_), .. }) => seen.failed.fetch_add(1, Ordering::SeqCst),
        Ok(_) => 0,
        Err(error) if error.is_config() => seen.refused.fetch_add(1, Ordering::SeqCst),
        // It has recorded the end before it failed.
        Err(error) if error.is_task_failure() => 0,
        Err(error) => panic!("{error}"),
    };
    true
}

async fn fleet(nodes: usize, slots: u32) -> String {
    let world = Arc::new(World::start().await);
    let client = world.client().await;
    let seen = Arc::new(Seen::default());
    *seen.random.lock().unwrap() = Some(SmallRng::seed_from_u64(46));
    let mut fleet: Vec<Node> = (0..nodes).map(|_| Node::start(&world)).collect();
    // How far each clock is ahead, plus half a minute: one by a year.
    let ahead: Vec<Duration> = (0..nodes).map(|_| seen.up_to(SECOND * 60)).collect();
    let now = fleet[0].table.inspect(LOCK).await.unwrap().read_at;
    let (start, begun) = (Instant::now(), now + HOUR);
    for n in 0..slots {
        let slot = begun + HOUR * n;
        let due = start + HOUR * (n + 1) + SECOND * 32;
        let calls: Vec<_> = (0..nodes)
            .map(|node| {
                let at = due - ahead[node] - seen.up_to(SECOND * 4);
                let (id, of) = (format!("n{node}"), fleet[node].clone());
                let slot = if node == 0 { slot + YEAR } else { slot };
                let (world, client) = (Arc::clone(&world), client.clone());
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    sleep_until(at).await;
                    call(of, id, slot, world, client, seen).await
                })
            })
            .collect();
        for (node, call) in calls.into_iter().enumerate() {
            if !call.await.unwrap() {
                fleet[node] = Node::start(&world);
            }
        }
    }
    judge(&world, &seen, begun, slots)
}

fn judge(world: &World, seen: &Seen, begun: DateTime<Utc>, slots: u32) -> String {
    let starts = seen.starts.lock().unwrap();
    let orders = world.orders();
    let (mut never, mut twice, mut none) = (0, 0, 0);
    for n in 0..slots {
        let slot = (begun + HOUR * n).timestamp();
        never += u32::from(!starts.contains_key(&slot));
        let prefix = format!("{slot} ");
        match orders.iter().filter(|id| id.starts_with(&prefix)).count() {
            0 if slot / 3_600 % 2 == 0 => {
                none += 1;
                // All of its attempts have failed.
                assert_eq!(starts.get(&slot), Some(&ATTEMPTS), "{slot}");
            }
            0 | 1 => {}
            _ => twice += 1,
        }
    }
    let most = starts.values().max().copied().unwrap_or_default();
    let count = |counter: &AtomicU32| counter.load(Ordering::SeqCst);
    let (overlaps, killed, outages) =
        (count(&seen.overlaps), count(&seen.killed), count(&seen.outages));
    let (ran, failed, refused) = (count(&seen.ran), count(&seen.failed), count(&seen.refused));
    let again = starts.values().filter(|starts| **starts > 1).count();
    let said = format!(
        "slots={slots} never_started={never} most_starts={most} overlaps={overlaps} \
         effects_twice={twice} without_effect={none} ran={ran} again={again} killed={killed} \
         outages={outages} failed={failed} refused={refused}"
    );
    assert!(never == 0 && most <= ATTEMPTS && overlaps == 0 && twice == 0, "{said}");
    assert!(again > 0 && killed > 0 && outages > 0 && refused == slots, "{said}");
    said
}

#[tokio::test(start_paused = true)]
async fn a_fleet_of_clocks_that_are_off_starts_each_slot_and_none_too_often() {
    fleet(8, 24).await;
}

/// `.ci/run jobs-long`
#[tokio::test(start_paused = true)]
#[ignore = "for the night"]
async fn five_hundred_slots_of_fifty_nodes_are_each_started_and_none_too_often() {
    println!("jobs: ok {}", fleet(50, 500).await);
}
