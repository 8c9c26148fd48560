//! The cost of the lock: printed with units, asserted nowhere.
//!
//! ```text
//! cargo bench --bench lock
//! ```
//!
//! Real time, release build, the embedded Spanner in a process of its own.

mod parts;
#[path = "parts/serve.rs"]
mod serve;

use std::alloc::System;
use std::hint::black_box;
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, FencingToken, LockTable, Spindle};
use spindle_emulator::{Emulator, Rpc};
use stats_alloc::{Region, StatsAlloc};
use tokio::time::{Instant, sleep};

use crate::parts::{Failure, Part, load};
use crate::serve::{DATABASE, serve};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &stats_alloc::INSTRUMENTED_SYSTEM;

const LEASE: Duration = Duration::from_secs(1);

fn main() -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    let runtime = tokio::runtime::Runtime::new()?;
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("server"), _) => runtime.block_on(serve(LockTable::DDL)),
        (Some("holder"), Some(endpoint)) => runtime.block_on(hold(&endpoint)),
        _ => runtime.block_on(measure()),
    }
}

/// A holder that is there to be killed.
async fn hold(endpoint: &str) -> Result<(), Failure> {
    let lock = LockTable::connect_to(endpoint, DATABASE, "locktable").lock("crash");
    let lock = lock.lease(LEASE).build()?;
    let running = lock.run(CancellationToken::new());
    held(&lock).await;
    println!("holds");
    Ok(running.await?)
}

async fn measure() -> Result<(), Failure> {
    let mut server = Part::start(&["server"])?;
    let endpoint = server.line()?;
    println!("{}", load());
    has_lock(&endpoint).await?;
    run_to_holding(&endpoint).await?;
    release_to_holding(&endpoint).await?;
    kill_to_holding(&endpoint).await?;
    memory(&endpoint).await?;
    requests().await
}

async fn has_lock(endpoint: &str) -> Result<(), Failure> {
    const ROUNDS: u32 = 5_000_000;
    let lock = LockTable::connect_to(endpoint, DATABASE, "locktable").lock("has_lock").build()?;
    let running = lock.run(CancellationToken::new());
    held(&lock).await;
    let per_round = |start: Instant| start.elapsed().as_secs_f64() * 1e9 / f64::from(ROUNDS);

    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(rustix::time::clock_gettime(rustix::time::ClockId::Boottime));
    }
    let clock = per_round(start);
    let region = Region::new(ALLOCATOR);
    let start = Instant::now();
    for _ in 0..ROUNDS {
        black_box(lock.has_lock());
    }
    let has_lock = per_round(start);
    // The loop's heartbeats allocate meanwhile, a few hundred times; a call that did would show.
    let allocations = region.change().allocations as f64 / f64::from(ROUNDS);
    println!(
        "has-lock: ok ns={has_lock:.1} one_clock_read_ns={clock:.1} ratio={:.2} \
         allocations={allocations:.4}",
        has_lock / clock
    );
    drop(lock);
    Ok(running.await?)
}

async fn run_to_holding(endpoint: &str) -> Result<(), Failure> {
    let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
    table.check().await?;
    let mut samples = Vec::new();
    for n in 0..100 {
        let lock = table.lock(format!("free-{n}")).build()?;
        let start = Instant::now();
        let running = lock.run(CancellationToken::new());
        let mut watch = lock.watch();
        watch.next().await;
        samples.push(start.elapsed());
        drop((lock, watch));
        running.await?;
    }
    print("run-to-held", "", samples);
    Ok(())
}

async fn release_to_holding(endpoint: &str) -> Result<(), Failure> {
    let contend = || {
        let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
        let lock = table.lock("release").lease(LEASE).build()?;
        let cancel = CancellationToken::new();
        let running = lock.run(cancel.clone());
        Ok::<_, Failure>((lock, cancel, running))
    };
    let mut samples = Vec::new();
    let (mut first, mut cancel, mut running) = contend()?;
    held(&first).await;
    for _ in 0..20 {
        let second = contend()?;
        // Until the other has begun to poll, and at a random phase of its polls.
        sleep(LEASE + LEASE.mul_f64(rand::random::<f64>() / 5.0)).await;
        let mut watch = second.0.watch();
        let start = Instant::now();
        cancel.cancel();
        watch.next().await;
        samples.push(start.elapsed());
        running.await?;
        (first, cancel, running) = second;
    }
    drop(first);
    running.await?;
    print("release-to-held", &format!("poll_interval_ms={} ", (LEASE / 5).as_millis()), samples);
    Ok(())
}

