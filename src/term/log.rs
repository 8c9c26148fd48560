//! Writes the log of an instance.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::line::Place;
use spindle_protocol::{Named, Observation, Rejection, Writer};

use super::health_record::{FailureLine, Recovered};
use crate::error::{Error, ReleaseOutcome, TermEnd};
use crate::names::is_gate;
use crate::token::FencingToken;

/// Logs one line. A subscriber that panics costs that line and nothing else.
pub(crate) fn say(line: impl FnOnce()) {
    // The panic hook has reported it, and a log that fails can't say so in the log.
    let _ = catch_unwind(AssertUnwindSafe(line));
}

/// The log of one instance.
pub(crate) struct Log {
    lock: Arc<str>,
    id: Arc<str>,
    /// The holder that was last seen: a released row doesn't tell.
    last_holder: Option<String>,
    /// Set once a holder of another implementation was reported.
    stranger_reported: bool,
}

impl Log {
    pub(crate) fn new(lock: Arc<str>, id: Arc<str>) -> Log {
        Log { lock, id, last_holder: None, stranger_reported: false }
    }

    /// Returns the names of the lock and the instance, with which each line begins.
    fn names(&self) -> (&str, &str) {
        (&self.lock, &self.id)
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
        let vacancy = vacancy.map(tracing::field::debug);
        // A writer's term is that of the write lock.
        if is_gate(lock) {
            say(|| tracing::info!(lock, id, %token, how, previous, vacancy, "stops new readers"));
        } else {
            say(|| tracing::info!(lock, id, %token, how, previous, vacancy, "term begins"));
        }
        self.last_holder = Some(self.id.to_string());
    }

    pub(crate) fn ended(&self, token: FencingToken, end: &TermEnd) {
        let (lock, id) = self.names();
        let row = match end {
            TermEnd::LetGo => {
                say(|| tracing::info!(lock, id, %token, row = "is to be released", "term ends"));
                return;
            }
            TermEnd::Superseded { by: Some(_), holder: Some(_) } => "is another's",
            TermEnd::Superseded { by: Some(_), holder: None } => "names no holder",
            TermEnd::Superseded { by: None, .. } => "is gone",
            TermEnd::OutOfContact { .. }
            | TermEnd::Expired
            | TermEnd::Lapsed
            | TermEnd::Abandoned => "is left as it was, until its lease has run out",
        };
        let TermEnd::OutOfContact { contact } = end else {
            return say(|| {
                tracing::warn!(lock, id, %token, cause = ?end, row, "term ends unexpectedly");
            });
        };
        let (cause, contact) = ("OutOfContact", contact.map(tracing::field::display));
        say(|| tracing::warn!(lock, id, %token, cause, contact, row, "term ends unexpectedly"));
    }

    pub(crate) fn released(&self, token: FencingToken, outcome: &ReleaseOutcome) {
        let (lock, id) = self.names();
        say(|| match outcome {
            ReleaseOutcome::Released => {
                tracing::info!(lock, id, %token, act = "release", "lock released")
            }
            ReleaseOutcome::EndedBefore(end) => tracing::warn!(
                lock,
                id,
                %token,
                act = "release",
                cause = ?end,
                "nothing was released: the row was the term's no more"
            ),
            ReleaseOutcome::Unacknowledged { held_for } => tracing::warn!(
                lock,
                id,
                %token,
                act = "release",
                ?held_for,
                "no answer: the lock is free when its lease has run out, if not already"
            ),
        });
    }

    pub(crate) fn loop_gone(&self, held: Option<FencingToken>, leaving: Option<FencingToken>) {
        let (lock, id) = self.names();
        say(|| match (held, leaving) {
            (Some(token), _) => tracing::warn!(
                lock,
                id,
                %token,
                row = "is left as it was, until its lease has run out",
                "the loop is gone while it holds the lock: it panicked, or its runtime shut down"
            ),
            (None, Some(token)) => tracing::warn!(
                lock,
                id,
                %token,
                act = "release",
                "the loop is gone before the release is acknowledged: the lock is free when its \
                 lease has run out; cancel, and wait for the end, before the runtime shuts down"
            ),
            (None, None) => {
                tracing::warn!(lock, id, "the loop is gone: it panicked, or its runtime shut down")
            }
        });
    }

    pub(crate) fn last_handle_gone(&self, always_wanted: bool) {
        let (lock, id) = self.names();
        say(|| {
            if always_wanted {
                tracing::warn!(lock, id, "the loop ends: its last handle was dropped");
            } else {
                tracing::info!(lock, id, "the loop ends: its last handle was dropped");
            }
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
        act: &'static str,
        held: Option<FencingToken>,
        error: &Error,
        told: FailureLine,
    ) {
        let (lock, id) = self.names();
        let token = held.map(tracing::field::display);
        say(|| match told {
            FailureLine::First => tracing::warn!(lock, id, token, act, %error, "request failed"),
            FailureLine::StillFails { count, lasting } => {
                tracing::warn!(lock, id, token, act, count, ?lasting, %error, "requests still fail");
            }
            FailureLine::DeadClient => tracing::error!(
                lock,
                id,
                token,
                act,
                %error,
                "the client that was given is dead: restart the process, or give the path of the \
                 database instead"
            ),
            FailureLine::Enough => {
                tracing::debug!(lock, id, token, act, %error, "request failed again")
            }
        });
    }

    pub(crate) fn has_namesake(&self, error: &Error) {
        let (lock, id) = self.names();
        say(|| tracing::warn!(lock, id, %error, "two instances have the same id"));
    }

    /// `by` says what the end of the failures was.
    pub(crate) fn recovered(&self, act: &'static str, over: Recovered, by: &'static str) {
        let (lock, id) = self.names();
        let Recovered { count, lasted } = over;
        say(|| tracing::info!(lock, id, act, count, ?lasted, by, "requests fail no more"));
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
        let (lock, id) = self.names();
        say(|| {
            tracing::warn!(
                lock,
                id,
                holder,
                "another implementation holds this lock: its heartbeats may overwrite rows that \
                 are not its own, and I1 to I4 don't hold while it runs; stop it"
            );
        });
    }
}
