//! I3 as a writer is told of it.

use std::fmt::Display;

use serde::{Deserialize, Serialize};

/// The outcome of a fenced write, as its writer was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Outcome {
    /// It is there.
    Committed,
    /// Refused, since the term was over.
    Fenced,
    /// It never came to a commit that could take effect, so repeating it does no harm.
    NotSent,
    /// It may be there.
    Unknown,
}

impl Outcome {
    /// Compares what the writer of `id` was told with whether the write is there.
    pub fn check(self, id: impl Display, is_there: bool) -> Result<(), String> {
        match self {
            Outcome::Committed if !is_there => Err(format!("{id} was committed and is lost")),
            Outcome::Fenced | Outcome::NotSent if is_there => {
                Err(format!("{id} was {self:?} and is there"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_unknown_outcome_allows_either() {
        let allows = |outcome: Outcome| [true, false].map(|there| outcome.check(1, there).is_ok());
        assert_eq!(allows(Outcome::Committed), [true, false]);
        assert_eq!(allows(Outcome::Fenced), [false, true]);
        assert_eq!(allows(Outcome::NotSent), [false, true]);
        assert_eq!(allows(Outcome::Unknown), [true, true]);
    }
}
