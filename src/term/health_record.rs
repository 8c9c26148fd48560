//! Keeps what an instance does and what fails: for its health, and for its log.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::Moment;

use super::health::{Failing, Health, Role, Trouble, is_harmless};
use super::silence::{DeadClient, Silence};
use crate::error::{Error, Kind};
use crate::system::Clock;
use crate::token::FencingToken;

/// The reason why the host's agent doesn't release for this process. The stream to the agent notes it.
pub(crate) type AgentTrouble = Arc<Mutex<Option<Failure>>>;

/// How often the log repeats a failure that lasts.
const TOLD_EVERY: Duration = Duration::from_secs(60);

/// An instance's account of itself.
#[derive(Debug)]
pub(crate) struct HealthRecord {
    clock: Clock,
    /// True once an answer has come since the lock was first wanted.
    answered: bool,
    /// The failures of each kind, from the first to the next success of that kind.
    reads: Option<Failure>,
    writes: Option<Failure>,
    task: Option<Failure>,
    /// What a client that was given leaves without an answer; none on connections of the library's own.
    silence: Option<Silence>,
    /// A failure that does the lock no harm.
    agent: AgentTrouble,
    wanted: bool,
    /// How many calls of `lead` are under way.
    leads: usize,
    /// Why the last `lead` ended by itself, and when.
    led: Option<(Moment, Error)>,
    /// When the loop ought to have run again, or was found to be gone.
    due: Option<Moment>,
    ended: Option<End>,
}

/// The failures of one kind since the last success.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    since: Moment,
    pub(crate) error: Error,
    last: Moment,
    pub(crate) count: u64,
    told: Moment,
    /// From then on it counts as over, unless it fails again before.
    over_from: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    ByItself,
    Gone(Moment),
}

impl HealthRecord {
    pub(super) fn new(clock: Clock) -> HealthRecord {
        HealthRecord {
            clock,
            answered: false,
            reads: None,
            writes: None,
            task: None,
            silence: None,
            agent: AgentTrouble::default(),
            wanted: false,
            leads: 0,
            led: None,
            due: None,
            ended: None,
        }
    }

    /// Notes that its requests go over a client that was given.
    pub(crate) fn depends_on(&mut self, silence: Silence) {
        self.silence = Some(silence);
    }

    /// Notes that an agent is to release for this process, should it die.
    pub(crate) fn is_left_to(&mut self, agent: AgentTrouble) {
        self.agent = agent;
    }

    /// Notes that the loop was started, and ought to run before long.
    pub(crate) fn starts(&mut self, slack: Duration) {
        (self.wanted, self.due) = (true, Some(self.clock.now() + slack));
    }

    /// Notes that the loop runs, and ought to run again by `due`; never, if nothing can come but a
    /// command.
    pub(crate) fn runs(&mut self, due: Option<Moment>) {
        self.due = due;
    }

    pub(crate) fn wants(&mut self, wanted: bool) {
        // A failure that others met, who have given up since, is no trouble of the next. A `lead` that goes on
        // has not given up.
        if wanted && !self.wanted && self.leads == 0 {
            (self.reads, self.writes) = (None, None);
            self.forget_task();
        }
        self.wanted = wanted;
    }

    /// Notes that a `lead` is under way.
    pub(crate) fn lead_begins(&mut self) {
        if self.leads == 0 {
            self.forget_task();
        }
        self.leads += 1;
    }

    /// Returns true if a `lead` is under way.
    pub(crate) fn is_led(&self) -> bool {
        self.leads > 0
    }

    /// Returns true if more than one `lead` is under way.
    pub(crate) fn leads_twice(&self) -> bool {
        self.leads > 1
    }

    /// Notes that a `lead` is over, and why, if it ended by itself.
    pub(crate) fn lead_ended(&mut self, by_itself: Option<Error>) {
        self.leads -= 1;
        if let Some(reason) = by_itself {
            self.led = Some((self.clock.now(), reason));
        }
    }

