//! The cost of a contender's poll interval, and the time for which a planned hand-over leaves
//! nobody holding.
//!
//! ```text
//! cargo bench --bench handover
//! ```
//!
//! Real time, the embedded Spanner in this process, lease 1 s. A hand-over counts from the moment
//! when the holder's `has_lock()` is empty to the moment when another's is not.

use std::time::Duration;

use spindle::{CancellationToken, LockTable, RunHandle, Spindle};
use spindle_emulator::{Emulator, Rpc};
use tokio::time::{Instant, sleep};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const LEASE: Duration = Duration::from_secs(1);
const HANDOVERS: usize = 20;
/// So long the costs are counted.
const STEADY: u32 = 10;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    for divisor in [10, 5, 3, 2] {
        for contenders in [1, 3] {
            measure(LEASE / divisor, contenders).await?;
        }
    }
    Ok(())
}

async fn measure(poll_interval: Duration, contenders: usize) -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner.create_database(DATABASE, LockTable::DDL).await?;
    let contend = || Contender::start(spanner.endpoint(), poll_interval);
    let mut waiting = vec![contend()?];
    let mut holder = taken_over(&mut waiting).await;
    while waiting.len() < contenders {
        waiting.push(contend()?);
    }
    sleep(LEASE).await;

    let counts = spanner.requests();
    counts.reset();
    sleep(LEASE * STEADY).await;
    // A heartbeat is a read and a commit.
    let polls = counts.total() - 2 * counts.get(Rpc::Commit);
    let cost = polls as f64 / contenders as f64 / f64::from(STEADY);

    let mut gaps = Vec::with_capacity(HANDOVERS);
    for _ in 0..HANDOVERS {
        // At a random phase of everybody's polls.
        sleep(LEASE.mul_f64(0.5 + rand::random::<f64>())).await;
        holder.cancel.cancel();
        while holder.lock.has_lock().is_some() {
            tokio::task::yield_now().await;
        }
        let start = Instant::now();
        let next = taken_over(&mut waiting).await;
        gaps.push(start.elapsed());
        holder.run.await?;
        holder = next;
        waiting.push(contend()?);
    }
    gaps.sort();
    let leases = |gap: Duration| gap.as_secs_f64() / LEASE.as_secs_f64();
    println!(
        "handover-{}-{contenders}: ok poll_interval_leases={:.2} contenders={contenders} \
         requests_a_lease_each={cost:.1} without_holder_median_leases={:.2} worst_leases={:.2}",
        poll_interval.as_millis(),
        leases(poll_interval),
        leases(gaps[gaps.len() / 2]),
        leases(gaps[gaps.len() - 1]),
    );
    spanner.stop().await;
    Ok(())
}

struct Contender {
    lock: Spindle,
    cancel: CancellationToken,
    run: RunHandle,
}

impl Contender {
    fn start(endpoint: String, poll_interval: Duration) -> Result<Contender, Failure> {
        let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
        let lock = table.lock("handover").lease(LEASE).poll_interval(poll_interval).build()?;
        let cancel = CancellationToken::new();
        let run = lock.run(cancel.clone());
        Ok(Contender { lock, cancel, run })
    }
}

/// Waits until one of them holds, and takes it out.
async fn taken_over(waiting: &mut Vec<Contender>) -> Contender {
    loop {
        let holder = waiting.iter().position(|contender| contender.lock.has_lock().is_some());
        if let Some(index) = holder {
            return waiting.swap_remove(index);
        }
        sleep(Duration::from_millis(1)).await;
    }
}
