mod back_off;
mod due;

use std::sync::Arc;
use std::time::Duration;

use self::back_off::Failures;
use crate::{
    Act, Announcement, Answer, Decision, EndReason, Event, Moment, Nonce, Observation, Rejection,
    Row, Succession, TermId, Timestamp, Timing, Wake, Writer,
};

/// One participant of one lock: contender or holder.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Instance {
    id: Arc<str>,
    nonce: u64,
    timing: Timing,
    /// Whether the owner wants the lock at present.
    wanted: bool,
    attempts: u64,
    phase: Phase,
    /// From here on nobody in this process believes in a term of ours that has ended.
    quiet_from: Moment,
    leftover: Option<Leftover>,
    failures: Failures,
    /// No attempt to begin a term is made before.
    begin_from: Moment,
    /// Takeover rows that this instance has yet to remove.
    tidy: Option<Tidy>,
    /// The token of a release of this instance's that left no takeover row.
    clean: Option<Timestamp>,
    /// Set once the owner is done: by then the instance has ended, whatever is under way.
    stop_by: Option<Moment>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    Standby {
        look: Wake,
    },
    Observing,
    Beginning(Attempt),
    Resolving(Attempt, Turn),
    Holding(Holding),
    Releasing(Releasing),
    /// The term is released; the takeover rows of earlier ones go last.
    Sweeping {
        released: Timestamp,
        aside: Aside,
    },
    Ended,
}

/// Whether an act is under way, or when the next one is due.
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
    /// The row that a takeover displaces; none for an insert.
    displaced: Option<Row>,
    /// Spanner's timestamp of the read that showed the lock to be vacant: its commit comes later.
    observed: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Holding {
    id: TermId,
    /// The token that it displaced, whose takeover row is the term's own.
    displaced: Option<Timestamp>,
    /// When the last successful request of the term was sent: validity counts from here.
    renewed: Moment,
    beat: Turn,
    /// When the request that began the term was sent.
    began: Moment,
}

/// Takeover rows of tokens before `before` that are to be removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Tidy {
    before: Timestamp,
    turn: Turn,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Releasing {
    term: TermId,
    next: Succession,
    displaced: Option<Timestamp>,
    until: Moment,
    turn: Turn,
    aside: Aside,
}

/// How long an instance that has let go keeps away, so that it doesn't win its own lock back before
/// anyone looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Aside {
    /// Not at all: the owner has asked for the lock again since.
    No,
    /// Until the other contenders have looked once.
    Poll,
    /// It was told to go.
    Lease,
}

/// A takeover row that stands in the way of displacing `row`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Leftover {
    row: Row,
    first_seen: Moment,
}

impl Instance {
    /// A contender that looks for the first time at once.
    ///
    /// `nonce` must be drawn at random each time: it is what tells this instance from every other
    /// one, also from one with the same `id` and from its own former life.
    pub fn new(id: &str, nonce: u64, timing: Timing, now: Moment) -> Instance {
        Instance {
            id: id.into(),
            nonce,
            timing,
            wanted: true,
            attempts: 0,
            phase: Phase::Standby { look: Wake { at: now, spread: Duration::ZERO } },
            quiet_from: now,
            leftover: None,
            failures: Failures::default(),
            begin_from: Moment::default(),
            tidy: None,
            clean: None,
            stop_by: None,
        }
    }

    /// Whether the instance has stopped; it asks for nothing any more.
    pub fn has_ended(&self) -> bool {
        self.phase == Phase::Ended
    }

    /// Whether the last term is released, and the takeover rows of earlier ones are being removed.
    pub fn is_sweeping(&self) -> bool {
        matches!(self.phase, Phase::Sweeping { .. })
    }

    /// Whether the last term is still being released.
    pub fn is_releasing(&self) -> bool {
        matches!(self.phase, Phase::Releasing(_))
    }

    /// Whether nothing is under way and nothing is held: a contender between two looks.
    pub fn is_standing_by(&self) -> bool {
        matches!(self.phase, Phase::Standby { .. })
    }

    /// The token of the term and the moment from which it is invalid, if there is a term.
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
            Event::Resign { next } => self.release(now, next, Aside::Lease, &mut decision),
            Event::Contend(wanted) => self.contend(now, wanted, &mut decision),
            Event::LetGo => {
                self.release(now, Succession::Anyone, Aside::Poll, &mut decision);
            }
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