async fn kill_to_holding(endpoint: &str) -> Result<(), Failure> {
    let client = connect(endpoint).await?;
    let mut samples = Vec::new();
    for _ in 0..10 {
        let mut holder = Part::start(&["holder", endpoint])?;
        holder.line()?;
        let table = LockTable::connect_to(endpoint, DATABASE, "locktable");
        let lock = table.lock("crash").lease(LEASE).build()?;
        let running = lock.run(CancellationToken::new());
        sleep(LEASE).await;
        // SIGKILL, on Unix.
        holder.child.kill()?;
        let last_heartbeat = heartbeat(&client, "crash").await?;
        let token = held(&lock).await;
        samples.push(Duration::from_nanos(token.as_nanoseconds().saturating_sub(last_heartbeat)));
        drop(lock);
        running.await?;
    }
    print("kill-to-held", &format!("lease_ms={} ", LEASE.as_millis()), samples);
    Ok(())
}

async fn memory(endpoint: &str) -> Result<(), Failure> {
    const LOCKS: usize = 1_000;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let tasks_without_client = tasks();
    let table = LockTable::new(connect(endpoint).await?, "locktable");
    table.check().await?;
    let tasks_before = tasks();
    let region = Region::new(ALLOCATOR);
    let net = || {
        let change = region.change();
        change.bytes_allocated.cast_signed() - change.bytes_deallocated.cast_signed()
    };
    let mut locks = Vec::with_capacity(LOCKS);
    for n in 0..LOCKS {
        let lock = table.lock(format!("many-{n}")).lease(Duration::from_secs(60)).build()?;
        let running = lock.run(CancellationToken::new());
        locks.push((lock, running));
    }
    for (lock, _) in &locks {
        held(lock).await;
    }
    // Past the burst of the beginning, before the first heartbeats.
    sleep(Duration::from_secs(5)).await;
    let each = net() / LOCKS.cast_signed();
    let tasks_while = tasks();
    for (lock, running) in locks {
        drop(lock);
        running.await?;
    }
    sleep(Duration::from_secs(1)).await;
    let tasks_after = tasks();
    // The client has opened more connections of its own under the load; they go with it.
    drop(table);
    sleep(Duration::from_secs(1)).await;
    println!(
        "idle-locks: ok locks={LOCKS} kib_each={:.1} tasks_before={tasks_without_client} \
         with_client={tasks_before} running={tasks_while} after={tasks_after} without_client={}",
        each as f64 / 1024.0,
        tasks()
    );
    Ok(())
}

/// In this process, where the server's counters are at hand.
async fn requests() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner.create_database(DATABASE, include_str!("../ddl/googlesql.sql")).await?;
    let contend = || {
        let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
        let lock = table.lock("requests").lease(LEASE).build()?;
        let running = lock.run(CancellationToken::new());
        Ok::<_, Failure>((lock, running))
    };
    let holder = contend()?;
    held(&holder.0).await;
    let counts = spanner.requests();
    let over = LEASE * 10;
    counts.reset();
    sleep(over).await;
    let (total, heartbeats) = (counts.total(), counts.get(Rpc::Commit));
    println!(
        "holder-requests: ok a_heartbeat={:.2} a_lease={:.1}",
        total as f64 / heartbeats as f64,
        total as f64 * LEASE.as_secs_f64() / over.as_secs_f64()
    );
    let _contender = contend()?;
    sleep(LEASE).await;
    counts.reset();
    sleep(over).await;
    let requests = counts.total() - 2 * counts.get(Rpc::Commit);
    let polls = counts.get(Rpc::StreamingRead) - counts.get(Rpc::Commit);
    println!(
        "contender-requests: ok a_poll={:.2} a_lease={:.1}",
        requests as f64 / polls as f64,
        requests as f64 * LEASE.as_secs_f64() / over.as_secs_f64()
    );
    Ok(())
}

async fn held(lock: &Spindle) -> FencingToken {
    loop {
        if let Some(token) = lock.has_lock() {
            return token;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}

async fn heartbeat(client: &DatabaseClient, lock: &str) -> Result<u64, Failure> {
    let keys = KeySet::builder().add_key(key![lock.to_string()]).build();
    let read = ReadRequest::builder("locktable", vec!["heartbeat"]).with_keys(keys).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let row = rows.next().await.ok_or("no row")??;
    let timestamp: Timestamp = row.get("heartbeat")?;
    Ok(u64::try_from(timestamp.seconds())? * 1_000_000_000 + u64::try_from(timestamp.nanos())?)
}

/// One line in the form that `docs/benchmarks.md` quotes.
fn print(what: &str, setting: &str, mut samples: Vec<Duration>) {
    samples.sort();
    let milliseconds = |duration: Duration| duration.as_secs_f64() * 1e3;
    let at = |share: usize| milliseconds(samples[(samples.len() - 1) * share / 100]);
    println!(
        "{what}: ok {setting}median_ms={:.1} p90_ms={:.1} worst_ms={:.1} samples={}",
        at(50),
        at(90),
        at(100),
        samples.len()
    );
}
