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
#[path = "parts/workload.rs"]
mod workload;

use std::collections::BTreeMap;

use spindle::{CancellationToken, Database, LockTable};
use spindle_fleet::{Member, Shard};

use crate::process::Process;
use crate::server::{DATABASE, Failure, Server, connect};
use crate::workload::{LEASE, Picture, TABLE, Workload, judge, work};

const SHARDS: usize = 12;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let spanner = Server::start(TABLE).await?;
    let endpoint = spanner.endpoint();
    let mut picture = Picture::default();
    let workload = picture.workload.clone();
    let start = |id| Process::start(|cancel| share(id, endpoint.clone(), cancel, workload.clone()));

    let (a, b) = (start("a")?, start("b")?);
    picture.until("a and b start", |at_work| are_shared(at_work, 2)).await?;
    let c = start("c")?;
    let before = workload.starts();
    picture.until("c joins", |at_work| are_shared(at_work, 3)).await?;
    let moved = workload.starts() - before;
    if moved != SHARDS / 3 {
        return Err(format!("{moved} shards moved when c joined; expected {}", SHARDS / 3).into());
    }
    b.crash();
    workload.forget("b");
    picture.until("b crashes", |at_work| are_shared(at_work, 2)).await?;
    a.leave().await?;
    picture.until("a leaves", |at_work| are_shared(at_work, 1)).await?;
    c.leave().await?;

    picture.print(SHARDS);
    workload.check()?;
    judge(&connect(&endpoint).await?, SHARDS * 4).await
}

/// Returns true if so many workers share all shards evenly.
fn are_shared(at_work: &BTreeMap<usize, &'static str>, workers: usize) -> bool {
    let mut shares: BTreeMap<&str, usize> = BTreeMap::new();
    at_work.values().for_each(|id| *shares.entry(id).or_default() += 1);
    shares.len() == workers && shares.values().all(|share| *share == SHARDS / workers)
}

async fn share(
    id: &'static str,
    endpoint: String,
    cancel: CancellationToken,
    workload: Workload,
) -> Result<(), Failure> {
    let table = LockTable::new(Database::at(&endpoint, DATABASE), "locktable");
    let client = connect(&endpoint).await?;
    let member = Member::new(&table, "demo").id(id).lease(LEASE).build()?;
    let task = move |shard: Shard| {
        let (at_work, client) = (workload.enter(shard.number(), id), client.clone());
        async move {
            let _at_work = at_work;
            // An error that says that the term is over is a loss; any other gives the shard to others for a while.
            work(&client, shard.number(), &shard).await
        }
    };
    Ok(member.shards("pieces", SHARDS).run(cancel, task).await?)
}
