//! How long to wait before something that failed is tried again (I8).

use std::time::Duration;

use super::Instance;
use crate::{Moment, Wake};

/// The counters reset after so long without a failure: longer than the longest pause and
/// the time that an attempt may take.
const MEMORY: Duration = Duration::from_secs(60);

/// Failures in a row, by the kind of act. A success clears its own kind: a good read says nothing
/// of commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub(super) struct Failures {
    pub(super) reads: u8,
    /// Attempts to begin a term, and terms that were lost early.
    pub(super) begins: u8,
    pub(super) releases: u8,
    /// Attempts that came too late, in a row, with nobody seen to hold between them. They are no
    /// failures: Spanner answered.
    pub(super) lost_races: u8,
    /// When the last of them was.
    pub(super) last: Moment,
}

impl Failures {
    /// All kinds count together, so that failures of one after the other don't add up to many.
    pub(super) fn in_a_row(self) -> u8 {
        let Failures { reads, begins, releases, .. } = self;
        reads.saturating_add(begins).saturating_add(releases)
    }
}

/// How long a term must have been renewed to show that beginning terms works. One that is begun and
/// lost, again and again, is a failure as well.
pub(super) const LASTING: Duration = Duration::from_secs(10);

impl Instance {
    /// Returns when to try again after so many failures in a row: exponentially later, with jitter.
    pub(super) fn retry(&self, now: Moment) -> Wake {
        self.retry_after(now, self.failures.in_a_row())
    }

    pub(super) fn retry_after(&self, now: Moment, failures: u8) -> Wake {
        let first = self.timing.retry_pause();
        // The jitter comes on top, and with it the longest pause is 10 s or the poll interval.
        let longest = Duration::from_secs(10).max(self.timing.poll_interval) / 5 * 4;
        let doublings = u32::from(failures.saturating_sub(1)).min(16);
        let pause = first.saturating_mul(1 << doublings).min(longest);
        Wake { at: now + pause, spread: pause / 4 }
    }

    /// Notes that an attempt to begin a term failed, or that the term was lost early. The next
    /// attempt has to wait, however well reads go.
    pub(super) fn begin_failed(&mut self, now: Moment) -> Wake {
        self.forget_what_is_long_ago(now);
        self.failures.begins = self.failures.begins.saturating_add(1);
        let retry = self.retry(now);
        self.begin_from = retry.at;
        retry
    }

    /// Notes that a term was released, or has lasted: beginning terms works, and so does using
    /// them.
    pub(super) fn term_works(&mut self) {
        self.failures.begins = 0;
        self.failures.lost_races = 0;
        self.begin_from = Moment::default();
    }

    pub(super) fn read_failed(&mut self, now: Moment) {
        self.forget_what_is_long_ago(now);
        self.failures.reads = self.failures.reads.saturating_add(1);
    }

    pub(super) fn release_failed(&mut self, now: Moment) {
        self.forget_what_is_long_ago(now);
        self.failures.releases = self.failures.releases.saturating_add(1);
    }

    fn forget_what_is_long_ago(&mut self, now: Moment) {
        if now >= self.failures.last + MEMORY {
            self.failures = Failures::default();
        }
        self.failures.last = now;
    }

    /// Returns when to poll again after a race was lost: soon, to see who won, and no later than
    /// others.
    pub(super) fn poll_after_lost_race(&mut self, now: Moment) {
        self.failures.lost_races = self.failures.lost_races.saturating_add(1);
        let attempts = self.failures.lost_races.saturating_add(self.failures.in_a_row());
        let soon = self.retry_after(now, attempts);
        if soon.at + soon.spread < now + self.timing.poll_interval {
            self.poll_at(soon.at, soon.spread);
        } else {
            self.stand_by(now);
        }
    }
}
