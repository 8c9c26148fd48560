//! A scheduled job in a fleet: five processes, each with the same schedule, on the embedded Spanner.
//!
//! ```text
//! cargo run --example cron
//! cargo run --example cron -- backfill
//! ```
//!
//! At each slot of the schedule all of them call for it; one runs the job and the others skip it. One run
//! fails, and one process is killed within its run: both slots are run again. The `reports` table, read
//! without the library, then shows from outside that each report was written exactly once.

mod backfill;
#[allow(dead_code, reason = "the failover example uses the rest")]
#[path = "../failover/fleet.rs"]
mod fleet;
mod node;
#[path = "../parts/server.rs"]
mod server;
mod story;
mod verdict;

#[tokio::main]
async fn main() -> Result<(), server::Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, _, _) => tokio::select! {
            told = story::tell() => told,
            // The drop here kills the nodes.
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        },
        (Some("backfill"), None, None) => backfill::backfill().await,
        (Some("worker"), Some(endpoint), Some(id)) => node::work(&endpoint, &id).await,
        _ => Err("usage: cron [backfill]".into()),
    }
}
