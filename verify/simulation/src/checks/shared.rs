//! I1 to I3 for readers and writers: one writes, or others read.

use std::collections::BTreeMap;

use spindle::Term;

/// So many terms are remembered.
const TERMS_KEPT: usize = 256;

/// The work under way on one lock for readers and writers, and the terms so far.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    under_way: Vec<(u64, bool, Term)>,
    begun: u64,
    terms: BTreeMap<u64, Announced>,
}

#[derive(Clone, Copy, Debug)]
struct Announced {
    writes: bool,
    /// When its last write was committed.
    last_write: Option<u64>,
}

/// The findings about a term that begins: I1, I2, I3.
pub(crate) type Findings = [Result<(), String>; 3];

impl Shared {
    /// A reader or a writer begins; the number is to be given back when it ends.
    pub(crate) fn begins(&mut self, writes: bool, term: &Term) -> (u64, Findings) {
        let kind = |writes| if writes { "writer" } else { "reader" };
        let token = term.token().as_nanoseconds();
        let rival = self.under_way.iter().find(|(_, other, _)| writes || *other);
        let alone = rival.map_or(Ok(()), |(_, other, rival)| {
            let (rival, rivals) = (rival.token(), kind(*other));
            Err(format!("{} {token} begins beside {rivals} {rival}", kind(writes)))
        });
        let earlier = self.terms.iter().filter(|(_, told)| writes || told.writes);
        let later = match earlier.map(|(token, _)| *token).max().filter(|last| token <= *last) {
            Some(last) => Err(format!("{} {token} begins after {last}", kind(writes))),
            None => Ok(()),
        };
        self.terms.entry(token).or_insert(Announced { writes, last_write: None });
        if self.terms.len() > TERMS_KEPT {
            self.terms.pop_first();
        }
        self.begun += 1;
        self.under_way.push((self.begun, writes, term.clone()));
        (self.begun, [alone, later, self.judge()])
    }

    /// The work is over.
    pub(crate) fn ends(&mut self, number: u64) -> Result<(), String> {
        let index = self.under_way.iter().position(|(work, ..)| *work == number);
        let Some((_, _, term)) = index.map(|index| self.under_way.swap_remove(index)) else {
            return Ok(());
        };
        if term.remaining().is_zero() {
            return Err(format!("work under {} went on after its lease", term.token()));
        }
        Ok(())
    }

    /// A write under a term was committed.
    pub(crate) fn wrote(&mut self, token: u64, at: u64) -> Result<(), String> {
        if let Some(told) = self.terms.get_mut(&token) {
            told.last_write = told.last_write.max(Some(at));
        }
        self.judge()
    }

    /// How many read at present.
    pub(crate) fn readers(&self) -> usize {
        self.under_way.iter().filter(|(_, writes, _)| !writes).count()
    }

    /// No write of a term is committed after a term that excludes it has begun.
    fn judge(&self) -> Result<(), String> {
        for (token, Announced { writes, last_write }) in &self.terms {
            let Some(at) = last_write else { continue };
            let later = self.terms.range(token + 1..=(*at).max(token + 1));
            let next = later.filter(|(_, next)| *writes || next.writes).map(|(next, _)| next);
            if let Some(next) = next.min().filter(|next| *next <= at) {
                return Err(format!("a write under {token} committed at {at}, after {next} began"));
            }
        }
        Ok(())
    }
}
