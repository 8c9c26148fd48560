//! Three nodes of ranks 1, 2 and 3: the highest that lives leads, on the embedded Spanner.
//!
//! ```text
//! cargo run --example by_rank
//! ```
//!
//! Each node has a runtime of its own; a crash ends that runtime without a word. The nodes start
//! from the lowest to the highest, the highest crashes, and comes back. The picture shows who led
//! when. Each leader writes under its fence; the `marks` table then tells whether one wrote late.

#[path = "parts/process.rs"]
mod process;
#[path = "parts/server.rs"]
mod server;

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle::google_cloud_spanner::client::{DatabaseClient, Spanner};
use spindle::google_cloud_spanner::key::KeySet;
use spindle::google_cloud_spanner::mutation::Mutation;
use spindle::google_cloud_spanner::read::ReadRequest;
use spindle::google_cloud_spanner::value::Timestamp;
use spindle::{CancellationToken, LockTable, Term};
use tokio::runtime::Runtime;
use tokio::time::{Instant, sleep};

use crate::process::Process;
use crate::server::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const DATABASE: &str = "projects/demo/instances/demo/databases/demo";
const LEASE: Duration = Duration::from_secs(2);
/// From one column of the picture to the next.
const COLUMN: Duration = Duration::from_millis(250);
const PATIENCE: Duration = Duration::from_secs(60);

const TABLE: &str = "CREATE TABLE marks (
    id STRING(MAX) NOT NULL,
    token STRING(MAX),
    written TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

fn main() -> ExitCode {
    let told = Runtime::new().map_err(Failure::from).and_then(|runtime| runtime.block_on(tell()));
    match told {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("by_rank: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn tell() -> Result<(), Failure> {
    let spanner = Server::start(DATABASE, &format!("{};\n{TABLE}", LockTable::DDL)).await?;
    let endpoint = spanner.endpoint();
    let mut picture = Picture::default();
    let workload = picture.workload.clone();
    let start =
        |rank| Process::start(|cancel| lead(rank, endpoint.clone(), cancel, workload.clone()));

    let one = start(1)?;
    picture.leads("1 starts", 1).await?;
    let two = start(2)?;
    picture.leads("2 starts", 2).await?;
    let three = start(3)?;
    picture.leads("3 starts", 3).await?;
    three.crash();
    workload.forget(3);
    picture.leads("3 crashes", 2).await?;
    let three = start(3)?;
    picture.leads("3 is back", 3).await?;
    three.leave().await?;
    picture.leads("3 leaves", 2).await?;
    two.leave().await?;
    picture.leads("2 leaves", 1).await?;
    one.leave().await?;

    picture.print();
    workload.check()?;
    let client = Spanner::builder().with_endpoint(endpoint).build().await?;
    judge(&client.database_client(DATABASE).build().await?).await
}

async fn lead(
    rank: u32,
    endpoint: String,
    cancel: CancellationToken,
    workload: Workload,
) -> Result<(), Failure> {
    let table = LockTable::connect_to(&endpoint, DATABASE, "locktable");
    let client = Spanner::builder().with_endpoint(endpoint).build().await?;
    let client = client.database_client(DATABASE).build().await?;
    // A node that comes back is another one: the row of its former life is still there.
    let lock = table.lock("demo").by_rank(rank).preempt().lease(LEASE).build()?;
    let task = move |term: Term| {
        let at_work = workload.enter(rank);
        let client = client.clone();
        async move {
            let _at_work = at_work;
            for number in 0.. {
                tokio::select! {
                    () = term.cancelled() => break,
                    () = sleep(Duration::from_millis(100)) => {}
                }
                match term.fence().write(&client, [mark(&term, number)]).await {
                    // The node contends again after it.
                    Err(error) if error.is_fenced() => return Err(error),
                    // A write that fails shows as a mark that is missing, and harms nobody.
                    _ => {}
                }
            }
            Ok(())
        }
    };
    lock.lead(cancel, task).await?;
    Ok(())
}

fn mark(term: &Term, number: usize) -> Mutation {
    Mutation::new_insert_builder("marks")
        .set("id")
        .to(format!("{}-{number}", term.token()))
        .set("token")
        .to(term.token().to_string())
        .set("written")
        .to("spanner.commit_timestamp()")
        .build()
}

/// The book of who leads, kept by the tasks.
#[derive(Clone, Default)]
struct Workload(Arc<Mutex<Book>>);

#[derive(Default)]
struct Book {
    leader: Option<u32>,
    wrong: Vec<String>,
}

/// A task at work, until this is dropped.
struct AtWork(Workload, u32);

impl Workload {
    fn book(&self) -> std::sync::MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn enter(&self, rank: u32) -> AtWork {
        let mut book = self.book();
        if let Some(other) = book.leader.replace(rank) {
            book.wrong.push(format!("{rank} led beside {other}"));
        }
        AtWork(self.clone(), rank)
    }

    /// One that crashed is at work no more.
    fn forget(&self, rank: u32) {
        let mut book = self.book();
        book.leader = book.leader.filter(|leader| *leader != rank);
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
        self.0.forget(self.1);
    }
}

/// The leaders, column by column.
#[derive(Default)]
struct Picture {
    workload: Workload,
    columns: Vec<Option<u32>>,
    events: Vec<(usize, &'static str)>,
}

impl Picture {
    /// Draws until the node of this rank has led for three columns.
    async fn leads(&mut self, event: &'static str, rank: u32) -> Result<(), Failure> {
        self.events.push((self.columns.len(), event));
        let start = Instant::now();
        let mut steady = 0;
        while steady < 3 {
            if start.elapsed() > PATIENCE {
                return Err(format!("{event}: rank {rank} does not lead").into());
            }
            sleep(COLUMN).await;
            let leader = self.workload.book().leader;
            steady = if leader == Some(rank) { steady + 1 } else { 0 };
            self.columns.push(leader);
        }
        Ok(())
    }

    fn print(&self) {
        for rank in (1..=3).rev() {
            let cells = self.columns.iter().map(|led| if *led == Some(rank) { '#' } else { '.' });
            println!("rank {rank} {}", cells.collect::<String>());
        }
        for (column, event) in &self.events {
            println!("       {}^ {event}", " ".repeat(*column));
        }
        println!("one column is {COLUMN:?}, a lease {LEASE:?}");
    }
}

/// Nobody may have written after the next one had begun.
async fn judge(client: &DatabaseClient) -> Result<(), Failure> {
    let columns = vec!["token", "written"];
    let read = ReadRequest::builder("marks", columns).with_keys(KeySet::all()).build();
    let mut rows = client.single_use().build().execute_read(read).await?;
    let mut marks: Vec<((i64, i32), String)> = Vec::new();
    while let Some(row) = rows.next().await.transpose()? {
        let written: Timestamp = row.get("written")?;
        marks.push(((written.seconds(), written.nanos()), row.get("token")?));
    }
    marks.sort();
    // Tokens of this century have the same number of digits.
    if let Some(pair) = marks.windows(2).find(|pair| pair[0].1 > pair[1].1) {
        return Err(format!("a write under {} after one under {}", pair[1].1, pair[0].1).into());
    }
    println!("{} fenced writes, none of them late", marks.len());
    if marks.len() < 20 { Err("too few writes to tell".into()) } else { Ok(()) }
}
