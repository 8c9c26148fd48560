//! The lock tried in real processes: killed, stopped, cut off, lied to, and judged afterwards.
//!
//! Five workers contend on one embedded Spanner and write under the lock while a nemesis is at
//! them. Their acts are then judged by their history and Spanner's tables, without the library. The
//! folder `target/chaos/` keeps the history, a summary and a timeline; `cargo chaos check DIR`
//! judges them again.
//!
//! With `--locks` each worker contends for so many locks at once. With `--shards` the workers are
//! members of a group that share the shards out. Each lock and each shard is judged by itself. With
//! `--deploys` four members come and go as a service's processes do, in every way. With
//! `--readers` and `--writers` so many read under a lock and so many write. With `--agent` they lead
//! through `spindle agent`, over HTTP, and the agents suffer as they do. With `--witness` an agent releases
//! for workers that are killed. With `--server` they do so on an emulator
//! of somebody else's, such as Google's.

mod checks;
mod counters;
mod deploys;
mod fleet;
mod history;
mod nemesis;
mod proxy;
mod run;
mod setup;
mod summary;
mod tables;
mod timeline;
mod worker;

use std::process::ExitCode;
#[derive(clap::Parser)]
#[command(args_conflicts_with_subcommands = true)]
struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    options: run::Options,
}
#[derive(clap::Subcommand)]
enum Command {
    /// Judges what a run has left in this folder.
    Check { folder: std::path::PathBuf },
    /// Works as one of a run's processes.
    #[command(hide = true)]
    Worker {
        endpoint: String,
        id: String,
        target: String,
        out: std::path::PathBuf,
        agent: Option<std::net::SocketAddr>,
    },
}
#[tokio::main]
async fn main() -> ExitCode {
    let Arguments { command, options } = clap::Parser::parse();
    let ended = match command {
        Some(Command::Worker { endpoint, id, target, out, agent }) => {
            worker::work(&endpoint, &id, &target, out, agent).await.map(|()| true)
        }
        Some(Command::Check { folder }) => run::judge(&folder, None),
        None => run::start(&options).await,
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("chaos: FAILED {error}");
            ExitCode::FAILURE
        }
    }
}
