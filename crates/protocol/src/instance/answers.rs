//! The meaning of an act's answer.

use std::time::Duration;

use super::{Attempt, BackOff, Holding, Instance, Phase, Releasing, Turn};
use crate::line::{MARK_PAUSE, Place, Step};
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
            // The answer is to a place in line, or to the heartbeat of a term that is over.
            Phase::Standby { poll, is_marking } => {
                self.phase = Phase::Standby { poll, is_marking: false };
                if is_marking && matches!(answer, Answer::NotApplied | Answer::Unknown) {
                    self.mark_limit.failed(now);
                    self.failures.lost_races = self.failures.lost_races.saturating_add(1);
                }
            }
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
        let read_at = observation.read_at;
        let vacant_in = observation.row.as_ref().map(|row| self.vacant_in(now, row, read_at));
        let wait = vacant_in.unwrap_or_default();
        match self.line.polled(&observation, wait.is_zero()) {
            Step::Take(passes) => {
                self.attempt_in_time(now, (observation.row, passes), read_at, decision);
            }
            Step::Wait(place) => {
                if wait.is_zero() {
                    self.stand_by(now);
                } else {
                    self.failures.lost_races = 0;
                    self.poll_after(now, wait);
                }
                self.mark(now, place, decision);
            }
        }
    }

    /// Takes a place in line. Nobody waits for the answer, and nothing is repeated.
    fn mark(&mut self, now: Moment, place: Option<Place>, decision: &mut Decision) {
        let is_well = self.failures.in_a_row() == 0 || now >= self.failures.last + MARK_PAUSE;
        let Some(place) = place.filter(|_| is_well && self.mark_limit.is_due(now)) else { return };
        self.mark_limit.marked(now, self.timing.poll_interval);
        if let Phase::Standby { is_marking, .. } = &mut self.phase {
            *is_marking = true;
        }
        decision.act = Some(Act::Mark { place });
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
        if self.line.is_promised(row) {
            return Duration::ZERO;
        }
        row.vacant_from(&self.id, self.timing.lease).since(read_at)
    }

    /// Attempts to take the lock, unless attempts have failed too often of late (I8) or the owner
    /// has resigned.
    fn attempt_in_time(
        &mut self,
        now: Moment,
        displaced: (Option<Row>, Option<Place>),
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
        displaced: (Option<Row>, Option<Place>),
        observed: Timestamp,
        decision: &mut Decision,
    ) {
        self.attempts += 1;
        let nonce = Nonce { instance: self.nonce, attempt: self.attempts };
        let writer = Writer::term(&self.id, nonce);
        decision.act = Some(match displaced {
            (None, _) => Act::Insert { writer: writer.clone() },
            (Some(seen), passes) => Act::Takeover { seen, writer: writer.clone(), passes },
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
            Answer::Rejected(_) => {
                self.poll_after_lost_race(now);
                let place = self.line.lost_race();
                self.mark(now, place, decision);
            }
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
        self.line.ends();
        if self.stop_by.is_some() || !self.wanted {
            let until = now + self.timing.release_limit;
            let (turn, back_off) = (Turn::at(now), BackOff::Poll);
            let next = self.succession(Succession::Anyone);
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
