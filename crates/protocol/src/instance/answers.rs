//! The meaning of an act's answer.

use std::time::Duration;

use super::{Attempt, BackOff, Holding, Instance, Phase, Releasing, Turn};
use crate::{
    Act, Announcement, Answer, Decision, EndReason, Moment, Nonce, Observation, Row, Succession,
    TermId, Timestamp, Wake, Writer,
};

impl Instance {
    pub(super) fn answer(&mut self, now: Moment, answer: Answer, decision: &mut Decision) {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Observing => match answer {
                Answer::Observed(observation) => self.plan(now, observation, decision),
                _ => self.poll_again(now),
            },
            Phase::Beginning(attempt) => self.begun(now, attempt, answer, decision),
            Phase::Resolving(attempt, Turn::Asked { .. }) => {
                self.resolve(now, attempt, answer, decision);
            }
            Phase::Holding(term) => self.heartbeat_answered(now, term, answer, decision),
            Phase::Releasing(release) => self.released(now, release, &answer),
            // No act is under way in any of the others, so the answer is to nothing.
            idle => self.phase = idle,
        }
    }

    /// Acts on what a contender has seen: takes the lock now, or finds when to poll again.
    fn plan(&mut self, now: Moment, observation: Observation, decision: &mut Decision) {
        self.failures.reads = 0;
        if self.stop_by.is_some() {
            self.phase = Phase::Ended;
            return;
        }
        if !self.wanted {
            self.stand_by(now);
            return;
        }
        let Some(row) = observation.row else {
            if observation.wait.is_zero() {
                return self.attempt_in_time(now, None, observation.read_at, decision);
            }
            return self.poll_after(now, observation.wait);
        };
        let wait = self.vacant_in(now, &row, observation.read_at).max(observation.wait);
        if wait.is_zero() {
            self.attempt_in_time(now, Some(row), observation.read_at, decision);
        } else {
            self.failures.lost_races = 0;
            self.poll_after(now, wait);
        }
    }

    /// Polls when the wait is over, or a poll interval from now if that is sooner.
    fn poll_after(&mut self, now: Moment, wait: Duration) {
        if wait < self.timing.poll_interval {
            self.poll_at(now + wait, self.timing.jitter());
        } else {
            self.stand_by(now);
        }
    }

    /// Returns how long the row is still owed to its holder; zero if this contender may take it.
    fn vacant_in(&self, now: Moment, row: &Row, read_at: Timestamp) -> Duration {
        if row.writer.nonce().is_some_and(|nonce| nonce.instance == self.nonce) {
            // A term of this instance that is not being held is over, or was never believed in.
            // Its memory proves that, never its id (I1).
            return self.quiet_from.since(now);
        }
        row.vacant_from(&self.id, self.timing.lease).since(read_at)
    }

    /// Attempts to take the lock, unless attempts have failed too often of late (I8) or the owner
    /// has resigned.
    fn attempt_in_time(
        &mut self,
        now: Moment,
        displaced: Option<Row>,
        observed: Timestamp,
        decision: &mut Decision,
    ) {
        let from = self.begin_from.max(self.away_until);
        if now < from {
            self.poll_at(from, self.timing.jitter());
        } else {
            self.attempt(now, displaced, observed, decision);
        }
    }

    fn attempt(
        &mut self,
        now: Moment,
        displaced: Option<Row>,
        observed: Timestamp,
        decision: &mut Decision,
    ) {
        self.attempts += 1;
        let nonce = Nonce { instance: self.nonce, attempt: self.attempts };
        let writer = Writer::term(&self.id, nonce);
        decision.act = Some(match displaced {
            None => Act::Insert { writer: writer.clone() },
            Some(seen) => Act::Takeover { seen, writer: writer.clone() },
        });
        self.phase = Phase::Beginning(Attempt { writer, sent: now, observed });
    }

    fn begun(&mut self, now: Moment, attempt: Attempt, answer: Answer, decision: &mut Decision) {
        match answer {
            Answer::Applied { at } => self.begin(now, attempt, at, decision),
            Answer::Unknown => {
                self.begin_failed(now);
                self.phase = Phase::Resolving(attempt, Turn::at(now));
            }
            _ if self.stop_by.is_some() => self.phase = Phase::Ended,
            Answer::Rejected(_) => self.poll_after_lost_race(now),
            Answer::NotApplied | Answer::Observed(_) => {
                let Wake { at, spread } = self.begin_failed(now);
                self.poll_at(at, spread);
            }
        }
    }

    /// Resolves an unknown attempt: its own nonce in the row decides, nothing else.
    fn resolve(&mut self, now: Moment, attempt: Attempt, answer: Answer, decision: &mut Decision) {
        let useful_until = attempt.sent + self.timing.validity();
        match answer {
            Answer::Observed(observation) => match &observation.row {
                Some(row) if attempt.is_begun_in(row, observation.read_at) => {
                    let token = row.token;
                    self.begin(now, attempt, token, decision);
                }
                _ => self.plan(now, observation, decision),
            },
            _ if now < useful_until => {
                self.read_failed(now);
                self.phase = Phase::Resolving(attempt, Turn::Due(self.retry(now)));
            }
            _ => self.poll_again(now),
        }
    }

    /// Begins the term, since its commit is known to have been applied.
    fn begin(&mut self, now: Moment, attempt: Attempt, token: Timestamp, decision: &mut Decision) {
        let Attempt { writer, sent, .. } = attempt;
        let id = TermId { token, writer };
        if self.stop_by.is_some() || !self.wanted {
            let until = now + self.timing.release_limit;
            let (turn, back_off, next) = (Turn::at(now), BackOff::Poll, Succession::Anyone);
            self.phase = Phase::Releasing(Releasing { term: id, next, until, turn, back_off });
        } else if now < sent + self.timing.renew_deadline {
            let valid_until = sent + self.timing.validity();
            let writer = id.writer.clone();
            decision.announce = Some(Announcement::Began { token, writer, valid_until });
            let heartbeat = Turn::at(sent + self.timing.heartbeat_interval);
            let (began, renewed) = (sent, sent);
            self.phase = Phase::Holding(Holding { id, renewed, heartbeat, began });
        } else {
            // Too late to be of use; nobody was told, so it can be displaced at once.
            self.quiet_from = self.quiet_from.max(now);
            let Wake { at, spread } = self.begin_failed(now);
            self.poll_at(at, spread);
        }
    }

    fn heartbeat_answered(
        &mut self,
        now: Moment,
        term: Holding,
        answer: Answer,
        decision: &mut Decision,
    ) {
        let Turn::Asked { sent } = term.heartbeat else {
            // The answer is to nothing.
            self.phase = Phase::Holding(term);
            return;
        };
        match answer {
            Answer::Applied { .. } => {
                let valid_until = sent + self.timing.validity();
                decision.announce = Some(Announcement::Extended { valid_until });
                let heartbeat = Turn::at(sent + self.timing.heartbeat_interval);
                let term = Holding { renewed: sent, heartbeat, ..term };
                if term.has_lasted() {
                    self.term_works();
                }
                self.phase = Phase::Holding(term);
            }
            Answer::Rejected(rejection) => {
                self.phase = Phase::Holding(term);
                self.end(now, EndReason::Superseded(rejection.seen()), decision);
            }
            // A repeat is harmless whatever became of this one: it depends on the term alone (I4).
            Answer::NotApplied | Answer::Unknown | Answer::Observed(_) => {
                let pause = self.timing.heartbeat_pause();
                let heartbeat = Turn::Due(Wake { at: now + pause, spread: pause });
                self.phase = Phase::Holding(Holding { heartbeat, ..term });
            }
        }
    }

    fn released(&mut self, now: Moment, release: Releasing, answer: &Answer) {
        let Releasing { until, back_off, .. } = release;
        match answer {
            Answer::Applied { .. } => {
                self.failures.releases = 0;
                self.term_works();
                self.back_off(now, back_off);
            }
            Answer::Rejected(_) => self.back_off(now, back_off),
            _ => {
                self.release_failed(now);
                let retry = self.retry(now);
                if retry.at < until {
                    let turn = Turn::Due(retry);
                    self.phase = Phase::Releasing(Releasing { turn, ..release });
                } else {
                    self.back_off(now, back_off);
                }
            }
        }
    }

    fn back_off(&mut self, now: Moment, back_off: BackOff) {
        match back_off {
            BackOff::No => self.poll_at(now, Duration::ZERO),
            BackOff::Poll => self.stand_by(now),
            BackOff::Lease => self.poll_at(now + self.timing.lease, self.timing.jitter()),
        }
    }
}
