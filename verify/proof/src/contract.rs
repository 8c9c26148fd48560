//! The contract, checked at every step of the instance that ships.
//!
//! An instance meets every answer to its acts, and every wish of its owner, at any time: also
//! answers that no table would give. What it announces and asks for is read as actions of the
//! relation, whose guards of kind `Contract` are evaluated.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use spindle_protocol::{
    Act, Announcement, Answer, Event, Instance, Moment, Observation, Rejection, Row, Seen,
    Succession, Timestamp, Timing, Writer,
};

use crate::relation::{Kind, RELATION};
use crate::state::{Bound, State};

const SECOND: Duration = Duration::from_secs(1);
const NONCE: u64 = 1;

fn timing() -> Timing {
    Timing {
        lease: SECOND * 5,
        heartbeat_interval: SECOND * 2,
        renew_deadline: SECOND * 3,
        clock_drift_margin: SECOND,
        poll_interval: SECOND,
        release_limit: SECOND * 3,
    }
}

/// The guards that were evaluated and held.
type Judged = BTreeSet<(&'static str, &'static str)>;

/// An instance, and what its actions have made of the relation's state.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    instance: Instance,
    state: State,
    attempts: Vec<Writer>,
    /// The row that was read last.
    read: Option<Row>,
    act: Option<Act>,
    /// How many more wishes its owner has.
    wishes: u8,
}

impl Process {
    fn start() -> Process {
        let instance = Instance::new("a", NONCE, timing(), Moment::default());
        let mut state = State::default();
        state.set("lease", nanoseconds(timing().lease));
        for name in ["margin", "deducted"] {
            state.set(name, nanoseconds(timing().clock_drift_margin));
        }
        let (attempts, read, act, wishes) = (Vec::new(), None, None, 2);
        Process { instance, state, attempts, read, act, wishes }
    }

    fn clock(&self) -> i64 {
        self.number("clock", &[])
    }

    /// Spanner's time, which has nothing to do with the instance's.
    fn read_at(&self) -> Timestamp {
        Timestamp(1_000_000_000_000 + self.clock())
    }

    fn commit_at(&self) -> Timestamp {
        Timestamp(self.read_at().0 + 1)
    }

    fn number(&self, term: &str, bound: &Bound) -> i64 {
        self.state.value(&RELATION.term(term), bound).parse().expect("a number")
    }

    /// Everything that may happen next; none is time that passes.
    fn next(&self) -> Vec<Option<Event>> {
        let mut events = vec![None, Some(Event::Wake), Some(Event::Early)];
        if self.wishes > 0 {
            let successor = Succession::Successor { id: "b".into(), grace: SECOND };
            events.extend([
                Some(Event::Stop),
                Some(Event::Resign { next: successor }),
                Some(Event::Contend(false)),
                Some(Event::Contend(true)),
                Some(Event::LetGo),
                Some(Event::Lapse),
            ]);
        }
        let seen = self.attempts.last();
        let seen = seen.map(|writer| Seen { token: self.commit_at(), writer: writer.clone() });
        let changed = Answer::Rejected(Rejection::Changed(seen));
        let exists = Answer::Rejected(Rejection::TakeoverRowExists);
        let failed = [Answer::NotApplied, Answer::Unknown];
        let answers = match &self.act {
            None => return events,
            Some(Act::Observe) => self.reads(),
            Some(Act::Sweep { .. }) => vec![Answer::Swept { all: true }],
            Some(_) => vec![Answer::Applied { at: self.commit_at() }, changed, exists],
        };
        let answers = answers.into_iter().chain(failed);
        events.extend(answers.map(|answer| Some(Event::Answer(answer))));
        events
    }

    fn reads(&self) -> Vec<Answer> {
        let read_at = self.read_at();
        let row = |heartbeat, token, writer: &Writer, lease: Option<Duration>| {
            let (heartbeat, token) = (Timestamp(heartbeat), Timestamp(token));
            Some(Row { heartbeat, token, writer: writer.clone(), lease })
        };
        let (lease, now) = (nanoseconds(timing().lease), read_at.0);
        let stranger = Writer::from("somebody");
        let mut rows = vec![
            None,
            row(0, now - 1, &Writer::nobody(), None),
            row(now - lease, now - lease, &stranger, None),
            row(now - lease + 1, now - lease, &stranger, None),
            row(now - lease, now - lease, &stranger, Some(timing().lease * 2)),
        ];
        for writer in self.attempts.iter().rev().take(2) {
            let observed = self.number("(saw_at (own w))", &[("w", writer.as_str())]);
            let written = observed + 1;
            rows.push(row(written, written, writer, Some(timing().lease)));
            rows.push(row(written + 1, written, writer, Some(timing().lease)));
            rows.push(row(observed, observed, writer, Some(timing().lease)));
        }
        let answer = |row| Answer::Observed(Observation { row, read_at, wait: Duration::ZERO });
        rows.into_iter().map(answer).collect()
    }

