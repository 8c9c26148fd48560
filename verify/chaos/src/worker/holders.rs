//! The terms under which tasks of a worker are at work.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle::{FencingToken, Term};

use super::claims::Held;
use crate::history::{Event, Failure, Journal, must};

/// The shards whose tasks are at work in this process, or the side on which it is.
#[derive(Clone)]
pub(super) struct Holders {
    count: usize,
    at_work: Arc<Mutex<BTreeMap<usize, Term>>>,
    journal: Arc<Journal>,
}

/// A task at work, until this is dropped.
pub(super) struct AtWork {
    holders: Holders,
    number: usize,
    term: Term,
}

impl Holders {
    pub(super) fn new(count: usize, journal: &Arc<Journal>) -> Holders {
        Holders { count, at_work: Arc::default(), journal: Arc::clone(journal) }
    }

    pub(super) fn enter(&self, number: usize, term: &Term) -> AtWork {
        let before = self.lock().insert(number, term.clone());
        must(writeln!(std::io::stdout(), "begins").map_err(Failure::from));
        if let Some(before) = before {
            let (token, other) = (term.token(), before.token());
            let (token, other) = (token.as_nanoseconds(), other.as_nanoseconds());
            must(self.journal.write_of(number, Event::Beside { token, other }));
        }
        AtWork { holders: self.clone(), number, term: term.clone() }
    }

    fn term(&self, lock: usize) -> Option<Term> {
        self.lock().get(&lock).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Term>> {
        self.at_work.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        let AtWork { holders, number, term } = self;
        let mut at_work = holders.lock();
        if at_work.get(number).is_some_and(|other| other.token() == term.token()) {
            at_work.remove(number);
        }
        drop(at_work);
        let token = term.token().as_nanoseconds();
        let end = match term.ended() {
            Some(loss) => Event::Lost { token, why: format!("{loss:?}") },
            None => Event::LetsGo,
        };
        must(holders.journal.write_of(*number, end));
        must(writeln!(std::io::stdout(), "ends").map_err(Failure::from));
    }
}

impl Held for Holders {
    fn count(&self) -> usize {
        self.count
    }

    /// The task is at work, and its writes pass the fence: so nobody else may be at work.
    fn token(&self, lock: usize) -> Option<FencingToken> {
        let term = self.term(lock)?;
        (!term.remaining().is_zero()).then(|| term.token())
    }

    fn remaining(&self, lock: usize, token: FencingToken) -> Option<Duration> {
        let term = self.term(lock).filter(|term| term.token() == token);
        term.map(|term| term.remaining())
    }
}
