//! How an instance fares, for probes and for people.

use std::time::Duration;

use spindle_protocol::Moment;

use crate::contact::{Contact, Failing};
use crate::error::{Error, Kind};
use crate::token::FencingToken;

/// How an instance fares, for the probes of an orchestrator such as Kubernetes.
///
/// | probe | ask | because |
/// | --- | --- | --- |
/// | startup | [`is_started`](Health::is_started) | Spanner has answered once, so the set-up works |
/// | readiness | [`is_ready`](Health::is_ready) | nothing stands in the way of the instance's duty |
/// | liveness | [`is_alive`](Health::is_alive) | its loop runs; only where it doesn't, a restart helps |
///
/// Don't make readiness the liveness probe: a process that can't reach Spanner gains nothing from a
/// restart.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// What the instance is.
    pub role: Role,
    /// Whether Spanner has answered since the lock was first wanted.
    pub answered: bool,
    /// What stands in its way; of several things a loop that doesn't run, or what has lasted
    /// longest.
    pub trouble: Option<Trouble>,
}

/// What an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Nobody in this process wants the lock: [`run`](crate::Spindle::run) was not called, and
    /// nobody waits for the lock or has it.
    Idle,
    /// It wants the lock and doesn't hold it.
    StandsBy,
    /// It holds the lock, under this token.
    Holds(FencingToken),
    /// Its loop has ended.
    Ended,
}

/// Something that stands in the way of an instance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trouble {
    /// What fails.
    pub what: Failing,
    /// The time since it failed first; successes of another kind don't interrupt it.
    pub lasting: Duration,
    /// What went wrong last.
    pub error: Error,
}

impl Health {
    /// Whether the instance does its duty, for a readiness probe: Spanner has answered, and nothing
    /// stands in the way. An instance that nobody wants is ready; one that has ended is not.
    pub fn is_ready(&self) -> bool {
        match self.role {
            Role::Idle => self.is_alive(),
            Role::StandsBy | Role::Holds(_) => self.answered && self.trouble.is_none(),
            Role::Ended => false,
        }
    }

    /// Whether the instance has got as far as to reach Spanner, for a startup probe. True for one
    /// that nobody has wanted yet.
    pub fn is_started(&self) -> bool {
        self.answered || self.role == Role::Idle
    }

    /// Whether the loop runs, for a liveness probe: false if it is overdue by more than a lease
    /// (10 s at most, 1 s at least), because its runtime is blocked or nothing drives it, and false
    /// if it is gone without having been told to end.
    pub fn is_alive(&self) -> bool {
        self.trouble.as_ref().is_none_or(|trouble| trouble.what != Failing::Loop)
    }
}

/// What the loop says of itself.
#[derive(Debug, Default)]
pub(crate) struct Vitals {
    pub(crate) contact: Contact,
    wanted: bool,
    /// When the loop ought to have run again, or was found to be gone.
    due: Option<Moment>,
    ended: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    ByItself,
    Gone(Moment),
}

impl Vitals {
    pub(crate) fn starts(&mut self, due: Moment) {
        (self.wanted, self.due) = (true, Some(due));
    }

    pub(crate) fn runs(&mut self, due: Option<Moment>) {
        self.due = due;
    }

    pub(crate) fn wants(&mut self, wanted: bool) {
        if wanted && !self.wanted {
            // What failed for those who have given up since is no trouble of who asks now.
            self.contact.begin_anew();
        }
        self.wanted = wanted;
    }

    pub(crate) fn ended(&mut self, now: Moment, by_itself: bool) {
        self.ended = Some(if by_itself { End::ByItself } else { End::Gone(now) });
    }

    pub(crate) fn health(&self, lock: &str, held: Option<FencingToken>, now: Moment) -> Health {
        let role = match held {
            _ if self.ended.is_some() => Role::Ended,
            Some(token) => Role::Holds(token),
            None if self.wanted => Role::StandsBy,
            None => Role::Idle,
        };
        let trouble = self.stalled(lock, now).or_else(|| {
            let (what, failure) = self
                .contact
                .trouble(now)
                .filter(|_| matches!(role, Role::StandsBy | Role::Holds(_)))?;
            let lasting = now.since(failure.since);
            Some(Trouble { what, lasting, error: failure.error.clone() })
        });
        Health { role, answered: self.contact.answered, trouble }
    }

    fn stalled(&self, lock: &str, now: Moment) -> Option<Trouble> {
        let lock = lock.to_string();
        let (since, kind) = match (self.ended, self.due) {
            (Some(End::ByItself), _) => return None,
            (Some(End::Gone(since)), _) => (since, Kind::Abandoned { lock }),
            (None, Some(due)) if due < now => {
                (due, Kind::Stalled { lock, overdue: now.since(due) })
            }
            _ => return None,
        };
        Some(Trouble { what: Failing::Loop, lasting: now.since(since), error: Error::new(kind) })
    }
}
