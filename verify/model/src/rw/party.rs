//! One reader or writer, kept to the contract that a driver keeps.

use std::time::Duration;

use spindle_protocol::line::Standing;
use spindle_protocol::rw::{Reader, WriteLock};
use spindle_protocol::{
    Act, Announcement, Answer, Change, Decision, Event, Holder, Instance, Moment, Observation, Row,
    TermId, Timing, Wake,
};

use crate::node::Passage;
use crate::scenario::timing;

/// The gate's row.
pub(super) const GATE: &str = "rw";
/// The write lock's row.
pub(super) const WRITE_LOCK: &str = "rw/write";

const IDS: [&str; 4] = ["a", "b", "c", "d"];

/// A process, running or dead.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Party {
    index: usize,
    pub(super) is_writer: bool,
    /// False while the process is dead or done.
    pub(super) is_alive: bool,
    pub(super) wanted: bool,
    /// True if it gets no time from its machine.
    pub(super) paused: bool,
    /// True if it has held.
    pub(super) has_held: bool,
    /// True if an instance did what the proof assumes that it doesn't.
    pub(super) broke_contract: bool,
    /// A reader's own row; a writer's gate and write lock, the latter once it has the gate.
    pub(super) contenders: [Option<Contender>; 2],
    /// How often it has begun to wait for the write lock.
    waits: u64,
}

/// An instance, and the row that it is for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Contender {
    pub(super) key: &'static str,
    pub(super) instance: Instance,
    view: View,
    wake: Option<Wake>,
    /// The term that its owner was told of, and until when it is valid.
    pub(super) term: Option<(TermId, Moment)>,
    /// The request under way.
    pub(super) asked: Option<Asked>,
}

