//! Three nodes of ranks 1, 2 and 3: the highest that lives leads, on the embedded Spanner.
//!
//! ```text
//! cargo run --example by_rank
//! ```
//!
//! Each node has a runtime of its own; a crash ends that runtime without a word. The nodes start
//! from the lowest to the highest, the highest crashes, and comes back. A leader gives way to a higher
//! rank once its term is ten leases old. The picture shows who led
//! when. Each leader writes under its fence; the `marks` table then tells whether one wrote late.

#[path = "parts/process.rs"]
mod process;
#[path = "parts/server.rs"]
mod server;
#[path = "parts/workload.rs"]
mod workload;

use spindle::{CancellationToken, Database, LockTable, Term};

use crate::process::Process;
use crate::server::{DATABASE, Failure, Server, connect};
use crate::workload::{LEASE, Picture, TABLE, Workload, judge, work};

/// The nodes, named by their ranks.
const NODES: [(u32, &str); 3] = [(1, "1"), (2, "2"), (3, "3")];

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let spanner = Server::start(TABLE).await?;
    let endpoint = spanner.endpoint();
    let mut picture = Picture::default();
    let workload = picture.workload.clone();
    let [one, two, three] = NODES;
    let start =
        |node| Process::start(|cancel| lead(node, endpoint.clone(), cancel, workload.clone()));

    let first = start(one)?;
    leads(&mut picture, "1 starts", one).await?;
    let second = start(two)?;
    leads(&mut picture, "2 starts", two).await?;
    let third = start(three)?;
    leads(&mut picture, "3 starts", three).await?;
    third.crash();
    workload.forget(three.1);
    leads(&mut picture, "3 crashes", two).await?;
    let third = start(three)?;
    leads(&mut picture, "3 is back", three).await?;
    third.leave().await?;
    leads(&mut picture, "3 leaves", two).await?;
    second.leave().await?;
    leads(&mut picture, "2 leaves", one).await?;
    first.leave().await?;

    picture.print(1);
    println!("{} terms", workload.starts());
    workload.check()?;
    judge(&connect(&endpoint).await?, 20).await
}

async fn leads(
    picture: &mut Picture,
    event: &'static str,
    (_, id): (u32, &str),
) -> Result<(), Failure> {
    picture.until(event, |leader| leader.get(&0) == Some(&id)).await
}

async fn lead(
    (rank, id): (u32, &'static str),
    endpoint: String,
    cancel: CancellationToken,
    workload: Workload,
) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(&endpoint, DATABASE), "locktable");
    let client = connect(&endpoint).await?;
    // A node that comes back is another one: the row of its former life is still there.
    let lock = table.lock("demo").by_rank(rank).preempt().lease(LEASE).build()?;
    let task = move |term: Term| {
        let (at_work, client) = (workload.enter(0, id), client.clone());
        async move {
            let _at_work = at_work;
            // The node contends again after an error.
            work(&client, 0, &term).await
        }
    };
    lock.lead(cancel, task).await?;
    Ok(())
}
