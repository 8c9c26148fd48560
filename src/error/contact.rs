//! How fast Spanner answers an instance, for people whose terms end out of contact.

use std::fmt;
use std::time::Duration;

use spindle_protocol::{Moment, Timing};

/// How fast Spanner was when a term ended out of contact, and what lease would have lasted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contact {
    /// The lease of the term.
    pub lease: Duration,
    /// The slowest of the last few heartbeats that were answered, the commit that began the term
    /// included; none if none was.
    pub slowest: Option<Duration>,
    /// How long ago the last answer to one of them came, or the term was known to have begun.
    pub silent_for: Duration,
    /// The heartbeats and the silence that terms of these settings outlive.
    carries: Duration,
    outlives: Duration,
}

impl Contact {
    /// Returns the lease that would do, with all other settings in the same proportion: for
    /// heartbeats as slow as these, or else for a silence as long as this one.
    ///
    /// In whole seconds.
    pub fn lease_needed(&self) -> Duration {
        let (measured, enough) = match self.slow() {
            Some(slowest) => (slowest, self.carries),
            None => (self.silent_for, self.outlives),
        };
        let factor = measured.as_secs_f64() / enough.as_secs_f64().max(f64::EPSILON);
        let seconds = (self.lease.as_secs_f64() * factor).ceil();
        Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX)
    }

    /// Returns the time of the slowest heartbeat, if it is slowness that ends such terms.
    fn slow(&self) -> Option<Duration> {
        self.slowest.filter(|slowest| *slowest > self.carries)
    }
}

impl fmt::Display for Contact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Contact { lease, silent_for, carries, outlives, .. } = self;
        match self.slow() {
            Some(slowest) => {
                write!(f, "heartbeats took {slowest:.1?}; lease {lease:?} carries {carries:.1?}")?;
            }
            None => {
                write!(
                    f,
                    "no answer for {silent_for:.1?}; lease {lease:?} outlives {outlives:.1?}"
                )?;
            }
        }
        write!(f, "; a lease of {:?} would do", self.lease_needed())
    }
}

/// So many answers are remembered.
const ANSWERS: usize = 4;

/// The last answers to an instance's transactions.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    sent: Option<Moment>,
    last: Option<Moment>,
    took: [Option<Duration>; ANSWERS],
    next: usize,
}

impl Answers {
    /// Notes that a transaction leaves.
    pub(crate) fn sends(&mut self, now: Moment) {
        self.sent = Some(now);
    }

    /// Notes that Spanner has answered it.
    pub(crate) fn answered(&mut self, now: Moment) {
        let Some(sent) = self.sent.take() else { return };
        self.last = Some(now);
        self.took[self.next] = Some(now.since(sent));
        self.next = (self.next + 1) % ANSWERS;
    }

    /// Notes that a term begins, which Spanner has told just now, be it by the answer to a read.
    pub(crate) fn begins(&mut self, now: Moment) {
        self.last = Some(now);
    }

    pub(crate) fn contact(&self, now: Moment, timing: &Timing) -> Contact {
        Contact {
            lease: timing.lease,
            slowest: self.took.iter().flatten().max().copied(),
            silent_for: now.since(self.last.unwrap_or_default()),
            carries: timing.carried_latency(),
            outlives: timing.outlived_silence(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Moment {
        Moment(Duration::from_millis(milliseconds))
    }

    #[test]
    fn a_term_that_ends_out_of_contact_names_what_was_measured_the_lease_and_the_cure() {
        let timing = Timing::from_lease(Duration::from_secs(10));
        let mut answers = Answers::default();
        for (sent, answered) in [(0, 100), (3_300, 7_400)] {
            answers.sends(at(sent));
            answers.answered(at(answered));
        }
        let slow = answers.contact(at(11_300), &timing).to_string();
        let cure = "a lease of 12s would do";
        assert_eq!(slow, format!("heartbeats took 4.1s; lease 10s carries 3.5s; {cure}"));
        for sent in [8_000, 9_000, 10_000, 11_000] {
            answers.sends(at(sent));
            answers.answered(at(sent + 20));
        }
        let silent = answers.contact(at(19_020), &timing).to_string();
        let cure = "a lease of 20s would do";
        assert_eq!(silent, format!("no answer for 8.0s; lease 10s outlives 4.0s; {cure}"));
    }
}
