//! The contract, checked at every step of the instance that ships.
//!
//! An instance meets every answer to its acts, and every call of its owner, at any time: also
//! answers that no table would give. What it announces and asks for is read as actions of the
//! relation, whose guards of kind `contract` are evaluated.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use itertools::iproduct;
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use spindle_protocol::{
    Act, Announcement, Answer, Event, Instance, Moment, Observation, Rejection, Row, Seen,
    Succession, Timestamp, Timing, Writer,
};

use crate::relation::head;
use crate::state::{Bound, State, cells_of, guards};

const SECOND: Duration = Duration::from_secs(1);
const LEASE: Duration = Duration::from_secs(5);
/// The actions that one instance takes by itself.
const OWN: [&str; 6] = ["send", "send-heartbeat", "renew", "believe", "stop-believing", "release"];

/// An instance, and what its actions have made of the relation's state.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    instance: Instance,
    state: State,
    attempts: Vec<Writer>,
    /// The row that was read last.
    read: Option<Row>,
    act: Option<Act>,
    /// How many more calls its owner makes.
    calls: u8,
    /// The actions that it has taken.
    taken: BTreeSet<&'static str>,
}

impl Process {
    fn start() -> Process {
        let timing = Timing {
            heartbeat_interval: SECOND * 2,
            renew_deadline: SECOND * 3,
            clock_drift_margin: SECOND,
            ..Timing::from_lease(LEASE)
        };
        let mut state = State::default();
        state.set_all("lease=5000000000 margin=1000000000 deducted=1000000000");
        let instance = Instance::new("a", 1, timing, Moment::default());
        let (attempts, taken) = (Vec::new(), BTreeSet::new());
        Process { instance, state, attempts, read: None, act: None, calls: 2, taken }
    }

    fn number(&self, term: &str, bound: &Bound) -> i64 {
        self.state.tells(term, bound).parse().expect("a number")
    }

    /// Spanner's time, which has nothing to do with the instance's.
    fn read_at(&self) -> Timestamp {
        Timestamp(1_000_000_000_000 + self.number("clock", &[]))
    }

    /// Returns the timestamp of the look that an attempt rests on.
    fn observed(&self, writer: &Writer) -> i64 {
        self.number("(saw_at (own w))", &[("w", writer.as_str())])
    }

    /// Everything that may happen next; none is time that passes.
    fn next(&self) -> Vec<Option<Event>> {
        let mut events = vec![None, Some(Event::Wake), Some(Event::Early)];
        if self.calls > 0 {
            let next = Succession::Successor { id: "b".into(), grace: SECOND };
            let let_go = Event::LetGo { next: Succession::Anyone };
            let calls = [Event::Stop, Event::Resign { next }, let_go, Event::Lapse];
            let contends = [false, true].map(Event::Contend);
            events.extend(calls.into_iter().chain(contends).map(Some));
        }
        let at = Timestamp(self.read_at().0 + 1);
        let seen = self.attempts.last().map(|writer| Seen { token: at, writer: writer.clone() });
        let rejections = [Rejection::Changed(seen), Rejection::Changed(None)];
        let mut answers = match &self.act {
            None => return events,
            Some(Act::Observe) => self.reads(),
            Some(_) => {
                let applied = std::iter::once(Answer::Applied { at });
                applied.chain(rejections.map(Answer::Rejected)).collect()
            }
        };
        answers.extend([Answer::NotApplied, Answer::Unknown]);
        events.extend(answers.into_iter().map(|answer| Some(Event::Answer(answer))));
        events
    }

