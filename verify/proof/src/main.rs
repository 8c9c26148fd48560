//! Proves I1 to I4 of one lock inductively, by two solvers. `docs/proof.md` explains it.

#[cfg(test)]
mod contract;
mod queries;
mod relation;
mod runs;
mod solver;
#[cfg(test)]
mod state;
mod term;
#[cfg(test)]
mod tie;

use std::io;
use std::process::ExitCode;
use std::thread;

use clap::Parser;

use crate::queries::Query;
use crate::relation::{Action, RELATION};
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
            println!("!! NOT PROVEN: {name} is missing: pip install -r verify/proof/solvers.txt");
            return Ok(options.if_present);
        };
        if !solver.is_pinned() {
            println!("!! {name} {} is not the version in verify/proof/solvers.txt", solver.version);
        }
        solvers.push(solver);
    }
    let [z3, cvc5] = solvers.as_slice() else { return Ok(false) };
    let (proof, told, needed) = (queries::proof(), queries::told(), queries::needed());
    // One of the stories is that of half the margin.
    let (queries, broken) = (proof.len(), told.len() - 1);
    let others = told.into_iter().chain([queries::half_margin()]).chain(queries::possible());
    let others: Vec<Query> = others.chain(queries::spare()).collect();
    let answered = thread::scope(|scope| {
        let asked = [(z3, &proof), (cvc5, &proof), (z3, &others), (z3, &needed)];
        asked.map(|(solver, queries)| scope.spawn(|| answered(solver, queries))).map(joined)
    });
    let mut is_ok = true;
    for answered in answered {
        let Answered { failures, stories } = answered?;
        is_ok &= failures.is_empty();
        failures.iter().for_each(|failure| println!("{failure}"));
        stories.iter().filter(|_| options.stories).for_each(|line| println!("{line}"));
    }
    let guards = queries::guards().count();
    let listed = |of: fn(&Action) -> &Vec<String>| -> usize {
        RELATION.actions.iter().map(|action| of(action).len()).sum()
    };
    let (spare, untold) = (listed(|action| &action.spare), listed(|action| &action.untold));
    println!(
        "prove: {} actions={} clauses={} claims={} queries={queries} guards_removed={}/{guards} broken={broken} spare={spare} untold={untold} z3={} cvc5={}",
        if is_ok { "ok" } else { "FAILED" },
        RELATION.actions.len(),
        RELATION.clauses.len(),
        RELATION.claims.len(),
        broken + spare + untold,
        z3.version,
        cvc5.version,
    );
    Ok(is_ok)
}

/// The outcome of a list of queries, in lines.
#[derive(Default)]
struct Answered {
    /// The answers that are not as wanted; `unknown` is none that is.
    failures: Vec<String>,
    /// The runs that were found.
    stories: Vec<String>,
}

fn answered(solver: &Solver, queries: &[Query]) -> io::Result<Answered> {
    let answers = solver.answers(queries)?;
    let mut answered = Answered::default();
    for (number, query) in queries.iter().enumerate() {
        let said = answers.get(number).map_or("no answer", String::as_str);
        let (answer, found) = said.split_once(' ').unwrap_or((said, ""));
        if answer != query.wanted {
            answered.failures.push(format!("{}: {}: {said}", solver.name, query.name));
        } else if !query.plot.is_empty() {
            answered.stories.push(format!("{}:", query.name));
            let lines = runs::tell(query.plot, found);
            answered.stories.extend(lines.iter().map(|line| format!("    {line}")));
        }
    }
    Ok(answered)
}

fn joined<T>(handle: thread::ScopedJoinHandle<'_, io::Result<T>>) -> io::Result<T> {
    handle.join().unwrap_or_else(|_| Err(io::Error::other("a thread panicked")))
}
