//! One instance, from its first poll to its end.

mod answers;
mod back_off;
mod contract;
mod due;

use std::sync::Arc;
use std::time::Duration;

use self::back_off::{Failures, LASTING};
use crate::line::{MarkLimit, Place, Standing, Wait};
use crate::{
    Announcement, Decision, EndReason, Event, Moment, Row, Succession, TermId, Timestamp, Timing,
    Wake, Writer,
};

/// One instance: a contender for one lock, or its holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    id: Arc<str>,
    nonce: u64,
    timing: Timing,
    /// True if the owner wants the lock at present.
    wanted: bool,
    attempts: u64,
    phase: Phase,
    /// From here on no term of ours that has ended looks valid in this process.
    quiet_from: Moment,
    failures: Failures,
    /// No attempt to begin a term is made before, because earlier ones failed, unless the owner asks
    /// anew.
    begin_from: Moment,
    /// No attempt is made before, whoever asks: the owner was told to go.
    away_until: Moment,
    /// How it stands in line, and from when on it may take a place.
    line: Wait,
    mark_limit: MarkLimit,
    /// Set once the owner is done: by then the instance has ended, whatever is under way.
    stop_by: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// Between two polls; and if a place in line is being taken meanwhile.
    Standby {
        poll: Wake,
        is_marking: bool,
    },
    Observing,
    Beginning(Attempt),
    Resolving(Attempt, Turn),
    Holding(Holding),
    Releasing(Releasing),
    Ended,
}

/// The act under way, or the time of the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Turn {
    Asked { sent: Moment },
    Due(Wake),
}

/// An attempt to begin a term.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Attempt {
    writer: Writer,
    sent: Moment,
    /// Spanner's timestamp of the read that showed the lock to be vacant: its commit comes later.
    observed: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holding {
    id: TermId,
    /// When the last successful request of the term was sent: validity counts from here.
    renewed: Moment,
    heartbeat: Turn,
    /// When the request that began the term was sent.
    began: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Releasing {
    term: TermId,
    next: Succession,
    until: Moment,
    turn: Turn,
    back_off: BackOff,
}

/// How long an instance that has let go keeps away, so that it doesn't win its own lock back before
/// anyone polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum BackOff {
    /// Not at all: the owner has asked for the lock again since.
    No,
    /// Until the other contenders have polled once.
    Poll,
    /// It was told to go.
    Lease,
}

impl Instance {
    /// Returns a contender that polls at once.
    ///
    /// Draw `nonce` at random each time. It tells this instance from every other one, also from one
    /// with the same `id` and from its own former life.
    pub fn new(id: &str, nonce: u64, timing: Timing, now: Moment) -> Instance {
        Instance {
            id: id.into(),
            nonce,
            timing,
            wanted: true,
            attempts: 0,
            phase: Phase::Standby { poll: Wake::at(now), is_marking: false },
            quiet_from: now,
            failures: Failures::default(),
            begin_from: Moment::default(),
            away_until: Moment::default(),
            line: Wait::new(id, nonce, Standing::Plain),
            mark_limit: MarkLimit::default(),
            stop_by: None,
        }
    }

    /// Has the contender stand so in line.
    pub fn standing(self, standing: Standing) -> Instance {
        Instance { line: Wait::new(&self.id, self.nonce, standing), ..self }
    }

    /// Returns true if the instance has stopped; it asks for nothing any more.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Returns true if the last term is still being released.
    pub fn is_releasing(&self) -> bool {
        matches!(self.phase, Phase::Releasing(_))
    }

    /// Returns true if an attempt to begin a term is under way, or not resolved yet.
    pub fn is_attempting(&self) -> bool {
        matches!(self.phase, Phase::Beginning(_) | Phase::Resolving(..))
    }

    /// Returns how long the act that was decided at `now` may take before its outcome counts as
    /// unknown.
    ///
    /// A heartbeat has until the renew deadline of its term. Its answer counts whenever it comes: the
    /// term depends on it, and another one would be no sooner.
    pub fn attempt_limit(&self, now: Moment) -> Duration {
        let limit = self.timing.attempt_limit();
        match &self.phase {
            Phase::Holding(Holding { renewed, heartbeat: Turn::Asked { .. }, .. }) => {
                (*renewed + self.timing.renew_deadline).since(now)
            }
            Phase::Releasing(release) => limit.min(release.until.since(now)),
            _ => limit,
        }
    }

