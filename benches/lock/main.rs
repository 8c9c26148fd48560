//! The cost of one lock: printed with units, asserted nowhere.
//!
//! ```text
//! cargo bench --bench lock
//! cargo bench --bench lock -- handover
//! cargo bench --bench lock -- fenced
//! ```
//!
//! Real time, release build, lease 1 s, the embedded Spanner in a process of its own, which counts
//! the requests.

mod fenced;
mod handover;
#[path = "../parts/mod.rs"]
mod parts;

use std::alloc::System;
use std::hint::black_box;
use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, Database, Ddl, FencingToken, LockTable, RunHandle, Spindle};
use stats_alloc::{Region, StatsAlloc};
use tokio::time::{Instant, sleep};

use crate::parts::{
    DATABASE, Failure, Part, Server, Times, arguments, connect, load, milliseconds,
};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &stats_alloc::INSTRUMENTED_SYSTEM;

const LEASE: Duration = Duration::from_secs(1);
/// For so many leases requests are counted.
const STEADY: u32 = 10;

fn main() -> Result<(), Failure> {
    let arguments = arguments();
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(measure(&arguments.iter().map(String::as_str).collect::<Vec<_>>()))
}

async fn measure(arguments: &[&str]) -> Result<(), Failure> {
    match *arguments {
        ["server"] => {
            return Server::serve(&format!(
                "{};\n{}",
                LockTable::ddl(Ddl::GoogleSql),
                fenced::ORDERS
            ))
            .await;
        }
        ["holder", endpoint] => return hold(endpoint).await,
        [] | ["handover" | "fenced"] => {}
        _ => return Err(format!("no benchmark {arguments:?}").into()),
    }
    let mut server = Server::start()?;
    println!("{}", load());
    match *arguments {
        ["handover"] => return handover::measure(&mut server).await,
        ["fenced"] => return fenced::measure(&server).await,
        _ => {}
    }
    has_lock(&server).await?;
    run_to_holding(&server).await?;
    let released = handover::handovers(&mut server, LEASE / 5, 1).await?.1;
    print("release-to-held", &format!("poll_interval_ms={} ", (LEASE / 5).as_millis()), &released);
    kill_to_holding(&server).await?;
    memory(&server).await?;
    requests(&mut server).await
}

/// An instance that contends.
fn contend(table: &LockTable, name: &str) -> Result<(Spindle, RunHandle), Failure> {
    let lock = table.lock(name).lease(LEASE).build()?;
    let running = lock.run(CancellationToken::new());
    Ok((lock, running))
}

async fn held(lock: &Spindle) -> FencingToken {
    loop {
        if let Some(token) = lock.has_lock() {
            return token;
        }
        sleep(Duration::from_millis(1)).await;
    }
}

/// A holder that is there to be killed.
async fn hold(endpoint: &str) -> Result<(), Failure> {
    let (lock, running) = contend(
        &LockTable::new(Database::at(endpoint, DATABASE).side_by_side(), "locktable"),
        "crash",
    )?;
    held(&lock).await;
    println!("holds");
    Ok(running.await?)
}

async fn has_lock(server: &Server) -> Result<(), Failure> {
    const ROUNDS: u32 = 5_000_000;
    let (lock, running) = contend(&server.table(), "has_lock")?;
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

async fn run_to_holding(server: &Server) -> Result<(), Failure> {
    let table = server.table();
    table.check().await?;
    let mut samples = Vec::new();
    for n in 0..100 {
        let start = Instant::now();
        let (lock, running) = contend(&table, &format!("free-{n}"))?;
        let mut watch = lock.watch();
        watch.next().await;
        samples.push(start.elapsed());
        drop((lock, watch));
        running.await?;
    }
    print("run-to-held", "", &Times::from_iter(samples));
    Ok(())
}

async fn kill_to_holding(server: &Server) -> Result<(), Failure> {
    let client = connect(&server.endpoint).await?;
    let mut samples = Vec::new();
    for _ in 0..10 {
        let mut holder = Part::start(&["holder", &server.endpoint])?;
        holder.line()?;
        let (lock, running) = contend(&server.table(), "crash")?;
        sleep(LEASE).await;
        // SIGKILL, on Unix.
        holder.child.kill()?;
        let last_heartbeat = heartbeat(&client, "crash").await?;
        let token = i128::from(held(&lock).await.as_nanoseconds());
        samples.push(Duration::from_nanos(u64::try_from(token - last_heartbeat)?));
        drop(lock);
        running.await?;
    }
    print("kill-to-held", &format!("lease_ms={} ", LEASE.as_millis()), &Times::from_iter(samples));
    Ok(())
}

async fn memory(server: &Server) -> Result<(), Failure> {
    const LOCKS: usize = 1_000;
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let tasks_without_client = tasks();
    let table = LockTable::new(connect(&server.endpoint).await?, "locktable");
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

/// The requests of some leases, how many of them are reads, and how many commits.
async fn counted(server: &mut Server) -> Result<[f64; 3], Failure> {
    let mut count = || -> Result<[u64; 3], Failure> {
        let counts = server.part.counts()?;
        let of = |rpc: &str| counts.get(rpc).copied().unwrap_or_default();
        Ok([server.requests()?, of("StreamingRead"), of("Commit")])
    };
    let before = count()?;
    sleep(LEASE * STEADY).await;
    let after = count()?;
    Ok([0, 1, 2].map(|at| (after[at] - before[at]) as f64))
}

async fn requests(server: &mut Server) -> Result<(), Failure> {
    let (lock, _running) = contend(&server.table(), "requests")?;
    held(&lock).await;
    let [total, _, heartbeats] = counted(server).await?;
    println!(
        "holder-requests: ok a_heartbeat={:.2} a_lease={:.1}",
        total / heartbeats,
        total / f64::from(STEADY)
    );
    let _contender = contend(&server.table(), "requests")?;
    sleep(LEASE).await;
    let [total, reads, commits] = counted(server).await?;
    let requests = total - 2.0 * commits;
    println!(
        "contender-requests: ok a_poll={:.2} a_lease={:.1}",
        requests / (reads - commits),
        requests / f64::from(STEADY)
    );
    Ok(())
}

/// The last heartbeat of a lock, by Spanner's clock in nanoseconds.
async fn heartbeat(client: &DatabaseClient, lock: &str) -> Result<i128, Failure> {
    let keys = KeySet::builder().add_key(key![lock.to_string()]).build();
    let read = ReadRequest::builder("locktable", vec!["heartbeat"]).with_keys(keys).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let heartbeat: Timestamp = rows.next().await.ok_or("no row")??.get("heartbeat")?;
    Ok(i128::from(heartbeat.seconds()) * 1_000_000_000 + i128::from(heartbeat.nanos()))
}

/// One line in the form that `docs/figures.md` has.
fn print(what: &str, setting: &str, times: &Times) {
    let [median, p90, worst] = [50, 90, 100].map(|percent| milliseconds(times.at(percent)));
    println!(
        "{what}: ok {setting}median_ms={median:.1} p90_ms={p90:.1} worst_ms={worst:.1} samples={}",
        times.count()
    );
}
