//! The token of the term and the end of its validity, written by one and read by all without a
//! lock.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// The pair, in nanoseconds.
#[derive(Debug, Default)]
pub(super) struct Validity {
    /// Meaningful while there is an end.
    token: AtomicU64,
    /// Zero without a term.
    until: AtomicU64,
}

impl Validity {
    /// Returns the token of the term and the end of its validity, if there is a term.
    pub(super) fn get(&self) -> Option<(u64, u64)> {
        self.get_while(|| {})
    }

    pub(super) fn begin(&self, token: u64, until: u64) {
        self.begin_while(token, until, || {});
    }

    pub(super) fn extend(&self, until: u64) {
        self.until.store(until, Ordering::Release);
    }

    pub(super) fn end(&self) {
        self.until.store(0, Ordering::Release);
    }

    /// As [`get`](Validity::get); `meanwhile` stands for what others do between its two reads.
    fn get_while(&self, meanwhile: impl Fn()) -> Option<(u64, u64)> {
        loop {
            let until = self.until.load(Ordering::Acquire);
            if until == 0 {
                return None;
            }
            meanwhile();
            let token = self.token.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            // The token of another term was stored in between: read the pair again.
            if self.until.load(Ordering::Relaxed) != until {
                continue;
            }
            return Some((token, until));
        }
    }

    /// As [`begin`](Validity::begin); `meanwhile` stands for what others do between its two writes.
    fn begin_while(&self, token: u64, until: u64, meanwhile: impl Fn()) {
        // A reader of this token must also see that the last term's validity is over.
        fence(Ordering::Release);
        self.token.store(token, Ordering::Relaxed);
        meanwhile();
        self.until.store(until, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_term_that_begins_between_the_reads_is_told_with_its_own_validity() {
        let validity = Validity::default();
        validity.begin(1, 100);
        let is_first = Cell::new(true);
        let next_begins = || {
            if is_first.take() {
                validity.end();
                validity.begin(2, 50);
            }
        };
        assert_eq!(validity.get_while(next_begins), Some((2, 50)));
    }

    #[test]
    fn a_term_that_ends_between_the_reads_is_not_told() {
        let validity = Validity::default();
        validity.begin(1, 100);
        assert_eq!(validity.get_while(|| validity.end()), None);
    }

    #[test]
    fn until_both_are_written_no_term_is_told() {
        let validity = Validity::default();
        validity.begin(1, 100);
        validity.end();
        validity.begin_while(2, 200, || assert_eq!(validity.get(), None));
        assert_eq!(validity.get(), Some((2, 200)));
    }
}
