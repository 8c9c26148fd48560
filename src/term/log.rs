//! Writes the log of an instance.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::line::Place;
use spindle_protocol::{Moment, Named, Observation, Rejection, Writer};
use tracing::field::{debug, display};

use super::health::Failing;
use super::warnings::{Concerned, Warnings, say};
use crate::error::{Error, ReleaseOutcome, TermEnd};
use crate::names::is_gate;
use crate::system::Clock;
use crate::token::FencingToken;

/// The instance that a line is about.
#[derive(Clone, Debug)]
pub(crate) struct Teller {
    pub(crate) lock: Arc<str>,
    pub(crate) id: Arc<str>,
    pub(crate) lease: Duration,
}

/// The log of one instance. What may strike many locks at once goes to the warnings of the table.
pub(crate) struct Log {
    of: Teller,
    clock: Clock,
    warnings: Arc<Warnings>,
    /// The holder that was last seen: a released row doesn't tell.
    last_holder: Option<String>,
    /// Set once a holder of another implementation was reported.
    stranger_reported: bool,
    /// The kinds of requests that fail, so that a lock whose requests succeed asks the warnings nothing.
    failing: RefCell<Vec<Failing>>,
    /// True while this loop writes the warnings that wait.
    is_writer: Cell<bool>,
}

impl Log {
    pub(crate) fn new(of: Teller, clock: Clock, warnings: Arc<Warnings>) -> Log {
        warnings.joins();
        Log {
            of,
            clock,
            warnings,
            last_holder: None,
            stranger_reported: false,
            failing: RefCell::default(),
            is_writer: Cell::default(),
        }
    }

    /// Returns the names of the lock and the instance, with which each line begins.
    fn names(&self) -> (&str, &str) {
        (&self.of.lock, &self.of.id)
    }

    /// Writes the warnings that are due, if no other loop does. Returns for how long none is, if one waits.
    pub(crate) fn turns(&self, now: Moment) -> Option<Duration> {
        if !self.is_writer.get() && !self.warnings.takes_writer() {
            return None;
        }
        let due = self.warnings.turns(now);
        self.is_writer.set(due.is_some());
        due.map(|due| due.since(now))
    }

