//! The cost of fences: 16 writers under the fence of a lock with five heartbeats a second are compared
//! with 16 under the fence of a lock that nobody writes. The heartbeats are measured as well.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::{CancellationToken, Fence, LockBuilder, Spindle, Term};
use tokio::time::{Instant, sleep};

use crate::heartbeat;
use crate::parts::{Failure, Server, Times, connect};

pub const ORDERS: &str =
    "CREATE TABLE orders (writer INT64, number INT64) PRIMARY KEY (writer, number)";
/// Long, so that a busy machine doesn't end the term, with heartbeats often enough to be counted.
const LEASE: Duration = Duration::from_secs(10);
const HEARTBEAT: Duration = Duration::from_millis(200);
/// So long that there is no heartbeat while it is measured.
const IDLE_LEASE: Duration = Duration::from_secs(600);
const WRITERS: u64 = 16;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 3;

pub async fn measure(server: &Server) -> Result<(), Failure> {
    let client = connect(&server.endpoint).await?;
    let table = server.table();
    let (lock, term) = hold(table.lock("job").lease(LEASE).heartbeat_interval(HEARTBEAT)).await?;
    let (other, idle_term) = hold(table.lock("idle").lease(IDLE_LEASE)).await?;
    let numbers = Arc::new(AtomicU64::new(0));
    let (mut fenced, mut idle, mut quiet) = <(Measured, Measured, Measured)>::default();
    for _ in 0..ROUNDS {
        fenced.add(round(&client, Some(term.fence()), &numbers).await?);
        idle.add(round(&client, Some(idle_term.fence()), &numbers).await?);
        quiet.add(round(&client, None, &numbers).await?);
        // Neither always goes first.
        idle.add(round(&client, Some(idle_term.fence()), &numbers).await?);
        fenced.add(round(&client, Some(term.fence()), &numbers).await?);
    }
    if term.is_cancelled() || idle_term.is_cancelled() {
        return Err("a term ended while it was measured".into());
    }
    let (fenced_rate, idle_rate) = (fenced.rate(), idle.rate());
    println!(
        "fenced-writers: ok writers={WRITERS} fenced_a_second={fenced_rate:.0} \
         of_another_row_a_second={idle_rate:.0} fenced_percent_of_other={:.1}",
        fenced_rate / idle_rate * 100.0
    );
    fenced.print_heartbeats("heartbeats-beside-fenced");
    idle.print_heartbeats("heartbeats-beside-others");
    quiet.print_heartbeats("heartbeats-alone");
    drop((lock, other));
    Ok(())
}

/// An instance that holds, as long as its handle is there.
async fn hold(lock: LockBuilder) -> Result<(Spindle, Term), Failure> {
    let lock = lock.build()?;
    // Dropping what `run` returned lets it run on.
    drop(lock.run(CancellationToken::new()));
    loop {
        if let Some(term) = lock.term() {
            return Ok((lock, term));
        }
        sleep(Duration::from_millis(5)).await;
    }
}

#[derive(Default)]
struct Measured {
    transactions: u64,
    time: Duration,
    /// From one heartbeat to the next, by Spanner's clock.
    gaps: Vec<Duration>,
}

impl Measured {
    fn add(&mut self, other: Measured) {
        self.transactions += other.transactions;
        self.time += other.time;
        self.gaps.extend(other.gaps);
    }

    fn rate(&self) -> f64 {
        self.transactions as f64 / self.time.as_secs_f64()
    }

    fn print_heartbeats(self, name: &str) {
        let gaps = Times::from_iter(self.gaps);
        println!("{name}: ok {} seen={}", gaps.told("", 1), gaps.count());
    }
}

async fn round(
    client: &DatabaseClient,
    fence: Option<Fence>,
    numbers: &Arc<AtomicU64>,
) -> Result<Measured, Failure> {
    let done = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch_heartbeats(client.clone(), Arc::clone(&done)));
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, fence) = (client.clone(), fence.clone());
            let numbers = Arc::clone(numbers);
            tokio::spawn(async move {
                let mut count = 0;
                while start.elapsed() < ROUND {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    let Some(fence) = &fence else {
                        sleep(ROUND).await;
                        continue;
                    };
                    fence.write(&client, [order(writer, number)]).await?;
                    count += 1;
                }
                Ok::<u64, Failure>(count)
            })
        })
        .collect();
    let mut measured = Measured::default();
    for writer in writers {
        measured.transactions += writer.await??;
    }
    measured.time = start.elapsed();
    done.store(true, Ordering::Relaxed);
    measured.gaps = watching.await??;
    Ok(measured)
}

fn order(writer: u64, number: u64) -> Mutation {
    let order = Mutation::new_insert_builder("orders").set("writer").to(writer.cast_signed());
    order.set("number").to(number.cast_signed()).build()
}

/// The times between heartbeats, until `done`.
async fn watch_heartbeats(
    client: DatabaseClient,
    done: Arc<AtomicBool>,
) -> Result<Vec<Duration>, Failure> {
    let mut seen: Vec<i128> = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let at = heartbeat(&client, "job").await?;
        if seen.last() != Some(&at) {
            seen.push(at);
        }
        sleep(Duration::from_millis(20)).await;
    }
    let gap = |pair: &[i128]| u64::try_from(pair[1] - pair[0]).map(Duration::from_nanos);
    Ok(seen.windows(2).map(gap).collect::<Result<_, _>>()?)
}
