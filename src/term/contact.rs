//! Keeps what fails, since when, and when the log hears of it.

use std::time::Duration;

use spindle_protocol::Moment;

use crate::error::Error;

/// A failure that lasts is told so often.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// A part of an instance that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failing {
    /// Reading the lock's row.
    Reads,
    /// Taking, keeping or releasing the lock.
    Writes,
    /// The loop: its runtime is blocked or gone, or it panicked.
    Loop,
    /// The task of [`lead`](crate::Spindle::lead): it returned an error, reported no progress, or
    /// still blocks its thread after it was told to stop. Or it ended the `lead` by itself.
    Task,
}

/// The failures of each kind, from the first to the next success of that kind.
#[derive(Debug, Default)]
pub(crate) struct Contact {
    /// Set once an answer has come since the lock was first wanted.
    pub(crate) answered: bool,
    reads: Option<Failure>,
    writes: Option<Failure>,
    task: Option<Failure>,
}

#[derive(Clone, Debug)]
pub(crate) struct Failure {
    pub(crate) since: Moment,
    pub(crate) error: Error,
    last: Moment,
    pub(crate) count: u64,
    told: Moment,
    /// From then on it counts as over, unless it fails again before.
    over_from: Option<Moment>,
}

/// The line of the log that one more failure is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FailureLine {
    First,
    StillFails {
        count: u64,
        lasting: Duration,
    },
    /// It was said within the last minute.
    Enough,
}

/// A failure that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Recovered {
    pub(crate) count: u64,
    pub(crate) lasted: Duration,
}

impl Contact {
    pub(crate) fn failed(&mut self, what: Failing, now: Moment, error: &Error) -> FailureLine {
        let Some(slot) = self.slot(what) else { return FailureLine::Enough };
        slot.take_if(|failure| failure.is_over(now));
        let Some(failure) = slot else {
            *slot = Some(Failure {
                since: now,
                error: error.clone(),
                last: now,
                count: 1,
                told: now,
                over_from: None,
            });
            return FailureLine::First;
        };
        failure.error = error.clone();
        failure.count += 1;
        (failure.last, failure.over_from) = (now, None);
        if now.since(failure.told) < TOLD_EVERY {
            return FailureLine::Enough;
        }
        failure.told = now;
        FailureLine::StillFails { count: failure.count, lasting: now.since(failure.since) }
    }

    pub(crate) fn succeeded(&mut self, what: Failing, now: Moment) -> Option<Recovered> {
        self.answered = true;
        let failure = self.slot(what)?.take()?;
        Some(Recovered { count: failure.count, lasted: now.since(failure.since) })
    }

    /// Notes that a task runs again; its last failure is over once it has run for so long.
    pub(crate) fn task_runs(&mut self, over_from: Moment) {
        if let Some(failure) = &mut self.task {
            failure.over_from = Some(over_from);
        }
    }

    /// Forgets what requests failed, but not whether there was an answer.
    pub(crate) fn begin_anew(&mut self) {
        (self.reads, self.writes) = (None, None);
    }

    pub(crate) fn forget_task(&mut self) {
        self.task = None;
    }

    /// Returns the error that came last.
    pub(crate) fn last_cause(&self, now: Moment) -> Option<&Error> {
        self.failures(now)
            .max_by_key(|(_, failure)| failure.last)
            .map(|(_, failure)| &failure.error)
    }

    /// Returns what fails now.
    pub(crate) fn failures(&self, now: Moment) -> impl Iterator<Item = (Failing, &Failure)> {
        [
            (Failing::Reads, &self.reads),
            (Failing::Writes, &self.writes),
            (Failing::Task, &self.task),
        ]
        .into_iter()
        .filter_map(|(what, failure)| Some((what, failure.as_ref()?)))
        .filter(move |(_, failure)| !failure.is_over(now))
    }

    fn slot(&mut self, what: Failing) -> Option<&mut Option<Failure>> {
        match what {
            Failing::Reads => Some(&mut self.reads),
            Failing::Writes => Some(&mut self.writes),
            Failing::Task => Some(&mut self.task),
            // Nobody is there to note it; it shows by what is overdue.
            Failing::Loop => None,
        }
    }
}

impl Failure {
    fn is_over(&self, now: Moment) -> bool {
        self.over_from.is_some_and(|over_from| over_from <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Moment {
        Moment(Duration::from_secs(seconds))
    }

    fn error() -> Error {
        Error::timed_out("read", Duration::from_secs(1))
    }

    #[test]
    fn a_failure_is_told_first_then_once_a_minute_with_its_count_and_then_that_it_is_over() {
        let mut contact = Contact::default();
        let told: Vec<FailureLine> =
            (0..120).map(|now| contact.failed(Failing::Reads, at(now), &error())).collect();
        assert_eq!(told[0], FailureLine::First);
        let lasting = Duration::from_secs(60);
        assert_eq!(told[60], FailureLine::StillFails { count: 61, lasting });
        assert_eq!(told.iter().filter(|told| **told != FailureLine::Enough).count(), 2);
        let over = contact.succeeded(Failing::Reads, at(130));
        assert_eq!(over, Some(Recovered { count: 120, lasted: Duration::from_secs(130) }));
        assert_eq!(contact.succeeded(Failing::Reads, at(131)), None);
    }

    #[test]
    fn a_read_that_succeeds_says_nothing_of_a_write_that_fails() {
        let mut contact = Contact::default();
        contact.failed(Failing::Writes, at(1), &error());
        contact.succeeded(Failing::Reads, at(2));
        contact.failed(Failing::Writes, at(3), &error());
        let failures: Vec<_> = contact.failures(at(4)).map(|(what, it)| (what, it.since)).collect();
        assert_eq!(failures, [(Failing::Writes, at(1))]);
        contact.succeeded(Failing::Writes, at(5));
        assert_eq!(contact.failures(at(5)).count(), 0);
    }

    #[test]
    fn a_task_that_fails_again_soon_has_failed_since_the_first_time() {
        let mut contact = Contact::default();
        contact.failed(Failing::Task, at(1), &error());
        contact.task_runs(at(60));
        contact.failed(Failing::Task, at(59), &error());
        assert_eq!(contact.failures(at(70)).next().unwrap().1.since, at(1));
        contact.task_runs(at(100));
        assert_eq!(contact.failures(at(100)).count(), 0);
        assert_eq!(contact.failed(Failing::Task, at(101), &error()), FailureLine::First);
    }
}
