//! Breaks copies of the shipped sources on purpose, one patch at a time, and shows which checker
//! notices, and in how many steps: a checker that lets a broken protocol pass proves nothing.

mod checker;
mod workshop;

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::iter;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Mutex;
use std::thread;

use spindle_proof::run::stopwatch;

use crate::workshop::Workshop;

const USAGE: &str = "usage: breakages [--only TEXT] [--jobs N]
  --only TEXT  the patches whose names contain TEXT
  --jobs N     so many at once; two by default";

struct Options {
    only: String,
    jobs: usize,
}

/// The rows of the table by the number of their patch, and whether it was noticed.
type Rows = BTreeMap<usize, (String, bool)>;

fn main() -> ExitCode {
    let Some(options) = options(std::env::args().skip(1)) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    match run(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("breakages: {error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Option<Options> {
    let mut options = Options { only: String::new(), jobs: 2 };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--only" => options.only = arguments.next()?,
            "--jobs" => options.jobs = arguments.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            _ => return None,
        }
    }
    Some(options)
}

fn run(options: &Options) -> io::Result<bool> {
    let began = stopwatch();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let patches = patches(&workspace.join("proof/breakages"), &options.only)?;
    let first = Workshop::open(&workspace, 0)?;
    first.build()?;
    let mut workshops = vec![first];
    for index in 1..options.jobs.min(patches.len()) {
        workshops.push(Workshop::open(&workspace, index)?);
    }
    // The sources as they are come first: a checker that notices something in them is no judge.
    let queue = Mutex::new(iter::once(None).chain(patches.iter().map(Some)).enumerate());
    let rows = Mutex::new(BTreeMap::new());
    thread::scope(|scope| {
        let workers: Vec<_> =
            workshops.iter().map(|shop| scope.spawn(|| shop.work_off(&queue, &rows))).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker died")))
        })
    })?;
    let rows = rows.into_inner().unwrap_or_default();
    println!("| breakage | what is broken | noticed as | after | in |\n|---|---|---|---|---|");
    let mut caught = 0;
    for (row, noticed) in rows.values() {
        println!("{row}");
        caught += usize::from(*noticed);
    }
    let total = patches.len();
    let sound = rows.get(&0).is_some_and(|(_, noticed)| !noticed);
    let verdict = if sound && caught == total && total > 0 { "ok" } else { "FAILED" };
    println!("breakages: {verdict} caught={caught}/{total} seconds={}", began.elapsed().as_secs());
    Ok(verdict == "ok")
}

fn patches(folder: &Path, only: &str) -> io::Result<Vec<PathBuf>> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let named = path.to_string_lossy().contains(only);
        if named && path.extension().is_some_and(|extension| extension == "patch") {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}
