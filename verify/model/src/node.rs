//! One process: the protocol's instance, kept to the contract that a driver keeps.

use std::time::Duration;

use spindle_protocol::{
    Act, Announcement, Answer, Decision, EndReason, Event, Instance, Moment, Timestamp, Wake,
    Writer,
};

use crate::history::{Goal, History, Invariant};
use crate::scenario::{Clock, Member, TICK};

/// A process, running or dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    /// The protocol; none while the process is dead or done.
    pub instance: Option<Instance>,
    /// True if its owner stopped it: once it has ended, it is gone for good.
    pub stopped: bool,
    /// True if its owner wants the lock.
    pub wanted: bool,
    /// True if an attempt to begin a term has an outcome that is unknown so far.
    pub unresolved: bool,
    /// True if it gets no time from its machine.
    pub paused: bool,
    /// How often it was started again.
    pub life: u8,
    /// The basis of `has_lock()`: the last announcement, compared with the clock at the moment of
    /// the call.
    pub published: Option<Published>,
    /// Until when work of a term that was cancelled early, or left to lapse, may still be at it.
    pub winding_down: Option<Moment>,
    /// The act under way.
    pub asked: Option<Asked>,
    wake: Option<Wake>,
    /// When a heartbeat may go early, to share a request.
    early: Option<Wake>,
    clock: u16,
    /// Ticks since the clock last went wrong, as far as it matters.
    steady: u8,
}

/// The last thing that the owner was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Published {
    /// The fencing token.
    pub token: Timestamp,
    /// The term's writer.
    pub writer: Writer,
    /// The moment from which the term is over.
    pub valid_until: Moment,
}

/// An act under way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Asked {
    /// The act that was asked for.
    pub act: Act,
    /// How far it has come.
    pub passage: Passage,
    sent: u16,
}

/// How far a request has come.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Passage<A = Answer> {
    /// It leaves at this instant. Its outcome is settled before anything else happens: whatever could
    /// come between can as well come while the request is held up.
    Leaving,
    /// It is held up on its way there.
    HeldUp,
    /// It was carried out, and the answer is held up on its way back.
    Answered(A),
}

impl Node {
    /// Returns a process that was just started.
    pub fn start(index: usize, member: &Member) -> Node {
        let mut node = Node {
            instance: None,
            stopped: false,
            wanted: true,
            unresolved: false,
            paused: false,
            life: 0,
            published: None,
            winding_down: None,
            asked: None,
            wake: None,
            early: None,
            // Every clock has an origin of its own.
            clock: 10 + 7 * index as u16,
            steady: 0,
        };
        node.boot(index, member);
        node
    }

    /// Begins the process's next life, with nothing but its configuration.
    pub fn restart(&mut self, index: usize, member: &Member) {
        self.life += 1;
        self.boot(index, member);
    }

    fn boot(&mut self, index: usize, member: &Member) {
        self.wanted = true;
        let nonce = self.nonce(index);
        let instance = Instance::new(member.id, nonce, member.timing.clone(), self.now());
        self.instance = Some(instance.standing(member.standing));
        self.wake = Some(Wake { at: self.now(), spread: Duration::ZERO });
    }

    /// Returns the number that its present life has drawn: no other has it.
    pub(crate) fn nonce(&self, index: usize) -> u64 {
        16 * (index as u64 + 1) + u64::from(self.life)
    }

    /// Lets the process die; only its clock goes on.
    pub fn crash(&mut self) -> Option<Asked> {
        self.instance = None;
        self.paused = false;
        self.published = None;
        self.winding_down = None;
        self.unresolved = false;
        (self.wake, self.early) = (None, None);
        self.asked.take()
    }

    /// Returns the clock's reading.
    pub fn now(&self) -> Moment {
        Moment(TICK * u32::from(self.clock))
    }

    /// Returns the answer of `has_lock()` at this instant.
    pub fn has_lock(&self) -> Option<&Published> {
        self.published.as_ref().filter(|published| self.now() < published.valid_until)
    }

    /// Returns true if anybody may still be at work under a term, also under one that was
    /// cancelled.
    pub fn is_at_work(&self) -> bool {
        self.has_lock().is_some() || self.winding_down.is_some_and(|until| self.now() < until)
    }

    /// Returns true if the moment to ask again has come.
    pub fn wake_is_due(&self) -> bool {
        self.instance.is_some() && self.wake.is_some_and(|wake| wake.at <= self.now())
    }

    /// Returns true if a heartbeat may go now, though it is not due yet.
    pub fn may_go_early(&self) -> bool {
        // Heartbeats may meet at every tick here.
        let may = self.early.is_some_and(|early| early.at < self.now());
        may && self.asked.is_none() && !self.paused && !self.wake_is_due()
    }

    /// Returns true if a request leaves at this instant.
    pub fn is_sending(&self) -> bool {
        self.asked.as_ref().is_some_and(|asked| asked.passage == Passage::Leaving)
    }

    /// Returns true if the act under way has used up its time.
    pub fn is_out_of_time(&self) -> bool {
        let (Some(asked), Some(instance)) = (&self.asked, &self.instance) else { return false };
        let sent = Moment(TICK * u32::from(asked.sent));
        sent + instance.attempt_limit(sent) <= self.now()
    }

    /// Returns true if a process that gets its time would have acted before the clock goes on.
    pub fn is_prompt(&self) -> bool {
        let overdue = self.wake.is_some_and(|wake| wake.at + wake.spread <= self.now());
        self.instance.is_none() || self.paused || !(overdue || self.is_out_of_time())
    }

