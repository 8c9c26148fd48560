//! The relation of `lock.sexp`: its state, its actions, and what is claimed of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use crate::term::Term;

/// The relation, written once.
pub static RELATION: LazyLock<Relation> =
    LazyLock::new(|| Relation::read(include_str!("lock.sexp")));

/// A name, the sorts of its arguments, and its own sort.
pub struct Symbol {
    pub name: String,
    pub sorts: Vec<String>,
    pub sort: String,
}

/// The keeper of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `change.rs`, by the rows that its transaction read.
    Judge,
    /// The instance, and the views of readers and writers: their contract.
    Contract,
    /// Spanner and the clocks: an assumption.
    World,
    /// Picks an element that stands for something new: a way to write the relation.
    New,
}

/// One condition of an action.
pub struct Guard {
    /// The name by which it is taken out.
    pub name: String,
    pub kind: Kind,
    pub term: Term,
}

/// One change of the state.
pub struct Update {
    /// The name that changes.
    pub name: String,
    /// The only place at which a function changes; `x` if it is everywhere.
    pub key: Vec<Term>,
    /// The value after it.
    pub value: Term,
}

/// One action.
#[derive(Default)]
pub struct Action {
    pub name: String,
    pub parameters: Vec<Symbol>,
    /// All must hold.
    pub guards: Vec<Guard>,
    /// All that changes.
    pub updates: Vec<Update>,
    /// Names of guards without which the proof passes all the same.
    pub spare: Vec<String>,
    /// Names of guards that the induction uses, though no story without them was found.
    pub untold: Vec<String>,
}

/// The names of the places at which a function changes.
pub const PLACES: [&str; 2] = ["x", "y"];

/// Names and formulas.
pub type Formulas = Vec<(String, Term)>;

/// All of it.
#[derive(Default)]
pub struct Relation {
    /// Sorts of which there may be any number of elements.
    pub sorts: Vec<String>,
    /// Names that stand for any element of their sort.
    any: Vec<Symbol>,
    /// Functions that never change.
    pub rigid: Vec<Symbol>,
    /// Those that do.
    pub state: Vec<Symbol>,
    /// Assumptions about the functions that never change.
    pub axioms: Formulas,
    /// Replaces the last axiom, to see the proof fail.
    pub half_margin: Term,
    pub actions: Vec<Action>,
    /// The state before anything happened.
    pub initial: Formulas,
    pub claims: Formulas,
    /// The other clauses of the invariant.
    pub clauses: Formulas,
    /// Runs in which each action happens: what holds in the end, and the actions in their order.
    pub runs: Vec<(Term, Vec<String>)>,
    /// The orders of actions that tell what goes wrong without these guards. Steps may be left out.
    pub plots: Vec<(Vec<String>, Vec<String>)>,
    /// Abbreviations and lists: parameters, and the terms that take their place.
    definitions: HashMap<String, (Vec<String>, Vec<Term>)>,
}

impl Relation {
    fn read(text: &str) -> Relation {
        let mut all = Relation::default();
        for item in Term::read_all(text) {
            let parts = item.arguments();
            let name = || parts[0].to_string();
            let formula = || (name(), all.for_all(&parts[1]));
            match item.head() {
                "sorts" => all.sorts = names(parts),
                "any" => all.any.extend(symbols(&[], parts)),
                "rigid" => all.rigid.extend(symbols(parts[0].parts(), &parts[1..])),
                "state" => all.state.extend(symbols(parts[0].parts(), &parts[1..])),
                "axiom" => all.axioms.push(formula()),
                "half-margin" => all.half_margin = all.for_all(&parts[0]),
                "initial" => all.initial.push(formula()),
                "claim" => all.claims.push(formula()),
                "clause" => all.clauses.push(formula()),
                "run" => all.runs.push((all.in_full(&parts[0]), names(&parts[1..]))),
                "plot" => all.plots.push((names(parts[0].parts()), names(&parts[1..]))),
                "define" | "list" => {
                    let parameters = names(parts[1].parts());
                    all.definitions.insert(name(), (parameters, parts[2..].to_vec()));
                }
                "action" => {
                    let parameters = parts[1].parts().iter().map(parameter).collect();
                    let mut action = Action { name: name(), parameters, ..Action::default() };
                    parts[2..].iter().for_each(|part| all.add(part, &mut action));
                    all.actions.push(action);
                }
                other => panic!("`{other}` is nothing that a relation has"),
            }
        }
        all
    }

