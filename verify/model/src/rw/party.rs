//! One reader or writer, kept to the contract that a driver keeps.

use std::time::Duration;

use spindle_protocol::line::Standing;
use spindle_protocol::rw::{Reader, Stopped, WriterDecision, Writing, left_to_readers};
use spindle_protocol::{
    Act, Announcement, Answer, Change, Decision, Event, Holder, Instance, Moment, Observation, Row,
    TermId, Timestamp, Timing, Wake,
};

use crate::node::Passage;
use crate::scenario::{TICK, timing};

/// The writer's row.
pub(super) const WRITER_ROW: &str = "rw";
/// Readers' rows begin so.
pub(super) const READERS: &str = "rw/";

/// The time that is left to readers.
const READERS_TIME: Duration = TICK;

/// A process, running or dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Party {
    pub(super) key: &'static str,
    pub(super) role: Role,
    /// None while the process is dead or done.
    pub(super) instance: Option<Instance>,
    pub(super) wanted: bool,
    /// True if it leaves the lock to readers whenever it has written.
    leaves_to_readers: bool,
    /// True if it gets no time from its machine.
    pub(super) paused: bool,
    /// True if it has held.
    pub(super) has_held: bool,
    /// The term that its instance believes in, and until when.
    pub(super) term: Option<(TermId, Moment)>,
    /// The term that its owner was told of.
    pub(super) held: Option<TermId>,
    /// True if its instance did what the proof assumes that it doesn't.
    pub(super) broke_contract: bool,
    wake: Option<Wake>,
    /// When a writer that has stopped new readers polls the others.
    poll_at: Option<Moment>,
    /// The requests under way: for the instance, and for the writer's second commit.
    pub(super) asked: [Option<Asked>; 2],
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Reader(Reader),
    Writer(Writing),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) passage: Passage<Reply>,
    sent: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    Change(Change),
    Observe,
    /// The writers' row and all readers' rows, at one timestamp.
    Poll,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Answer(Answer),
    /// The party's own row and the writers' row.
    Both(Observation, Observation),
    Rows {
        writer_row: Option<Row>,
        readers: Vec<(String, Row)>,
        read_at: Timestamp,
    },
}

/// The timing of all.
pub(super) fn pace() -> Timing {
    timing(3, 1, 2, 0, 1)
}

impl Party {
    pub(super) fn start(
        index: usize,
        key: &'static str,
        leaves_to_readers: bool,
        now: Moment,
    ) -> Party {
        let (id, pace) = (["a", "b", "c", "d"][index], pace());
        let role = if key == WRITER_ROW {
            Role::Writer(Writing::default())
        } else {
            Role::Reader(Reader::new(WRITER_ROW, id, pace.lease))
        };
        let instance = Instance::new(id, 16 * (index as u64 + 1), pace, now);
        Party {
            key,
            role,
            instance: Some(instance.standing(Standing::Aside)),
            wanted: true,
            leaves_to_readers,
            paused: false,
            has_held: false,
            term: None,
            held: None,
            broke_contract: false,
            wake: Some(Wake { at: now, spread: Duration::ZERO }),
            poll_at: None,
            asked: [None, None],
        }
    }

    pub(super) fn is_writer(&self) -> bool {
        matches!(self.role, Role::Writer(_))
    }

    /// Returns the term of its owner at this instant, judged by the clock.
    pub(super) fn has_lock(&self, now: Moment) -> Option<&TermId> {
        let (_, until) = self.term.as_ref()?;
        self.held.as_ref().filter(|_| now < *until)
    }

    /// Returns true if it has stopped new readers and waits for the others.
    pub(super) fn is_waiting(&self) -> bool {
        self.is_writer() && self.term.is_some() && self.held.is_none()
    }

    pub(super) fn crash(&mut self) -> Vec<Change> {
        self.instance = None;
        (self.wanted, self.paused) = (false, false);
        (self.term, self.held, self.wake, self.poll_at) = (None, None, None, None);
        let asked = std::mem::take(&mut self.asked);
        asked.into_iter().flatten().filter_map(Asked::late).collect()
    }

    pub(super) fn wake_is_due(&self, now: Moment) -> bool {
        self.instance.is_some() && self.wake.is_some_and(|wake| wake.at <= now)
    }

    pub(super) fn poll_is_due(&self, now: Moment) -> bool {
        self.asked[1].is_none() && self.poll_at.is_some_and(|at| at <= now)
    }

    pub(super) fn is_out_of_time(&self, queue: usize, now: Moment) -> bool {
        let limit = pace().attempt_limit();
        self.asked[queue].as_ref().is_some_and(|asked| asked.sent + limit <= now)
    }

    /// Returns true if a process that gets its time would have acted before the clock goes on.
    pub(super) fn is_prompt(&self, now: Moment) -> bool {
        let overdue = self.wake.is_some_and(|wake| wake.at + wake.spread <= now);
        let late = (0..2).any(|queue| self.is_out_of_time(queue, now));
        self.instance.is_none() || self.paused || !(overdue || late || self.poll_is_due(now))
    }

