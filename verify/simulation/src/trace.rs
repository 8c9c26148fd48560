//! The events, as a number to compare, and as text for a replay.

use std::fmt::Debug;
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::time::Duration;

/// The trace of one run.
#[derive(Debug)]
pub(crate) struct Trace {
    hasher: DefaultHasher,
    prints: bool,
}

impl Trace {
    pub(crate) fn new(prints: bool) -> Trace {
        Trace { hasher: DefaultHasher::new(), prints }
    }

    /// Notes that `what` happened to `who`.
    pub(crate) fn note<T: Hash + Debug>(&mut self, at: Duration, who: usize, what: &T) {
        self.count(at, who, what);
        if self.prints {
            println!("{:>12.3}s #{who:<2} {what:?}", at.as_secs_f64());
        }
    }

    /// Notes what a replay does not tell.
    pub(crate) fn count(&mut self, at: Duration, who: usize, what: &impl Hash) {
        (at, who).hash(&mut self.hasher);
        what.hash(&mut self.hasher);
    }

    /// Notes what a text says.
    pub(crate) fn tell(&mut self, at: Duration, what: &str) {
        self.count(at, 0, &what);
        if self.prints {
            println!("{:>12.3}s {what}", at.as_secs_f64());
        }
    }

    /// The same for the same events in the same order.
    pub(crate) fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}
