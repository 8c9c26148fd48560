//! One run from the first worker to the verdict.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use clap::builder::PossibleValuesParser;
use spindle_emulator::Emulator;
use tokio::signal::unix::{SignalKind, signal};

use crate::checks::{self, Evidence, TABLES};
use crate::fleet::Fleet;
use crate::history::{self, Failure, HISTORY, UNFENCED};
use crate::nemesis::{Faults, Nemesis};
use crate::setup::{DATABASE, LOCKS_MAX, Target};
use crate::summary::Figures;
use crate::tables::{self, Outside};
use crate::timeline;

const TIMELINE: &str = "timeline.txt";
const SUMMARY: &str = "summary.txt";

/// The bounds of a run.
#[derive(Args)]
pub struct Options {
    /// Each worker contends for so many locks at once.
    #[arg(long, value_name = "N", group = "work", value_parser = count::<2, LOCKS_MAX>)]
    locks: Option<usize>,
    /// The workers are members of a group that share so many shards.
    #[arg(long, value_name = "N", group = "work", value_parser = count::<2, LOCKS_MAX>)]
    shards: Option<usize>,
    /// Four members of a group share so many shards, and are deployed in every way.
    #[arg(long, value_name = "N", group = "work", value_parser = count::<2, LOCKS_MAX>)]
    deploys: Option<usize>,
    /// The lease of those that are deployed, in seconds.
    #[arg(long, value_name = "SECONDS", requires = "deploys", default_value = "10", value_parser = clap::value_parser!(u64).range(1..=60))]
    lease: u64,
    /// Nothing else befalls those that are deployed.
    #[arg(long, requires = "deploys")]
    bare: bool,
    /// The workers lead through `spindle agent`, each through one of its own: the path of the program.
    #[arg(long, value_name = "PROGRAM", group = "work")]
    agent: Option<PathBuf>,
    /// An agent releases for workers that are killed: the path of the program `spindle`.
    #[arg(long, value_name = "PROGRAM", conflicts_with = "agent")]
    witness: Option<PathBuf>,
    /// So many workers read under a lock.
    #[arg(long, value_name = "N", requires = "writers", conflicts_with_all = ["work", "members"], value_parser = count::<1, 10>)]
    readers: Option<usize>,
    /// So many workers write under a lock.
    #[arg(long, value_name = "N", requires = "readers", value_parser = count::<1, 10>)]
    writers: Option<usize>,
    /// The number of workers.
    #[arg(long, value_name = "N", default_value = "5", value_parser = count::<2, 20>)]
    members: usize,
    /// The faults go on for so long: 0.5 to 1,000 minutes.
    #[arg(long, default_value = "2", value_parser = minutes)]
    minutes: f64,
    /// Only these faults are injected, with commas between them. It tells which fault a failure needs.
    #[arg(long, value_name = "FAULT", conflicts_with = "bare", value_delimiter = ',', value_parser = PossibleValuesParser::new(Faults::names()))]
    only: Vec<String>,
    /// The seed of the faults; without it one is drawn.
    #[arg(long)]
    seed: Option<u64>,
    /// An emulator of Spanner on this machine, in place of the embedded one: it suffers no fault. Its
    /// database `projects/chaos/instances/chaos/databases/chaos` has the tables.
    #[arg(long, value_name = "IP:PORT")]
    server: Option<SocketAddr>,
    /// The folder for history, tables, summary and timeline.
    #[arg(long, value_name = "DIR", default_value = "target/chaos")]
    out: PathBuf,
}

