//! Many locks in one process: what they cost, and how they are taken over.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Failure;
use crate::participant::{Library, Participant};
use crate::server::Server;
use crate::single::seconds;

/// Leases over which requests are counted.
const COUNTED_LEASES: u32 = 3;

/// Leases after which the locks that are not held count as not held.
const LIMIT_LEASES: u32 = 12;

#[derive(Clone, Debug, Default)]
pub struct Figures {
    pub locks: usize,
    pub lease: Duration,
    /// From the start of the process until the last lock was held, if all were.
    pub all_held: Option<f64>,
    /// How many were held before and after the count.
    pub held: (usize, usize),
    pub requests_per_second: f64,
    pub contender_requests_per_second: Option<f64>,
    pub memory_mib: f64,
    /// Of one core.
    pub processor_share: f64,
    /// Terms that ended although nothing was done to them.
    pub lost: usize,
    /// From the last heartbeat of the killed process to the next holder's commit, in seconds.
    pub crash: Vec<f64>,
    pub never: usize,
}

/// Measures one process with all the locks, then a second, and the first killed.
pub async fn measure(
    library: &Library,
    server: &Server,
    lease: Duration,
    locks: usize,
) -> Result<Figures, Failure> {
    let prefix = format!("many-{}-{locks}", library.name);
    let mut figures = Figures { locks, lease, ..Figures::default() };
    let started = Instant::now();
    let mut holder = Participant::start(library, &server.address, "a", &prefix, locks, lease)?;
    holder.ready().await?;
    while started.elapsed() < lease * LIMIT_LEASES && figures.all_held.is_none() {
        figures.held.0 = holder.held().await?;
        if figures.held.0 == locks {
            figures.all_held = Some(started.elapsed().as_secs_f64());
        }
        sleep(Duration::from_millis(100)).await;
    }
    sleep(lease).await;
    figures.held.0 = holder.held().await?;
    let (before, lost) = (holder.processor_time()?, losses(&holder));
    let counted = lease * COUNTED_LEASES;
    let requests = server.count_over(counted).await?;
    figures.requests_per_second = requests / counted.as_secs_f64();
    let used = holder.processor_time()?.saturating_sub(before);
    figures.processor_share = used.as_secs_f64() / counted.as_secs_f64();
    figures.memory_mib = holder.memory_mib()?;
    figures.lost = losses(&holder) - lost;
    figures.held.1 = holder.held().await?;
    take_over(library, server, &mut holder, &prefix, &mut figures).await?;
    holder.kill().await?;
    Ok(figures)
}

async fn take_over(
    library: &Library,
    server: &Server,
    holder: &mut Participant,
    prefix: &str,
    figures: &mut Figures,
) -> Result<(), Failure> {
    let (lease, locks) = (figures.lease, figures.locks);
    let mut contender = Participant::start(library, &server.address, "b", prefix, locks, lease)?;
    contender.ready().await?;
    sleep(lease * 2).await;
    let counted = lease * COUNTED_LEASES;
    let both = server.count_over(counted).await? / counted.as_secs_f64();
    figures.contender_requests_per_second = Some(both - figures.requests_per_second);
    let held = server.held_by(prefix, "a", locks, Duration::ZERO).await?;
    let watching = server.hand_overs(prefix, ("a", "b"), held, lease * LIMIT_LEASES);
    let killing = async {
        // The table is read once before.
        sleep(Duration::from_millis(200)).await;
        holder.kill().await
    };
    let (taken, killed) = tokio::join!(watching, killing);
    killed?;
    let taken = taken?;
    figures.never = held - taken.len();
    figures.crash = taken.values().map(|over| seconds(over.taken - over.last)).collect();
    contender.kill().await
}

fn losses(participant: &Participant) -> usize {
    participant.told().iter().filter(|told| !told.gained).count()
}
