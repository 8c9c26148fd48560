//! The proof as queries of their own, each of which must have no model (or one, where it says so).

use std::collections::HashSet;

use crate::invariant::{CLAIMS, CLAUSES, INITIAL};
use crate::relation::{ACTIONS, AXIOMS, Action, Guard, HALF_MARGIN, RIGID, SORTS, STATE, Symbol};
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
    pub plot: Vec<&'static str>,
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
        action.guards.iter().filter(move |guard| Some((action.name, guard.name)) != without)
    }
}

/// Returns the queries of the proof.
pub fn proof(change: Change) -> Vec<Query> {
    let all = || CLAUSES.iter().chain(CLAIMS);
    let mut queries = Vec::new();
    for (name, clause) in all() {
        let mut text = preamble(change);
        INITIAL.iter().for_each(|term| text += &assert(&Term::read(term)));
        text += &refute(clause);
        queries.push(Query {
            name: format!("initial/{name}"),
            wanted: "unsat",
            text,
            plot: Vec::new(),
        });
    }
    queries.extend(implied(change));
    ACTIONS.iter().for_each(|action| queries.extend(steps(change, action)));
    queries
}

/// Returns the queries of the claim that follows from the others.
pub fn implied(change: Change) -> Vec<Query> {
    let mut queries = Vec::new();
    for (name, claim) in CLAIMS.iter().filter(|(name, _)| name.starts_with("I1")) {
        let mut text = preamble(change);
        let others = CLAUSES.iter().chain(CLAIMS).filter(|(other, _)| other != name);
        others.for_each(|(_, clause)| text += &assert(&Term::read(clause)));
        text += &refute(claim);
        queries.push(Query {
            name: format!("implied/{name}"),
            wanted: "unsat",
            text,
            plot: Vec::new(),
        });
    }
    queries
}

/// Returns the queries of one action: each clause after it.
pub fn steps(change: Change, action: &'static Action) -> Vec<Query> {
    let (step, changed) = step(change, action);
    let mut queries = Vec::new();
    // I1 follows from the others.
    for (name, clause) in CLAUSES.iter().chain(CLAIMS).filter(|(name, _)| *name != "I1") {
        let clause = Term::read(clause);
        let after = clause.marked(&changed, "!");
        if after != clause {
            let text = format!("{step}(assert (not {after}))\n(check-sat)\n");
            queries.push(Query {
                name: format!("{}/{name}", action.name),
                wanted: "unsat",
                text,
                plot: Vec::new(),
            });
        }
    }
    queries
}

/// Returns the state, what is assumed, the invariant before the action, the action's guards, and
/// the definitions of what it changes; and the names that these definitions change.
fn step(change: Change, action: &'static Action) -> (String, HashSet<String>) {
    let mut text = preamble(change);
    for (_, clause) in CLAUSES.iter().chain(CLAIMS) {
        text += &assert(&Term::read(clause));
    }
    for (name, sort) in action.parameters {
        text += &match sort.split_once('>') {
            Some((from, to)) => format!("(declare-fun {name} ({from}) {to})\n"),
            None => format!("(declare-const {name} {sort})\n"),
        };
    }
    for guard in change.guards(action) {
        text += &assert(&Term::read(guard.term));
    }
    let mut changed = HashSet::new();
    for (head, value) in action.updates() {
        let update = Update::read(head, value);
        let (name, sorts, sort) = symbol(&update.name);
        let parameter = sorts.first().map(|sort| format!("(x {sort})")).unwrap_or_default();
        text += &format!("(define-fun {name}! ({parameter}) {sort} {})\n", update.at_x());
        changed.insert(update.name);
    }
    (text, changed)
}

/// One change of the state.
pub struct Update {
    /// The name that changes.
    pub name: String,
    /// The only place at which a function changes.
    pub key: Option<Term>,
    /// The value after it: of a function that changes everywhere, at `x`.
    pub value: Term,
}

impl Update {
    /// Reads an update of the relation.
    pub fn read(head: &str, value: &str) -> Update {
        let (head, value) = (Term::read(head), Term::read(value));
        let key = if head.arguments().len() == 2 { head.arguments().last().cloned() } else { None };
        Update { name: head.head().into(), key, value }
    }

    /// Returns the value after it at `x`.
    pub fn at_x(&self) -> Term {
        let Update { name, key, value } = self;
        match key {
            Some(key) => Term::read(&format!("(ite (= x {key}) {value} ({name} x))")),
            None => value.clone(),
        }
    }
}

/// Returns the symbol of this name.
pub fn symbol(name: &str) -> &'static Symbol {
    let known = STATE.iter().find(|(known, ..)| *known == name);
    known.unwrap_or_else(|| panic!("`{name}` is not of the state"))
}

/// Returns the axioms.
pub fn axioms(change: Change) -> Vec<&'static str> {
    let mut axioms = AXIOMS.to_vec();
    if change.half_margin {
        axioms.pop();
        axioms.push(HALF_MARGIN);
    }
    axioms
}

fn preamble(change: Change) -> String {
    let mut text = String::from("(set-logic ALL)\n");
    SORTS.iter().for_each(|sort| text += &format!("(declare-sort {sort} 0)\n"));
    for (name, sorts, sort) in RIGID.iter().chain(STATE) {
        text += &format!("(declare-fun {name} ({}) {sort})\n", sorts.join(" "));
    }
    axioms(change).into_iter().for_each(|axiom| text += &assert(&Term::read(axiom)));
    text
}

/// Returns the text that asserts the term.
pub fn assert(term: &Term) -> String {
    format!("(assert {term})\n")
}

fn refute(claim: &str) -> String {
    format!("(assert (not {}))\n(check-sat)\n", Term::read(claim))
}
