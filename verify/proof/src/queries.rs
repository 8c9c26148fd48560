//! The proof as queries of their own, each of which must have no model (or one, where it says so).

use std::collections::HashSet;

use crate::relation::{Action, Guard, PLACES, RELATION, Symbol};
use crate::term::Term;

/// A question to a solver.
pub struct Query {
    /// Action and clause.
    pub name: String,
    /// `unsat`, or `sat` where something must be possible.
    pub wanted: &'static str,
    /// In SMT-LIB 2.
    pub text: String,
    /// The actions of a run, in their order.
    pub plot: &'static [String],
}

/// A change of the proof that must break it.
#[derive(Clone, Copy, Default)]
pub struct Change {
    /// The guard that is taken out: of the action of this name, the guard of that one.
    pub without: Option<(&'static str, &'static str)>,
    /// Takes half of the margin off the lease.
    pub half_margin: bool,
}

impl Change {
    /// Returns the guards that are left of an action.
    pub fn guards(&self, action: &'static Action) -> impl Iterator<Item = &'static Guard> {
        let without = self.without;
        action.guards.iter().filter(move |guard| Some((&*action.name, &*guard.name)) != without)
    }

    /// Returns the axioms.
    pub fn axioms(&self) -> Vec<&'static Term> {
        let mut axioms: Vec<_> = RELATION.axioms.iter().map(|(_, axiom)| axiom).collect();
        if self.half_margin {
            axioms.pop();
            axioms.push(&RELATION.half_margin);
        }
        axioms
    }
}

/// Returns the whole invariant, clause by clause.
pub fn invariant() -> impl Iterator<Item = (&'static str, &'static Term)> {
    RELATION.clauses.iter().chain(&RELATION.claims).map(|(name, clause)| (&**name, clause))
}

/// Returns true for a claim that follows from the rest of the invariant at each moment.
pub fn follows(name: &str) -> bool {
    name.starts_with("I1")
}

/// Returns the queries of the proof.
pub fn proof(change: Change) -> Vec<Query> {
    let initial: String = RELATION.initial.iter().map(|(_, term)| assert(term)).collect();
    let start = format!("{}{initial}", preamble(change));
    let at_first =
        invariant().map(|(name, clause)| refuted(format!("initial/{name}"), &start, clause));
    let steps = RELATION.actions.iter().flat_map(|action| steps(change, action));
    at_first.chain(implied(change)).chain(steps).collect()
}

/// Returns the queries of the claims that follow from the others.
pub fn implied(change: Change) -> Vec<Query> {
    let rest = preamble(change) + &kept();
    let claims = invariant().filter(|(name, _)| follows(name));
    claims.map(|(name, claim)| refuted(format!("implied/{name}"), &rest, claim)).collect()
}

/// Returns the queries of one action: each clause after it.
pub fn steps(change: Change, action: &'static Action) -> Vec<Query> {
    let mut text = preamble(change) + &kept();
    action.parameters.iter().for_each(|parameter| text += &declared(parameter, ""));
    change.guards(action).for_each(|guard| text += &assert(&guard.term));
    let mut changed = HashSet::new();
    for (Symbol { name, sorts, sort }, after) in action.after(&RELATION) {
        text += &format!("(define-fun {name}! ({}) {sort} {after})\n", places(sorts));
        changed.insert(&**name);
    }
    let after = invariant().filter(|(name, _)| !follows(name)).filter_map(|(name, clause)| {
        let after = clause.marked(&changed, "!");
        (after != *clause).then(|| refuted(format!("{}/{name}", action.name), &text, &after))
    });
    after.collect()
}

/// Returns the text that asserts the invariant, but for what follows from it.
fn kept() -> String {
    invariant().filter(|(name, _)| !follows(name)).map(|(_, clause)| assert(clause)).collect()
}

fn preamble(change: Change) -> String {
    let mut text = String::from("(set-logic ALL)\n");
    RELATION.sorts.iter().for_each(|sort| text += &format!("(declare-sort {sort} 0)\n"));
    let symbols = RELATION.rigid.iter().chain(&RELATION.state);
    symbols.for_each(|symbol| text += &declared(symbol, ""));
    change.axioms().into_iter().for_each(|axiom| text += &assert(axiom));
    text
}

/// Returns the parameters of a function that is defined at the [`PLACES`].
pub fn places(sorts: &[String]) -> String {
    PLACES.iter().zip(sorts).map(|(place, sort)| format!("({place} {sort})")).collect()
}

/// Returns the text that declares the symbol.
pub fn declared(Symbol { name, sorts, sort }: &Symbol, version: &str) -> String {
    format!("(declare-fun {name}{version} ({}) {sort})\n", sorts.join(" "))
}

/// Returns the text that asserts the term.
pub fn assert(term: &Term) -> String {
    format!("(assert {term})\n")
}

fn refuted(name: String, given: &str, claim: &Term) -> Query {
    let text = format!("{given}(assert (not {claim}))\n(check-sat)\n");
    Query { name, wanted: "unsat", text, plot: &[] }
}