    /// Writes a warning, given how many locks of the table it concerns, the lock, the id and the lease.
    fn warn(
        &self,
        cause: (&'static str, impl Into<String>),
        line: impl FnOnce(usize, &str, &str, Duration) + Send + 'static,
    ) {
        let (teller, now) = (self.of.clone(), self.clock.now());
        let cause = (cause.0, cause.1.into());
        let line = move |of: &Concerned| line(of.locks, &teller.lock, &teller.id, teller.lease);
        self.warnings.warn(cause, &self.of.lock, now, line);
    }

    /// The argument `displaced` is the holder that its row named.
    pub(crate) fn began(
        &mut self,
        token: FencingToken,
        how: &'static str,
        displaced: Option<&str>,
        vacancy: Option<Duration>,
    ) {
        let (lock, id) = self.names();
        let previous = displaced.or(self.last_holder.as_deref());
        let vacancy = vacancy.map(debug);
        // A writer's term is that of the write lock.
        if is_gate(lock) {
            say(|| tracing::info!(lock, id, %token, how, previous, vacancy, "stops new readers"));
        } else {
            say(|| tracing::info!(lock, id, %token, how, previous, vacancy, "term begins"));
        }
        self.last_holder = Some(self.of.id.to_string());
    }

    /// The argument `unrenewed_for` says how long ago the last heartbeat left that was answered.
    pub(crate) fn ended(&self, token: FencingToken, end: TermEnd, unrenewed_for: Duration) {
        let (lock, id) = self.names();
        let row = row_after(&end);
        if end == TermEnd::LetGo {
            return say(|| tracing::info!(lock, id, %token, row, "term ends"));
        }
        let text = cause_of(&end);
        say(|| tracing::info!(lock, id, %token, cause = text, ?unrenewed_for, row, "term ends"));
        self.warn(("term ends unexpectedly", end.as_str()), move |locks, lock, id, lease| {
            let cure = cure_of(&end);
            tracing::warn!(locks, lock, id, %token, cause = text, ?unrenewed_for, ?lease, row, cure,
                "term ends unexpectedly");
        });
    }

    pub(crate) fn released(&self, token: FencingToken, outcome: &ReleaseOutcome) {
        let (lock, id) = self.names();
        match outcome.clone() {
            ReleaseOutcome::Released => {
                say(|| tracing::info!(lock, id, %token, act = "release", "lock released"));
            }
            ReleaseOutcome::EndedBefore(end) => {
                self.warn(("nothing was released", end.as_str()), move |locks, lock, id, _| {
                    tracing::warn!(
                        locks,
                        lock,
                        id,
                        %token,
                        act = "release",
                        cause = ?end,
                        "nothing was released: the row was the term's no more"
                    );
                });
            }
            ReleaseOutcome::Unacknowledged { held_for } => {
                self.warn(("no answer", ""), move |locks, lock, id, lease| {
                    tracing::warn!(
                        locks,
                        lock,
                        id,
                        %token,
                        act = "release",
                        ?held_for,
                        ?lease,
                        "no answer: the lock is free when its lease has run out, if not already"
                    );
                });
            }
        }
    }

    pub(crate) fn loop_gone(&self, held: Option<FencingToken>, leaving: Option<FencingToken>) {
        self.warn(("the loop is gone", String::new()), move |locks, lock, id, lease| {
            match (held, leaving) {
                (Some(token), _) => tracing::warn!(
                    locks,
                    lock,
                    id,
                    %token,
                    ?lease,
                    row = "is left as it was, until its lease has run out",
                    "the loop is gone while it holds the lock: it panicked, or its runtime shut down"
                ),
                (None, Some(token)) => tracing::warn!(
                    locks,
                    lock,
                    id,
                    %token,
                    ?lease,
                    act = "release",
                    "the loop is gone before the release is acknowledged: the lock is free when its \
                     lease has run out; cancel, and wait for the end, before the runtime shuts down"
                ),
                (None, None) => tracing::warn!(
                    locks,
                    lock,
                    id,
                    "the loop is gone: it panicked, or its runtime shut down"
                ),
            }
        });
    }

    pub(crate) fn last_handle_gone(&self, always_wanted: bool) {
        let (lock, id) = self.names();
        if !always_wanted {
            return say(|| tracing::info!(lock, id, "the loop ends: its last handle was dropped"));
        }
        self.warn(("the last handle was dropped", ""), |locks, lock, id, _| {
            tracing::warn!(locks, lock, id, "the loop ends: its last handle was dropped");
        });
    }

    pub(crate) fn sends(&self, act: &'static str) {
        let (lock, id) = self.names();
        say(|| tracing::debug!(lock, id, act, "request"));
    }

    pub(crate) fn answered(&self, act: &'static str, answer: &'static str) {
        let (lock, id) = self.names();
        say(|| tracing::debug!(lock, id, act, answer, "answered"));
    }

    pub(crate) fn failed(
        &self,
        (act, what): (&'static str, Failing),
        held: Option<FencingToken>,
        error: &Error,
    ) {
        let (lock, id) = self.names();
        let token = held.map(display);
        say(|| tracing::debug!(lock, id, token, act, %error, "request failed"));
        let (of, error) = (self.of.clone(), error.clone());
        let cause = ("requests fail", kind_of(&error).to_string());
        let what = (&self.of.lock, what);
        if !self.failing.borrow().contains(&what.1) {
            self.failing.borrow_mut().push(what.1);
        }
        self.warnings.fails(cause, what, self.clock.now(), move |concerned| {
            let Teller { lock, id, lease } = &of;
            let (lock, id, lease, token) = (&**lock, &**id, *lease, held.map(display));
            let Concerned { locks, count, lasting } = *concerned;
            let cure = cure_for(&error);
            tracing::warn!(locks, count, ?lasting, lock, id, token, act, ?lease, %error, cure, "requests fail");
        });
    }

    pub(crate) fn client_is_dead(&self, act: &'static str, error: &Error) {
        let (lock, id) = self.names();
        say(|| {
            tracing::error!(
                lock,
                id,
                act,
                %error,
                "the client that was given is dead: restart the process, or give the path of the \
                 database instead"
            );
        });
    }

    pub(crate) fn has_namesake(&self, error: &Error) {
        let error = error.clone();
        self.warn(("two instances have the same id", ""), move |locks, lock, id, _| {
            tracing::warn!(locks, lock, id, %error, "two instances have the same id");
        });
    }

    /// Notes that nobody wants the lock.
    pub(crate) fn rests(&self) {
        if !self.failing.take().is_empty() {
            self.warnings.rests(&self.of.lock);
        }
    }

    /// Notes that requests of this kind succeed.
    pub(crate) fn works(&self, (act, what): (&'static str, Failing)) {
        if !self.failing.borrow().contains(&what) {
            return;
        }
        self.failing.borrow_mut().retain(|it| *it != what);
        let (lock, id) = self.names();
        let now = self.clock.now();
        if let Some(over) = self.warnings.works(&self.of.lock, what, now) {
            let Concerned { locks, count, lasting } = over;
            say(|| tracing::info!(locks, count, ?lasting, lock, id, act, "requests fail no more"));
        }
    }

    /// Takes note of who holds.
    pub(crate) fn observed(&mut self, observation: &Observation) {
        if let Some(row) = &observation.row
            && !row.is_released()
        {
            self.seen(&row.writer);
        }
    }

    pub(crate) fn yields_to(&self, place: &Place) {
        let (lock, id) = self.names();
        let (to, rank) = (place.id(), place.rank);
        say(|| tracing::info!(lock, id, to, rank, "hands over to a higher rank"));
    }

    pub(crate) fn rejected(&mut self, rejection: &Rejection) {
        if let Rejection::Changed(Some(seen)) = rejection {
            self.seen(&seen.writer);
        }
    }

    fn seen(&mut self, writer: &Writer) {
        let (Named::Term { id: holder, .. } | Named::Stranger(holder)) = writer.names() else {
            return;
        };
        if self.last_holder.as_deref() != Some(holder) {
            self.last_holder = Some(holder.to_string());
        }
        if self.stranger_reported || !matches!(writer.names(), Named::Stranger(_)) {
            return;
        }
        self.stranger_reported = true;
        let holder = holder.to_string();
        self.warn(("another implementation", holder.clone()), move |locks, lock, id, _| {
            tracing::warn!(
                locks,
                lock,
                id,
                holder,
                "another implementation holds this lock: its heartbeats may overwrite rows that \
                 are not its own, and I1 to I4 don't hold while it runs; stop it"
            );
        });
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        if self.is_writer.get() {
            self.warnings.needs_writer();
        }
        self.warnings.leaves(&self.of.lock, self.clock.now());
    }
}

/// Returns what became of the row of a term that ended so.
fn row_after(end: &TermEnd) -> &'static str {
    match end {
        TermEnd::LetGo => "is to be released",
        TermEnd::Superseded { by: Some(_), holder: Some(_) } => "is another's",
        TermEnd::Superseded { by: Some(_), holder: None } => "names no holder",
        TermEnd::Superseded { by: None, .. } => "is gone",
        TermEnd::OutOfContact { .. } | TermEnd::Expired | TermEnd::Lapsed | TermEnd::Abandoned => {
            "is left as it was, until its lease has run out"
        }
    }
}

fn cause_of(end: &TermEnd) -> String {
    match end {
        TermEnd::OutOfContact { contact: Some(contact) } => format!("OutOfContact: {contact}"),
        TermEnd::OutOfContact { contact: None } => "OutOfContact".into(),
        end => format!("{end:?}"),
    }
}

/// Returns what to do about terms that end so.
fn cure_of(end: &TermEnd) -> &'static str {
    match end {
        TermEnd::OutOfContact { .. } => "the lines `requests fail`, then `spindle doctor`",
        TermEnd::Superseded { .. } => "`spindle history` tells who ended it",
        TermEnd::Expired => "find what paused this process, or blocks its runtime",
        TermEnd::Lapsed => "find the work that did not stop",
        TermEnd::LetGo | TermEnd::Abandoned => "cancel, and wait for the end",
    }
}

/// Returns a word for what a request failed of. All that may be a lost connection is one.
fn kind_of(error: &Error) -> &'static str {
    match error.code() {
        _ if error.is_schema() => "schema",
        _ if error.is_denied() => "denied",
        Some(Code::Aborted) => "aborted",
        _ if error.is_retryable() || error.is_outcome_unknown() => "contact",
        _ => "other",
    }
}

fn cure_for(error: &Error) -> &'static str {
    match kind_of(error) {
        "schema" => "`spindle init`",
        "denied" => "grant the permissions that `error` tells",
        "aborted" => "look for a transaction that stays open",
        _ => "`spindle doctor`: credentials, network, Spanner's status",
    }
}
