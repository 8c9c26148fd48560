//! One run from the first worker to the verdict.

use std::path::{Path, PathBuf};
use std::time::Duration;

use spindle_emulator::Emulator;
use tokio::signal::unix::{SignalKind, signal};

use crate::checker::{self, Evidence, TABLES};
use crate::history::{self, Failure, HISTORY, UNFENCED};
use crate::nemesis::Nemesis;
use crate::picture;
use crate::setup::{DATABASE, Target};
use crate::summary::Figures;
use crate::tables::{self, Outside};

const USAGE: &str = "usage: chaos [--locks N | --shards N | --ranks] [--members N] [--minutes M] [--seed S] [--out DIR] \
                     | chaos --readers N --writers N [--minutes M] [--seed S] [--out DIR] | chaos check DIR";
const PICTURE: &str = "timeline.svg";
const SUMMARY: &str = "summary.txt";

struct Options {
    target: Target,
    members: usize,
    minutes: f64,
    seed: u64,
    out: PathBuf,
}

/// Chaos runs as the arguments say, unless it is interrupted. It returns true if every property held.
pub async fn start(arguments: &[&str]) -> Result<bool, Failure> {
    let options = parse(arguments)?;
    tokio::select! {
        ended = run(&options) => ended,
        // The drop here kills the workers.
        error = interrupted() => Err(error),
    }
}

fn parse(arguments: &[&str]) -> Result<Options, Failure> {
    let mut options = Options {
        target: Target::One,
        members: 5,
        minutes: 2.0,
        seed: rand::random_range(0..10_000),
        out: "target/chaos".into(),
    };
    let mut arguments = arguments.iter();
    let mut sides = (None, None);
    while let Some(name) = arguments.next() {
        if *name == "--ranks" {
            options.target = Target::Ranks;
            continue;
        }
        let value = arguments.next().ok_or(USAGE)?;
        match *name {
            "--locks" | "--shards" => {
                options.target = Target::parse(name.trim_start_matches('-'), value)?;
            }
            "--readers" => sides.0 = Some(value.parse()?),
            "--writers" => sides.1 = Some(value.parse()?),
            "--members" => options.members = value.parse()?,
            "--minutes" => options.minutes = value.parse()?,
            "--seed" => options.seed = value.parse()?,
            "--out" => options.out = value.into(),
            _ => return Err(USAGE.into()),
        }
    }
    match sides {
        (None, None) => {}
        (Some(readers @ 1..), Some(writers @ 1..)) => {
            options.target = Target::Sides { readers, writers };
            options.members = readers + writers;
        }
        _ => return Err(format!("one side alone\n{USAGE}").into()),
    }
    if !(0.5..=1_000.0).contains(&options.minutes) {
        return Err(format!("--minutes {}: expected 0.5 to 1000", options.minutes).into());
    }
    if !(2..=20).contains(&options.members) {
        return Err(format!("{} workers: expected 2 to 20", options.members).into());
    }
    Ok(options)
}

async fn run(options: &Options) -> Result<bool, Failure> {
    let Options { target, members, minutes, seed, out } = options;
    println!("chaos: {target}, {minutes} minutes, seed {seed}, into {}", out.display());
    std::fs::create_dir_all(out)?;
    for name in [HISTORY, UNFENCED, TABLES, PICTURE, SUMMARY] {
        match std::fs::remove_file(out.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
    // The file that no late write is kept out of is there even if nobody writes.
    history::append(&out.join(UNFENCED))?;

    let spanner = Emulator::start().await?;
    let locks = include_str!("../../../ddl/googlesql.sql");
    let ddl = format!("{locks};\n{}", tables::DDL.trim());
    spanner.create_database(DATABASE, &ddl).await?;
    let mut nemesis = Nemesis::new(&spanner, *target, *members, out, *seed).await?;
    nemesis.run(Duration::from_secs_f64(minutes * 60.0)).await?;
    drop(nemesis);
    let outside = Outside::connect(&spanner.endpoint()).await?;
    let mut tables = outside.tables().await?;
    if target.tells_by_rows() {
        tables.versions = outside.versions().await?;
    }
    std::fs::write(out.join(TABLES), tables.to_json().to_string())?;
    spanner.stop().await;
    judge(out, Some(*seed))
}

/// Judges what a run has left in its folder, and writes the summary and the picture next to it.
pub fn judge(folder: &Path, seed: Option<u64>) -> Result<bool, Failure> {
    let evidence = Evidence::read(folder)?;
    let target = evidence.target();
    let violations = checker::judge(&evidence, target.lease(), target.progress_limit())?;
    let figures = Figures::of(&evidence)?;
    let summary = figures.summary(seed, &violations);
    std::fs::write(folder.join(SUMMARY), &summary)?;
    std::fs::write(folder.join(PICTURE), picture::draw(&evidence)?)?;
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
