//! A catalogue that many read and one changes at a time, on the embedded Spanner.
//!
//! ```text
//! cargo run --example readers_and_writers
//! ```
//!
//! A price list takes several commits to change, and several reads to look through: too much for one
//! transaction, say. Six readers in three processes read it again and again, and two writers in two
//! more change it, each under its guard. At last a writer dies without a word. Nobody may ever see
//! prices of two versions at once. That is judged by what was read, and by the versions in
//! the table.

#[path = "parts/server.rs"]
mod server;

use std::collections::BTreeSet;
use std::time::Duration;

use spindle::google_cloud_spanner::client::DatabaseClient;
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::{Database, FencingToken, LockTable};
use spindle_fleet::{ReadGuard, RwLock};
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::server::{DATABASE, Failure, Server, connect};

const LEASE: Duration = Duration::from_secs(2);
const ARTICLES: [&str; 3] = ["apples", "bread", "cheese"];
const CHANGES: i64 = 3;

const TABLE: &str = "CREATE TABLE prices (
    article STRING(MAX) NOT NULL,
    version INT64,
) PRIMARY KEY (article)";

/// The versions that one reader saw under one guard.
struct Seen {
    token: FencingToken,
    versions: BTreeSet<i64>,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let spanner = Server::start(TABLE).await?;
    let client = connect(&spanner.endpoint()).await?;
    // A connection of its own, as in a process of its own.
    let process = |id: &str| -> Result<RwLock, Failure> {
        let table = LockTable::new(Database::at(spanner.endpoint(), DATABASE), "locktable");
        Ok(RwLock::new(&table, "catalogue").id(id).lease(LEASE).build()?)
    };
    change(&process("first")?, &client).await?;

    let mut readers = JoinSet::new();
    for id in ["reader-1", "reader-2", "reader-3"] {
        let catalogue = process(id)?;
        for _ in 0..2 {
            readers.spawn(read_on(catalogue.clone(), client.clone()));
        }
    }
    let mut writers = JoinSet::new();
    for id in ["writer-1", "writer-2"] {
        let (catalogue, client) = (process(id)?, client.clone());
        writers.spawn(async move {
            let mut tokens = Vec::new();
            for _ in 0..CHANGES {
                sleep(Duration::from_millis(300)).await;
                tokens.push(change(&catalogue, &client).await?);
            }
            Ok::<_, Failure>(tokens)
        });
    }
    let mut tokens = BTreeSet::new();
    while let Some(changed) = writers.join_next().await {
        tokens.extend(changed??);
    }
    let mut seen = Vec::new();
    while let Some(read) = readers.join_next().await {
        seen.extend(read??);
    }
    judge(&seen, &tokens)?;
    outlive(process("doomed")?, &process("reader-1")?, &client).await
}

/// Reads the catalogue until the last change has come.
async fn read_on(catalogue: RwLock, client: DatabaseClient) -> Result<Vec<Seen>, Failure> {
    let mut seen = Vec::new();
    loop {
        let guard: ReadGuard = catalogue.read().await?;
        let mut versions = BTreeSet::new();
        for article in ARTICLES {
            // Each in a read of its own: without the lock a change could come between.
            versions.insert(version(&client, article).await?);
            sleep(Duration::from_millis(20)).await;
        }
        let is_last = versions.contains(&(1 + 2 * CHANGES));
        seen.push(Seen { token: guard.token(), versions });
        guard.release().await;
        if is_last {
            return Ok(seen);
        }
    }
}

/// Changes all prices, one commit each; each is refused if the guard is lost.
async fn change(catalogue: &RwLock, client: &DatabaseClient) -> Result<FencingToken, Failure> {
    let guard = catalogue.write().await?;
    let next = version(client, ARTICLES[0]).await? + 1;
    for article in ARTICLES {
        guard.fence().write(client, [price(article, next)]).await?;
        sleep(Duration::from_millis(20)).await;
    }
    let token = guard.token();
    guard.release().await;
    Ok(token)
}

/// A writer that dies without a word keeps readers waiting for a lease, and can't write after it.
async fn outlive(
    doomed: RwLock,
    successor: &RwLock,
    client: &DatabaseClient,
) -> Result<(), Failure> {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let guard = runtime.spawn(async move { doomed.write().await }).await??;
    let died = Instant::now();
    runtime.shutdown_background();
    if successor.try_read().await?.is_some() {
        return Err("a reader began beside a writer".into());
    }
    let reading = successor.read().await?;
    println!("a reader began {:.1?} after the writer had died", died.elapsed());
    if reading.token() <= guard.token() {
        return Err("the reader's token is not later".into());
    }
    match guard.fence().write(client, [price(ARTICLES[0], -1)]).await {
        Err(error) if error.is_fenced() => println!("its late write was refused: {error}"),
        Err(error) => return Err(error.into()),
        Ok(_) => return Err("a writer wrote beside a reader".into()),
    }
    reading.release().await;
    Ok(())
}

fn judge(seen: &[Seen], tokens: &BTreeSet<FencingToken>) -> Result<(), Failure> {
    let mut seen: Vec<&Seen> = seen.iter().collect();
    seen.sort_by_key(|seen| seen.token);
    println!("{} changes, read {} times", tokens.len(), seen.len());
    for Seen { token, versions } in &seen {
        // A reader sees every change that has an earlier token, and none that has a later one.
        let changes = i64::try_from(tokens.range(..token).count())?;
        if *versions != BTreeSet::from([1 + changes]) {
            return Err(format!("read {versions:?} after {changes} changes").into());
        }
    }
    let expected = usize::try_from(2 * CHANGES)?;
    if tokens.len() != expected {
        return Err(format!("{} changes; expected {expected}", tokens.len()).into());
    }
    Ok(())
}

fn price(article: &str, version: i64) -> Mutation {
    let row = Mutation::new_insert_or_update_builder("prices").set("article").to(article);
    row.set("version").to(version).build()
}

async fn version(client: &DatabaseClient, article: &str) -> Result<i64, Failure> {
    let columns = vec!["article", "version"];
    let read = ReadRequest::builder("prices", columns).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    while let Some(row) = rows.next().await.transpose()? {
        if row.get::<String>("article")? == article {
            return Ok(row.get("version")?);
        }
    }
    Ok(0)
}