fn count<const LEAST: usize, const MOST: usize>(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| (LEAST..=MOST).contains(count));
    count.ok_or_else(|| format!("expected {LEAST} to {MOST}"))
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes| (0.5..=1_000.0).contains(minutes));
    minutes.ok_or_else(|| "expected 0.5 to 1000".to_string())
}
impl Options {
    fn target(&self) -> Target {
        match *self {
            Options { locks: Some(count), .. } => Target::Locks(count),
            Options { shards: Some(count), .. } => Target::Shards(count),
            Options { deploys: Some(shards), lease, .. } => {
                Target::Deploys { shards, lease: Duration::from_secs(lease) }
            }
            Options { agent: Some(_), .. } => Target::Agents,
            Options { readers: Some(readers), writers: Some(writers), .. } => {
                Target::Sides { readers, writers }
            }
            _ => Target::One,
        }
    }

    fn members(&self) -> usize {
        match self.target() {
            Target::Sides { readers, writers } => readers + writers,
            Target::Deploys { .. } => 4,
            _ => self.members,
        }
    }
}

/// Chaos runs as the options say, unless it is interrupted. It returns true if every property held.
pub async fn start(options: &Options) -> Result<bool, Failure> {
    tokio::select! {
        ended = run(options) => ended,
        // The drop here kills the workers.
        error = interrupted() => Err(error),
    }
}

async fn run(options: &Options) -> Result<bool, Failure> {
    let Options { minutes, out, .. } = options;
    let target = options.target();
    let seed = options.seed.unwrap_or_else(|| rand::random_range(0..10_000));
    println!("chaos: {target}, {minutes} minutes, seed {seed}, into {}", out.display());
    std::fs::create_dir_all(out)?;
    for name in [HISTORY, UNFENCED, TABLES, TIMELINE, SUMMARY] {
        match std::fs::remove_file(out.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    // The file that no late write is kept out of is there even if nobody writes.
    history::append(&out.join(UNFENCED))?;

    let (address, spanner) = match options.server {
        Some(address) => (address, None),
        None => embedded().await.map(|spanner| (spanner.address(), Some(spanner)))?,
    };
    let mut fleet = Fleet::new(address, target, out.clone(), options.agent.clone());
    if let Some(program) = &options.witness {
        fleet.start_witness(program)?;
    }
    let faults = if options.bare { Faults::NONE } else { Faults::of(&options.only) };
    let work = (target, options.members(), faults);
    let mut nemesis = Nemesis::new(fleet, spanner.as_ref(), work, out, seed).await?;
    nemesis.run(Duration::from_secs_f64(minutes * 60.0)).await?;
    drop(nemesis);
    let outside = Outside::connect(address).await?;
    let mut tables = outside.tables().await?;
    if target.tells_by_rows() {
        tables.versions = outside.versions().await?;
    }
    std::fs::write(out.join(TABLES), serde_json::to_string(&tables)?)?;
    if let Some(spanner) = spanner {
        spanner.stop().await;
    }
    judge(out, Some(seed))
}

/// A Spanner of this process, with the tables.
async fn embedded() -> Result<Emulator, Failure> {
    let spanner = Emulator::start().await?;
    let locks = include_str!("../../../ddl/googlesql.sql");
    spanner.create_database(DATABASE, &format!("{locks}{}", tables::DDL)).await?;
    Ok(spanner)
}

/// Judges what a run has left in its folder, and writes the summary and the timeline next to it.
pub fn judge(folder: &Path, seed: Option<u64>) -> Result<bool, Failure> {
    let evidence = Evidence::read(folder)?;
    let target = evidence.target();
    let violations = checks::judge(&evidence, target.lease(), target.progress_limit())?;
    let figures = Figures::of(&evidence)?;
    let summary = figures.summary(seed, &violations);
    std::fs::write(folder.join(SUMMARY), &summary)?;
    std::fs::write(folder.join(TIMELINE), timeline::lines(&evidence)?)?;
    println!("{summary}\n{}", figures.verdict(&violations));
    Ok(violations.is_empty())
}

async fn interrupted() -> Failure {
    let Ok(mut terminate) = signal(SignalKind::terminate()) else {
        return "signals can't be heard".into();
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => "interrupted".into(),
        _ = terminate.recv() => "terminated".into(),
    }
}
