//! The health of an instance, for probes and for people.

use std::time::Duration;

use crate::error::Error;
use crate::token::FencingToken;

/// The health of an instance, for the probes of an orchestrator such as Kubernetes.
///
/// | probe | ask | because |
/// | --- | --- | --- |
/// | startup | [`is_started`](Health::is_started) | Spanner has answered once, so the set-up works |
/// | readiness | [`is_ready`](Health::is_ready) | nothing stands in the way of the instance's duty |
/// | liveness | [`is_alive`](Health::is_alive) | its loop runs, and its client isn't dead; otherwise only a restart helps |
///
/// Don't make readiness the liveness probe: a process that can't reach Spanner gains nothing from a
/// restart. A client that was given is the exception, and liveness knows it.
///
/// ```
/// use spindle::Spindle;
///
/// /// The status and the body of a readiness probe for all locks of a process.
/// fn readiness(locks: &[Spindle]) -> (u16, String) {
///     let troubles = locks.iter().filter(|lock| !lock.health().is_ready()).map(|lock| {
///         match lock.health().trouble {
///             Some(trouble) => trouble.error.to_string(),
///             None => format!("lock `{}`: no answer yet", lock.name()),
///         }
///     });
///     let troubles: Vec<String> = troubles.collect();
///     if troubles.is_empty() { (200, "ok".into()) } else { (503, troubles.join("\n")) }
/// }
/// # assert_eq!(readiness(&[]).0, 200);
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// The part that the instance plays.
    pub role: Role,
    /// True once Spanner has answered since the lock was first wanted.
    pub answered: bool,
    /// The obstacle in its way: a loop that doesn't run, a client that is dead, or else the failure
    /// that has lasted longest. A single missed request comes after those that have failed more often.
    pub trouble: Option<Trouble>,
}

/// The part that an instance plays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Nobody in this process wants the lock: [`run`](crate::Spindle::run) was not called, and
    /// nobody waits for the lock or has it.
    Idle,
    /// It wants the lock and doesn't hold it. The pauses of a [`lead`](crate::Spindle::lead)
    /// between two tasks count.
    StandsBy,
    /// It holds the lock, under this token.
    Holds(FencingToken),
    /// Its loop has ended, or can't begin: its settings can't work.
    Ended,
}

/// A part of an instance that may fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Failing {
    /// Reading the lock's row.
    Reads,
    /// Taking, keeping or releasing the lock.
    Writes,
    /// The loop: its runtime is blocked or gone, it panicked, or the settings can't work.
    Loop,
    /// The client that was given: nothing has answered on it for ten leases, two minutes at least.
    /// The library can't replace it.
    Client,
    /// The task of [`lead`](crate::Spindle::lead): it returned an error, reported no progress, or
    /// still blocks its thread after it was told to stop. Or it ended the `lead` by itself.
    Task,
    /// The agent that is to release should the process die
    /// ([`release_on_exit`](crate::LockTable::release_on_exit)): none listens, or one of another table. The lock
    /// works as ever, and the instance is ready.
    Agent,
}

/// Something that stands in the way of an instance.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trouble {
    /// The part that fails.
    pub what: Failing,
    /// The time since it failed first; successes of another kind don't interrupt it.
    pub lasting: Duration,
    /// How often it has failed in a row.
    pub count: u64,
    /// The last error.
    pub error: Error,
}

impl Health {
    /// Returns the health of an instance whose loop can't begin.
    pub(crate) fn of_wrong_settings(error: Error) -> Health {
        let (what, lasting, count) = (Failing::Loop, Duration::ZERO, 1);
        let trouble = Some(Trouble { what, lasting, count, error });
        Health { role: Role::Ended, answered: false, trouble }
    }

    /// Tells a readiness probe that the instance does its duty. It is false
    ///
    /// - until Spanner has answered once, for an instance that wants the lock;
    /// - while reads or writes of the lock's row have failed **twice or more** in a row. One missed
    ///   heartbeat or poll is harmless: the next one comes in time.
    /// - after a task of [`lead`](crate::Spindle::lead) failed, hung or blocked its thread. It is
    ///   true again once another instance holds, or once a task here has run for as long as the
    ///   longest pause;
    /// - after a `lead` that ended by itself, until something wants the lock again;
    /// - while the loop is overdue or gone, and after its end;
    /// - while the client that was given is dead.
    ///
    /// An instance that nobody wants is ready otherwise.
    pub fn is_ready(&self) -> bool {
        let is_free = self.trouble.as_ref().is_none_or(Trouble::is_harmless);
        match self.role {
            Role::Idle => is_free,
            Role::StandsBy | Role::Holds(_) => self.answered && is_free,
            Role::Ended => false,
        }
    }

    /// Tells a startup probe that the instance has reached Spanner. True for one
    /// that nobody has wanted yet.
    pub fn is_started(&self) -> bool {
        self.answered || self.role == Role::Idle
    }

    /// Tells a liveness probe that no restart is needed: the loop runs, and requests may be answered.
    ///
    /// It is false if the loop is overdue by more than a lease (1 s at least, 10 s at most). Then
    /// something blocks its runtime, or nothing drives it. It is false as well if the loop is gone
    /// although nobody told it to end, or can't begin.
    ///
    /// It is false, too, once a client that was [given](crate::Database) is dead: nobody's request
    /// on it was answered for ten leases, and two minutes at least. Each process adds up to a fifth,
    /// so that not all restart at once. An answer makes it true again. With the path of a database
    /// it stays true, whatever Spanner does: the library connects anew.
    pub fn is_alive(&self) -> bool {
        let needs_restart =
            |trouble: &Trouble| matches!(trouble.what, Failing::Loop | Failing::Client);
        !self.trouble.as_ref().is_some_and(needs_restart)
    }
}

impl Trouble {
    /// Returns true for a single request that got no answer, or not the one that was wanted; and for an agent.
    fn is_harmless(&self) -> bool {
        is_harmless(self.what, self.count)
    }
}

/// A request that fails is repeated in time; the second failure in a row says more.
pub(super) fn is_harmless(what: Failing, count: u64) -> bool {
    what == Failing::Agent || matches!(what, Failing::Reads | Failing::Writes) && count < 2
}
