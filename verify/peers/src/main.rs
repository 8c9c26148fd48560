//! This library beside its peers on one server: each participant a process, the requests counted
//! where they arrive.
//!
//! `bench/peers/run` builds everything and starts this; see there.

#![allow(
    clippy::disallowed_methods,
    reason = "one machine: its wall clock is the one that all participants and the server share"
)]

mod both;
mod chart;
mod many;
mod moving;
mod participant;
mod report;
mod server;
mod single;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use participant::Library;
use report::Measured;
use server::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;

const OURS: &str = "ours";
const GO: &str = "go-v2";
const RUST: &str = "spindle_rs";

const USAGE: &str = "usage: peers compare|move|both [--rounds N] [--lease-ms N] [--many-lease-ms N] \
                     [--locks N] [--most N] [--spinners N] [--together yes] [--with go-v2|spindle_rs] [--svg FILE]";

/// The options of the command line; see `run` for what each means.
#[derive(Clone, Debug)]
struct Options {
    rounds: usize,
    lease: Duration,
    many_lease: Duration,
    locks: usize,
    most: usize,
    spinners: usize,
    /// All libraries at the same time, each on a server of its own.
    together: bool,
    with: Option<String>,
    svg: Option<PathBuf>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let task = arguments.next().unwrap_or_default();
    let done = match Options::parse(&task, arguments) {
        Some(options) => run(&task, &options).await,
        None => Err(USAGE.into()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("peers: {error}");
            ExitCode::FAILURE
        }
    }
}

impl Options {
    fn parse(task: &str, mut arguments: impl Iterator<Item = String>) -> Option<Options> {
        let (rounds, lease_ms, locks) = match task {
            "compare" => (10, 5_000, 200),
            "move" => (1, 1_000, 5),
            "both" => (6, 5_000, 100),
            _ => return None,
        };
        let mut options = Options {
            rounds,
            lease: Duration::from_millis(lease_ms),
            many_lease: Duration::from_secs(10),
            locks,
            most: 10_000,
            spinners: 0,
            together: false,
            with: None,
            svg: None,
        };
        while let Some(flag) = arguments.next() {
            let value = arguments.next()?;
            match flag.as_str() {
                "--rounds" => options.rounds = value.parse().ok().filter(|rounds| *rounds > 0)?,
                "--lease-ms" => options.lease = Duration::from_millis(value.parse().ok()?),
                "--many-lease-ms" => {
                    options.many_lease = Duration::from_millis(value.parse().ok()?)
                }
                "--locks" => options.locks = value.parse().ok().filter(|locks| *locks > 0)?,
                "--most" => options.most = value.parse().ok()?,
                "--spinners" => options.spinners = value.parse().ok()?,
                "--together" => options.together = value == "yes",
                "--with" => options.with = Some(value),
                "--svg" => options.svg = Some(value.into()),
                _ => return None,
            }
        }
        Some(options)
    }
}

async fn run(task: &str, options: &Options) -> Result<(), Failure> {
    let programs =
        std::env::var_os("PEERS_PROGRAMS").ok_or("PEERS_PROGRAMS is not set: start `run`")?;
    let programs = Path::new(&programs);
    let server = programs.join("spindle-emulator");
    let library = |name, program| Library { name, program: programs.join(program) };
    let ours = library(OURS, "contend-ours");
    let peers = [library(GO, "contend-go"), library(RUST, "contend-spindle-rs")];
    // A peer that could not be built is left out, and the script has said so.
    let wanted = |peer: &Library| options.with.as_ref().is_none_or(|name| name == peer.name);
    let peers: Vec<Library> =
        peers.into_iter().filter(|peer| peer.program.exists() && wanted(peer)).collect();
    match task {
        "compare" => compare(&server, &ours, &peers, options).await,
        "both" => {
            for peer in &peers {
                let size = (options.locks, options.lease);
                let how = (options.rounds, options.spinners);
                both::measure(&server, (&ours, peer), size, how).await?;
            }
            Ok(())
        }
        _ => {
            for peer in &peers {
                moving::carry_out(&server, &ours, peer, options.locks, options.lease).await?;
            }
            Ok(())
        }
    }
}

async fn compare(
    program: &Path,
    ours: &Library,
    peers: &[Library],
    options: &Options,
) -> Result<(), Failure> {
    let libraries: Vec<&Library> = std::iter::once(ours).chain(peers).collect();
    let mut measured = Vec::new();
    if options.together {
        let alone = |library: &Library| {
            let (program, library, options) =
                (program.to_path_buf(), library.clone(), options.clone());
            tokio::spawn(async move { measure(&program, &library, &options).await })
        };
        let running: Vec<_> = libraries.into_iter().map(alone).collect();
        for library in running {
            measured.push(library.await??);
        }
    } else {
        for library in libraries {
            measured.push(measure(program, library, options).await?);
        }
    }
    let most = if options.most > 0 {
        let server = Server::start(program).await?;
        eprintln!("{}: {} locks, load {}", ours.name, options.most, report::load());
        let before = report::load();
        let many = many::measure(ours, &server, options.many_lease, options.most, false).await?;
        Some((many, (before, report::load())))
    } else {
        None
    };
    print!("{}", report::tables(&measured, most.as_ref(), options));
    if let Some(path) = &options.svg {
        std::fs::write(path, chart::draw(&measured, options.lease))?;
        println!("\nchart: {}", path.display());
    }
    Ok(())
}

/// One library on a server of its own, so that all requests are its.
async fn measure(
    program: &Path,
    library: &Library,
    options: &Options,
) -> Result<Measured, Failure> {
    let server = Server::start(program).await?;
    let before = report::load();
    eprintln!("{}: one lock, {} rounds, load {before}", library.name, options.rounds);
    let single = single::measure(library, &server, options.lease, options.rounds).await?;
    eprintln!("{}: {} locks, load {}", library.name, options.locks, report::load());
    let many = many::measure(library, &server, options.lease, options.locks, true).await?;
    Ok(Measured { name: library.name, single, many, load: (before, report::load()) })
}

fn now() -> i128 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos().cast_signed()
}
