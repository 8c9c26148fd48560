//! I2: the tokens of a lock strictly increase from term to term.

use std::collections::BTreeSet;

/// The tokens that were published, by lock.
#[derive(Debug)]
pub(crate) struct Tokens(Vec<BTreeSet<u64>>);

/// A term was published with a token that does not follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disorder {
    /// Another term was published with it before.
    Twice { token: u64 },
    /// A term with a higher one was published before.
    Overtaken { token: u64, by: u64 },
}

impl Tokens {
    pub(crate) fn new(locks: usize) -> Tokens {
        Tokens(vec![BTreeSet::new(); locks])
    }

    /// A term was published.
    pub(crate) fn began(&mut self, lock: usize, token: u64) -> Result<(), Disorder> {
        let highest = self.latest(lock);
        if !self.0[lock].insert(token) {
            return Err(Disorder::Twice { token });
        }
        if token < highest {
            return Err(Disorder::Overtaken { token, by: highest });
        }
        Ok(())
    }

    /// As [`began`](Tokens::began); none if there is no such lock.
    pub(crate) fn try_began(&mut self, lock: usize, token: u64) -> Option<Result<(), String>> {
        let told = |disorder: Disorder| disorder.to_string();
        (lock < self.0.len()).then(|| self.began(lock, token).map_err(told))
    }

    /// The highest token that was published, or zero.
    pub(crate) fn latest(&self, lock: usize) -> u64 {
        self.0[lock].last().copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Disorder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
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
        let mut tokens = Tokens::new(2);
        assert_eq!(tokens.began(0, 7), Ok(()));
        assert_eq!(tokens.began(0, 9), Ok(()));
        assert_eq!(tokens.began(0, 8), Err(Disorder::Overtaken { token: 8, by: 9 }));
        assert_eq!(tokens.began(0, 7), Err(Disorder::Twice { token: 7 }));
        assert_eq!(tokens.began(1, 1), Ok(()), "another lock has tokens of its own");
        assert_eq!(tokens.latest(0), 9);
    }
}