    fn forget_task(&mut self) {
        (self.task, self.led) = (None, None);
    }

    pub(super) fn loop_ended(&mut self, by_itself: bool) {
        self.ended = Some(if by_itself { End::ByItself } else { End::Gone(self.clock.now()) });
    }

    /// Notes a failure. Returns true if the log is to say that the client that was given is dead.
    pub(crate) fn failed(&mut self, what: Failing, error: &Error) -> bool {
        let now = self.clock.now();
        if let Some(slot) = self.slot(what) {
            Failure::again(slot, now, error);
        }
        let is_request = matches!(what, Failing::Reads | Failing::Writes);
        let silence = self.silence.as_mut().filter(|_| is_request);
        silence.is_some_and(|silence| silence.failed(now, error))
    }

    pub(crate) fn succeeded(&mut self, what: Failing) {
        self.answered = true;
        if let Some(silence) = &mut self.silence {
            silence.answered();
        }
        if let Some(slot) = self.slot(what) {
            *slot = None;
        }
    }

    /// Notes that a task runs, and forgets its last failure once it has done so for `long_enough`.
    pub(crate) fn task_runs(&mut self, long_enough: Duration) {
        let over_from = self.clock.now() + long_enough;
        if let Some(failure) = &mut self.task {
            failure.over_from = Some(over_from);
        }
    }

    /// Returns the error that kept the instance from the lock last, if one still does.
    pub(crate) fn last_cause(&self) -> Option<Error> {
        let last = self.failures(self.clock.now()).max_by_key(|(_, failure)| failure.last);
        last.map(|(_, failure)| failure.error.clone())
    }

    pub(super) fn health(&self, lock: &str, held: Option<FencingToken>) -> Health {
        let role = match held {
            _ if self.ended.is_some() => Role::Ended,
            Some(token) => Role::Holds(token),
            None if self.wanted || self.is_led() => Role::StandsBy,
            None => Role::Idle,
        };
        let trouble = self.stalled(lock).or_else(|| match role {
            Role::StandsBy | Role::Holds(_) => {
                self.dead_client(lock).or_else(|| self.failing()).or_else(|| self.without_agent())
            }
            Role::Idle => {
                let (since, error) = self.led.clone()?;
                let lasting = self.clock.now().since(since);
                Some(Trouble { what: Failing::Task, lasting, count: 1, error })
            }
            Role::Ended => None,
        });
        Health { role, answered: self.answered, trouble }
    }

    fn failing(&self) -> Option<Trouble> {
        let now = self.clock.now();
        let (what, failure) = self
            .failures(now)
            .min_by_key(|(what, failure)| (is_harmless(*what, failure.count), failure.since))?;
        let lasting = now.since(failure.since);
        Some(Trouble { what, lasting, count: failure.count, error: failure.error.clone() })
    }

    /// Returns what keeps the agent from releasing: nothing else is the matter.
    fn without_agent(&self) -> Option<Trouble> {
        let failure = self.agent.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        let Failure { since, error, count, .. } = failure;
        let lasting = self.clock.now().since(since);
        Some(Trouble { what: Failing::Agent, lasting, count, error })
    }

    fn stalled(&self, lock: &str) -> Option<Trouble> {
        let (lock, now) = (lock.to_string(), self.clock.now());
        let (since, kind) = match (self.ended, self.due) {
            (Some(End::ByItself), _) => return None,
            (Some(End::Gone(since)), _) => (since, Kind::Abandoned { lock }),
            (None, Some(due)) if due < now => {
                (due, Kind::Stalled { lock, overdue: now.since(due) })
            }
            _ => return None,
        };
        let lasting = now.since(since);
        Some(Trouble { what: Failing::Loop, lasting, count: 1, error: Error::new(kind) })
    }

