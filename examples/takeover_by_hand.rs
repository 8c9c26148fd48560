//! An operator's acts with nothing but the database: look, evict, seize.
//!
//! ```text
//! cargo run --example takeover_by_hand
//! ```

#[path = "parts/server.rs"]
mod server;

use std::process::ExitCode;
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, LockTable, RunHandle, Spindle, operate::Observer};
use tokio::time::{Instant, sleep, timeout};

use crate::server::Server;

const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
const LEASE: Duration = Duration::from_secs(2);
const PATIENCE: Duration = Duration::from_secs(30);

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    match tell().await {
        Ok(verdict) => {
            println!("{verdict}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("takeover_by_hand: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tell() -> Result<String, Failure> {
    let spanner = Server::start(DATABASE, LockTable::DDL).await?;
    let outside = connect(&spanner.endpoint()).await?;
    // All that the operator has.
    let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
    table.check().await?;

    let (a, _a_runs) = contend(&spanner, "a")?;
    held(&a).await?;
    let (b, _b_runs) = contend(&spanner, "b")?;
    let lock = table.inspect("job").await?;
    println!(
        "inspect: {:?} under {:?}, heard of {:?} ago, says `{}`",
        lock.holding,
        lock.token,
        lock.heartbeat_age.unwrap_or_default(),
        lock.info.as_deref().unwrap_or_default()
    );

    let mut observer = table.observe("job").interval(Duration::from_millis(50));
    report(&mut observer).await?;
    let before = row(&outside).await?;
    let evicted = table.evict("job").await?.ok_or("nobody was evicted")?;
    println!("evict: {} no longer holds under {}", evicted.id, evicted.token);
    let after = row(&outside).await?;
    if after.heartbeat < before.heartbeat || after.token <= before.token {
        return Err(format!("the eviction wrote {after:?} over {before:?}").into());
    }
    let report_vacant = report(&mut observer).await?;
    if report_vacant.is_some() {
        return Err("nobody should lead after an eviction".into());
    }
    report(&mut observer).await?.ok_or("somebody should lead again")?;
    let next = row(&outside).await?;
    let waited = next.token - after.heartbeat;
    if waited < i128::try_from(LEASE.as_nanos())? {
        return Err(format!("the evicted holder's lease was cut short: {waited} ns").into());
    }
    println!("the next term began {:.2} s after the last heartbeat", waited as f64 / 1e9);

    let chosen = if next.writer.starts_with("a#") { &b } else { &a };
    let seized_at = Instant::now();
    let seized = table.seize("job").for_contender(chosen.id()).await?.ok_or("nobody held")?;
    println!("seize: {} is deposed, in favour of {}", seized.id, chosen.id());
    held(chosen).await?;
    let seized_in = seized_at.elapsed();
    println!("{} leads, {seized_in:.1?} later", chosen.id());
    let last = row(&outside).await?;
    if !last.writer.starts_with(&format!("{}#", chosen.id())) || last.token <= next.token {
        return Err(format!("after the seizure: {last:?}").into());
    }
    if seized_in >= LEASE {
        return Err(format!("the seizure took {seized_in:?}").into());
    }
    sweep(&table, &outside).await?;
    Ok(format!(
        "takeover_by_hand: ok evicted_after={:.2}x_lease seized_in={}ms swept=1",
        waited as f64 / LEASE.as_nanos() as f64,
        seized_in.as_millis()
    ))
}

/// A leftover of a lock that is gone, and what a sweep does to the table.
async fn sweep(table: &LockTable, outside: &DatabaseClient) -> Result<(), Failure> {
    let leftover = Mutation::new_insert_builder("locktable")
        .set("name")
        .to("gone_1700000000000000000")
        .build();
    outside.write_only_transaction().build().write(vec![leftover]).await?;
    let mut locks = table.list();
    while let Some(lock) = locks.next().await? {
        println!("list: {} {:?}", lock.name, lock.holding);
        if lock.name != "job" {
            return Err(format!("`{}` is no lock", lock.name).into());
        }
    }
    let swept = table.sweep().await?;
    println!("sweep: {swept} leftover removed");
    let keys = KeySet::builder().add_key(key!["gone_1700000000000000000"]).build();
    let read = ReadRequest::builder("locktable", vec!["name"]).with_keys(keys).build();
    let mut rows = outside.single_use().build().execute_read(read).await?;
    match rows.next().await {
        None if swept == 1 => Ok(()),
        _ => Err(format!("the leftover is still there, or more went: {swept}").into()),
    }
}

/// The next report of the observer: who leads now.
async fn report(observer: &mut Observer) -> Result<Option<u64>, Failure> {
    let lock = timeout(PATIENCE, observer.next()).await??;
    println!("observe: {:?}", lock.holding);
    Ok(lock.token.filter(|_| lock.is_held()).map(u64::from))
}

#[derive(Debug)]
struct Row {
    heartbeat: i128,
    token: i128,
    writer: String,
}

/// The lock row, read without the library.
async fn row(client: &DatabaseClient) -> Result<Row, Failure> {
    let keys = KeySet::builder().add_key(key!["job"]).build();
    let read = ReadRequest::builder("locktable", vec!["heartbeat", "token", "writer"]);
    let read = read.with_keys(keys).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let row = rows.next().await.ok_or("the lock has no row")??;
    let (heartbeat, token) = (row.get("heartbeat")?, row.get("token")?);
    Ok(Row {
        heartbeat: nanoseconds(heartbeat),
        token: nanoseconds(token),
        writer: row.get("writer")?,
    })
}

fn contend(spanner: &Server, id: &str) -> Result<(Spindle, RunHandle), Failure> {
    let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
    let lock = table.lock("job").id(id).lease(LEASE).info(format!("the node called {id}"));
    let lock = lock.build()?;
    let running = lock.run(CancellationToken::new());
    Ok((lock, running))
}

async fn held(lock: &Spindle) -> Result<(), Failure> {
    let holding = async {
        while lock.has_lock().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    Ok(timeout(PATIENCE, holding).await.map_err(|_| format!("{} never led", lock.id()))?)
}

async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}

fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
