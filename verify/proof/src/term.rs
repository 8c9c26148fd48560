//! Terms: S-expressions that are read, rewritten and printed.

use std::collections::HashMap;
use std::fmt;

/// One term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Term {
    /// A name or a number.
    Atom(String),
    /// An application, or a list of others.
    List(Vec<Term>),
}

impl Term {
    /// Reads terms. They are this program's own or a solver's: a wrong one ends it.
    pub fn read_all(text: &str) -> Vec<Term> {
        let code =
            text.lines().filter(|line| !line.starts_with(';')).collect::<Vec<_>>().join("\n");
        let spaced = code.replace('(', " ( ").replace(')', " ) ");
        let mut open: Vec<Vec<Term>> = vec![Vec::new()];
        for word in spaced.split_whitespace() {
            let read = match word {
                "(" => {
                    open.push(Vec::new());
                    continue;
                }
                ")" => Term::List(open.pop().unwrap_or_default()),
                word => Term::from(word),
            };
            open.last_mut().unwrap_or_else(|| panic!("`{text}` closes too much")).push(read);
        }
        assert_eq!(open.len(), 1, "`{text}` doesn't close what it opens");
        open.remove(0)
    }

    /// Reads one term.
    pub fn read(text: &str) -> Term {
        let mut all = Term::read_all(text);
        assert_eq!(all.len(), 1, "`{text}` is not one term");
        all.remove(0)
    }

    /// Returns the application of a function.
    pub fn call(name: &str, arguments: impl IntoIterator<Item = Term>) -> Term {
        Term::List(std::iter::once(Term::from(name)).chain(arguments).collect())
    }

    /// Returns a name that is applied to these names, if there are any.
    pub fn applied(name: &str, names: &[&str]) -> Term {
        match names {
            [] => Term::from(name),
            _ => Term::call(name, names.iter().map(|name| Term::from(*name))),
        }
    }

    /// Puts terms in the place of names.
    pub fn with(&self, given: &HashMap<String, Term>) -> Term {
        match self {
            Term::Atom(name) => given.get(name).cloned().unwrap_or_else(|| self.clone()),
            Term::List(parts) => Term::List(parts.iter().map(|part| part.with(given)).collect()),
        }
    }

    /// Returns true if the name occurs where no quantifier binds it.
    pub fn has_free(&self, name: &str) -> bool {
        match self {
            Term::Atom(atom) => atom == name,
            Term::List(parts) => {
                let is_bound = matches!(self.head(), "forall" | "exists")
                    && parts[1].parts().iter().any(|variable| variable.head() == name);
                !is_bound && parts.iter().any(|part| part.has_free(name))
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

    /// Returns the parts of a list.
    pub fn parts(&self) -> &[Term] {
        match self {
            Term::Atom(_) => &[],
            Term::List(parts) => parts,
        }
    }

    /// Returns the arguments of an application.
    pub fn arguments(&self) -> &[Term] {
        self.parts().get(1..).unwrap_or_default()
    }
}

impl Default for Term {
    fn default() -> Term {
        Term::from("true")
    }
}

impl From<&str> for Term {
    fn from(name: &str) -> Term {
        Term::Atom(name.into())
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
