//! A design that the library does not have, measured beside `handover`: a contender polls twice a
//! lease, and leaves its name and the time of its polls in a row of its own.
//!
//! ```text
//! cargo bench --bench waiting_row
//! ```
//!
//! A holder that is asked to go reads that row, leads on until just before the contender's next
//! poll, and then releases to that name. Real time, the embedded Spanner in this process, lease 2 s.

use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{Guard, LockTable, Spindle};
use spindle_emulator::Emulator;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};

const DATABASE: &str = "projects/p/instances/i/databases/d";
const WAITING: &str = "CREATE TABLE waiting (
    id STRING(MAX) NOT NULL, since TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id);";
const LEASE: Duration = Duration::from_secs(2);
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The release has to be committed before the poll reads.
const AHEAD: Duration = Duration::from_millis(30);
const HANDOVERS: u32 = 30;

type Failure = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let spanner = Emulator::start().await?;
    spanner.create_database(DATABASE, &format!("{};\n{WAITING}", LockTable::DDL)).await?;
    let client = Spanner::builder().with_endpoint(spanner.endpoint()).build().await?;
    let client = client.database_client(DATABASE).build().await?;
    let contend = |n: u32| {
        let table = LockTable::connect_to(spanner.endpoint(), DATABASE, "locktable");
        let lock = table.lock("handover").id(format!("contender-{n}")).lease(LEASE).build()?;
        Ok::<_, Failure>((lock.clone(), tokio::spawn(wait(lock, client.clone()))))
    };
    let (mut lock, first) = contend(0)?;
    let mut guard = first.await??.0;
    let (mut polls, mut gaps, mut delays) = (0, Vec::new(), Vec::new());
    for n in 1..=HANDOVERS {
        let (next, waiting): (Spindle, JoinHandle<_>) = contend(n)?;
        // At a random phase of the contender's polls.
        sleep(POLL_INTERVAL + POLL_INTERVAL.mul_f64(rand::random::<f64>())).await;
        let asked = Instant::now();
        sleep(until_next_poll(&client, next.id()).await?).await;
        let gone = Instant::now();
        delays.push(gone - asked);
        lock.resign_to(next.id()).await?;
        drop(guard);
        let (taken, since, sent) = waiting.await??;
        gaps.push(since - gone);
        polls += sent;
        (guard, lock) = (taken, next);
    }
    gaps.sort();
    delays.sort();
    let middle = gaps.len() / 2;
    println!(
        "waiting-row: ok lease_s={} polls_a_contender={:.1} without_holder_median_ms={} worst_ms={} \
         resign_delayed_median_ms={} worst_delay_ms={}",
        LEASE.as_secs(),
        f64::from(polls) / f64::from(HANDOVERS),
        gaps[middle].as_millis(),
        gaps[gaps.len() - 1].as_millis(),
        delays[middle].as_millis(),
        delays[delays.len() - 1].as_millis(),
    );
    drop(guard);
    spanner.stop().await;
    Ok(())
}

/// Leaves its name, polls at fixed times from then on, and says when it held after how many polls.
async fn wait(lock: Spindle, client: DatabaseClient) -> Result<(Guard, Instant, u32), Failure> {
    let row = Mutation::new_insert_or_update_builder("waiting")
        .set("id")
        .to(lock.id())
        .set("since")
        .to("spanner.commit_timestamp()")
        .build();
    client.write_only_transaction().build().write([row]).await?;
    let start = Instant::now();
    for polls in 0.. {
        sleep_until(start + POLL_INTERVAL * polls).await;
        if let Some(guard) = lock.try_acquire().await? {
            return Ok((guard, Instant::now(), polls + 1));
        }
    }
    Err("it never held".into())
}

/// Returns how long a holder leads on, for a contender that polls at fixed times.
async fn until_next_poll(client: &DatabaseClient, id: &str) -> Result<Duration, Failure> {
    let transaction = client.read_only_transaction().build().await?;
    let read = ReadRequest::builder("waiting", vec!["id", "since"]).with_keys(KeySet::all());
    let mut rows = transaction.execute_read(read.build()).await?;
    let mut since = None;
    while let Some(row) = rows.next().await.transpose()? {
        let name: String = row.get("id")?;
        if name == id {
            since = Some(nanoseconds(row.get("since")?));
        }
    }
    let since = since.ok_or("no row of the contender")?;
    let now = nanoseconds(transaction.read_timestamp().ok_or("no read timestamp")?);
    let waited = Duration::from_nanos(u64::try_from(now - since)?);
    let next = POLL_INTERVAL * (waited.as_millis() / POLL_INTERVAL.as_millis() + 1) as u32;
    Ok((next - waited).saturating_sub(AHEAD))
}

fn nanoseconds(timestamp: Timestamp) -> i128 {
    i128::from(timestamp.seconds()) * 1_000_000_000 + i128::from(timestamp.nanos())
}