    /// Has the protocol decide, and does as it says; gives back what may arrive late.
    pub(super) fn decide(&mut self, event: Event, now: Moment) -> Vec<Change> {
        self.paused = false;
        if let Event::Contend(wanted) = event {
            self.wanted = wanted;
        }
        let Some(instance) = &mut self.instance else { return Vec::new() };
        let before = instance.clone();
        let decision = instance.decide(now, event.clone());
        self.broke_contract |= instance.broken_rule(&before, now, &event, &decision).is_some();
        let Decision { announce, act, wake, early: _ } = decision;
        self.wake = wake;
        let mut late = Vec::new();
        match announce {
            Some(Announcement::Began { token, writer, valid_until }) => {
                let term = TermId { token, writer };
                self.term = Some((term.clone(), valid_until));
                match &self.role {
                    Role::Reader(_) => self.holds(term),
                    Role::Writer(_) => self.poll_at = Some(now),
                }
            }
            Some(Announcement::Extended { valid_until }) => {
                if let Some((_, until)) = &mut self.term {
                    *until = valid_until;
                }
            }
            Some(Announcement::Ended { .. }) => {
                (self.term, self.held, self.poll_at) = (None, None, None);
                late.extend(self.asked[1].take().and_then(Asked::late));
            }
            None => {}
        }
        if let Some(act) = act {
            let replaced = self.ask(0, self.meaning(&act), now);
            if let (Role::Reader(reader), Some(Asked { ask: Ask::Change(_), .. })) =
                (&mut self.role, &self.asked[0])
            {
                // The same again, to keep what it notes.
                reader.change(&act, &holder());
            }
            late.extend(replaced);
        }
        late
    }

    fn meaning(&self, act: &Act) -> Ask {
        let change = match &self.role {
            Role::Reader(reader) => reader.clone().change(act, &holder()),
            Role::Writer(writing) => writing.change(&self.ending(act), &holder()),
        };
        change.map_or(Ask::Observe, Ask::Change)
    }

    /// Returns the act as a writer has it: what follows its end is up to the turns.
    fn ending(&self, act: &Act) -> Act {
        match act {
            Act::Release { term, .. } if self.leaves_to_readers => {
                let (term, next) = (term.clone(), left_to_readers(READERS_TIME));
                Act::Release { term, next }
            }
            _ => act.clone(),
        }
    }

    fn ask(&mut self, queue: usize, ask: Ask, sent: Moment) -> Option<Change> {
        let asked = Asked { ask, passage: Passage::Leaving, sent };
        self.asked[queue].replace(asked).and_then(Asked::late)
    }

    fn holds(&mut self, term: TermId) {
        self.held = Some(term);
        self.has_held = true;
    }

    /// A writer that has stopped new readers polls the others.
    pub(super) fn poll(&mut self, now: Moment) {
        self.paused = false;
        self.poll_at = None;
        self.ask(1, Ask::Poll, now);
    }

    /// Hears an answer to what the queue asked; gives back what may arrive late.
    pub(super) fn hear(&mut self, queue: usize, reply: Reply, now: Moment) -> Vec<Change> {
        self.asked[queue] = None;
        self.paused = false;
        if queue == 1 {
            self.hear_of_second(reply, now);
            return Vec::new();
        }
        let answer = match (reply, &mut self.role) {
            (Reply::Both(own, writer_row), Role::Reader(reader)) => {
                Answer::Observed(reader.observed(own, writer_row))
            }
            (Reply::Answer(answer), _) => answer,
            _ => return Vec::new(),
        };
        self.decide(Event::Answer(answer), now)
    }

    fn hear_of_second(&mut self, reply: Reply, now: Moment) {
        let Some((first, _)) = self.term.clone().filter(|_| self.held.is_none()) else { return };
        let stopped = Stopped::new(first.clone(), pace().lease);
        let decision = match reply {
            Reply::Rows { writer_row, readers, read_at } => {
                stopped.sees(writer_row.as_ref(), &readers, read_at, &holder())
            }
            Reply::Answer(answer) => match stopped.answered(&answer) {
                Some(second) => WriterDecision::Began(second),
                None => WriterDecision::Wait(Duration::ZERO),
            },
            Reply::Both(..) => return,
        };
        match decision {
            WriterDecision::Began(second) => {
                if let Role::Writer(writing) = &mut self.role {
                    writing.begins(first, second.clone());
                }
                self.holds(second);
            }
            WriterDecision::Begin(change) => {
                self.ask(1, Ask::Change(change), now);
            }
            // The instance finds out by its heartbeats.
            WriterDecision::Wait(_) | WriterDecision::Lost => self.poll_at = Some(now + TICK),
        }
    }
}

impl Asked {
    /// Returns what may still arrive after its sender gave it up.
    pub(super) fn late(self) -> Option<Change> {
        match (self.ask, self.passage) {
            (_, Passage::Answered(_)) => None,
            (Ask::Change(change), _) => Some(change),
            _ => None,
        }
    }
}

/// The text that each writes of itself.
pub(super) fn holder() -> Holder {
    Holder { lease: pace().lease, info: None }
}