    /// Returns true if the clock may go wrong now.
    pub fn may_drift(&self, clock: Clock) -> bool {
        match clock {
            Clock::Exact => false,
            Clock::Slow(once_in) | Clock::Fast(once_in) => self.steady >= once_in,
        }
    }

    /// Lets a tick pass.
    pub fn tick(&mut self, clock: Clock, drifts: bool) {
        let (by, most) = match (clock, drifts) {
            (Clock::Slow(once_in), true) => (0, once_in),
            (Clock::Fast(once_in), true) => (2, once_in),
            (Clock::Slow(once_in) | Clock::Fast(once_in), false) => (1, once_in),
            (Clock::Exact, _) => (1, 0),
        };
        self.clock += by;
        self.steady = if drifts { 1 } else { (self.steady + 1).min(most) };
    }

    /// Has the protocol decide, and does as it says; gives back the act that was replaced.
    pub fn decide(&mut self, event: Event, history: &mut History) -> Option<Asked> {
        let now = self.now();
        self.paused = false;
        self.stopped |= event == Event::Stop;
        if let Event::Contend(wanted) = event {
            self.wanted = wanted;
        }
        // It lets a term lapse just because its work can't be stopped.
        let at_work = self.published.as_ref().filter(|_| event == Event::Lapse);
        let at_work_until = at_work.map(|published| published.valid_until);
        let mut answered = None;
        if let Event::Answer(answer) = &event {
            answered = self.asked.take();
            self.unresolved = match answer {
                Answer::Unknown => {
                    self.unresolved || answered.as_ref().is_some_and(Asked::is_attempt)
                }
                _ => false,
            };
        }
        let Some(instance) = &mut self.instance else { return None };
        let is_early = event == Event::Early;
        let before = instance.clone();
        let decision = instance.decide(now, event.clone());
        if instance.broken_rule(&before, now, &event, &decision).is_some() {
            history.notes.breaks(Invariant::Contract);
        }
        let Decision { announce, act, wake, early } = decision;
        self.early = early;
        if is_early && matches!(act, Some(Act::Heartbeat { .. })) {
            history.notes.meet(Goal::WentEarly);
        }
        let (ended, term) = (instance.has_ended(), instance.term());
        if let Some(announcement) = announce {
            self.publish(announcement, history);
        }
        self.check_published(term, act.as_ref(), history);
        if at_work_until.is_some() {
            self.winding_down = at_work_until;
            history.notes.meet(Goal::Lapsed);
        }
        self.wake = wake;
        let mut replaced = None;
        if let Some(act) = act {
            if let Act::Mark { place } = &act
                && history.is_of_earlier_wait(place)
            {
                history.notes.breaks(Invariant::Since);
            }
            note_repeat(answered.as_ref(), &act, history);
            replaced =
                self.asked.replace(Asked { act, passage: Passage::Leaving, sent: self.clock });
        }
        if ended {
            replaced = self.crash().or(replaced);
        }
        replaced
    }

    fn publish(&mut self, announcement: Announcement, history: &mut History) {
        let now = self.now();
        match announcement {
            Announcement::Began { token, writer, valid_until } => {
                history.announce(token, &writer);
                if self.published.is_some() || valid_until <= now {
                    history.notes.breaks(Invariant::I7);
                }
                self.published = Some(Published { token, writer, valid_until });
            }
            Announcement::Extended { valid_until } => match &mut self.published {
                Some(published) if now < published.valid_until => {
                    published.valid_until = valid_until;
                }
                _ => history.notes.breaks(Invariant::I7),
            },
            Announcement::Ended { token, reason } => {
                let Some(published) = self.published.take_if(|held| held.token == token) else {
                    return history.notes.breaks(Invariant::I7);
                };
                if reason == EndReason::OutOfContact {
                    self.winding_down = Some(published.valid_until);
                }
                history.notes.meet(match reason {
                    EndReason::Released | EndReason::Lapsed => Goal::Released,
                    EndReason::Superseded(_) => Goal::Superseded,
                    EndReason::OutOfContact => Goal::OutOfContact,
                    EndReason::Expired => Goal::Expired,
                });
            }
        }
    }

    /// Checks I7: the owner was told what the protocol believes, and not too late. Whatever does
    /// not serve the term is done after its end was announced.
    fn check_published(
        &self,
        term: Option<(Timestamp, Moment)>,
        act: Option<&Act>,
        history: &mut History,
    ) {
        let published = self.published.as_ref().map(|held| (held.token, held.valid_until));
        let serves = match (act, &self.published) {
            (None, _) | (_, None) => true,
            (Some(Act::Heartbeat { term, .. }), Some(held)) => {
                term.token == held.token && term.writer == held.writer
            }
            _ => false,
        };
        let attempts = matches!(act, Some(Act::Insert { .. } | Act::Takeover { .. }));
        if !self.wanted && (attempts || self.published.is_some()) {
            history.notes.breaks(Invariant::Unasked);
        }
        let late = self.published.is_some() && self.has_lock().is_none();
        if published != term || !serves || late {
            history.notes.breaks(Invariant::I7);
        }
    }
}

impl Asked {
    /// Returns true if it is an attempt to begin a term.
    pub fn is_attempt(&self) -> bool {
        matches!(self.act, Act::Insert { .. } | Act::Takeover { .. })
    }
}

fn note_repeat(answered: Option<&Asked>, act: &Act, history: &mut History) {
    let was_heartbeat = matches!(answered, Some(Asked { act: Act::Heartbeat { .. }, .. }));
    if was_heartbeat && matches!(act, Act::Heartbeat { .. }) {
        history.notes.meet(Goal::Repeated);
    }
}
