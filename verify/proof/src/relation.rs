//! The relation of `lock.sexp`, with everything that is abbreviated there in full.

use std::collections::HashMap;
use std::sync::LazyLock;

/// An S-expression: a name, a number, or a list of others.
pub use lexpr::Value as Term;

/// The relation, written once.
pub static RELATION: LazyLock<Relation> =
    LazyLock::new(|| Relation::read(include_str!("lock.sexp")));

/// All of it.
#[derive(Default)]
pub struct Relation {
    /// Sorts, functions, actions, formulas and runs, in their order.
    pub items: Vec<Term>,
    /// Abbreviations: parameters, and the terms that take their place.
    definitions: HashMap<String, (Vec<String>, Vec<Term>)>,
}

impl Relation {
    fn read(text: &str) -> Relation {
        let mut all = Relation::default();
        for item in read_all(text) {
            if let ("define", [name, parameters, body @ ..]) = (head(&item), &arguments(&item)[..])
            {
                let parameters = parts(parameters).map(Term::to_string).collect();
                let body = body.iter().copied().cloned().collect();
                all.definitions.insert(name.to_string(), (parameters, body));
            } else {
                all.items.extend(all.in_full(&item));
            }
        }
        all
    }

    /// Returns what a term stands for, in place of its abbreviations.
    pub fn in_full(&self, term: &Term) -> Vec<Term> {
        if !term.is_list() {
            return vec![term.clone()];
        }
        let Some((parameters, body)) = self.definitions.get(head(term)) else {
            return vec![Term::list(parts(term).flat_map(|part| self.in_full(part)))];
        };
        let given = arguments(term);
        assert_eq!(parameters.len(), given.len(), "`{term}` has other parameters");
        let given = parameters.iter().map(String::as_str).zip(given).collect();
        body.iter().flat_map(|term| self.in_full(&with(term, &given))).collect()
    }
}

/// Reads terms. They are this program's own: a wrong one ends it.
pub fn read_all(text: &str) -> Vec<Term> {
    let read: Result<_, _> = lexpr::Parser::from_str(text).collect();
    read.unwrap_or_else(|error| panic!("`{text}`: {error}"))
}

/// Returns the term with others in the place of names.
fn with(term: &Term, given: &HashMap<&str, &Term>) -> Term {
    match term.as_symbol() {
        Some(name) => (*given.get(name).unwrap_or(&term)).clone(),
        None if term.is_list() => Term::list(parts(term).map(|part| with(part, given))),
        None => term.clone(),
    }
}

/// Returns the parts of a list.
pub fn parts(term: &Term) -> impl Iterator<Item = &Term> {
    term.list_iter().into_iter().flatten()
}

/// Returns the name of a name, or of the function that is applied.
pub fn head(term: &Term) -> &str {
    let first = term.as_pair().map_or(term, |(first, _)| first);
    first.as_symbol().unwrap_or_default()
}

/// Returns the arguments of an application.
pub fn arguments(term: &Term) -> Vec<&Term> {
    parts(term).skip(1).collect()
}