    /// Returns true if a release has promised the lock to this very process.
    pub fn is_promised(&self, row: &Row) -> bool {
        self.line.is_promised(row)
    }

    /// Returns true if its term is to end for who has this place in line: a higher rank, and the term
    /// is old.
    pub fn yields_to(&self, now: Moment, place: &Place) -> bool {
        let lease = self.timing.lease;
        matches!(&self.phase, Phase::Holding(term) if term.is_old(now, lease))
            && self.line.yields_to(place)
    }

    /// Returns true if nothing is under way and nothing is held: a contender between two polls.
    pub fn is_standing_by(&self) -> bool {
        matches!(self.phase, Phase::Standby { .. })
    }

    /// Returns the token of the term and the moment from which it is invalid, if there is a term.
    pub fn term(&self) -> Option<(Timestamp, Moment)> {
        match &self.phase {
            Phase::Holding(term) => Some((term.id.token, term.renewed + self.timing.validity())),
            _ => None,
        }
    }

    /// Decides what to do, now that `event` has happened and the own clock reads `now`.
    pub fn decide(&mut self, now: Moment, event: Event) -> Decision {
        let mut decision = Decision::default();
        let is_early = event == Event::Early;
        // Expiry comes first: after it not even a heartbeat that was acknowledged revives the term.
        self.end_if_expired(now, &mut decision);
        match event {
            Event::Wake | Event::Early => {}
            Event::Answer(answer) => self.answer(now, answer, &mut decision),
            Event::Resign { next } => self.release(now, next, BackOff::Lease, &mut decision),
            Event::Contend(wanted) => self.contend(now, wanted, &mut decision),
            Event::LetGo { next } => self.release(now, next, BackOff::Poll, &mut decision),
            Event::Lapse => self.end(now, EndReason::Lapsed, &mut decision),
            Event::Stop => self.stop(now, &mut decision),
        }
        self.end_if_out_of_contact(now, &mut decision);
        if self.stop_by.is_some_and(|stop_by| stop_by <= now) {
            self.phase = Phase::Ended;
            return Decision { act: None, ..decision };
        }
        decision.act = decision.act.or_else(|| self.due_act(now, is_early));
        decision.wake = self.next_wake();
        decision.early = self.early();
        decision
    }

    fn end_if_expired(&mut self, now: Moment, decision: &mut Decision) {
        if let Phase::Holding(term) = &self.phase
            && now >= term.renewed + self.timing.validity()
        {
            self.end(now, EndReason::Expired, decision);
        }
    }

    fn end_if_out_of_contact(&mut self, now: Moment, decision: &mut Decision) {
        if let Phase::Holding(term) = &self.phase
            && now >= term.renewed + self.timing.renew_deadline
        {
            self.end(now, EndReason::OutOfContact, decision);
        }
    }

    /// Ends the term; work under it has until its local expiry to stop.
    fn end(&mut self, now: Moment, reason: EndReason, decision: &mut Decision) {
        let Phase::Holding(term) = &self.phase else { return };
        self.quiet_from = term.renewed + self.timing.validity();
        let was_lost_early = reason.is_loss() && !term.has_lasted();
        decision.announce = Some(Announcement::Ended { token: term.id.token, reason });
        let poll = if was_lost_early { self.begin_failed(now) } else { Wake::at(now) };
        self.phase = Phase::Standby { poll, is_marking: false };
    }

    fn contend(&mut self, now: Moment, wanted: bool, decision: &mut Decision) {
        let was_wanted = std::mem::replace(&mut self.wanted, wanted);
        if !wanted {
            self.line.ends();
        }
        match &mut self.phase {
            Phase::Standby { .. } if wanted => {
                // The owner asks, so that it is not the library that repeats itself.
                self.begin_from = self.begin_from.min(now);
                self.poll_at(now, Duration::ZERO);
            }
            Phase::Releasing(Releasing { back_off, .. }) if wanted && !was_wanted => {
                *back_off = BackOff::No;
            }
            // Its answer is useless now.
            Phase::Observing if !wanted => self.stand_by(now),
            Phase::Holding(_) if !wanted => {
                self.release(now, Succession::Anyone, BackOff::Poll, decision);
            }
            _ => {}
        }
    }

