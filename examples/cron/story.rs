//! The events of the fleet.

use rustix::process::Signal;

use crate::fleet::{Entry, Fleet};
use crate::node::{AT_LEAST, AT_MOST, PERIOD};
use crate::server::{Failure, Server};
use crate::verdict;

const RUNS: &str = "CREATE TABLE runs (
    id STRING(MAX) NOT NULL,
    tick STRING(MAX),
    started TIMESTAMP OPTIONS (allow_commit_timestamp=true),
    ended TIMESTAMP OPTIONS (allow_commit_timestamp=true),
) PRIMARY KEY (id)";

const NODES: [&str; 5] = ["node-1", "node-2", "node-3", "node-4", "node-5"];

pub async fn tell() -> Result<(), Failure> {
    let spanner = Server::start(RUNS).await?;
    let mut fleet = Fleet::new(spanner.endpoint());
    let schedule =
        format!("a tick every {PERIOD:?}, kept at least {AT_LEAST:?}, at most {AT_MOST:?}");
    fleet.tell("spanner", &format!("at {}; {schedule}", spanner.endpoint()));
    for id in NODES {
        fleet.start("worker", id)?;
    }
    let told = async {
        killed_between_runs(&mut fleet).await?;
        killed_within_a_run(&mut fleet).await
    };
    let told = told.await;
    fleet.end().await?;
    told?;
    let verdict = verdict::judge(&spanner.endpoint()).await;
    println!("{}", verdict?);
    Ok(())
}

/// Finds who logged such a line, and the rest of it.
fn says<'a>(begin: &'a str) -> impl Fn(&Entry) -> Option<(String, String)> + 'a {
    move |entry| Some((entry.worker.clone(), entry.line.strip_prefix(begin)?.to_string()))
}

/// Its run is done: nobody runs it again, and another runs at the next tick.
async fn killed_between_runs(fleet: &mut Fleet) -> Result<(), Failure> {
    fleet.hear("somebody skipped, since another ran", says("skipped ")).await?;
    let (dead, _) = fleet.hear("somebody ran", says("ran ")).await?;
    fleet.signal(&dead, Signal::KILL, "is killed (SIGKILL), its run done")?;
    let others = |entry: &Entry| says("ran ")(entry).filter(|(node, _)| *node != dead);
    let (_, before) = fleet.hear("another ran", others).await?;
    if !before.contains("it finished") {
        return Err(format!("the run of {dead} is seen as: {before}").into());
    }
    Ok(())
}

/// Its run is not done: nobody repeats it before its time is over, and who runs next is told.
async fn killed_within_a_run(fleet: &mut Fleet) -> Result<(), Failure> {
    for id in NODES {
        // One of them is dead and hears nothing.
        let _ = fleet.order(id, "slow").await;
    }
    let (dead, _) = fleet.hear("somebody started", says("started ")).await?;
    fleet.signal(&dead, Signal::KILL, "is killed (SIGKILL) within its run")?;
    for id in NODES {
        let _ = fleet.order(id, "quick").await;
    }
    let (_, before) = fleet.hear("another ran", says("ran ")).await?;
    if !before.contains(&format!("it was interrupted on `{dead}`")) {
        return Err(format!("the run of {dead} is seen as: {before}").into());
    }
    fleet.hear("the schedule goes on", says("ran ")).await?;
    Ok(())
}
