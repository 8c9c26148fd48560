//! A backfill: slots of the past in ascending order, by whichever node gets to each.

use std::time::Duration;

use spindle::job::{JobOutcome, JobRun};
use spindle::{Database, LockTable};

use crate::server::{DATABASE, Failure, Server};

/// Runs yesterday's hours on two nodes at once. A job of its own: its slots are older than those of the
/// schedule, which would supersede them.
pub async fn backfill() -> Result<(), Failure> {
    let spanner = Server::start("CREATE TABLE nothing (id STRING(MAX)) PRIMARY KEY (id)").await?;
    let table = LockTable::new(Database::at(spanner.endpoint(), DATABASE), "locktable");
    let (one, other) = tokio::join!(node(table.clone()), node(table.clone()));
    let (one, other) = (one?, other?);
    println!("backfill: ok slots=24 here={one} there={other}");
    if one + other == 24 { Ok(()) } else { Err("not each of 24 slots ran once".into()) }
}

/// Calls for each hour; returns how many of them ran here.
async fn node(table: LockTable) -> Result<u32, Failure> {
    let job = table.lock("report-backfill").job().attempts(5);
    let hour = Duration::from_secs(3_600);
    let first = chrono::DateTime::from_timestamp(1_795_737_600, 0).ok_or("a time")?;
    let mut ran = 0;
    for n in 0..24 {
        // Each call waits until its slot is recorded, so that no later one goes before it.
        match job.run_once(first + hour * n, report).await? {
            JobOutcome::Ran(()) => ran += 1,
            JobOutcome::Skipped { .. } => {}
            failed => return Err(failed.to_string().into()),
        }
    }
    Ok(ran)
}

async fn report(run: JobRun) {
    println!("the report of {}", run.slot());
}