    /// Ends the term; whoever works under it has until its local expiry to stop.
    fn end(&mut self, now: Moment, reason: EndReason, decision: &mut Decision) {
        let Phase::Holding(term) = &self.phase else { return };
        self.quiet_from = term.renewed + self.timing.validity();
        let is_loss = !matches!(reason, EndReason::Released | EndReason::Lapsed);
        let was_lost_early = is_loss && !term.has_lasted();
        decision.announce = Some(Announcement::Ended { token: term.id.token, reason });
        if is_loss && let Some(Tidy { turn: Turn::Asked { .. }, .. }) = self.tidy.take() {
            // Its answer is never heard.
            self.sweep_failed(now);
        }
        let look = if was_lost_early {
            self.begin_failed(now)
        } else {
            Wake { at: now, spread: Duration::ZERO }
        };
        self.phase = Phase::Standby { look };
    }

    fn contend(&mut self, now: Moment, wanted: bool, decision: &mut Decision) {
        let was_wanted = std::mem::replace(&mut self.wanted, wanted);
        match &mut self.phase {
            Phase::Standby { .. } if wanted => {
                // The owner asks, so that it is not the library that repeats itself.
                self.begin_from = self.begin_from.min(now);
                self.look(now, Duration::ZERO);
            }
            Phase::Releasing(Releasing { aside, .. }) | Phase::Sweeping { aside, .. }
                if wanted && !was_wanted =>
            {
                *aside = Aside::No;
            }
            // What it shows is of no use any more.
            Phase::Observing if !wanted => self.stand_by(now),
            Phase::Holding(_) if !wanted => {
                self.release(now, Succession::Anyone, Aside::Poll, decision);
            }
            _ => {}
        }
    }

    fn stop(&mut self, now: Moment, decision: &mut Decision) {
        self.stop_by = self.stop_by.or(Some(now + self.timing.release_limit));
        match self.phase {
            // An attempt under way may have succeeded: it is resolved first, then released.
            Phase::Beginning(_)
            | Phase::Resolving(..)
            | Phase::Releasing(_)
            | Phase::Sweeping { .. } => {}
            Phase::Holding(_) => self.release(now, Succession::Anyone, Aside::No, decision),
            Phase::Standby { .. } | Phase::Observing | Phase::Ended => self.phase = Phase::Ended,
        }
    }

    /// Has `has_lock()` cleared by the announcement before the request leaves (I1).
    fn release(&mut self, now: Moment, next: Succession, aside: Aside, decision: &mut Decision) {
        let Phase::Holding(term) = &self.phase else { return };
        let (id, displaced) = (term.id.clone(), term.displaced);
        // Past its validity the row falls vacant by itself, so there is nothing left to release.
        let until = (term.renewed + self.timing.validity()).min(now + self.timing.release_limit);
        let turn = Turn::Due(Wake { at: now, spread: Duration::ZERO });
        self.end(now, EndReason::Released, decision);
        self.phase = Phase::Releasing(Releasing { term: id, next, displaced, until, turn, aside });
    }

    fn answer(&mut self, now: Moment, answer: Answer, decision: &mut Decision) {
        match std::mem::replace(&mut self.phase, Phase::Ended) {
            Phase::Observing => match answer {
                Answer::Observed(observation) => self.plan(now, observation, decision),
                _ => self.look_again(now),
            },
            Phase::Beginning(attempt) => self.begun(now, attempt, answer, decision),
            Phase::Resolving(attempt, Turn::Asked { .. }) => {
                self.resolve(now, attempt, answer, decision);
            }
            Phase::Holding(term) => self.beaten(now, term, answer, decision),
            Phase::Releasing(release) => self.released(now, release, &answer),
            Phase::Sweeping { released, aside } => {
                self.phase = Phase::Sweeping { released, aside };
                self.swept(now, &answer);
            }
            // No act is under way in any of the others, so the answer is to nothing.
            idle => self.phase = idle,
        }
    }

