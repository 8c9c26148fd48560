//! I3: a fenced write of a term commits before the next term begins, or it does not commit.

use std::collections::BTreeMap;

use spindle_protocol::{Row, TermId};

/// A fenced write was committed when this was the row.
pub(super) fn check(row: Option<&Row>, term: &TermId) -> Result<(), String> {
    match row {
        Some(row) if row.token == term.token && row.writer == term.writer => Ok(()),
        _ => Err(format!("a write under {term:?} committed when the row was {row:?}")),
    }
}

/// How many terms back a late write is looked for.
const TERMS_KEPT: usize = 64;

/// The same from what anybody could see: the published terms, and the writes.
#[derive(Debug, Default)]
pub(crate) struct Writes(BTreeMap<String, Terms>);

#[derive(Debug, Default)]
struct Terms {
    /// When the last write of each term was committed; none for a term without.
    last_write: BTreeMap<u64, Option<u64>>,
}

impl Writes {
    pub(crate) fn began(&mut self, lock: &str, token: u64) -> Result<(), String> {
        let terms = self.0.entry(lock.to_string()).or_default();
        terms.last_write.entry(token).or_default();
        if terms.last_write.len() > TERMS_KEPT {
            terms.last_write.pop_first();
        }
        terms.judge(lock)
    }

    pub(crate) fn wrote(&mut self, lock: &str, token: u64, at: u64) -> Result<(), String> {
        let terms = self.0.entry(lock.to_string()).or_default();
        let last = terms.last_write.entry(token).or_default();
        *last = (*last).max(Some(at));
        terms.judge(lock)
    }
}

impl Terms {
    fn judge(&self, lock: &str) -> Result<(), String> {
        let tokens = self.last_write.iter();
        let late =
            tokens.zip(self.last_write.keys().skip(1)).find(|((_, at), next)| *at > &Some(**next));
        match late {
            None => Ok(()),
            Some(((token, at), next)) => Err(format!(
                "lock `{lock}`: a write under {token} committed at {at:?}, after {next} had begun"
            )),
        }
    }
}
