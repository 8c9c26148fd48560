//! The events of the fleet.

use rustix::process::Signal;

use crate::fleet::{Entry, Fleet};
use crate::node::{LEASE, SCHEDULE};
use crate::server::{Failure, Server};
use crate::verdict;

const REPORTS: &str = "CREATE TABLE reports (
    id STRING(MAX) NOT NULL,
    slot INT64,
    start INT64,
) PRIMARY KEY (id)";

const NODES: [&str; 5] = ["node-1", "node-2", "node-3", "node-4", "node-5"];

pub async fn tell() -> Result<(), Failure> {
    let spanner = Server::start(REPORTS).await?;
    let mut fleet = Fleet::new(spanner.endpoint());
    let schedule = format!("the schedule is `{SCHEDULE}`, the lease {LEASE:?}");
    fleet.tell("spanner", &format!("at {}; {schedule}", spanner.endpoint()));
    for id in NODES {
        fleet.start("worker", id)?;
    }
    let told = async {
        fleet.hear("somebody skipped, since another ran", says("skipped ", "")).await?;
        failed(&mut fleet).await?;
        killed_within_a_run(&mut fleet).await
    };
    let told = told.await;
    fleet.end().await?;
    told?;
    let verdict = verdict::judge(&spanner.endpoint()).await;
    println!("{}", verdict?);
    Ok(())
}

/// Finds who logged such a line.
fn says<'a>(begin: &'a str, end: &'a str) -> impl Fn(&Entry) -> Option<String> + 'a {
    move |entry| {
        let is_such = entry.line.starts_with(begin) && entry.line.ends_with(end);
        is_such.then(|| entry.worker.clone())
    }
}

/// A run fails: the slot is run again after the pause, by whoever comes first.
async fn failed(fleet: &mut Fleet) -> Result<(), Failure> {
    order(fleet, "fail").await;
    fleet.hear("a slot ran at its second start", says("ran ", " at start 2")).await?;
    order(fleet, "go on").await;
    fleet.hear("a slot ran at its first start", says("ran ", " at start 1")).await?;
    Ok(())
}

/// Its run is not done: another node, which waits, runs the slot once the lease is over.
async fn killed_within_a_run(fleet: &mut Fleet) -> Result<(), Failure> {
    order(fleet, "hang").await;
    let dead = fleet.hear("somebody started", says("started ", " as start 1")).await?;
    fleet.signal(&dead, Signal::KILL, "is killed (SIGKILL) within its run")?;
    order(fleet, "go on").await;
    fleet.hear("another ran it", says("ran ", " at start 2")).await?;
    fleet.hear("the schedule goes on", says("ran ", " at start 1")).await?;
    Ok(())
}

async fn order(fleet: &mut Fleet, order: &str) {
    for id in NODES {
        // One of them is dead and hears nothing.
        let _ = fleet.order(id, order).await;
    }
}
