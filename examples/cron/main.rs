//! A scheduled job in a fleet: five processes, each with the same schedule, on the embedded Spanner.
//!
//! ```text
//! cargo run --example cron
//! ```
//!
//! At each tick all of them call `run_once`; one runs the job and the others skip it. One process is
//! killed after its run, one within its run. The `runs` table, read without the library, then shows
//! from outside what happened.

#[cfg(unix)]
#[allow(dead_code, reason = "the failover example uses the rest")]
#[path = "../failover/fleet.rs"]
mod fleet;
#[cfg(unix)]
mod node;
#[cfg(unix)]
#[path = "../parts/server.rs"]
mod server;
#[cfg(unix)]
mod story;
#[cfg(unix)]
mod verdict;

#[cfg(unix)]
#[tokio::main]
async fn main() -> Result<(), server::Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, _, _) => tokio::select! {
            told = story::tell() => told,
            // The drop here kills the nodes.
            _ = tokio::signal::ctrl_c() => Err("interrupted".into()),
        },
        (Some("worker"), Some(endpoint), Some(id)) => node::work(&endpoint, &id).await,
        _ => Err("usage: cron (no arguments)".into()),
    }
}

#[cfg(not(unix))]
fn main() -> Result<(), &'static str> {
    Err("cron: needs the signals of a Unix system")
}