    /// A contender has seen the row: take the lock now, or know when to look again.
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
            return self.attempt_in_time(now, None, observation.read_at, decision);
        };
        if self.leftover.as_ref().is_some_and(|leftover| !leftover.row.is_same_beat(&row)) {
            self.leftover = None;
        }
        let mut wait = self.vacant_in(now, &row, observation.read_at);
        if let Some(leftover) = &self.leftover {
            // Owed to the peer that may still be between its two steps.
            let due = leftover.first_seen + row.lease.unwrap_or_default().max(self.timing.lease);
            wait = wait.max(due.since(now));
        }
        if !wait.is_zero() {
            self.failures.lost_races = 0;
        }
        if wait.is_zero() {
            self.attempt_in_time(now, Some(row), observation.read_at, decision);
        } else if wait < self.timing.poll_interval {
            self.look(now + wait, self.timing.jitter());
        } else {
            self.stand_by(now);
        }
    }

    /// How long the row is still owed to its holder; zero if this contender may take it.
    fn vacant_in(&self, now: Moment, row: &Row, read_at: Timestamp) -> Duration {
        if row.writer.nonce().is_some_and(|nonce| nonce.instance == self.nonce) {
            // A term of this instance that is not being held is over, or was never believed in.
            // Its memory proves that, never its id (I1).
            return self.quiet_from.since(now);
        }
        row.vacant_from(&self.id, self.timing.lease).since(read_at)
    }

    /// Attempts to take the lock, unless attempts have failed too often of late (I8).
    fn attempt_in_time(
        &mut self,
        now: Moment,
        displaced: Option<Row>,
        observed: Timestamp,
        decision: &mut Decision,
    ) {
        if now < self.begin_from {
            self.look(self.begin_from, self.timing.jitter());
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
        decision.act = Some(match &displaced {
            None => Act::Insert { writer: writer.clone() },
            Some(row) => Act::Takeover {
                seen: row.clone(),
                writer: writer.clone(),
                over_leftover: self.leftover.is_some(),
            },
        });
        self.phase = Phase::Beginning(Attempt { writer, sent: now, displaced, observed });
    }

    fn begun(&mut self, now: Moment, attempt: Attempt, answer: Answer, decision: &mut Decision) {
        match answer {
            Answer::Applied { at } => self.begin(now, attempt, at, decision),
            Answer::Unknown => {
                self.begin_failed(now);
                self.phase = Phase::Resolving(attempt, Turn::now(now));
            }
            _ if self.stop_by.is_some() => self.phase = Phase::Ended,
            Answer::Rejected(Rejection::TakeoverRowExists) => {
                if let (None, Some(row)) = (&self.leftover, attempt.displaced) {
                    self.leftover = Some(Leftover { row, first_seen: now });
                }
                self.look_after_lost_race(now);
            }
            Answer::Rejected(_) => self.look_after_lost_race(now),
            Answer::NotApplied | Answer::Observed(_) | Answer::Swept { .. } => {
                let Wake { at, spread } = self.begin_failed(now);
                self.look(at, spread);
            }
        }
    }

    /// The outcome of an attempt is unknown: its own nonce in the row decides, nothing else.
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
            _ => self.look_again(now),
        }
    }

    /// The commit that begins a term is known to have been applied.
    fn begin(&mut self, now: Moment, attempt: Attempt, token: Timestamp, decision: &mut Decision) {
        self.leftover = None;
        let Attempt { writer, sent, displaced, .. } = attempt;
        let displaced = displaced.map(|row| row.token);
        let id = TermId { token, writer };
        // After a release of its own that left nothing, nothing is there.
        let before = displaced.filter(|token| self.clean.take() != Some(*token));
        // One that failed in an earlier term waits as if it were the same.
        let turn =
            if self.failures.sweeps > 0 { Turn::Due(self.retry(now)) } else { Turn::now(now) };
        self.tidy = before.map(|before| Tidy { before, turn });
        if self.stop_by.is_some() || !self.wanted {
            let until = now + self.timing.release_limit;
            let (turn, aside, next) = (Turn::now(now), Aside::Poll, Succession::Anyone);
            self.phase =
                Phase::Releasing(Releasing { term: id, next, displaced, until, turn, aside });
        } else if now < sent + self.timing.renew_deadline {
            let valid_until = sent + self.timing.validity();
            let writer = id.writer.clone();
            decision.announce = Some(Announcement::Began { token, writer, valid_until });
            let beat = Turn::Due(Wake {
                at: sent + self.timing.heartbeat_interval,
                spread: Duration::ZERO,
            });
            let (began, renewed) = (sent, sent);
            self.phase = Phase::Holding(Holding { id, displaced, renewed, beat, began });
        } else {
            // Too late to be of use; nobody was told, so it can be displaced at once.
            self.quiet_from = self.quiet_from.max(now);
            self.tidy = None;
            let Wake { at, spread } = self.begin_failed(now);
            self.look(at, spread);
        }
    }

    fn beaten(&mut self, now: Moment, term: Holding, answer: Answer, decision: &mut Decision) {
        let Turn::Asked { sent } = term.beat else {
            self.phase = Phase::Holding(term);
            return self.swept(now, &answer);
        };
        match answer {
            Answer::Applied { .. } => {
                let valid_until = sent + self.timing.validity();
                decision.announce = Some(Announcement::Extended { valid_until });
                let at = sent + self.timing.heartbeat_interval;
                let beat = Turn::Due(Wake { at, spread: Duration::ZERO });
                let term = Holding { renewed: sent, beat, ..term };
                if term.has_lasted() {
                    self.term_works();
                }
                self.phase = Phase::Holding(term);
            }
            Answer::Rejected(rejection) => {
                self.phase = Phase::Holding(term);
                let by = match rejection {
                    Rejection::Changed(seen) => seen,
                    Rejection::TakeoverRowExists | Rejection::Needless => None,
                };
                self.end(now, EndReason::Superseded(by), decision);
            }
            // A repeat is harmless whatever became of this one: it depends on the term alone (I4).
            Answer::NotApplied | Answer::Unknown | Answer::Observed(_) | Answer::Swept { .. } => {
                // Promptly, as long as the term lasts: what it needs is no retry to save on.
                let pause = Duration::from_secs(1).min(self.timing.lease / 50);
                let beat = Turn::Due(Wake { at: now + pause, spread: pause });
                self.phase = Phase::Holding(Holding { beat, ..term });
            }
        }
    }

    fn released(&mut self, now: Moment, release: Releasing, answer: &Answer) {
        let Releasing { until, aside, .. } = release;
        match answer {
            Answer::Applied { at } => {
                self.failures.releases = 0;
                self.term_works();
                self.phase = Phase::Sweeping { released: *at, aside };
                match &mut self.tidy {
                    Some(tidy) => tidy.turn = Turn::now(now),
                    None => self.left(now, *at, aside),
                }
            }
            Answer::Rejected(_) => self.step_aside(now, aside),
            _ => {
                self.release_failed(now);
                if now < until {
                    let turn = Turn::Due(self.retry(now));
                    self.phase = Phase::Releasing(Releasing { turn, ..release });
                } else {
                    self.step_aside(now, aside);
                }
            }
        }
    }

    /// What a sweep came to. One that fails after a release is left to the next term.
    fn swept(&mut self, now: Moment, answer: &Answer) {
        let turn = match answer {
            Answer::Swept { all } => {
                self.failures.sweeps = 0;
                (!all).then_some(Turn::now(now))
            }
            _ => Some(Turn::Due(self.sweep_failed(now))),
        };
        let tidy = self.tidy.take();
        self.tidy = tidy.and_then(|tidy| Some(Tidy { turn: turn?, ..tidy }));
        let Phase::Sweeping { released, aside } = self.phase else { return };
        match &self.tidy {
            None => self.left(now, released, aside),
            Some(tidy) if tidy.turn.is_due(now) => {}
            Some(_) => self.step_aside(now, aside),
        }
    }

    /// The term is released, and no takeover row is left.
    fn left(&mut self, now: Moment, released: Timestamp, aside: Aside) {
        self.clean = Some(released);
        self.step_aside(now, aside);
    }

    fn step_aside(&mut self, now: Moment, aside: Aside) {
        self.tidy = None;
        match aside {
            Aside::No => self.look(now, Duration::ZERO),
            Aside::Poll => self.stand_by(now),
            Aside::Lease => self.look(now + self.timing.lease, self.timing.jitter()),
        }
    }

    /// After a look that failed.
    fn look_again(&mut self, now: Moment) {
        self.read_failed(now);
        let retry = self.retry(now);
        self.stand_by(now);
        if let Phase::Standby { look } = &mut self.phase
            && look.at < retry.at
        {
            *look = retry;
        }
    }

    fn stand_by(&mut self, now: Moment) {
        // Spread downwards, so that contenders drift apart and a release is noticed sooner the
        // more of them there are, yet never later than one poll interval.
        let quarter = self.timing.poll_interval / 4;
        self.look(now + quarter * 3, quarter);
    }

    fn look(&mut self, at: Moment, spread: Duration) {
        self.phase = if self.stop_by.is_some() {
            Phase::Ended
        } else {
            Phase::Standby { look: Wake { at, spread } }
        };
    }
}

impl Attempt {
    /// Whether `row`, as it was at `read_at`, is as the attempt's commit wrote it.
    ///
    /// A heartbeat that differs from the token, or another writer, is a term that was ended from
    /// outside meanwhile (I4). A token that no commit of the attempt can have is one that somebody
    /// wrote: as a term's, it would be followed by a lower one (I2).
    fn is_begun_in(&self, row: &Row, read_at: Timestamp) -> bool {
        row.writer == self.writer
            && row.heartbeat == row.token
            && self.observed < row.token
            && row.token <= read_at
    }
}

impl Holding {
    /// Whether it has gone well for so long that what failed before it is over.
    fn has_lasted(&self) -> bool {
        self.renewed >= self.began + back_off::LASTING
    }
}

impl Turn {
    fn now(now: Moment) -> Turn {
        Turn::Due(Wake { at: now, spread: Duration::ZERO })
    }

    fn is_due(&self, now: Moment) -> bool {
        matches!(self, Turn::Due(wake) if wake.at <= now)
    }
}
