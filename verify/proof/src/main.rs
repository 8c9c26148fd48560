//! Proves I1 to I4 of one lock inductively, by two solvers. `docs/proof.md` explains it.

#[cfg(test)]
mod contract;
mod guards;
mod queries;
mod relation;
mod solver;
#[cfg(test)]
mod state;
mod stories;
mod term;
#[cfg(test)]
mod tie;

use std::io;
use std::process::ExitCode;
use std::thread;

use clap::Parser;

use crate::queries::Change;
use crate::relation::{Kind, RELATION};
use crate::solver::Solver;

/// Proves the invariants in Z3 and cvc5: `pip install -r verify/proof/solvers.txt`.
#[derive(Parser)]
struct Options {
    /// Passes, and says so, where a solver is missing.
    #[arg(long)]
    if_present: bool,
    /// Tells what goes wrong without each guard.
    #[arg(long)]
    stories: bool,
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("prove: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options) -> io::Result<bool> {
    let mut solvers = Vec::new();
    for name in ["z3", "cvc5"] {
        let Some(solver) = Solver::find(name)? else {
            println!(
                "!! NOT PROVEN: python3 has no module `{name}`; run `pip install -r verify/proof/solvers.txt`."
            );
            return Ok(options.if_present);
        };
        if !solver.is_pinned() {
            println!("!! {name} {} is not the version in verify/proof/solvers.txt", solver.version);
        }
        solvers.push(solver);
    }
    let [z3, cvc5] = solvers.as_slice() else { return Ok(false) };
    let (of_z3, of_cvc5, stories, needless) = thread::scope(|scope| {
        let of_cvc5 = scope.spawn(|| proof_failures(cvc5));
        let needless = scope.spawn(|| guards::needless_clauses(z3));
        let of_z3 = proof_failures(z3);
        let stories = guards::stories(z3);
        (of_z3, joined(of_cvc5), stories, joined(needless))
    });
    let stories = stories?;
    let mut failures = [of_z3?, of_cvc5?, stories.failures].concat();
    failures.extend(needless?.iter().map(|name| format!("clause `{name}`: nothing needs it")));
    failures.iter().for_each(|failure| println!("{failure}"));
    if options.stories {
        for story in &stories.stories {
            println!("{}:", story.name);
            story.lines.iter().for_each(|line| println!("    {line}"));
        }
    }
    let guards = RELATION.actions.iter().flat_map(|action| &action.guards);
    println!(
        "prove: {} actions={} clauses={} claims={} queries={} guards_removed={}/{} broken={} spare={} untold={} z3={} cvc5={}",
        if failures.is_empty() { "ok" } else { "FAILED" },
        RELATION.actions.len(),
        RELATION.clauses.len(),
        RELATION.claims.len(),
        queries::proof(Change::default()).len(),
        stories.stories.len() + stories.spare + stories.untold,
        guards.filter(|guard| guard.kind != Kind::New).count(),
        stories.stories.len(),
        stories.spare,
        stories.untold,
        z3.version,
        cvc5.version,
    );
    Ok(failures.is_empty())
}

fn joined<T>(handle: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}

/// Returns what this solver does not prove, though it is true; and what it proves of half the
/// margin, though it is false.
fn proof_failures(solver: &Solver) -> io::Result<Vec<String>> {
    let failures = solver.failures(&queries::proof(Change::default()))?;
    let mut failures: Vec<String> =
        failures.iter().map(|failure| format!("{}: {failure}", solver.name)).collect();
    let mut half = queries::implied(Change { half_margin: true, ..Change::default() });
    // cvc5 finds no answer for the readers, since it looks for a model in vain.
    half.retain(|query| query.name == "implied/I1");
    if solver.failures(&half)?.is_empty() {
        failures.push(format!("{}: I1 follows from half the margin, too", solver.name));
    }
    Ok(failures)
}
