//! Reports the requests and the terms of a loop: by the log, the metrics and the health of its instance.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::{Act, Answer, EndReason, Moment, Observation, Row, Timestamp};

use super::metrics::Meter;
use super::namesake::Namesake;
use crate::error::{Answers, Error, Kind, TermEnd};
use crate::names::{is_of_one_member, subject};
use crate::settings::Settings;
use crate::term::{Failing, Log, Published, Teller, Warnings, origin};
use crate::token::FencingToken;

/// The act that takes a place in line.
const MARK: &str = "mark";

/// The reports of one loop.
pub(super) struct Report {
    settings: Arc<Settings>,
    published: Arc<Published>,
    /// The instance's own: another one may have the same id.
    nonce: u64,
    /// For what the log alone is told.
    pub(super) log: Log,
    meter: Meter,
    /// The name of the act under way, and the part that fails with it.
    act: (&'static str, Failing),
    /// How fast Spanner answers heartbeats, and begins.
    answers: Answers,
    /// True if the last write lost a race to another transaction.
    was_aborted: bool,
    /// The row that the last attempt displaces, and whether it says so.
    displaced: Option<(Row, bool)>,
    namesake: Namesake,
}

impl Report {
    pub(super) fn new(
        settings: &Arc<Settings>,
        published: &Arc<Published>,
        warnings: Arc<Warnings>,
        nonce: u64,
    ) -> Report {
        let (lock, id) = (Arc::clone(&settings.name), Arc::clone(&settings.id));
        let teller = Teller { lock, id, lease: settings.timing.lease };
        Report {
            settings: Arc::clone(settings),
            published: Arc::clone(published),
            nonce,
            log: Log::new(teller, settings.clock.clone(), warnings),
            meter: Meter::new(&settings.name),
            act: ("observe", Failing::Reads),
            answers: Answers::default(),
            was_aborted: false,
            displaced: None,
            namesake: Namesake::default(),
        }
    }

    /// Returns the name of the act under way.
    pub(super) fn act(&self) -> &'static str {
        self.act.0
    }

    /// Returns true if the act under way takes a place in line.
    pub(super) fn is_mark(&self) -> bool {
        self.act.0 == MARK
    }

    /// Returns true if the act under way is a write whose failure has a part of its own.
    pub(super) fn is_write(&self) -> bool {
        self.act.1 == Failing::Writes
    }

    /// Notes that the loop comes round, and whether anybody wants the lock from here.
    pub(super) fn turns(&mut self, now: Moment, contends: bool) {
        let remaining = self.published.term().map(|term| term.remaining()).unwrap_or_default();
        if !contends {
            self.meter.rests();
            self.log.rests();
        }
        self.meter.turns(now, remaining, self.settings.timing.lease, contends);
    }

    /// Notes that the loop sleeps until `due`, and is late `overdue` after that.
    pub(super) fn sleeps_until(&mut self, due: Option<Moment>, overdue: Duration) {
        self.published.health_record().runs(due.map(|due| due + overdue));
        self.meter.sleeps_until(due);
    }

    pub(super) fn sends(&mut self, act: &Act, now: Moment) {
        self.act = names(act);
        self.meter.sends(self.act.0, now);
        match act {
            Act::Insert { .. } => self.attempts(None),
            Act::Takeover { seen, .. } => self.attempts(Some((seen.clone(), false))),
            Act::Observe | Act::Heartbeat { .. } | Act::Release { .. } | Act::Mark { .. } => {}
        }
        if self.is_write() {
            self.answers.sends(now);
        }
        self.log.sends(self.act.0);
    }

    fn attempts(&mut self, displaced: Option<(Row, bool)>) {
        self.displaced = displaced;
        // How fast Spanner was for another term says nothing of this one.
        self.answers = Answers::default();
    }

    /// Reports what became of a place in line. It is a hint: whatever became of it says nothing of the
    /// lock.
    pub(super) fn marked(&mut self, answer: &Answer, error: Option<&Error>, now: Moment) {
        self.meter.answered(error, now);
        self.log.answered(MARK, answer_name(answer));
    }

    /// Reports the answer to the act under way; `is_seized` says that the row it displaces was seized.
    pub(super) fn answered(
        &mut self,
        answer: &Answer,
        error: Option<&Error>,
        is_seized: bool,
        now: Moment,
    ) {
        self.meter.answered(error, now);
        if error.is_none() && self.is_write() {
            self.answers.answered(now);
        }
        if let Some((_, was_seized)) = &mut self.displaced {
            *was_seized |= is_seized;
        }
        match answer {
            Answer::Observed(observation) => self.log.observed(observation),
            Answer::Rejected(rejection) => self.log.rejected(rejection),
            _ => {}
        }
        match error {
            Some(error) if self.lost_a_usual_race(error) => {
                self.log.answered(self.act.0, "aborted");
                self.succeeded(Failing::Reads);
            }
            Some(error) => self.failed(error),
            None => self.worked(answer),
        }
    }

    fn failed(&mut self, error: &Error) {
        if self.published.health_record().failed(self.act.1, error) {
            self.log.client_is_dead(self.act.0, error);
        }
        self.log.failed(self.act, self.published.has_lock(), error);
    }