    /// Lets it happen; says which guard of the contract does not hold.
    fn after(&self, event: Option<Event>, judged: &mut Judged) -> Result<Process, String> {
        let mut next = self.clone();
        let Some(event) = event else {
            next.state.set("clock", self.clock() + nanoseconds(SECOND));
            return Ok(next);
        };
        if !matches!(event, Event::Wake | Event::Early | Event::Answer(_)) {
            next.wishes -= 1;
        }
        if let Event::Answer(answer) = &event {
            next.hears(answer);
        }
        let now = moment(next.clock());
        let decision = next.instance.decide(now, event.clone());
        if let Some(rule) = next.instance.broken_rule(&self.instance, now, &event, &decision) {
            return Err(rule.into());
        }
        if let Some(announcement) = decision.announce {
            next.announces(announcement, judged)?;
        }
        if let Some(act) = decision.act {
            next.asks(&act, judged)?;
            next.act = Some(act);
        }
        if next.instance.has_ended() {
            next.act = None;
        }
        let believed = next.believed().map(|term| {
            let token = next.number("(first_token t)", &[("t", term)]);
            (Timestamp(token), next.until(term))
        });
        if !believed.eq(next.instance.term()) {
            return Err("believes something else than it announced".into());
        }
        Ok(next)
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
            (_, Answer::Observed(read)) => {
                self.read.clone_from(&read.row);
                let cells = read.row.as_ref().map(|row| {
                    let writer = row.writer.as_str().into();
                    (Some(row.heartbeat.0), Some(row.token.0), writer, row.lease.map(nanoseconds))
                });
                self.state.look(&self.look(), "row", cells, read.read_at.0);
                if let Some(row) = &read.row
                    && self.attempts.contains(&row.writer)
                {
                    let own = [("w", row.writer.as_str())];
                    let observed = self.number("(saw_at (own w))", &own);
                    let is_later = observed < row.token.0 && row.token <= read.read_at;
                    if is_later && row.heartbeat == row.token {
                        self.begun(row.token, &row.writer);
                    }
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
        self.state.set(format!("first_token {term}"), token.0);
    }

    fn believed(&self) -> impl Iterator<Item = &str> {
        let is_believed = RELATION.term("(believes t)");
        let terms = self.state.elements("Term");
        terms.filter(move |term| self.state.holds(&is_believed, &[("t", term)]))
    }

    /// Returns when the validity of the term ends.
    fn until(&self, term: &str) -> Moment {
        moment(self.number("(until t)", &[("t", term)]))
    }

    /// Says that the guards of the contract, and an acknowledgement, let this action happen.
    fn may(&self, name: &'static str, bound: &Bound, judged: &mut Judged) -> Result<(), String> {
        for guard in &RELATION.action(name).guards {
            if guard.kind == Kind::Contract || guard.name == "acknowledged-once-applied" {
                if !self.state.holds(&guard.term, bound) {
                    return Err(format!("{name}/{}", guard.name));
                }
                judged.insert((name, &guard.name));
            }
        }
        Ok(())
    }

    /// Lets an action happen.
    fn does(
        &mut self,
        name: &'static str,
        bound: &Bound,
        judged: &mut Judged,
    ) -> Result<(), String> {
        self.may(name, bound, judged)?;
        self.state.apply(RELATION.action(name), bound);
        Ok(())
    }

    fn announces(&mut self, said: Announcement, judged: &mut Judged) -> Result<(), String> {
        let (term, told) = match said {
            Announcement::Began { token, writer, valid_until } => {
                let term = named(token, &writer);
                self.does("believe", &[("t", &term)], judged)?;
                (term, valid_until)
            }
            Announcement::Extended { valid_until } => {
                self.does("renew", &[("h", "h")], judged)?;
                (self.state.value(&RELATION.term("(beat_term h)"), &[("h", "h")]), valid_until)
            }
            Announcement::Ended { token, .. } => {
                let term = self.believed().next().ok_or("stop-believing: no term")?.to_string();
                if self.number("(first_token t)", &[("t", &term)]) != token.0 {
                    return Err("stop-believing: another term".into());
                }
                return self.does("stop-believing", &[("t", &term)], judged);
            }
        };
        if self.until(&term) == told {
            return Ok(());
        }
        Err(format!("announced validity until {told:?}, not {:?}", self.until(&term)))
    }

    fn asks(&mut self, act: &Act, judged: &mut Judged) -> Result<(), String> {
        match act {
            Act::Insert { writer } | Act::Takeover { writer, .. } => {
                let seen = match act {
                    Act::Takeover { seen, .. } => Some(seen),
                    _ => None,
                };
                if self.read.as_ref() != seen {
                    return Err("send: names another row than was read".into());
                }
                // An instance that attempts again has given up its attempts before.
                for writer in &self.attempts {
                    self.state.apply(RELATION.action("abandon"), &[("w", writer.as_str())]);
                }
                self.state.set(format!("own {writer}"), self.look());
                self.attempts.push(writer.clone());
                self.does("send", &[("w", writer.as_str())], judged)
            }
            Act::Heartbeat { term } => {
                self.state.set("beat_term", named(term.token, &term.writer));
                // It is another heartbeat, of which only the last is told.
                self.state.set("beat_sent h", false);
                self.state.set("beat_applied", false);
                self.does("send-heartbeat", &[("h", "h")], judged)
            }
            Act::Release { term, next, .. } => {
                let own = named(term.token, &term.writer);
                if self.believed().next() != Some(&own) {
                    // It is given up if it was never announced.
                    let bound = [("w", term.writer.as_str())];
                    self.state.apply(RELATION.action("abandon"), &bound);
                }
                self.may("release", &[("t", &own), ("next", next.writer().as_str())], judged)
            }
            Act::Observe | Act::Sweep { .. } => Ok(()),
        }
    }
}

fn named(token: Timestamp, writer: &Writer) -> String {
    format!("{writer}@{}", token.0)
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).expect("a short time")
}

fn moment(nanoseconds: i64) -> Moment {
    Moment(Duration::from_nanos(nanoseconds.unsigned_abs()))
}

/// How many events the exhaustive runs have.
const STEPS: usize = 7;

/// The actions that one instance takes by itself.
const OWN: [&str; 6] = ["send", "send-heartbeat", "renew", "believe", "stop-believing", "release"];

fn after(process: &Process, step: usize, event: Option<Event>, judged: &mut Judged) -> Process {
    process.after(event.clone(), judged).unwrap_or_else(|broken| {
        panic!("{broken}, at event {}: {event:?} to {:?}", step + 1, process.instance);
    })
}

#[test]
fn an_instance_keeps_the_contract_whatever_it_is_answered() {
    let mut judged = Judged::new();
    let mut known = HashSet::from([Process::start()]);
    let mut latest = vec![Process::start()];
    for step in 0..STEPS {
        let mut next = Vec::new();
        for process in &latest {
            for event in process.next() {
                let process = after(process, step, event, &mut judged);
                if known.insert(process.clone()) {
                    next.push(process);
                }
            }
        }
        latest = next;
    }
    assert!(known.len() > 10_000, "only {} states", known.len());
}

#[test]
fn an_instance_keeps_the_contract_in_long_runs_by_chance() {
    let mut judged = Judged::new();
    let mut chance = 0x9E37_79B9_7F4A_7C15_u64;
    for _ in 0..1_000 {
        let mut process = Process::start();
        for step in 0..80 {
            chance ^= chance << 13;
            chance ^= chance >> 7;
            chance ^= chance << 17;
            let mut events = process.next();
            // Two in three are an answer to the act under way, if there is one.
            let answers = events.iter().position(|event| matches!(event, Some(Event::Answer(_))));
            if let Some(first) = answers
                && !chance.is_multiple_of(3)
            {
                events.drain(..first);
            }
            let pick = usize::try_from((chance >> 8) % 1_000).expect("a small number");
            let event = events.swap_remove(pick % events.len());
            process = after(&process, step, event, &mut judged);
        }
    }
    for name in OWN {
        for guard in &RELATION.action(name).guards {
            let is_asked = judged.contains(&(name, &guard.name));
            assert!(guard.kind != Kind::Contract || is_asked, "{name}/{}", guard.name);
        }
    }
}