    fn reads(&self) -> Vec<Answer> {
        let read_at = self.read_at();
        let row = |heartbeat, token, writer: &Writer, lease| {
            let (heartbeat, token) = (Timestamp(heartbeat), Timestamp(token));
            Some(Row { heartbeat, token, writer: writer.clone(), lease })
        };
        let (now, stranger) = (read_at.0, Writer::from("somebody"));
        let ended = now - 5 * 1_000_000_000;
        let mut rows = vec![
            None,
            row(0, now - 1, &Writer::nobody(), None),
            row(ended, ended, &stranger, None),
            row(ended + 1, ended, &stranger, None),
            row(ended, ended, &stranger, Some(LEASE * 2)),
        ];
        for writer in self.attempts.iter().rev().take(2) {
            let observed = self.observed(writer);
            let cells = [(1, 1), (2, 1), (0, 0)].map(|(heartbeat, token)| {
                row(observed + heartbeat, observed + token, writer, Some(LEASE))
            });
            rows.extend(cells);
        }
        let answer = |row| Answer::Observed(Observation { row, next: None, read_at });
        rows.into_iter().map(answer).collect()
    }

    /// Lets it happen.
    fn meets(&mut self, event: Option<Event>) {
        let Some(event) = event else {
            return self.state.set("clock", self.number("clock", &[]) + 1_000_000_000);
        };
        match &event {
            Event::Wake | Event::Early => {}
            Event::Answer(answer) => self.hears(answer),
            _ => self.calls -= 1,
        }
        let (before, now) = (self.instance.clone(), moment(self.number("clock", &[])));
        let decision = self.instance.decide(now, event.clone());
        let broken = self.instance.broken_rule(&before, now, &event, &decision);
        assert_eq!(broken, None, "{event:?} to {before:?}");
        if let Some(announcement) = decision.announce {
            self.announces(announcement);
        }
        if let Some(act) = decision.act {
            self.asks(&act);
            self.act = Some(act);
        }
        if self.instance.has_ended() {
            self.act = None;
        }
        let believed = self.believed().map(|term| {
            (Timestamp(self.number("(term_token t)", &[("t", &term)])), self.until(&term))
        });
        assert_eq!(believed, self.instance.term(), "{event:?} to {before:?}");
    }

    /// Notes what an answer proves.
    fn hears(&mut self, answer: &Answer) {
        match (self.act.take(), answer) {
            (
                Some(Act::Insert { writer } | Act::Takeover { writer, .. }),
                Answer::Applied { at },
            ) => self.begun(*at, &writer),
            (Some(Act::Heartbeat { .. }), Answer::Applied { .. }) => {
                self.state.set("beat_applied", true);
            }
            (_, Answer::Observed(Observation { row, read_at, .. })) => {
                self.read.clone_from(row);
                self.state.look(&self.look(), "row", row.as_ref().map(cells_of), read_at.0);
                let own = row.as_ref().filter(|row| self.attempts.contains(&row.writer));
                if let Some(Row { heartbeat, token, writer, .. }) = own
                    && heartbeat == token
                    && token <= read_at
                    && self.observed(writer) < token.0
                {
                    self.begun(*token, writer);
                }
            }
            _ => {}
        }
    }

    /// Returns the look of the next attempt.
    fn look(&self) -> String {
        format!("look{}", self.attempts.len())
    }

    fn begun(&mut self, token: Timestamp, writer: &Writer) {
        let term = named(token, writer);
        self.state.add("Term", &term);
        self.state.set(format!("begun {term}"), true);
        self.state.set(format!("writer {term}"), writer);
        self.state.set(format!("term_token {term}"), token.0);
    }

    /// Returns the term that is believed.
    fn believed(&self) -> Option<String> {
        let is_believed = |term: &&str| self.state.tells("(believes t)", &[("t", term)]) == "true";
        self.state.elements("Term").find(is_believed).map(String::from)
    }

    /// Returns when the validity of the term ends.
    fn until(&self, term: &str) -> Moment {
        moment(self.number("(until t)", &[("t", term)]))
    }