    fn worked(&mut self, answer: &Answer) {
        self.log.answered(self.act.0, answer_name(answer));
        // A write reads first.
        self.succeeded(Failing::Reads);
        if self.is_write() {
            self.was_aborted = false;
            self.succeeded(Failing::Writes);
        } else if self.is_of_namesake(answer) {
            self.tell_namesake();
        } else if self.is_anothers(answer) {
            self.was_aborted = false;
            // Another holds, so that there is nothing to write.
            self.succeeded(Failing::Writes);
            // No request of it failed, so the log has nothing to take back.
            self.published.health_record().succeeded(Failing::Task);
        }
    }

    fn succeeded(&self, what: Failing) {
        self.published.health_record().succeeded(what);
        self.log.works((self.act.0, what));
    }

    /// Returns true if another transaction went before, which is contact, and usual once. Writes that lose
    /// again and again fail: a transaction that stays open in the way of a term ends it.
    fn lost_a_usual_race(&mut self, error: &Error) -> bool {
        if error.code() != Some(Code::Aborted) {
            return false;
        }
        !self.is_write() || !std::mem::replace(&mut self.was_aborted, true)
    }

    /// True if the row is protected for somebody else: there is nothing to do but to wait.
    fn is_anothers(&self, answer: &Answer) -> bool {
        let Answer::Observed(Observation { row: Some(row), read_at, .. }) = answer else {
            return false;
        };
        let Settings { id, timing, .. } = &*self.settings;
        !row.is_released()
            && row.writer.nonce().is_none_or(|nonce| nonce.instance != self.nonce)
            && row.vacant_from(id, timing.lease) > *read_at
    }

    /// Returns true if another instance under this id has kept a member's row for a lease.
    fn is_of_namesake(&mut self, answer: &Answer) -> bool {
        let Answer::Observed(Observation { row, read_at, .. }) = answer else { return false };
        let Settings { name, id, timing, .. } = &*self.settings;
        match row.as_ref().filter(|row| row.writer.id() == Some(&**id)) {
            Some(row) if is_of_one_member(name) && self.is_anothers(answer) => {
                self.namesake.has_row(row, *read_at, timing.lease)
            }
            _ => {
                self.namesake.is_gone();
                false
            }
        }
    }

    fn tell_namesake(&mut self) {
        let Settings { name, id, .. } = &*self.settings;
        let rule = "another live member has this id, and this one waits for its end";
        let error = Error::config(format!("{}: id `{id}`: {rule}", subject(name)));
        self.published.health_record().failed(Failing::Writes, &error);
        if self.namesake.tells() {
            self.log.has_namesake(&error);
        }
    }

    pub(super) fn began(&mut self, token: Timestamp) {
        self.answers.begins(self.settings.clock.now());
        let displaced = self.displaced.take();
        let (how, vacant_since) = origin(displaced.as_ref(), &self.settings.id);
        let vacancy = vacant_since.map(|since| token.since(since));
        let previous = displaced.as_ref().and_then(|(row, _)| row.writer.id());
        self.log.began(FencingToken::from_timestamp(token), how, previous, vacancy);
        self.meter.began(how, vacancy);
    }

    /// Reports the end of a term whose row was protected until about `held_until`.
    pub(super) fn ended(&mut self, token: FencingToken, end: &TermEnd, held_until: Moment) {
        let lease = self.settings.timing.lease;
        let unrenewed_for = (self.settings.clock.now() + lease).since(held_until);
        self.meter.ended(end);
        self.log.ended(token, end.clone(), unrenewed_for);
        if let TermEnd::OutOfContact { contact: Some(_) } = end {
            let (lock, end) = (self.settings.name.to_string(), Some(end.clone()));
            let error = Error::new(Kind::Ended { lock, token, end });
            // The log has its line.
            let _told = self.published.health_record().failed(Failing::Writes, &error);
        }
    }

    /// Returns how a term ended. Where Spanner was too slow for it, says by how much.
    pub(super) fn end_of(&self, reason: EndReason) -> TermEnd {
        let (now, timing) = (self.settings.clock.now(), &self.settings.timing);
        if reason == EndReason::OutOfContact && timing.heartbeat_interval < timing.renew_deadline {
            return TermEnd::OutOfContact { contact: Some(self.answers.contact(now, timing)) };
        }
        TermEnd::of(reason)
    }
}

/// Returns the name of an act, and the part that fails with it.
fn names(act: &Act) -> (&'static str, Failing) {
    match act {
        Act::Observe => ("observe", Failing::Reads),
        Act::Insert { .. } => ("insert", Failing::Writes),
        Act::Takeover { .. } => ("takeover", Failing::Writes),
        Act::Heartbeat { .. } => ("heartbeat", Failing::Writes),
        Act::Release { .. } => ("release", Failing::Writes),
        Act::Mark { .. } => (MARK, Failing::Reads),
    }
}

fn answer_name(answer: &Answer) -> &'static str {
    match answer {
        Answer::Observed(_) => "observed",
        Answer::Applied { .. } => "applied",
        Answer::Rejected(_) => "rejected",
        Answer::NotApplied => "not applied",
        Answer::Unknown => "unknown",
    }
}