    fn dead_client(&self, lock: &str) -> Option<Trouble> {
        let dead = self.silence.as_ref()?.dead_client(self.clock.now())?;
        let DeadClient { lasting, count, error: last } = dead;
        let error = Error::new(Kind::DeadClient { lock: lock.to_string(), lasting, last });
        Some(Trouble { what: Failing::Client, lasting, count, error })
    }

    /// Returns what fails now.
    fn failures(&self, now: Moment) -> impl Iterator<Item = (Failing, &Failure)> {
        let kinds = [
            (Failing::Reads, &self.reads),
            (Failing::Writes, &self.writes),
            (Failing::Task, &self.task),
        ];
        let failures =
            kinds.into_iter().filter_map(|(what, failure)| Some((what, failure.as_ref()?)));
        failures.filter(move |(_, failure)| !failure.is_over(now))
    }

    fn slot(&mut self, what: Failing) -> Option<&mut Option<Failure>> {
        match what {
            Failing::Reads => Some(&mut self.reads),
            Failing::Writes => Some(&mut self.writes),
            Failing::Task => Some(&mut self.task),
            // Nobody is there to note it; it shows by what is overdue.
            Failing::Loop => None,
            // It shows by the failures of requests.
            Failing::Client => None,
            // Whoever speaks to the agent notes it.
            Failing::Agent => None,
        }
    }
}

impl Failure {
    /// Notes one more. Returns true if the log is to tell it: the first, and one each minute.
    pub(crate) fn again(slot: &mut Option<Failure>, now: Moment, error: &Error) -> bool {
        slot.take_if(|failure| failure.is_over(now));
        let Some(failure) = slot else {
            let error = error.clone();
            let (since, last, told) = (now, now, now);
            *slot = Some(Failure { since, error, last, count: 1, told, over_from: None });
            return true;
        };
        failure.error = error.clone();
        failure.count += 1;
        (failure.last, failure.over_from) = (now, None);
        let is_to_tell = now.since(failure.told) >= TOLD_EVERY;
        if is_to_tell {
            failure.told = now;
        }
        is_to_tell
    }

    fn is_over(&self, now: Moment) -> bool {
        self.over_from.is_some_and(|over_from| over_from <= now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn seconds_pass(seconds: u64) {
        tokio::time::advance(Duration::from_secs(seconds)).await;
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn error() -> Error {
        Error::timed_out("read", Duration::from_secs(1))
    }

    #[test]
    fn a_failure_is_told_first_then_once_a_minute() {
        let mut slot = None;
        let at = |second| Moment(seconds(second));
        let told: Vec<u64> =
            (0..120).filter(|second| Failure::again(&mut slot, at(*second), &error())).collect();
        assert_eq!(told, [0, 60]);
        assert_eq!(slot.map(|failure| failure.count), Some(120));
    }

    #[tokio::test(start_paused = true)]
    async fn a_read_that_succeeds_says_nothing_of_a_write_that_fails() {
        let mut record = HealthRecord::new(Clock::runtime());
        record.failed(Failing::Writes, &error());
        record.succeeded(Failing::Reads);
        seconds_pass(2).await;
        record.failed(Failing::Writes, &error());
        let failing = record.failing().map(|it| (it.what, it.lasting));
        assert_eq!(failing, Some((Failing::Writes, seconds(2))));
        record.succeeded(Failing::Writes);
        assert!(record.failing().is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_fails_again_soon_has_failed_since_the_first_time() {
        let mut record = HealthRecord::new(Clock::runtime());
        record.failed(Failing::Task, &error());
        record.task_runs(seconds(60));
        seconds_pass(58).await;
        record.failed(Failing::Task, &error());
        seconds_pass(11).await;
        assert_eq!(record.failing().map(|it| it.lasting), Some(seconds(69)));
        record.task_runs(seconds(30));
        seconds_pass(30).await;
        assert!(record.failing().is_none());
        record.failed(Failing::Task, &error());
        assert_eq!(record.failing().map(|it| it.count), Some(1), "the last one is over");
    }
}
