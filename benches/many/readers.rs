//! Readers that make room for a writer, and come back after it.

use std::time::Duration;

use spindle::LockTable;
use spindle_fleet::RwLock;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep};

use crate::LEASE;
use crate::parts::{Failure, Server, Times};

/// The readers' processes, each with a connection of its own.
const PROCESSES: usize = 4;
const ROUNDS: usize = 10;
/// From the readers' beginning to the writer's request, and how long the writer has the lock.
const MEANTIME: Duration = Duration::from_secs(2);

/// The times of some rounds.
#[derive(Default)]
struct Rounds {
    stopped: Vec<Duration>,
    begun: Vec<Duration>,
    first_back: Vec<Duration>,
    last_back: Vec<Duration>,
}

/// So many read, and let go while a writer waits; then they ask again.
pub async fn measure(server: &Server, readers: usize) -> Result<(), Failure> {
    let tables: Vec<LockTable> = (0..PROCESSES).map(|_| server.table()).collect();
    let locks = tables.iter().map(lock).collect::<Result<Vec<_>, Failure>>()?;
    let (waiter, mut times) = (lock(&server.table())?, Rounds::default());
    for _ in 0..ROUNDS {
        round(&locks, &waiter, readers, &mut times).await?;
    }
    let Rounds { stopped, begun, first_back, last_back } = times;
    println!(
        "fleets-readers: ok readers={readers} processes={PROCESSES} rounds={ROUNDS} {} {} {} {}",
        Times::from_iter(stopped).told("writer_stops_them_", 0),
        Times::from_iter(begun).told("writer_begins_", 0),
        Times::from_iter(first_back).told("first_back_", 0),
        Times::from_iter(last_back).told("all_back_", 0),
    );
    Ok(())
}

fn lock(table: &LockTable) -> Result<RwLock, Failure> {
    Ok(RwLock::new(table, "catalogue").lease(LEASE).build()?)
}

/// Readers begin, a writer asks, the readers let go and ask again, the writer lets go.
async fn round(
    locks: &[RwLock],
    waiter: &RwLock,
    readers: usize,
    times: &mut Rounds,
) -> Result<(), Failure> {
    let (let_go, told) = watch::channel(false);
    let mut reading = JoinSet::new();
    for lock in locks.iter().cycle().take(readers) {
        let (guard, mut told) = (lock.read().await?, told.clone());
        reading.spawn(async move {
            // An error is the end of the round.
            let _ = told.wait_for(|told| *told).await;
            let _ = guard.release().await;
        });
    }
    sleep(MEANTIME).await;
    let asked = Instant::now();
    let writing = waiter.clone();
    let writing: JoinHandle<Result<_, spindle::Error>> = tokio::spawn(async move {
        let guard = writing.write().await?;
        Ok((guard, Instant::now()))
    });
    // A reader that asks is refused from now on.
    while let Some(guard) = locks[0].try_read().await? {
        let _ = guard.release().await;
    }
    times.stopped.push(asked.elapsed());
    sleep(MEANTIME.mul_f64(rand::random())).await;
    let_go.send(true)?;
    while reading.join_next().await.transpose()?.is_some() {}
    let released = Instant::now();
    let mut back = JoinSet::new();
    for lock in locks.iter().cycle().take(readers) {
        let lock = lock.clone();
        back.spawn(async move { Ok::<_, spindle::Error>((lock.read().await?, Instant::now())) });
    }
    let (guard, begun) = writing.await??;
    times.begun.push(begun - released);
    sleep(MEANTIME.mul_f64(0.5 + rand::random::<f64>() / 2.0)).await;
    let ended = Instant::now();
    let _ = guard.release().await;
    let (mut guards, mut came) = (Vec::new(), Vec::new());
    while let Some(reader) = back.join_next().await {
        let (guard, at) = reader??;
        guards.push(guard);
        came.push(at - ended);
    }
    times.first_back.extend(came.iter().min());
    times.last_back.extend(came.iter().max());
    for guard in guards {
        let _ = guard.release().await;
    }
    Ok(())
}
