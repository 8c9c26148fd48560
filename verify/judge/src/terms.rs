//! I2 and I3: tokens increase from term to term, and no write of a term is committed once a term that excludes it has
//! begun.

use std::collections::BTreeMap;
use std::fmt;

/// How many terms back a late write is looked for.
const TERMS_KEPT: usize = 256;

/// The terms that a term excludes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// All others of its lock: a holder's, or a writer's.
    Exclusive,
    /// Those of writers alone: a reader's.
    Shared,
}

/// The terms of one lock, by token.
#[derive(Debug, Default)]
pub struct Terms(BTreeMap<u64, Term>);

#[derive(Clone, Copy, Debug)]
struct Term {
    mode: Mode,
    /// False if only a write under it has been seen so far.
    has_begun: bool,
    last_write: Option<u64>,
}

/// A term was seen to begin with a token that doesn't follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disorder {
    /// Another term began with it before.
    Twice {
        /// The token of both.
        token: u64,
    },
    /// A term with a higher one, which excludes this one, began before.
    Overtaken {
        /// The token of the term that begins.
        token: u64,
        /// The higher one.
        by: u64,
    },
}

impl Mode {
    /// Returns true if two terms of these modes can't go on beside each other.
    pub fn excludes(self, other: Mode) -> bool {
        self == Mode::Exclusive || other == Mode::Exclusive
    }
}

impl Terms {
    /// Takes note of a term that is seen to begin, and judges its token.
    pub fn begins(&mut self, token: u64, mode: Mode) -> Result<(), Disorder> {
        let excluded = self.0.iter().rev().find(|(_, of)| of.has_begun && of.mode.excludes(mode));
        let highest = excluded.map_or(0, |(token, _)| *token);
        let term = self.0.entry(token).or_insert(Term { mode, has_begun: false, last_write: None });
        let began_before = std::mem::replace(&mut term.has_begun, true);
        if began_before && term.mode.excludes(mode) {
            return Err(Disorder::Twice { token });
        }
        term.mode = mode;
        if token < highest {
            return Err(Disorder::Overtaken { token, by: highest });
        }
        Ok(())
    }

    /// Takes note of a write under a term's fence that was committed then.
    pub fn wrote(&mut self, token: u64, at: u64) {
        let unseen = Term { mode: Mode::Exclusive, has_begun: false, last_write: None };
        let term = self.0.entry(token).or_insert(unseen);
        term.last_write = term.last_write.max(Some(at));
    }

    /// Returns the first term after this one that excludes it.
    pub fn next(&self, token: u64) -> Option<u64> {
        let mode = self.0.get(&token)?.mode;
        let mut later = self.0.range(token + 1..);
        later.find(|(_, next)| next.mode.excludes(mode)).map(|(next, _)| *next)
    }

    /// Judges the last write of each of the latest terms: it was committed before the next one that excludes it.
    pub fn no_write_is_late(&self) -> Result<(), String> {
        for (token, term) in self.0.iter().rev().take(TERMS_KEPT) {
            let Some(at) = term.last_write else { continue };
            if let Some(next) = self.next(*token).filter(|next| *next <= at) {
                return Err(format!("a write under {token} committed at {at}, after {next} began"));
            }
        }
        Ok(())
    }

    /// Returns the highest token of a term that was seen to begin, or zero.
    pub fn latest(&self) -> u64 {
        let begun = self.0.iter().rev().find(|(_, term)| term.has_begun);
        begun.map_or(0, |(token, _)| *token)
    }
}

impl fmt::Display for Disorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disorder::Twice { token } => write!(f, "two terms began with token {token}"),
            Disorder::Overtaken { token, by } => {
                write!(f, "a term began with token {token}, after one with {by}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_that_does_not_follow_is_noticed() {
        let mut terms = Terms::default();
        let mut begins = |token| terms.begins(token, Mode::Exclusive);
        assert_eq!(begins(7), Ok(()));
        assert_eq!(begins(9), Ok(()));
        assert_eq!(begins(8), Err(Disorder::Overtaken { token: 8, by: 9 }));
        assert_eq!(begins(7), Err(Disorder::Twice { token: 7 }));
        assert_eq!(terms.latest(), 9);
    }

    #[test]
    fn readers_may_be_seen_to_begin_in_any_order_and_writers_may_not() {
        let mut terms = Terms::default();
        assert_eq!(terms.begins(9, Mode::Shared), Ok(()));
        assert_eq!(terms.begins(7, Mode::Shared), Ok(()));
        assert_eq!(terms.begins(8, Mode::Exclusive), Err(Disorder::Overtaken { token: 8, by: 9 }));
        assert_eq!(terms.begins(9, Mode::Exclusive), Err(Disorder::Twice { token: 9 }));
    }

    #[test]
    fn a_write_after_the_next_term_that_excludes_it_is_noticed() {
        for (mode, other, is_late) in [
            (Mode::Exclusive, Mode::Exclusive, true),
            (Mode::Shared, Mode::Exclusive, true),
            (Mode::Exclusive, Mode::Shared, true),
            (Mode::Shared, Mode::Shared, false),
        ] {
            let mut terms = Terms::default();
            terms.begins(5, mode).unwrap();
            terms.wrote(5, 6);
            terms.begins(7, other).unwrap();
            assert_eq!(terms.no_write_is_late(), Ok(()), "{mode:?} {other:?}");
            terms.wrote(5, 7);
            assert_eq!(terms.no_write_is_late().is_err(), is_late, "{mode:?} {other:?}");
        }
    }

    #[test]
    fn a_term_that_was_known_by_its_writes_alone_begins_once() {
        let mut terms = Terms::default();
        terms.wrote(5, 6);
        assert_eq!((terms.latest(), terms.begins(5, Mode::Exclusive)), (0, Ok(())));
        assert_eq!(terms.begins(5, Mode::Exclusive), Err(Disorder::Twice { token: 5 }));
    }
}
