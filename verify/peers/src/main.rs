//! This library beside its peers on one server: each participant a process, the requests counted
//! where they arrive.
//!
//! `verify/peers/run` builds everything and starts this; see there.

#![allow(
    clippy::disallowed_methods,
    reason = "one machine: its wall clock is the one that all participants and the server share"
)]

mod both;
mod many;
mod moving;
mod outlive;
mod participant;
mod proxy;
mod report;
mod server;
mod single;

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser as _;
use participant::{Agent, Library};
use report::Measured;
use server::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OURS: &str = "ours";
/// The same, with an agent that releases for its processes that die, and a poll each half second.
const RELEASED: &str = "ours-with-agent";
const CLIENT_GO: &str = "client-go's rules";
const GO: &str = "go-v2";
const RUST: &str = "spindle_rs";

/// Libraries that keep their locks in one table, as processes on one server; `run` builds them.
#[derive(Debug, clap::Parser)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
    /// Leave out all peers but this one.
    #[arg(long, global = true, value_parser = [GO, RUST])]
    with: Option<String>,
}

#[derive(Debug, clap::Subcommand)]
enum Task {
    /// Measure each library by itself.
    Compare(Compare),
    /// Move over from each peer and back.
    Move {
        #[arg(long, default_value = "1000")]
        lease_ms: NonZeroU32,
        #[arg(long, default_value = "5")]
        locks: NonZeroUsize,
    },
    /// Measure what a holder outlives, of this library, client-go's rules and Go v2.
    Outlive {
        #[arg(long, default_value = "8")]
        phases: NonZeroUsize,
        #[arg(long, default_value = "10000")]
        lease_ms: NonZeroU32,
    },
    /// Measure one set of locks for two libraries.
    Both {
        #[arg(long, default_value = "6")]
        rounds: NonZeroUsize,
        #[arg(long, default_value = "5000")]
        lease_ms: NonZeroU32,
        #[arg(long, default_value = "100")]
        locks: NonZeroUsize,
        /// Threads that keep the processors busy.
        #[arg(long, default_value_t = 0)]
        spinners: usize,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Compare {
    #[arg(long, default_value = "10")]
    rounds: NonZeroUsize,
    #[arg(long, default_value = "5000")]
    lease_ms: NonZeroU32,
    #[arg(long, default_value = "200")]
    locks: NonZeroUsize,
    /// All libraries at the same time, each on a server of its own.
    #[arg(long)]
    together: bool,
}

#[tokio::main]
async fn main() -> ExitCode {
    match run(Arguments::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

fn millis(count: NonZeroU32) -> Duration {
    Duration::from_millis(count.get().into())
}

async fn run(arguments: Arguments) -> Result<(), Failure> {
    let programs =
        std::env::var_os("PEERS_PROGRAMS").ok_or("PEERS_PROGRAMS is not set: start `run`")?;
    let programs = Path::new(&programs);
    let server = programs.join("spindle-emulator");
    let library =
        |name, program| Library { name, program: programs.join(program), environment: Vec::new() };
    let ours = library(OURS, "contend-ours");
    let peers = [library(GO, "contend-go"), library(RUST, "contend-spindle-rs")];
    // A peer that could not be built is left out, and the script has said so.
    let wanted = |peer: &Library| arguments.with.as_ref().is_none_or(|name| name == peer.name);
    let peers: Vec<Library> =
        peers.into_iter().filter(|peer| peer.program.exists() && wanted(peer)).collect();
    match arguments.task {
        Task::Compare(options) => {
            let released = library(RELEASED, "contend-ours");
            let libraries: Vec<Library> = [ours, released].into_iter().chain(peers).collect();
            compare(&server, &libraries, &options).await?;
        }
        Task::Outlive { phases, lease_ms } => {
            let mut libraries = vec![ours, library(CLIENT_GO, "contend-client-go")];
            // The other peer has no rules of its own here.
            libraries.extend(peers.into_iter().filter(|peer| peer.name == GO));
            let lease = millis(lease_ms);
            print!("{}", outlive::measure(&server, &libraries, lease, phases.get()).await?);
        }
        Task::Both { rounds, lease_ms, locks, spinners } => {
            for peer in &peers {
                let size = (locks.get(), millis(lease_ms));
                both::measure(&server, (&ours, peer), size, (rounds.get(), spinners)).await?;
            }
        }
        Task::Move { lease_ms, locks } => {
            for peer in &peers {
                moving::carry_out(&server, &ours, peer, locks.get(), millis(lease_ms)).await?;
            }
        }
    }
    Ok(())
}

async fn compare(program: &Path, libraries: &[Library], options: &Compare) -> Result<(), Failure> {
    let mut measured = Vec::new();
    if options.together {
        let alone = |library: &Library| {
            let (program, library, options) =
                (program.to_path_buf(), library.clone(), options.clone());
            tokio::spawn(async move { measure(&program, &library, &options).await })
        };
        let running: Vec<_> = libraries.iter().map(alone).collect();
        for library in running {
            measured.push(library.await??);
        }
    } else {
        for library in libraries {
            measured.push(measure(program, library, options).await?);
        }
    }
    print!("{}", report::tables(&measured, options));
    Ok(())
}

/// One library on a server of its own, so that all requests are its.
async fn measure(
    program: &Path,
    library: &Library,
    options: &Compare,
) -> Result<Measured, Failure> {
    let server = Server::start(program).await?;
    let mut library = library.clone();
    let _agent = if library.name == RELEASED {
        let agent = Agent::start(&program.with_file_name("spindle"), &server.address).await?;
        library.environment = vec![("WITNESS", agent.socket.clone()), ("POLL_MS", "500".into())];
        Some(agent)
    } else {
        None
    };
    let library = &library;
    eprintln!("{}: one lock, {} rounds, load {}", library.name, options.rounds, report::load());
    let single =
        single::measure(library, &server, millis(options.lease_ms), options.rounds.get()).await?;
    eprintln!("{}: {} locks, load {}", library.name, options.locks, report::load());
    let many =
        many::measure(library, &server, millis(options.lease_ms), options.locks.get()).await?;
    Ok(Measured { name: library.name, single, many })
}

fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().cast_signed()
}
