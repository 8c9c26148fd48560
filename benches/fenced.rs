//! What fences cost: printed with units, asserted nowhere.
//!
//! ```text
//! cargo bench --bench fenced
//! ```
//!
//! 16 writers under one fence, and the same transactions reading a row that nobody writes
//! instead, in turns; and the holder's heartbeats meanwhile. Real time, release build, the
//! embedded Spanner in a process of its own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, Fence, LockTable};
use spindle_emulator::Emulator;
use tokio::time::{Instant, sleep};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const LEASE: Duration = Duration::from_secs(1);
const WRITERS: u64 = 16;
const ROUND: Duration = Duration::from_secs(2);
const ROUNDS: usize = 5;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Clone)]
enum Reads {
    /// The lock row, as a fence.
    Fence(Fence),
    /// A row of the same form that nobody writes.
    Idle,
    /// Nothing happens but heartbeats.
    Nothing,
}

fn main() -> Result<(), Failure> {
    let runtime = tokio::runtime::Runtime::new()?;
    match std::env::args().nth(1).as_deref() {
        Some("server") => runtime.block_on(serve()),
        _ => runtime.block_on(measure()),
    }
}

/// The embedded Spanner, until the parent is gone.
async fn serve() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    let idle = LockTable::DDL.replace("locktable", "idle");
    let orders = "CREATE TABLE orders (writer INT64, number INT64) PRIMARY KEY (writer, number)";
    spanner.create_database(DATABASE, &format!("{}\n{idle}\n{orders}", LockTable::DDL)).await?;
    println!("{}", spanner.endpoint());
    tokio::task::spawn_blocking(|| std::io::stdin().lines().count()).await?;
    Ok(())
}

async fn measure() -> Result<(), Failure> {
    let (_server, endpoint) = start_server()?;
    let client = connect(&endpoint).await?;
    let row = Mutation::new_insert_builder("idle").set("name").to("job").build();
    client.write_only_transaction().build().write(vec![row]).await?;
    let table = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let lock = table.lock("job").lease(LEASE).build()?;
    let cancel = CancellationToken::new();
    let running = lock.run(cancel.clone());
    let term = loop {
        if let Some(term) = lock.term() {
            break term;
        }
        sleep(Duration::from_millis(5)).await;
    };
    let numbers = Arc::new(AtomicU64::new(0));
    let (mut fenced, mut idle, mut quiet) = <(Measured, Measured, Measured)>::default();
    for _ in 0..ROUNDS {
        fenced.add(round(&client, Reads::Fence(term.fence()), &numbers).await?);
        idle.add(round(&client, Reads::Idle, &numbers).await?);
        quiet.add(round(&client, Reads::Nothing, &numbers).await?);
    }
    if term.has_ended() {
        return Err("the term ended while it was measured".into());
    }
    let (fenced_rate, idle_rate) = (fenced.rate(), idle.rate());
    println!("{WRITERS} fenced writers: {fenced_rate:.0} transactions/s");
    println!("{WRITERS} writers that read an idle row: {idle_rate:.0} transactions/s");
    println!("fenced / idle: {:.1} %", fenced_rate / idle_rate * 100.0);
    fenced.print_heartbeats("beside fenced writers");
    idle.print_heartbeats("beside the others");
    quiet.print_heartbeats("alone");
    cancel.cancel();
    Ok(running.await?)
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

    fn print_heartbeats(&mut self, when: &str) {
        self.gaps.sort();
        let (Some(median), Some(last)) = (self.gaps.get(self.gaps.len() / 2), self.gaps.last())
        else {
            println!("heartbeats {when}: none seen");
            return;
        };
        println!(
            "heartbeats {when}: every {:.1} ms in the median, {:.1} ms at the most ({} seen)",
            median.as_secs_f64() * 1e3,
            last.as_secs_f64() * 1e3,
            self.gaps.len()
        );
    }
}

async fn round(
    client: &DatabaseClient,
    reads: Reads,
    numbers: &Arc<AtomicU64>,
) -> Result<Measured, Failure> {
    let done = Arc::new(AtomicBool::new(false));
    let watching = tokio::spawn(watch_heartbeats(client.clone(), Arc::clone(&done)));
    let start = Instant::now();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let (client, reads) = (client.clone(), reads.clone());
            let numbers = Arc::clone(numbers);
            tokio::spawn(async move {
                let mut count = 0;
                while start.elapsed() < ROUND {
                    let number = numbers.fetch_add(1, Ordering::Relaxed);
                    match &reads {
                        Reads::Fence(fence) => write_fenced(&client, fence, writer, number).await?,
                        Reads::Idle => write_beside_idle(&client, writer, number).await?,
                        Reads::Nothing => {
                            sleep(ROUND).await;
                            continue;
                        }
                    }
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

async fn write_fenced(
    client: &DatabaseClient,
    fence: &Fence,
    writer: u64,
    number: u64,
) -> Result<(), Failure> {
    fence.write(client, [order(writer, number)]).await?;
    Ok(())
}

/// The same transaction, but for whose row it reads.
async fn write_beside_idle(
    client: &DatabaseClient,
    writer: u64,
    number: u64,
) -> Result<(), Failure> {
    let runner = client.read_write_transaction().build();
    let written = runner.run(move |transaction: ReadWriteTransaction| async move {
        let keys = KeySet::builder().add_key(key!["job"]).build();
        let read = ReadRequest::builder("idle", vec!["token", "writer"]).with_keys(keys).build();
        let mut rows = transaction.execute_read(read).await?;
        while rows.next().await.transpose()?.is_some() {}
        transaction.buffer([order(writer, number)])
    });
    written.await?;
    Ok(())
}

/// The times between heartbeats, until `done`.
async fn watch_heartbeats(
    client: DatabaseClient,
    done: Arc<AtomicBool>,
) -> Result<Vec<Duration>, Failure> {
    let mut seen: Vec<i128> = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let keys = KeySet::builder().add_key(key!["job"]).build();
        let read = ReadRequest::builder("locktable", vec!["heartbeat"]).with_keys(keys).build();
        let mut rows = client.single_use().build().execute_read(read).await?;
        let heartbeat: Timestamp = rows.next().await.ok_or("no row")??.get("heartbeat")?;
        let at = i128::from(heartbeat.seconds()) * 1_000_000_000 + i128::from(heartbeat.nanos());
        if seen.last() != Some(&at) {
            seen.push(at);
        }
        sleep(Duration::from_millis(20)).await;
    }
    let gap = |pair: &[i128]| u64::try_from(pair[1] - pair[0]).map(Duration::from_nanos);
    Ok(seen.windows(2).map(gap).collect::<Result<_, _>>()?)
}

async fn connect(endpoint: &str) -> Result<DatabaseClient, Failure> {
    let spanner = Spanner::builder().with_endpoint(endpoint).build().await?;
    Ok(spanner.database_client(DATABASE).build().await?)
}

/// Killed when it is dropped.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start_server() -> Result<(Server, String), Failure> {
    let mut child = Command::new(std::env::current_exe()?)
        .arg("server")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("the server has no output")?;
    let server = Server(child);
    let mut endpoint = String::new();
    BufReader::new(output).read_line(&mut endpoint)?;
    Ok((server, endpoint.trim().to_string()))
}