    /// Says that the contract, and an acknowledgement, let an action happen.
    fn may(&mut self, name: &'static str, bound: &Bound) {
        let acknowledged =
            guards(name, "world").filter(|[guard, _]| head(guard) == "acknowledged-once-applied");
        for [guard, term] in guards(name, "contract").chain(acknowledged) {
            assert!(self.state.holds(term, bound), "{name}/{guard}: {:?}", self.instance);
        }
        self.taken.insert(name);
    }

    /// Lets an action happen.
    fn does(&mut self, name: &'static str, bound: &Bound) {
        self.may(name, bound);
        self.state.apply(name, bound);
    }

    fn announces(&mut self, said: Announcement) {
        let believed = self.believed();
        let (term, told) = match said {
            Announcement::Began { token, writer, valid_until } => {
                let term = named(token, &writer);
                self.does("believe", &[("t", &term)]);
                (term, valid_until)
            }
            Announcement::Extended { valid_until } => {
                self.does("renew", &[("h", "h")]);
                (self.state.tells("(beat_term h)", &[("h", "h")]), valid_until)
            }
            Announcement::Ended { token, .. } => {
                let term = believed.expect("a term that is believed");
                assert_eq!(self.number("(term_token t)", &[("t", &term)]), token.0);
                return self.does("stop-believing", &[("t", &term)]);
            }
        };
        assert_eq!(self.until(&term), told, "announced by {:?}", self.instance);
    }

    fn asks(&mut self, act: &Act) {
        let seen = if let Act::Takeover { seen, .. } = act { Some(seen) } else { None };
        match act {
            Act::Insert { writer } | Act::Takeover { writer, .. } => {
                assert_eq!(self.read.as_ref(), seen, "names another row than was read");
                // An instance that attempts again has given up its attempts before.
                for writer in &self.attempts {
                    self.state.apply("abandon", &[("w", writer.as_str())]);
                }
                self.state.set(format!("own {writer}"), self.look());
                self.attempts.push(writer.clone());
                self.does("send", &[("w", writer.as_str())]);
            }
            Act::Heartbeat { term, .. } => {
                self.state.set("beat_term", named(term.token, &term.writer));
                // It is another heartbeat, of which only the last is told.
                self.state.set("beat_sent h", false);
                self.state.set("beat_applied", false);
                self.does("send-heartbeat", &[("h", "h")]);
            }
            Act::Release { term, next, .. } => {
                let own = named(term.token, &term.writer);
                if self.believed().as_ref() != Some(&own) {
                    // It is given up if it was never announced.
                    self.state.apply("abandon", &[("w", term.writer.as_str())]);
                }
                self.may("release", &[("t", &own), ("next", next.writer().as_str())]);
            }
            // A place in line is written beside all that identifies a term.
            Act::Observe | Act::Mark { .. } => {}
        }
    }
}

fn named(token: Timestamp, writer: &Writer) -> String {
    format!("{writer}@{}", token.0)
}

fn moment(nanoseconds: i64) -> Moment {
    Moment(Duration::from_nanos(nanoseconds.unsigned_abs()))
}

#[test]
fn an_instance_keeps_the_contract_whatever_it_is_answered() {
    let (mut known, mut latest) = (HashSet::new(), vec![Process::start()]);
    let (mut taken, mut chance) = (BTreeSet::new(), StdRng::seed_from_u64(1));
    for _ in 0..7 {
        let events = latest.iter().flat_map(|process| iproduct!([process], process.next()));
        let after = events.map(|(process, event)| {
            let mut process = process.clone();
            process.meets(event);
            taken.append(&mut process.taken);
            process
        });
        latest = after.filter(|process| known.insert(process.clone())).collect();
    }
    assert!(known.len() > 10_000, "only {} states", known.len());
    for _ in 0..2_000 {
        let mut process = Process::start();
        for _ in 0..100 {
            let event = process.next().choose(&mut chance).cloned().expect("time may pass");
            process.meets(event);
        }
        taken.extend(process.taken);
    }
    assert!(OWN.iter().all(|name| taken.contains(name)), "{taken:?}");
}
