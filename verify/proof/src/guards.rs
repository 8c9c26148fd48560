//! Each guard and each clause, taken out: something breaks, or the guard is listed as spare.

use std::io;

use crate::invariant::CLAUSES;
use crate::queries::{self, Change, Query};
use crate::relation::{ACTIONS, Kind};
use crate::solver::Solver;
use crate::stories;

/// Guards without which the proof passes all the same, and why they are there.
pub const SPARE: &[(&str, &str, &str)] = &[
    ("tick", "clocks-never-go-back", "The margin bounds how far a clock errs."),
    ("send", "unsettled", "An attempt that was given up is believed by nobody."),
    ("insert", "after-fences", "No fence reads a row that is absent."),
    ("takeover", "row-is-there", ABSENT),
    ("takeover", "no-takeover-row", "Heartbeat, token and writer in the same transaction suffice."),
    ("renew", "believed", EXPIRED),
    ("renew", "not-expired", EXPIRED),
    ("stop-believing", "believed", "It changes nothing else."),
    ("release", "row-is-there", ABSENT),
    ("release", "same-writer", "A term in the row has its own token, edited or not."),
    ("release", "names-no-holder", RELEASED),
    ("release", "after-it-was-asked-for", EARLY),
    ("evict", "row-is-there", NEEDLESS),
    ("evict", "somebody-holds", NEEDLESS),
    ("evict", "after-it-was-asked-for", EARLY),
    ("seize", "not-needless", NEEDLESS),
    ("seize", "names-no-holder", RELEASED),
    ("seize", "after-it-was-asked-for", EARLY),
    ("remove", "row-is-there", ABSENT),
    ("remove", "after-it-was-asked-for", EARLY),
    ("delete-by-hand", "after-it-was-asked-for", EARLY),
    ("edit", "after-it-was-asked-for", EARLY),
    ("fence", "after-it-was-asked-for", EARLY),
];

const EARLY: &str = "A commit that protects nobody may as well come early.";
const ABSENT: &str = "A row that is there no more is as good as released.";
const EXPIRED: &str =
    "After an expired term nobody else began, or its heartbeat would not have been applied.";
const RELEASED: &str = "A row whose heartbeat is the epoch is vacant, whatever its writer.";
const NEEDLESS: &str = "It spares a write that changes nothing for anybody.";

/// Guards that the induction uses, though no story without them was found.
const UNTOLD: &[(&str, &str)] = &[("send-heartbeat", "believed")];

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
    let runs = stories::possible().into_iter().map(|run| vec![run]);
    let runs: Vec<Vec<Query>> = runs.chain([stories::half_margin()]).collect();
    for (run, model) in runs.iter().zip(solver.models(&runs)?) {
        if model.is_none() {
            found.failures.push(format!("{}: there is no such run", run[0].name));
        }
    }
    let guards =
        ACTIONS.iter().flat_map(|action| action.guards.iter().map(move |guard| (action, guard)));
    let (spare, needed): (Vec<_>, Vec<_>) =
        guards.filter(|(_, guard)| guard.kind != Kind::Name).partition(|(action, guard)| {
            SPARE.iter().any(|spare| (spare.0, spare.1) == (action.name, guard.name))
        });
    found.spare = spare.len();
    for (action, guard) in spare {
        let change = Change { without: Some((action.name, guard.name)), ..Change::default() };
        for failure in solver.failures(&queries::steps(change, action))? {
            found.failures.push(format!("not spare: {}/{}: {failure}", action.name, guard.name));
        }
    }
    let asked: Vec<_> =
        needed.iter().map(|(action, guard)| stories::without(action, guard)).collect();
    for ((action, guard), model) in needed.iter().zip(solver.models(&asked)?) {
        let name = format!("{}/{}", action.name, guard.name);
        match model {
            Some((query, said)) => {
                found.stories.push(Story { name, lines: stories::tell(query, &said) });
            }
            None if UNTOLD.contains(&(action.name, guard.name)) => found.untold += 1,
            None => found.failures.push(format!("{name}: no story without it, and not spare")),
        }
    }
    Ok(found)
}

/// Takes each clause out in turn; returns those without which nothing breaks.
pub fn needless_clauses(solver: &Solver) -> io::Result<Vec<&'static str>> {
    let asked: Vec<_> = CLAUSES.iter().map(|(name, _)| stories::without_clause(name)).collect();
    let models = solver.models(&asked)?;
    let needless = CLAUSES.iter().zip(models).filter(|(_, model)| model.is_none());
    Ok(needless.map(|((name, _), _)| *name).collect())
}
