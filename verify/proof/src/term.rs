//! Terms: S-expressions that are read, rewritten and printed.

use std::collections::{HashMap, HashSet};
use std::fmt;

use crate::relation::ABBREVIATIONS;

/// One term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A name or a number.
    Atom(String),
    /// An application, or a list of bound variables.
    List(Vec<Term>),
}

impl Term {
    /// Reads a term, and puts abbreviations in full. The terms are this program's own: a wrong one
    /// ends it.
    pub fn read(text: &str) -> Term {
        let spaced = text.replace('(', " ( ").replace(')', " ) ");
        let mut words = spaced.split_whitespace();
        let mut open: Vec<Vec<Term>> = vec![Vec::new()];
        for word in words.by_ref() {
            match word {
                "(" => open.push(Vec::new()),
                ")" => {
                    let list = open.pop().unwrap_or_default();
                    let above = open.last_mut();
                    above
                        .unwrap_or_else(|| panic!("`{text}` closes more than it opens"))
                        .push(Term::List(list));
                }
                word => {
                    open.last_mut().into_iter().for_each(|last| last.push(Term::Atom(word.into())))
                }
            }
        }
        let [top] = open.as_mut_slice() else { panic!("`{text}` doesn't close what it opens") };
        assert_eq!(top.len(), 1, "`{text}` is not one term");
        top.remove(0).in_full()
    }

    fn in_full(self) -> Term {
        let Term::List(parts) = self else { return self };
        let parts: Vec<Term> = parts.into_iter().map(Term::in_full).collect();
        if let Some(Term::Atom(name)) = parts.first()
            && let Some((_, parameters, body)) =
                ABBREVIATIONS.iter().find(|(known, ..)| known == name)
        {
            assert_eq!(parameters.len(), parts.len() - 1, "`{name}` has other parameters");
            let given =
                parameters.iter().map(|name| (*name).to_string()).zip(parts[1..].iter().cloned());
            return Term::read(body).with(&given.collect());
        }
        Term::List(parts)
    }

    /// Puts terms in the place of names.
    pub fn with(&self, given: &HashMap<String, Term>) -> Term {
        match self {
            Term::Atom(name) => given.get(name).cloned().unwrap_or_else(|| self.clone()),
            Term::List(parts) => Term::List(parts.iter().map(|part| part.with(given)).collect()),
        }
    }

    /// Adds `mark` to each of these names.
    pub fn marked(&self, names: &HashSet<String>, mark: &str) -> Term {
        match self {
            Term::Atom(name) if names.contains(name) => Term::Atom(format!("{name}{mark}")),
            Term::Atom(_) => self.clone(),
            Term::List(parts) => {
                Term::List(parts.iter().map(|part| part.marked(names, mark)).collect())
            }
        }
    }

    /// Returns the name of a name, or of the function that is applied.
    pub fn head(&self) -> &str {
        match self {
            Term::Atom(name) => name,
            Term::List(parts) => parts.first().map_or("", Term::head),
        }
    }

    /// Returns the arguments of an application.
    pub fn arguments(&self) -> &[Term] {
        match self {
            Term::Atom(_) => &[],
            Term::List(parts) => &parts[1..],
        }
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Atom(name) => f.write_str(name),
            Term::List(parts) => {
                f.write_str("(")?;
                for (i, part) in parts.iter().enumerate() {
                    write!(f, "{}{part}", if i == 0 { "" } else { " " })?;
                }
                f.write_str(")")
            }
        }
    }
}
