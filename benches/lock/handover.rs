//! The cost of a contender's poll interval, and the time for which a planned hand-over leaves nobody
//! holding. A hand-over counts from the holder's cancellation to when another holds.

use std::time::Duration;

use spindle::{CancellationToken, RunHandle, Spindle};
use tokio::time::{Instant, sleep};

use crate::parts::{Failure, Server, Times};
use crate::{LEASE, STEADY, counted};

const HANDOVERS: usize = 20;

pub async fn measure(server: &mut Server) -> Result<(), Failure> {
    for poll_interval in [10, 5, 3, 2].map(|divisor| LEASE / divisor) {
        for contenders in [1, 3] {
            let (cost, times) = handovers(server, poll_interval, contenders).await?;
            let leases = |time: Duration| time.as_secs_f64() / LEASE.as_secs_f64();
            println!(
                "handover-{}-{contenders}: ok poll_interval_leases={:.2} contenders={contenders} \
                 requests_a_lease_each={cost:.1} without_holder_median_leases={:.2} worst_leases={:.2}",
                poll_interval.as_millis(),
                leases(poll_interval),
                leases(times.at(50)),
                leases(times.at(100)),
            );
        }
    }
    Ok(())
}

/// Returns the requests of a contender in a lease, and how long each hand-over took.
pub async fn handovers(
    server: &mut Server,
    poll_interval: Duration,
    contenders: usize,
) -> Result<(f64, Times), Failure> {
    let name = format!("handover-{}-{contenders}", poll_interval.as_millis());
    let mut waiting = vec![Contender::start(server, &name, poll_interval)?];
    let mut holder = taken_over(&mut waiting).await;
    while waiting.len() < contenders {
        waiting.push(Contender::start(server, &name, poll_interval)?);
    }
    sleep(LEASE).await;
    // A heartbeat is a read and a commit.
    let [total, _, commits] = counted(server).await?;
    let cost = (total - 2.0 * commits) / contenders as f64 / f64::from(STEADY);

    let mut times = Vec::with_capacity(HANDOVERS);
    for _ in 0..HANDOVERS {
        // At a random phase of everybody's polls.
        sleep(LEASE.mul_f64(0.5 + rand::random::<f64>())).await;
        let start = Instant::now();
        holder.cancel.cancel();
        let next = taken_over(&mut waiting).await;
        times.push(start.elapsed());
        holder.run.await?;
        holder = next;
        waiting.push(Contender::start(server, &name, poll_interval)?);
    }
    for contender in waiting.into_iter().chain([holder]) {
        contender.cancel.cancel();
        contender.run.await?;
    }
    Ok((cost, Times::from_iter(times)))
}

struct Contender {
    lock: Spindle,
    cancel: CancellationToken,
    run: RunHandle,
}

impl Contender {
    fn start(server: &Server, name: &str, poll_interval: Duration) -> Result<Contender, Failure> {
        let lock = server.table().lock(name).lease(LEASE).poll_interval(poll_interval).build()?;
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
