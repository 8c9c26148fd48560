//! I1 to I3 and I7 for whoever is at work under a term: of those that exclude each other one is at work at any
//! instant, tokens increase, and nobody is at it for longer than the lease lasts.

use std::collections::BTreeMap;
use std::sync::Arc;

use spindle::Term;
use spindle_judge::{Disorder, Mode, Terms};

use super::Invariant;
use crate::timeline::Timeline;

/// The work under way on each lock, and the terms so far.
#[derive(Debug)]
pub(crate) struct AtWork {
    timeline: Arc<Timeline>,
    under_way: BTreeMap<u64, Work>,
    begun: u64,
    terms: BTreeMap<String, Terms>,
}

#[derive(Debug)]
struct Work {
    lock: String,
    mode: Mode,
    term: Term,
}

impl AtWork {
    pub(crate) fn new(timeline: &Arc<Timeline>) -> AtWork {
        let (under_way, terms) = (BTreeMap::new(), BTreeMap::new());
        AtWork { timeline: Arc::clone(timeline), under_way, begun: 0, terms }
    }

    /// A term was published with this token.
    pub(crate) fn published(&mut self, lock: &str, token: u64, mode: Mode) -> Result<(), Disorder> {
        let terms = self.terms.entry(lock.to_string()).or_default();
        let increased = terms.begins(token, mode);
        self.expect_in_time(lock);
        increased
    }

    /// Work begins; the number is to be given back when it ends.
    pub(crate) fn begins(
        &mut self,
        lock: &str,
        term: &Term,
        mode: Mode,
    ) -> (u64, Result<(), String>) {
        let excludes = |work: &&Work| work.lock == lock && work.mode.excludes(mode);
        let rival = self.under_way.values().find(excludes).map(|rival| {
            let (under, other) = (term.token(), rival.term.token());
            format!(
                "lock `{lock}`: {:?} work under {other} goes on, and {mode:?} work under {under} begins",
                rival.mode
            )
        });
        self.begun += 1;
        let work = Work { lock: lock.to_string(), mode, term: term.clone() };
        self.under_way.insert(self.begun, work);
        (self.begun, rival.map_or(Ok(()), Err))
    }

    /// The work is over. One that died has taken it along already.
    pub(crate) fn ends(&mut self, number: u64) -> Result<(), String> {
        match self.under_way.remove(&number) {
            Some(Work { lock, term, .. }) if term.remaining().is_zero() => {
                let token = term.token();
                Err(format!("lock `{lock}`: work under {token} went on after its lease"))
            }
            _ => Ok(()),
        }
    }

    /// A write under a term's fence was committed.
    pub(crate) fn wrote(&mut self, lock: &str, token: u64, at: u64) {
        self.terms.entry(lock.to_string()).or_default().wrote(token, at);
        self.expect_in_time(lock);
    }

    fn expect_in_time(&self, lock: &str) {
        let judged = self.terms.get(lock).map_or(Ok(()), Terms::no_write_is_late);
        self.timeline
            .expect(Invariant::I3, judged.map_err(|what| format!("lock `{lock}`: {what}")));
    }

    /// The term under which there is work on a lock.
    pub(crate) fn on(&self, lock: &str) -> Option<&Term> {
        self.under_way.values().find(|work| work.lock == lock).map(|work| &work.term)
    }

    /// How many terms are under way that are still valid, on locks whose keys begin so.
    pub(crate) fn valid(&self, keys: &str) -> usize {
        let valid = |work: &&Work| work.lock.starts_with(keys) && !work.term.remaining().is_zero();
        self.under_way.values().filter(valid).count()
    }

    /// The highest token that was published, or zero.
    pub(crate) fn latest(&self, lock: &str) -> u64 {
        self.terms.get(lock).map_or(0, Terms::latest)
    }
}
