//! Each guard and each clause, taken out: something breaks, or the guard is listed as spare.

use std::io;

use crate::queries::{self, Change, Query};
use crate::relation::{Kind, RELATION};
use crate::solver::Solver;
use crate::stories;

/// A guard, and what a run without it looks like.
pub struct Story {
    /// The name of the action and the guard.
    pub name: String,
    /// A line for each step.
    pub lines: Vec<String>,
}

/// The outcome of a search for stories.
#[derive(Default)]
pub struct Found {
    /// Those found.
    pub stories: Vec<Story>,
    /// How many guards the proof can spare.
    pub spare: usize,
    /// How many it uses, without a story.
    pub untold: usize,
    /// A line for each failure.
    pub failures: Vec<String>,
}

/// Takes each guard out in turn.
pub fn stories(solver: &Solver) -> io::Result<Found> {
    let mut found = Found::default();
    let half = Change { half_margin: true, ..Change::default() };
    let runs = stories::possible().into_iter().chain(stories::without("half-margin", half));
    let runs: Vec<Vec<Query>> = runs.map(|run| vec![run]).collect();
    for (run, model) in runs.iter().zip(solver.models(&runs)?) {
        if model.is_none() {
            found.failures.push(format!("{}: there is no such run", run[0].name));
        }
    }
    let mut told = Vec::new();
    for action in &RELATION.actions {
        for guard in action.guards.iter().filter(|guard| guard.kind != Kind::New) {
            let name = format!("{}/{}", action.name, guard.name);
            let without = Some((&*action.name, &*guard.name));
            let change = Change { without, ..Change::default() };
            if action.spare.contains(&guard.name) {
                found.spare += 1;
                for failure in solver.failures(&queries::steps(change, action))? {
                    found.failures.push(format!("not spare: {name}: {failure}"));
                }
            } else if action.untold.contains(&guard.name) {
                found.untold += 1;
            } else {
                match stories::without(&name, change) {
                    Some(story) => told.push(vec![story]),
                    None => found.failures.push(format!("{name}: no plot tells it")),
                }
            }
        }
    }
    for (story, model) in told.iter().zip(solver.models(&told)?) {
        let name = story[0].name.clone();
        match model {
            Some((query, said)) => {
                found.stories.push(Story { name, lines: stories::tell(query, &said) });
            }
            None => found.failures.push(format!("{name}: nothing goes wrong")),
        }
    }
    Ok(found)
}

/// Takes each clause out in turn; returns those without which nothing breaks.
pub fn needless_clauses(solver: &Solver) -> io::Result<Vec<&'static str>> {
    let names: Vec<&str> = RELATION.clauses.iter().map(|(name, _)| &**name).collect();
    let asked: Vec<_> = names.iter().map(|name| stories::without_clause(name)).collect();
    let models = solver.models(&asked)?;
    Ok(names.into_iter().zip(models).filter(|(_, model)| model.is_none()).map(|(n, _)| n).collect())
}
