//! Breaks copies of the shipped sources on purpose, one patch at a time. It shows which checker
//! notices, and in how many steps: a checker that lets a broken protocol pass proves nothing.
//!
//! A verdict is kept with a hash of the patch and of all that its checkers read. So only what has
//! changed is judged again.

mod breakage;
mod checker;
mod workshop;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use spindle_proof::run::stopwatch;

use crate::breakage::{Breakage, Verdict, Verdicts};
use crate::workshop::Workshop;

const USAGE: &str = "usage: breakages [--only TEXT] [--again] [--minutes N] [--jobs N]
  --only TEXT  the patches whose names contain TEXT
  --again      also those whose verdict is kept and still true
  --minutes N  begin no patch after so long; one that is left without a verdict is a failure
  --jobs N     so many at once; two by default";

struct Options {
    only: String,
    again: bool,
    minutes: Option<u64>,
    jobs: usize,
}

/// The state that the workers share: the breakages still to be judged, and the verdicts so far.
struct Court<'a> {
    workspace: &'a Path,
    file: PathBuf,
    docket: Mutex<Vec<&'a Breakage>>,
    verdicts: Mutex<Verdicts>,
    is_late: &'a (dyn Fn() -> bool + Sync),
}

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
    let mut options = Options { only: String::new(), again: false, minutes: None, jobs: 2 };
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--only" => options.only = arguments.next()?,
            "--again" => options.again = true,
            "--minutes" => options.minutes = Some(arguments.next()?.parse().ok()?),
            "--jobs" => options.jobs = arguments.next()?.parse().ok().filter(|jobs| *jobs > 0)?,
            _ => return None,
        }
    }
    Some(options)
}

fn run(options: &Options) -> io::Result<bool> {
    let began = stopwatch();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize()?;
    let folder = workspace.join("proof/breakages");
    // The sources as they are come first: a checker that notices something in them is no judge.
    let mut breakages = vec![Breakage::none()];
    for patch in patches(&folder, &options.only)? {
        breakages.push(Breakage::read(&patch)?);
    }
    let file = folder.join("verdicts");
    let kept = breakage::load(&file)?;
    let mut docket = Vec::new();
    for breakage in &breakages {
        let is_judged = match kept.get(&breakage.name) {
            Some(verdict) if !options.again => breakage.is_judged_by(verdict, &workspace)?,
            _ => false,
        };
        if !is_judged {
            docket.push(breakage);
        }
    }
    let jobs = options.jobs.min(docket.len());
    let limit = options.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let is_late = || limit.is_some_and(|limit| began.elapsed() > limit);
    docket.reverse();
    let (docket, verdicts) = (Mutex::new(docket), Mutex::new(kept));
    let court = Court { workspace: &workspace, file, docket, verdicts, is_late: &is_late };
    court.judge_all(jobs)?;
    let verdicts = court.verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
    let tally = report(&breakages, &verdicts, &workspace)?;
    let total = breakages.len() - 1;
    let ok = tally.wrong == 0 && tally.left == 0 && total > 0;
    println!(
        "breakages: {} caught={}/{total} left={} seconds={}",
        if ok { "ok" } else { "FAILED" },
        total - tally.left - tally.wrong,
        tally.left,
        began.elapsed().as_secs()
    );
    Ok(ok)
}

impl Court<'_> {
    fn judge_all(&self, jobs: usize) -> io::Result<()> {
        if jobs == 0 {
            return Ok(());
        }
        let first = Workshop::open(self.workspace, 0)?;
        first.build()?;
        let mut workshops = vec![first];
        for index in 1..jobs {
            workshops.push(Workshop::open(self.workspace, index)?);
        }
        thread::scope(|scope| {
            let workers: Vec<_> =
                workshops.iter().map(|shop| scope.spawn(|| self.work_off(shop))).collect();
            workers.into_iter().try_for_each(|worker| {
                worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker died")))
            })
        })
    }

    /// Takes one breakage after the other until none is left, or the time is over.
    fn work_off(&self, workshop: &Workshop) -> io::Result<()> {
        while !(self.is_late)() {
            let next = self.docket.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(breakage) = next else { return Ok(()) };
            let caught = workshop.judge(breakage)?;
            eprintln!("{}", breakage.row(caught.as_ref().map(|(_, catch)| catch)));
            let checkers = caught.as_ref().map_or(breakage.checkers.len(), |(index, _)| index + 1);
            let key = breakage.key(self.workspace, checkers)?;
            let verdict = Verdict { checkers, key, catch: caught.map(|(_, catch)| catch) };
            let mut verdicts = self.verdicts.lock().unwrap_or_else(PoisonError::into_inner);
            verdicts.insert(breakage.name.clone(), verdict);
            breakage::save(&self.file, &verdicts)?;
        }
        Ok(())
    }
}

/// How many breakages went unnoticed, and how many have no verdict on the sources as they are.
#[derive(Default)]
struct Tally {
    wrong: usize,
    left: usize,
}

/// Prints the table, and names those that went unnoticed or are left without a verdict.
fn report(breakages: &[Breakage], verdicts: &Verdicts, workspace: &Path) -> io::Result<Tally> {
    println!("| breakage | what is broken | noticed as | after | in |\n|---|---|---|---|---|");
    let mut tally = Tally::default();
    for breakage in breakages {
        let verdict = verdicts.get(&breakage.name);
        if breakage.patch.is_some() {
            println!("{}", breakage.row(verdict.and_then(|verdict| verdict.catch.as_ref())));
        }
        let current = match verdict {
            Some(verdict) => breakage.is_about(verdict, workspace)?.then_some(verdict),
            None => None,
        };
        let is_noticed = current.map(|verdict| verdict.catch.is_some());
        if is_noticed.is_some_and(|is_noticed| is_noticed != breakage.patch.is_some()) {
            println!("breakages: the verdict on `{}` is wrong", breakage.name);
            tally.wrong += 1;
        } else if is_noticed.is_none() && breakage.patch.is_some() {
            println!("breakages: `{}` is left without a verdict", breakage.name);
            tally.left += 1;
        }
    }
    Ok(tally)
}

fn patches(folder: &Path, only: &str) -> io::Result<Vec<PathBuf>> {
    let mut patches = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let named = path.file_name().is_some_and(|name| name.to_string_lossy().contains(only));
        if named && path.extension().is_some_and(|extension| extension == "patch") {
            patches.push(path);
        }
    }
    patches.sort();
    Ok(patches)
}
