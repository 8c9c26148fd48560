//! Twelve shards, worked by processes that join, crash and leave, on the embedded Spanner.
//!
//! ```text
//! cargo run --example shards
//! ```
//!
//! Each worker has a runtime of its own; a crash ends that runtime without a word. The picture shows
//! who worked which shard when. Then the `marks` table, read without the library, tells whether a
//! worker wrote after the next one had begun.

#[path = "parts/process.rs"]
mod process;
#[path = "parts/server.rs"]
mod server;

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, LockTable, fleet::Shard};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::process::Process;
use crate::server::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
const LEASE: Duration = Duration::from_secs(2);
const SHARDS: usize = 12;
/// From one column of the picture to the next.
const COLUMN: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(60);

const TABLE: &str = "CREATE TABLE marks (
    id STRING(MAX) NOT NULL,
    shard INT64,
    token STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

fn main() -> ExitCode {
    let told = Runtime::new().map_err(Failure::from).and_then(|runtime| runtime.block_on(tell()));
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("shards: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tell() -> Result<(), Failure> {
    let spanner = Server::start(DATABASE, &format!("{};\n{TABLE}", LockTable::DDL)).await?;
    let endpoint = spanner.endpoint();
    let mut picture = Picture::default();
    let workload = picture.workload.clone();
    let start = |id| Process::start(|cancel| share(id, endpoint.clone(), cancel, workload.clone()));

    let (a, b) = (start("a")?, start("b")?);
    picture.settles("a and b start", 2).await?;
    let c = start("c")?;
    let before = workload.starts();
    picture.settles("c joins", 3).await?;
    let moved = workload.starts() - before;
    if moved != SHARDS / 3 {
        return Err(format!("{moved} shards moved when c joined; expected {}", SHARDS / 3).into());
    }
    b.crash();
    picture.settles("b crashes", 2).await?;
    a.leave().await?;
    picture.settles("a leaves", 1).await?;
    c.leave().await?;

    picture.print();
    workload.check()?;
    let client = Spanner::builder().with_endpoint(endpoint).build().await?;
    judge(&client.database_client(DATABASE).build().await?).await
}

async fn share(
    id: &'static str,
    endpoint: String,
    cancel: CancellationToken,
    workload: Workload,
) -> Result<(), Failure> {
    let table = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let client = Spanner::builder().with_endpoint(endpoint).build().await?;
    let client = client.database_client(DATABASE).build().await?;
    let member = table.member("demo").id(id).lease(LEASE).build()?;
    let task = move |shard: Shard| {
        let at_work = workload.enter(id, &shard);
        let client = client.clone();
        async move {
            let _at_work = at_work;
            for number in 0.. {
                tokio::select! {
                    () = shard.cancelled() => return,
                    () = sleep(Duration::from_millis(100)) => {}
                }
                // A write that fails shows as a mark that is missing, and harms nobody.
                let written = shard.fence().write(&client, [mark(&shard, number)]).await;
                if written.is_err_and(|error| error.is_fenced()) {
                    return;
                }
            }
        }
    };
    Ok(member.shards("pieces", SHARDS).run(cancel, task).await?)
}

fn mark(shard: &Shard, number: usize) -> Mutation {
    let mark = Mutation::new_insert_builder("marks");
    let mark = mark.set("id").to(format!("{}-{}-{number}", shard.number(), shard.token()));
    let mark = mark.set("shard").to(i64::try_from(shard.number()).unwrap_or(i64::MAX));
    mark.set("token")
        .to(shard.token().to_string())
        .set("written")
        .to("spanner.commit_timestamp()")
        .build()
}

/// The book of shards and workers, kept by the tasks.
#[derive(Clone, Default)]
struct Workload(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    at_work: BTreeMap<usize, &'static str>,
    starts: usize,
    wrong: Vec<String>,
}

/// A task at work, until this is dropped.
struct AtWork(Workload, usize);

impl Workload {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, id: &'static str, shard: &Shard) -> AtWork {
        let mut book = self.book();
        if let Some(other) = book.at_work.insert(shard.number(), id) {
            book.wrong.push(format!("{id} worked shard {shard} beside {other}"));
        }
        book.starts += 1;
        AtWork(self.clone(), shard.number())
    }

    fn starts(&self) -> usize {
        self.book().starts
    }

    fn check(&self) -> Result<(), Failure> {
        match self.book().wrong.first() {
            Some(wrong) => Err(wrong.clone().into()),
            None => Ok(()),
        }
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        self.0.book().at_work.remove(&self.1);
    }
}

/// The shards and their workers, column by column.
#[derive(Default)]
struct Picture {
    workload: Workload,
    columns: Vec<BTreeMap<usize, &'static str>>,
    events: Vec<(usize, &'static str)>,
}

impl Picture {
    /// Draws until so many workers share all shards evenly.
    async fn settles(&mut self, event: &'static str, workers: usize) -> Result<(), Failure> {
        self.events.push((self.columns.len(), event));
        let start = Instant::now();
        let mut even = 0;
        while even < 3 {
            if start.elapsed() > PATIENCE {
                return Err(format!("{event}: the shards are not shared evenly").into());
            }
            sleep(COLUMN).await;
            let at_work = self.workload.book().at_work.clone();
            let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
            at_work.values().for_each(|id| *shares.entry(id).or_default() += 1);
            let is_even =
                shares.len() == workers && shares.values().all(|share| *share == SHARDS / workers);
            even = if is_even { even + 1 } else { 0 };
            self.columns.push(at_work);
        }
        Ok(())
    }

    fn print(&self) {
        for shard in 0..SHARDS {
            let cells =
                self.columns.iter().map(|at_work| at_work.get(&shard).copied().unwrap_or("."));
            println!("{shard:>3} {}", cells.collect::<String>());
        }
        for (column, event) in &self.events {
            println!("    {}^ {event}", " ".repeat(*column));
        }
        println!("one column is {COLUMN:?}, a lease {LEASE:?}");
    }
}

/// Nobody may have written after the next one had begun.
async fn judge(client: &DatabaseClient) -> Result<(), Failure> {
    let columns = vec!["shard", "token", "written"];
    let read = ReadRequest::builder("marks", columns).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut marks: Vec<(i64, (i64, i32), String)> = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        let written: Timestamp = row.get("written")?;
        marks.push((row.get("shard")?, (written.seconds(), written.nanos()), row.get("token")?));
    }
    marks.sort();
    for pair in marks.windows(2) {
        let [(one, _, before), (other, _, after)] = pair else { continue };
        // Tokens of this century have the same number of digits.
        if one == other && before > after {
            return Err(
                format!("shard {one}: a write under {before} after one under {after}").into()
            );
        }
    }
    println!("{} fenced writes, none of them late", marks.len());
    if marks.len() < SHARDS * 4 { Err("too few writes to tell".into()) } else { Ok(()) }
}
