//! Proves I1 to I4 of one lock inductively, by two solvers. `docs/proof.md` explains it.

mod invariant;
mod queries;
mod relation;
mod solver;
mod term;
#[cfg(test)]
mod tie;

use std::io;
use std::process::ExitCode;

use clap::Parser;

use crate::queries::{Change, Query};
use crate::solver::Solver;

/// Proves the invariants in Z3 and cvc5: `pip install -r verify/proof/solvers.txt`.
#[derive(Parser)]
struct Options {
    /// Passes, and says so, where a solver is missing.
    #[arg(long)]
    if_present: bool,
}

fn main() -> ExitCode {
    match run(Options::parse().if_present) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("prove: FAILED: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(if_present: bool) -> io::Result<bool> {
    let mut solvers = Vec::new();
    for name in ["z3", "cvc5"] {
        let Some(solver) = Solver::find(name)? else {
            println!(
                "!! NOT PROVEN: python3 has no module `{name}`; run `pip install -r verify/proof/solvers.txt`."
            );
            return Ok(if_present);
        };
        if !solver.is_pinned() {
            println!("!! {name} {} is not the version in verify/proof/solvers.txt", solver.version);
        }
        solvers.push(solver);
    }
    let queries = queries::proof(Change::default());
    let mut passed = true;
    for solver in &solvers {
        for failure in failures(solver, &queries)? {
            println!("{}: {failure}", solver.name);
            passed = false;
        }
    }
    let half = queries::proof(Change { half_margin: true, ..Change::default() });
    for solver in &solvers {
        let failures = failures(solver, &half)?;
        if !failures.iter().any(|failure| failure.starts_with("implied/I1: ")) {
            println!("{}: I1 follows from half the margin, too", solver.name);
            passed = false;
        }
    }
    let versions: Vec<String> =
        solvers.iter().map(|solver| format!("{}={}", solver.name, solver.version)).collect();
    let guards = relation::ACTIONS.iter().flat_map(|action| action.guards);
    let judged = guards.filter(|guard| guard.kind == relation::Kind::Judge).count();
    println!(
        "prove: {} actions={} judged_guards={judged} clauses={} queries={} {}",
        if passed { "ok" } else { "FAILED" },
        relation::ACTIONS.len(),
        invariant::CLAUSES.len() + invariant::CLAIMS.len(),
        queries.len(),
        versions.join(" "),
    );
    Ok(passed)
}

/// Returns the queries whose answer is not as wanted; `unknown` is none that is.
fn failures(solver: &Solver, queries: &[Query]) -> io::Result<Vec<String>> {
    let answers = solver.answers(queries)?;
    let failures = queries.iter().filter_map(|query| match answers.get(&query.name) {
        Some(answer) if answer.said == query.wanted => None,
        Some(answer) => {
            Some(format!("{}: {} after {} ms", query.name, answer.said, answer.milliseconds))
        }
        None => Some(format!("{}: no answer", query.name)),
    });
    Ok(failures.collect())
}