    fn add(&self, part: &Term, action: &mut Action) {
        let parts = part.arguments();
        let mut guard = |kind| {
            let (name, term) = (parts[0].to_string(), self.in_full(&parts[1]));
            action.guards.push(Guard { name, kind, term });
        };
        match part.head() {
            "judge" => guard(Kind::Judge),
            "contract" => guard(Kind::Contract),
            "world" => guard(Kind::World),
            "new" => guard(Kind::New),
            "spare" => action.spare = names(parts),
            "untold" => action.untold = names(parts),
            "use" => {
                let body = self.body(parts).unwrap_or_else(|| panic!("`{part}` is no list"));
                body.iter().for_each(|part| self.add(part, action));
            }
            "cell" | "then" => {
                let key = parts[0].arguments().iter().map(|term| self.in_full(term)).collect();
                let (name, value) = (parts[0].head().to_string(), self.in_full(&parts[1]));
                action.updates.push(Update { name, key, value });
            }
            other => panic!("`{other}` is nothing that an action has"),
        }
    }

    /// Returns what stands for an abbreviation or a list with these arguments.
    fn body(&self, applied: &[Term]) -> Option<Vec<Term>> {
        let name = applied.first()?;
        let (parameters, body) = self.definitions.get(&name.to_string())?;
        assert_eq!(parameters.len(), applied.len() - 1, "`{name}` has other parameters");
        let given = parameters.iter().cloned().zip(applied[1..].iter().cloned()).collect();
        Some(body.iter().map(|term| term.with(&given)).collect())
    }

    /// Puts what they stand for in the place of abbreviations.
    fn in_full(&self, term: &Term) -> Term {
        let Term::List(parts) = term else { return term.clone() };
        match self.body(parts) {
            Some(body) => self.in_full(&body[0]),
            None => Term::List(parts.iter().map(|part| self.in_full(part)).collect()),
        }
    }

    /// Says of all elements what is said of the names that stand for any.
    fn for_all(&self, term: &Term) -> Term {
        let term = self.in_full(term);
        let free = self.any.iter().filter(|any| term.has_free(&any.name));
        let bound: Vec<Term> =
            free.map(|any| Term::call(&any.name, [Term::from(&*any.sort)])).collect();
        if bound.is_empty() { term } else { Term::call("forall", [Term::List(bound), term]) }
    }

    /// Returns a term that may have abbreviations.
    #[cfg(test)]
    pub fn term(&self, text: &str) -> Term {
        self.in_full(&Term::read(text))
    }

    /// Returns the function of this name.
    #[cfg(test)]
    pub fn symbol(&self, name: &str) -> &Symbol {
        let known = self.rigid.iter().chain(&self.state).find(|symbol| symbol.name == name);
        known.unwrap_or_else(|| panic!("`{name}` is no function"))
    }

    /// Returns the action of this name.
    pub fn action(&self, name: &str) -> &Action {
        let known = self.actions.iter().find(|action| action.name == name);
        known.unwrap_or_else(|| panic!("`{name}` is no action"))
    }
}

impl Action {
    /// Returns what changes, and its value after it at the [`PLACES`].
    pub fn after<'a>(&'a self, all: &'a Relation) -> Vec<(&'a Symbol, Term)> {
        let changed = all.state.iter().filter_map(|symbol| {
            let places = &PLACES[..symbol.sorts.len()];
            let before = Term::applied(&symbol.name, places);
            let updates = self.updates.iter().filter(|update| update.name == symbol.name);
            let after = updates.fold(before.clone(), |other, update| update.at(places, other));
            (after != before).then_some((symbol, after))
        });
        changed.collect()
    }
}

impl Update {
    /// Returns the value after it, where it was another without it.
    fn at(&self, places: &[&str], other: Term) -> Term {
        let here = places.iter().zip(&self.key).filter(|(place, key)| key.head() != **place);
        let here = here.map(|(place, key)| Term::call("=", [Term::from(*place), key.clone()]));
        let here: Vec<Term> = here.collect();
        if here.is_empty() {
            return self.value.clone();
        }
        Term::call("ite", [Term::call("and", here), self.value.clone(), other])
    }
}

/// Reads a sort, and the names of functions from these sorts to it.
fn symbols(from: &[Term], sort_and_names: &[Term]) -> Vec<Symbol> {
    let [sort, all @ ..] = sort_and_names else { panic!("a function has a sort") };
    let symbol = |name| Symbol { name, sorts: names(from), sort: sort.to_string() };
    names(all).into_iter().map(symbol).collect()
}

fn parameter(term: &Term) -> Symbol {
    let [name, sorts @ .., sort] = term.parts() else { panic!("`{term}` has no sort") };
    let sorts = sorts.iter().flat_map(Term::parts).map(Term::to_string).collect();
    Symbol { name: name.to_string(), sorts, sort: sort.to_string() }
}

fn names(terms: &[Term]) -> Vec<String> {
    terms.iter().map(Term::to_string).collect()
}
