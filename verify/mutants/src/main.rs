//! Breaks a copy of the workspace on purpose, one mutant at a time, and runs the checker that must notice.
//! A checker that lets a broken lock pass proves nothing.

mod changes;
mod checker;
mod mutant;
mod record;
mod sandbox;
mod sources;

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::checker::{Checker, Outcome};
use crate::mutant::Mutant;
use crate::record::Record;
use crate::sandbox::Sandbox;
use crate::sources::Sources;

/// More than are ever judged in a minute.
const A_MINUTE: u64 = 15;

/// Judges the mutants of verify/mutants/list: each must be noticed by a checker.
#[derive(Parser)]
struct Options {
    /// Judges only those with this text in their names or edited files; more than one may be given.
    #[arg(long, value_name = "TEXT", conflicts_with = "changed")]
    only: Vec<String>,
    /// Judges those whose file or checker changed since a commit, without those that the record has as noticed, and ten
    /// others drawn by the hash of HEAD.
    #[arg(long)]
    changed: bool,
    /// The commit; by default the one at which the branch left main, and on main the twentieth before.
    #[arg(long, value_name = "COMMIT", requires = "changed")]
    since: Option<String>,
    /// Begins none after this many minutes, or half of them after the tests have passed without mutants, whichever is
    /// later; those that are left are counted.
    #[arg(long, value_name = "MINUTES")]
    minutes: Option<u64>,
    /// Judges this many at once, each in a copy of its own.
    #[arg(long, value_name = "N", default_value = "2", value_parser = clap::value_parser!(u64).range(1..=64))]
    jobs: u64,
}

/// The mutants to be judged in this order, and what became of those that were.
struct Queue<'a> {
    sources: &'a Sources,
    record: &'a Record,
    waiting: Mutex<Vec<&'a Mutant>>,
    judged: Mutex<Vec<Judged<'a>>>,
    deadline: Option<Instant>,
}

struct Judged<'a> {
    mutant: &'a Mutant,
    outcome: Outcome,
    took: Duration,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let began = now();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?;
    let sources = Sources::read(&workspace)?;
    let mutants = mutant::read_all(&workspace)?;
    let record = Record::open(&workspace, &mutants, &sources)?;
    let (mut selected, why) = if options.changed {
        changes::changed(&workspace, &mutants, &sources, &record, options.since.as_deref())?
    } else {
        changes::named(&mutants, &options.only)
    };
    if selected.is_empty() {
        return Err(io::Error::other("no mutant has such a name or edits such a file"));
    }
    println!("mutants: {why}");
    // Those for which there will be no time don't have their tests pass first.
    let time_for = options.minutes.map_or(u64::MAX, |minutes| minutes * A_MINUTE);
    let hopeless =
        selected.split_off(usize::try_from(time_for).unwrap_or(usize::MAX).min(selected.len()));
    let jobs = usize::try_from(options.jobs).unwrap_or(1).min(selected.len());
    let sandboxes: Vec<_> =
        (0..jobs).map(|index| Sandbox::open(&workspace, index)).collect::<io::Result<_>>()?;
    pass_without_mutants(&sandboxes, &selected, &sources)?;
    let limit = options.minutes.map(|minutes| Duration::from_secs(minutes * 60));
    let queue = Queue {
        sources: &sources,
        record: &record,
        waiting: Mutex::new(selected.into_iter().rev().collect()),
        judged: Mutex::default(),
        deadline: limit.map(|limit| (began + limit).max(now() + limit / 2)),
    };
    in_each(&sandboxes, |sandbox| queue.work(sandbox))?;
    let left = queue.waiting.into_inner().unwrap_or_else(PoisonError::into_inner);
    let judged = queue.judged.into_inner().unwrap_or_else(PoisonError::into_inner);
    report(&judged);
    let left = left.len() + hopeless.len();
    let caught = judged.iter().filter(|it| it.outcome.is_noticed()).count();
    let is_ok = caught == judged.len() && caught > 0;
    if left > 0 {
        println!("!! LEFT TO THE NIGHTLY RUN: {left} mutants that changed or were drawn");
    }
    println!(
        "mutants: {} caught={caught}/{} judged={}/{} left={} seconds={}",
        if is_ok { "ok" } else { "FAILED" },
        judged.len(),
        judged.len(),
        mutants.len(),
        left,
        began.elapsed().as_secs()
    );
    Ok(is_ok)
}

/// Does the same in each copy, at once.
fn in_each(
    sandboxes: &[Sandbox],
    work: impl Fn(&Sandbox) -> io::Result<()> + Sync,
) -> io::Result<()> {
    let work = &work;
    thread::scope(|scope| {
        let spawn = |sandbox| scope.spawn(move || work(sandbox));
        let workers: Vec<_> = sandboxes.iter().map(spawn).collect();
        workers.into_iter().try_for_each(|worker| {
            worker.join().unwrap_or_else(|_| Err(io::Error::other("a worker panicked")))
        })
    })
}

/// Fails unless the tests of these mutants pass without them: one that fails anyway notices nothing.
fn pass_without_mutants(
    sandboxes: &[Sandbox],
    mutants: &[&Mutant],
    sources: &Sources,
) -> io::Result<()> {
    let checkers: Vec<Vec<Checker>> = mutants
        .iter()
        .map(|mutant| Checker::all_for(mutant, sources))
        .collect::<io::Result<_>>()?;
    let checkers = checkers.concat();
    let runs = Mutex::new(Checker::tests(&checkers));
    in_each(sandboxes, |sandbox| {
        loop {
            let run = runs.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(run) = run else { return Ok(()) };
            sandbox.must_pass(&run)?;
        }
    })
}

impl Queue<'_> {
    /// Judges one mutant after the other until none is left, or the time is over.
    fn work(&self, sandbox: &Sandbox) -> io::Result<()> {
        while self.deadline.is_none_or(|deadline| now() < deadline) {
            let next = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).pop();
            let Some(mutant) = next else { return Ok(()) };
            let began = now();
            let outcome = sandbox.judge(mutant, &Checker::all_for(mutant, self.sources)?)?;
            self.record.keep(mutant, outcome.is_noticed())?;
            let judged = Judged { mutant, outcome, took: began.elapsed() };
            eprintln!("{}", judged.row());
            self.judged.lock().unwrap_or_else(PoisonError::into_inner).push(judged);
        }
        Ok(())
    }
}

impl Judged<'_> {
    fn row(&self) -> String {
        let Mutant { name, what, .. } = self.mutant;
        format!("| `{name}` | {what} | {} | {} s |", self.outcome, self.took.as_secs())
    }
}

/// Prints the table, and after it again those that were not noticed.
fn report(judged: &[Judged<'_>]) {
    println!("| mutant | what is broken | noticed as | took |\n|---|---|---|---|");
    let mut rows: Vec<String> = judged.iter().map(Judged::row).collect();
    rows.sort();
    rows.iter().for_each(|row| println!("{row}"));
    for Judged { mutant, outcome, .. } in judged.iter().filter(|it| !it.outcome.is_noticed()) {
        println!("mutants: `{}`: {}", mutant.name, outcome.details());
    }
}

/// Real time: what is limited is how long the machine works.
#[allow(clippy::disallowed_methods, reason = "a limit on real work is measured in real time")]
fn now() -> Instant {
    Instant::now()
}
