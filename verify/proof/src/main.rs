//! Proves I1 to I4 of one lock inductively, by two solvers. `docs/proof.md` explains it.

#[cfg(test)]
mod contract;
mod relation;
#[cfg(test)]
mod state;
#[cfg(test)]
mod tie;

use std::io;
use std::process::{Command, ExitCode};

use crate::relation::RELATION;

/// Gives the relation to the program that asks the solvers, which are Python modules.
fn main() -> io::Result<ExitCode> {
    let relation: String = RELATION.items.iter().map(|item| format!("{item}\n")).collect();
    let mut python = Command::new("python3");
    python.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/prove.py")).arg(relation);
    let is_proven = python.args(std::env::args().skip(1)).status()?.success();
    Ok(if is_proven { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