    fn stop(&mut self, now: Moment, decision: &mut Decision) {
        self.stop_by = self.stop_by.or(Some(now + self.timing.release_limit));
        match self.phase {
            // An attempt under way may have succeeded: it is resolved first, then released.
            Phase::Beginning(_) | Phase::Resolving(..) | Phase::Releasing(_) => {}
            Phase::Holding(_) => self.release(now, Succession::Anyone, BackOff::No, decision),
            Phase::Standby { .. } | Phase::Observing | Phase::Ended => self.phase = Phase::Ended,
        }
    }

    /// Has `has_lock()` cleared by the announcement before the request leaves (I1).
    fn release(
        &mut self,
        now: Moment,
        next: Succession,
        back_off: BackOff,
        decision: &mut Decision,
    ) {
        let Phase::Holding(term) = &self.phase else { return };
        let id = term.id.clone();
        if back_off == BackOff::Lease {
            self.away_until = now + self.timing.lease;
        }
        // Past its validity the row falls vacant by itself, so there is nothing left to release.
        let until = (term.renewed + self.timing.validity()).min(now + self.timing.release_limit);
        let turn = Turn::at(now);
        let next = self.succession(next);
        self.end(now, EndReason::Released, decision);
        self.phase = Phase::Releasing(Releasing { term: id, next, until, turn, back_off });
    }

    /// Whom no name excludes goes by the line.
    fn succession(&self, next: Succession) -> Succession {
        match next {
            Succession::Anyone => Succession::InLine { grace: self.timing.poll_interval * 2 },
            named => named,
        }
    }

    /// After a poll that failed.
    fn poll_again(&mut self, now: Moment) {
        self.read_failed(now);
        let retry = self.retry(now);
        self.stand_by(now);
        if let Phase::Standby { poll, .. } = &mut self.phase
            && poll.at < retry.at
        {
            *poll = retry;
        }
    }

    fn stand_by(&mut self, now: Moment) {
        // Polls are spread downwards. So contenders drift apart, and a release is noticed sooner
        // the more of them there are, yet never later than one poll interval.
        let quarter = self.timing.poll_interval / 4;
        self.poll_at(now + quarter * 3, quarter);
    }

    fn poll_at(&mut self, at: Moment, spread: Duration) {
        self.phase = if self.stop_by.is_some() {
            Phase::Ended
        } else {
            Phase::Standby { poll: Wake { at, spread }, is_marking: false }
        };
    }
}

impl Attempt {
    /// Returns true if `row`, as it was at `read_at`, is as the attempt's commit wrote it.
    ///
    /// A heartbeat that differs from the token, or another writer, is a term that was ended from
    /// outside meanwhile (I4). If no commit of the attempt can have a token, somebody wrote it. As
    /// a term's, it would be followed by a lower one (I2).
    fn is_begun_in(&self, row: &Row, read_at: Timestamp) -> bool {
        row.writer == self.writer
            && row.heartbeat == row.token
            && self.observed < row.token
            && row.token <= read_at
    }
}

impl Holding {
    /// Returns true if it has gone well for so long that what failed before it is over.
    fn has_lasted(&self) -> bool {
        self.renewed >= self.began + LASTING
    }

    /// Returns true if the term has lasted long enough to end for a higher rank.
    fn is_old(&self, now: Moment, lease: Duration) -> bool {
        now >= self.began + lease * LEASES_KEPT
    }
}

/// The leases for which a holder keeps its term, whatever rank waits: a higher rank that dies again and
/// again would take turns with it.
const LEASES_KEPT: u32 = 10;

impl Turn {
    fn at(at: Moment) -> Turn {
        Turn::Due(Wake::at(at))
    }

    fn is_due(&self, now: Moment) -> bool {
        matches!(self, Turn::Due(wake) if wake.at <= now)
    }
}