/// The view between an instance and its rows.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum View {
    Gate,
    Reader(Reader),
    WriteLock(WriteLock),
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    pub(super) ask: Ask,
    pub(super) passage: Passage<Reply>,
    sent: Moment,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ask {
    /// A change, for the row of this key.
    Change(&'static str, Change),
    /// The gate alone.
    Gate,
    /// A reader's own row, the gate, and the write lock.
    Read,
    /// The write lock and all readers' rows.
    Write,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Reply {
    Answer(Answer),
    Read(Observation, [Observation; 2]),
    Write(Observation, Vec<(String, Row)>),
}

/// The timing of all.
pub(super) fn pace() -> Timing {
    timing(3, 1, 2, 0, 1)
}

impl Contender {
    fn new(key: &'static str, index: usize, nonce: u64, view: View, now: Moment) -> Contender {
        let standing = match view {
            View::Gate => Standing::Plain,
            View::Reader(_) => Standing::Reader,
            View::WriteLock(_) => Standing::Aside,
        };
        Contender {
            key,
            instance: Instance::new(IDS[index], nonce, pace(), now).standing(standing),
            view,
            wake: Some(Wake { at: now, spread: Duration::ZERO }),
            term: None,
            asked: None,
        }
    }

    fn wake_is_due(&self, now: Moment) -> bool {
        self.wake.is_some_and(|wake| wake.at <= now)
    }

    pub(super) fn is_out_of_time(&self, now: Moment) -> bool {
        let limit = pace().attempt_limit();
        self.asked.as_ref().is_some_and(|asked| asked.sent + limit <= now)
    }

    /// Returns its term at this instant, judged by the clock.
    fn has_lock(&self, now: Moment) -> Option<&TermId> {
        self.term.as_ref().filter(|(_, until)| now < *until).map(|(term, _)| term)
    }

    fn asks(&mut self, act: &Act) -> Ask {
        let (view, key) = (&mut self.view, self.key);
        let (change, at, or) = match view {
            View::Gate => (act.change(&holder()), key, Ask::Gate),
            View::Reader(reader) => {
                let at = if matches!(act, Act::Mark { .. }) { GATE } else { key };
                (reader.change(act, &holder()), at, Ask::Read)
            }
            View::WriteLock(lock) => (lock.change(act, &holder()), key, Ask::Write),
        };
        change.map_or(or, |change| Ask::Change(at, change))
    }

    fn is_told(&mut self, reply: Reply) -> Option<Answer> {
        match (reply, &mut self.view) {
            (Reply::Answer(answer), _) => Some(answer),
            (Reply::Read(own, others), View::Reader(reader)) => {
                Some(Answer::Observed(reader.observed(own, others)))
            }
            (Reply::Write(own, readers), View::WriteLock(lock)) => {
                Some(Answer::Observed(lock.observed(own, readers)))
            }
            _ => None,
        }
    }
}

impl Party {
    /// Starts a reader with this row of its own, or a writer.
    pub(super) fn start(index: usize, reader: Option<&'static str>, now: Moment) -> Party {
        let nonce = 16 * (index as u64 + 1);
        let contender = match reader {
            Some(key) => {
                let keys = [GATE.into(), WRITE_LOCK.into()];
                let view = View::Reader(Reader::new(keys, IDS[index], pace().lease));
                Contender::new(key, index, nonce, view, now)
            }
            None => Contender::new(GATE, index, nonce, View::Gate, now),
        };
        Party {
            index,
            is_writer: reader.is_none(),
            is_alive: true,
            wanted: true,
            paused: false,
            has_held: false,
            broke_contract: false,
            contenders: [Some(contender), None],
            waits: 0,
        }
    }

    /// Returns the number of the contender that its owner holds by.
    fn work(&self) -> usize {
        usize::from(self.is_writer)
    }

    /// Returns the term of its owner at this instant, judged by the clock.
    pub(super) fn has_lock(&self, now: Moment) -> Option<&TermId> {
        self.contenders[self.work()].as_ref()?.has_lock(now)
    }

    /// Returns true if its owner was told that it holds, and not that it doesn't any more.
    pub(super) fn is_at_work(&self) -> bool {
        self.contenders[self.work()].as_ref().is_some_and(|contender| contender.term.is_some())
    }

    /// Returns true if it has stopped new readers and waits for the others.
    pub(super) fn is_waiting(&self) -> bool {
        let has_gate =
            self.contenders[0].as_ref().is_some_and(|contender| contender.term.is_some());
        self.is_writer && has_gate && !self.is_at_work()
    }

    pub(super) fn asked(&self, contender: usize) -> Option<&Asked> {
        self.contenders[contender].as_ref()?.asked.as_ref()
    }

    pub(super) fn asked_mut(&mut self, contender: usize) -> Option<&mut Asked> {
        self.contenders[contender].as_mut()?.asked.as_mut()
    }

    pub(super) fn crash(&mut self) -> Vec<(&'static str, Change)> {
        (self.is_alive, self.wanted, self.paused) = (false, false, false);
        let contenders = std::mem::take(&mut self.contenders);
        contenders.into_iter().flatten().filter_map(|contender| contender.asked?.late()).collect()
    }

    /// Returns the first of its contenders that is due.
    pub(super) fn due(&self, now: Moment) -> Option<usize> {
        self.contenders.iter().position(|contender| {
            contender.as_ref().is_some_and(|contender| contender.wake_is_due(now))
        })
    }

    /// Returns true if a process that gets its time would have acted before the clock goes on.
    pub(super) fn is_prompt(&self, now: Moment) -> bool {
        let is_late = |contender: &Contender| {
            let overdue = contender.wake.is_some_and(|wake| wake.at + wake.spread <= now);
            overdue || contender.is_out_of_time(now)
        };
        self.paused || !self.contenders.iter().flatten().any(is_late)
    }

    /// Its owner lets go, or wants it again: the write lock first, and then the gate.
    pub(super) fn contend(&mut self, wanted: bool, now: Moment) -> Vec<(&'static str, Change)> {
        self.wanted = wanted;
        let mut late = Vec::new();
        if let (true, Some(_)) = (self.is_writer && !wanted, &self.contenders[1]) {
            late.extend(self.decide(1, Event::Contend(false), now));
        }
        late.extend(self.decide(0, Event::Contend(wanted), now));
        late
    }

    /// Has the protocol decide, and does as it says; gives back what may arrive late.
    pub(super) fn decide(
        &mut self,
        at: usize,
        event: Event,
        now: Moment,
    ) -> Vec<(&'static str, Change)> {
        self.paused = false;
        let work = self.work();
        let Some(contender) = &mut self.contenders[at] else { return Vec::new() };
        let before = contender.instance.clone();
        let decision = contender.instance.decide(now, event.clone());
        self.broke_contract |=
            contender.instance.broken_rule(&before, now, &event, &decision).is_some();
        let Decision { announce, act, wake, early: _ } = decision;
        contender.wake = wake;
        let mut late = Vec::new();
        if let Some(act) = act {
            let (ask, passage) = (contender.asks(&act), Passage::Leaving);
            let replaced = contender.asked.replace(Asked { ask, passage, sent: now });
            late.extend(replaced.and_then(Asked::late));
        }
        match announce {
            Some(Announcement::Began { token, writer, valid_until }) => {
                contender.term = Some((TermId { token, writer }, valid_until));
                if at == work {
                    self.has_held = true;
                } else {
                    late.extend(self.has_gate(now));
                }
            }
            Some(Announcement::Extended { valid_until }) => {
                if let Some((_, until)) = &mut contender.term {
                    *until = valid_until;
                }
            }
            Some(Announcement::Ended { .. }) => {
                contender.term = None;
                // A writer that only waits for the write lock gives that up with the gate.
                if at != work && !self.is_at_work() {
                    late.extend(self.decide(1, Event::Contend(false), now));
                }
            }
            None => {}
        }
        late
    }

    /// A writer that has the gate waits for the write lock, by an instance of its own.
    fn has_gate(&mut self, now: Moment) -> Option<(&'static str, Change)> {
        let (term, _) = self.contenders[0].as_ref()?.term.clone()?;
        self.waits += 1;
        let nonce = 16 * (self.index as u64 + 1) + self.waits;
        let view = WriteLock::new((GATE.into(), term), IDS[self.index], pace().lease);
        let contender = Contender::new(WRITE_LOCK, self.index, nonce, View::WriteLock(view), now);
        // A former instance may release still; what it has under way may arrive.
        self.contenders[1].replace(contender)?.asked?.late()
    }

    /// Hears an answer; gives back what may arrive late.
    pub(super) fn hear(
        &mut self,
        at: usize,
        reply: Reply,
        now: Moment,
    ) -> Vec<(&'static str, Change)> {
        self.paused = false;
        let Some(contender) = &mut self.contenders[at] else { return Vec::new() };
        contender.asked = None;
        let Some(answer) = contender.is_told(reply) else { return Vec::new() };
        self.decide(at, Event::Answer(answer), now)
    }
}

impl Asked {
    /// Returns what may still arrive after its sender gave it up, with the row that it is for.
    pub(super) fn late(self) -> Option<(&'static str, Change)> {
        match (self.ask, self.passage) {
            (_, Passage::Answered(_)) => None,
            (Ask::Change(key, change), _) => Some((key, change)),
            _ => None,
        }
    }
}

/// The text that each writes of itself.
fn holder() -> Holder {
    Holder { lease: pace().lease, info: None }
}
