//! At most three uploads at a time in the whole fleet, on the embedded Spanner.
//!
//! ```text
//! cargo run --example permits
//! ```
//!
//! Twelve tasks in four processes share a semaphore of three permits. Each upload writes its begin
//! and its end under the fence of its permit. That is judged from outside: by the `uploads` table,
//! read without the library.

#[path = "parts/server.rs"]
mod server;

use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{Database, LockTable};
use spindle_fleet::{Permit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::server::{DATABASE, Failure, Server, connect};

const LEASE: Duration = Duration::from_secs(2);
const PERMITS: usize = 3;
const UPLOADS: usize = 24;

const TABLE: &str = "CREATE TABLE uploads (
    name STRING(MAX) NOT NULL,
    permit INT64,
    began TIMESTAMP OPTIONS (allow_commit_timestamp=true),
    ended TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (name)";

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let spanner = Server::start(TABLE).await?;
    let client = connect(&spanner.endpoint()).await?;

    let mut tasks = JoinSet::new();
    for process in 0..4 {
        // A connection of its own, as in a process of its own.
        let table = LockTable::new(Database::at(spanner.endpoint(), DATABASE), "locktable");
        let uploads = Semaphore::new(&table, "uploads", PERMITS).id(format!("process-{process}"));
        let uploads = uploads.lease(LEASE).build()?;
        for task in 0..3 {
            let name = format!("{process}.{task}");
            tasks.spawn(upload_some(uploads.clone(), client.clone(), name));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    judge(&client).await
}

async fn upload_some(
    uploads: Semaphore,
    client: DatabaseClient,
    name: String,
) -> Result<(), Failure> {
    for file in 0..UPLOADS / 12 {
        let permit = uploads.acquire().await?;
        upload(&permit, &client, format!("{name}.{file}")).await?;
        permit.release().await;
    }
    Ok(())
}

/// Writes when it began and when it ended, each only while the permit is held.
async fn upload(permit: &Permit, client: &DatabaseClient, name: String) -> Result<(), Failure> {
    let number = i64::try_from(permit.number())?;
    let began = Mutation::new_insert_builder("uploads").set("name").to(name.clone());
    let began = began.set("permit").to(number).set("began").to("spanner.commit_timestamp()");
    permit.fence().write(client, [began.build()]).await?;
    sleep(Duration::from_millis(100)).await;
    let ended = Mutation::new_update_builder("uploads").set("name").to(name);
    let ended = ended.set("ended").to("spanner.commit_timestamp()");
    permit.fence().write(client, [ended.build()]).await?;
    Ok(())
}

/// Counts by Spanner's own times how many uploads there were at once.
async fn judge(client: &DatabaseClient) -> Result<(), Failure> {
    let columns = vec!["name", "permit", "began", "ended"];
    let read = ReadRequest::builder("uploads", columns).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut changes = Vec::new();
    let mut count = 0;
    while let Some(row) = rows.next().await.transpose()? {
        let permit: i64 = row.get("permit")?;
        let time = |time: Timestamp| (time.seconds(), time.nanos());
        changes.push((time(row.get("began")?), 1, permit));
        changes.push((time(row.get("ended")?), -1, permit));
        count += 1;
    }
    changes.sort_unstable();
    let (mut at_once, mut most, mut held) = (0_i32, 0_i32, [0_i32; PERMITS]);
    for (_, change, permit) in changes {
        at_once += change;
        most = most.max(at_once);
        let held = held.get_mut(usize::try_from(permit)?).ok_or("a permit that is not there")?;
        *held += change;
        if *held > 1 {
            return Err(format!("permit {permit} was held twice at once").into());
        }
    }
    println!("{count} uploads, at most {most} at once, with {PERMITS} permits");
    if count != UPLOADS {
        return Err(format!("{count} uploads; expected {UPLOADS}").into());
    }
    if most != i32::try_from(PERMITS)? {
        return Err(format!("{most} at once; expected {PERMITS}").into());
    }
    Ok(())
}
