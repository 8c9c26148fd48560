//! The questions of the proof, each with the answer that it wants.

use crate::relation::{Action, Formulas, Guard, Kind, RELATION};
use crate::runs::{Change, Run};
use crate::term::Term;

/// A question to a solver.
pub struct Query {
    /// Action and clause, or action and guard.
    pub name: String,
    /// `unsat`, or `sat` where something must be possible.
    pub wanted: &'static str,
    /// In SMT-LIB 2. The answer is that of the first with a model, or that of the last.
    pub texts: Vec<String>,
    /// The actions of a run that is to be told.
    pub plot: &'static [String],
}

/// Returns the whole invariant, clause by clause.
fn invariant() -> impl Iterator<Item = &'static (String, Term)> {
    RELATION.clauses.iter().chain(&RELATION.claims)
}

/// Returns true for a claim that follows from the rest of the invariant at each moment.
fn follows(name: &str) -> bool {
    name.starts_with("I1")
}

fn terms(formulas: &'static Formulas) -> Vec<&'static Term> {
    formulas.iter().map(|(_, term)| term).collect()
}

/// Returns the invariant without this clause, as it is assumed.
fn kept(without: &str) -> Vec<&'static Term> {
    let kept = invariant().filter(|(name, _)| !follows(name) && name != without);
    kept.map(|(_, clause)| clause).collect()
}

fn not_all<'a>(formulas: impl Iterator<Item = &'a (String, Term)>) -> Term {
    let all = formulas.map(|(_, formula)| formula.clone());
    Term::call("not", [Term::call("and", all)])
}

fn plot_of(action: &'static Action) -> &'static [String] {
    std::slice::from_ref(&action.name)
}

/// Returns the queries of the proof: the invariant holds at first, and after each action.
pub fn proof() -> Vec<Query> {
    let initial = terms(&RELATION.initial);
    let at_first = refuted("initial", &initial, &[], Change::default(), |_| true);
    let steps = RELATION.actions.iter().flat_map(|action| steps(action, Change::default()));
    let implied = refuted("implied", &kept(""), &[], Change::default(), follows);
    at_first.into_iter().chain(implied).chain(steps).collect()
}

/// Returns the query that shows that I1 follows no more with half of the margin.
pub fn half_margin() -> Query {
    let change = Change { half_margin: true, ..Change::default() };
    let mut implied = refuted("half-margin", &kept(""), &[], change, |name| name == "I1");
    Query { wanted: "sat", ..implied.remove(0) }
}

/// Returns the queries of one action: each clause after it.
fn steps(action: &'static Action, change: Change) -> Vec<Query> {
    refuted(&action.name, &kept(""), plot_of(action), change, |name| !follows(name))
}

fn refuted(
    of: &str,
    start: &[&Term],
    plot: &'static [String],
    change: Change,
    is_asked: impl Fn(&str) -> bool,
) -> Vec<Query> {
    let asked = invariant().filter(|(name, _)| is_asked(name));
    let queries = asked.filter_map(|(name, clause)| {
        let goal = &Term::call("not", [clause.clone()]);
        let run = Run { start, plot, goal, change, is_small: false, skips: false };
        Some(Query {
            name: format!("{of}/{name}"),
            wanted: "unsat",
            texts: vec![run.text()?],
            plot: &[],
        })
    });
    queries.collect()
}

/// Returns the queries that show what is possible: each action happens in one of these runs.
pub fn possible() -> Vec<Query> {
    let happens = |action: &Action| RELATION.runs.iter().any(|(_, run)| run.contains(&action.name));
    if let Some(action) = RELATION.actions.iter().find(|action| !happens(action)) {
        panic!("`{}` happens in no run", action.name);
    }
    let start = &terms(&RELATION.initial);
    let queries = RELATION.runs.iter().enumerate().map(|(number, (goal, plot))| {
        let change = Change::default();
        let run = Run { start, plot, goal, change, is_small: true, skips: false };
        let texts = run.text().into_iter().collect();
        Query { name: format!("possible/{number}"), wanted: "sat", texts, plot: &[] }
    });
    queries.collect()
}

/// Returns the guards that are to be taken out.
pub fn guards() -> impl Iterator<Item = (&'static Action, &'static Guard)> {
    let guards = RELATION
        .actions
        .iter()
        .flat_map(|action| action.guards.iter().map(move |guard| (action, guard)));
    guards.filter(|(_, guard)| guard.kind != Kind::New)
}

/// Returns the queries that show that the proof can spare the guards that are listed so.
pub fn spare() -> Vec<Query> {
    let spare = guards().filter(|(action, guard)| action.spare.contains(&guard.name));
    let queries = spare.flat_map(|(action, guard)| {
        let without = Some((&*action.name, &*guard.name));
        let mut queries = steps(action, Change { without, ..Change::default() });
        queries.iter_mut().for_each(|query| query.name += &format!("/without-{}", guard.name));
        queries
    });
    queries.collect()
}

/// Returns the queries that tell how a claim breaks: without each other guard, and with half the
/// margin.
pub fn told() -> Vec<Query> {
    let half = Change { half_margin: true, ..Change::default() };
    let mut queries = vec![story("half-margin".into(), half)];
    for (action, guard) in guards() {
        if !action.spare.contains(&guard.name) && !action.untold.contains(&guard.name) {
            let without = Some((&*action.name, &*guard.name));
            let change = Change { without, ..Change::default() };
            queries.push(story(format!("{}/{}", action.name, guard.name), change));
        }
    }
    queries
}

fn story(name: String, change: Change) -> Query {
    let plot = RELATION.plots.iter().find(|(tells, _)| tells.contains(&name));
    let (_, plot) = plot.unwrap_or_else(|| panic!("no plot tells `{name}`"));
    let (start, goal) = (&terms(&RELATION.initial), &not_all(RELATION.claims.iter()));
    let run = Run { start, plot, goal, change, is_small: true, skips: true };
    let texts = run.text().into_iter().collect();
    Query { name: format!("story/{name}"), wanted: "sat", texts, plot }
}

/// Returns the queries that show that each clause is needed: without it, another clause or a claim
/// breaks in one step at most.
pub fn needed() -> Vec<Query> {
    let queries = RELATION.clauses.iter().map(|(name, _)| {
        let (start, goal) = (&kept(name), &not_all(invariant().filter(|(other, _)| other != name)));
        let plots = RELATION.actions.iter().map(plot_of);
        let texts = std::iter::once(&[][..]).chain(plots).filter_map(|plot| {
            let change = Change::default();
            Run { start, plot, goal, change, is_small: true, skips: false }.text()
        });
        Query { name: format!("needed/{name}"), wanted: "sat", texts: texts.collect(), plot: &[] }
    });
    queries.collect()
}
