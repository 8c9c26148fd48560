//! The contract, checked at every step of the instance that ships.
//!
//! An instance meets every answer to its acts, and every wish of its owner, at any time: also
//! answers that no table would give. What it announces and asks for is read as actions of the
//! relation, whose guards of kind `Contract` are evaluated.

use std::collections::{BTreeSet, HashSet};
use std::time::Duration;

use spindle_protocol::{
    Act, Announcement, Answer, Event, Instance, Moment, Observation, Rejection, Row, Seen,
    Succession, TermId, Timestamp, Timing, Writer,
};

use crate::relation::{Kind, RELATION};
use crate::term::Term;
use crate::value::{Meaning, Value, holds, value};

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

/// An attempt of the instance.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Attempt {
    writer: Writer,
    /// The read that it rests on.
    read: Option<Observation>,
    sent: Option<i64>,
    settled: bool,
}

/// A term of the instance that is known to have begun.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Begun {
    id: TermId,
    believed: bool,
    since: i64,
}

/// The heartbeat under way.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Beat {
    term: usize,
    sent: Option<i64>,
    applied: bool,
}

/// The relation's state, as far as one instance's contract speaks of it.
#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Known {
    clock: i64,
    /// The last read, until an attempt rests on it.
    read: Option<Observation>,
    attempts: Vec<Attempt>,
    terms: Vec<Begun>,
    beat: Option<Beat>,
}

/// The state and the parameters of one action.
struct Given<'a> {
    known: &'a Known,
    parameters: &'a [(&'static str, Value)],
}

impl Known {
    fn attempt(&self, writer: &Writer) -> Option<&Attempt> {
        self.attempts.iter().find(|attempt| attempt.writer == *writer)
    }

    fn term(&self, id: &TermId) -> Option<usize> {
        self.terms.iter().position(|term| term.id == *id)
    }

    /// Says that the guards of the contract, and an acknowledgement, let this action happen.
    fn check(
        &self,
        name: &'static str,
        parameters: &[(&'static str, Value)],
        judged: &mut Judged,
    ) -> Result<(), String> {
        for guard in &RELATION.action(name).guards {
            if guard.kind == Kind::Contract || guard.name == "acknowledged-once-applied" {
                if !holds(&guard.term, &Given { known: self, parameters }) {
                    return Err(format!("{name}/{}", guard.name));
                }
                judged.insert((name, &guard.name));
            }
        }
        Ok(())
    }

    /// Returns when the validity of the term ends.
    fn until(&self, term: usize) -> Moment {
        let parameters = [("t", Value::Int(index(term)))];
        let given = Given { known: self, parameters: &parameters };
        match value(&RELATION.in_full(&Term::read("(until t)")), &given) {
            Value::Int(nanoseconds) => Moment(Duration::from_nanos(nanoseconds.unsigned_abs())),
            other => panic!("{other:?} is no time"),
        }
    }
}

impl Meaning for Given<'_> {
    fn value(&self, name: &str, at: &[Value]) -> Option<Value> {
        if let Some((_, value)) = self.parameters.iter().find(|(known, _)| *known == name) {
            return Some(value.clone());
        }
        let (known, timing) = (self.known, timing());
        match name {
            "clock" => return Some(Value::Int(known.clock)),
            "lease" => return Some(Value::Int(nanoseconds(timing.lease))),
            "margin" | "deducted" => {
                return Some(Value::Int(nanoseconds(timing.clock_drift_margin)));
            }
            // All is about one row, which is nobody's but an ordinary lock's.
            "of" => return Some(Value::Int(0)),
            "reads" => return Some(Value::Bool(false)),
            _ => {}
        }
        match at.first()? {
            Value::Text(text) => of_writer(known, name, &Writer::from(text.as_str())),
            // A beat is the one under way.
            Value::Int(_) if name.starts_with("beat_") => {
                let beat = known.beat.as_ref()?;
                Some(match name {
                    "beat_term" => Value::Int(index(beat.term)),
                    "beat_sent" => Value::Bool(beat.sent.is_some()),
                    "beat_applied" => Value::Bool(beat.applied),
                    _ => return None,
                })
            }
            Value::Int(term) => {
                let term = known.terms.get(usize::try_from(*term).ok()?)?;
                Some(match name {
                    "begun" => Value::Bool(true),
                    "writer" => Value::Text(term.id.writer.as_str().into()),
                    "believes" => Value::Bool(term.believed),
                    "since_clock" => Value::Int(term.since),
                    _ => return None,
                })
            }
            Value::Bool(_) => None,
        }
    }

    fn elements(&self, sort: &str) -> Vec<Value> {
        assert_eq!(sort, "Term");
        (0..self.known.terms.len()).map(|term| Value::Int(index(term))).collect()
    }
}

fn of_writer(known: &Known, name: &str, writer: &Writer) -> Option<Value> {
    let attempt = known.attempt(writer);
    let read = attempt.and_then(|attempt| attempt.read.as_ref());
    let row = read.and_then(|read| read.row.as_ref());
    Some(match name {
        "owner" => {
            let ours = writer.nonce().is_some_and(|nonce| nonce.instance == NONCE);
            Value::Int(i64::from(ours))
        }
        "is_holder" => Value::Bool(writer.id().is_some()),
        "settled" => Value::Bool(attempt.is_some_and(|attempt| attempt.settled)),
        // A look is known by its attempt.
        "own" | "beside" | "attempt" => Value::Text(writer.as_str().into()),
        "looked" => Value::Bool(read.is_some()),
        "sent" => Value::Bool(attempt.is_some_and(|attempt| attempt.sent.is_some())),
        "sent_clock" => Value::Int(attempt?.sent?),
        "saw_at" => Value::Int(read.map_or(0, |read| read.read_at.0)),
        "saw_present" => Value::Bool(row.is_some()),
        "saw_heartbeat" => Value::Int(row.map_or(0, |row| row.heartbeat.0)),
        "saw_wr" => Value::Text(row.map_or("", |row| row.writer.as_str()).into()),
        "saw_lease_null" => Value::Bool(row.is_none_or(|row| row.lease.is_none())),
        "saw_lease" => Value::Int(row.and_then(|row| row.lease).map_or(0, nanoseconds)),
        _ => return None,
    })
}

fn index(of: usize) -> i64 {
    i64::try_from(of).expect("a small number")
}

fn nanoseconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos()).expect("a short time")
}

/// The guards that were evaluated and held.
type Judged = BTreeSet<(&'static str, &'static str)>;

/// An instance, and what is known of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Process {
    instance: Instance,
    known: Known,
    act: Option<Act>,
    /// How many more wishes its owner has.
    wishes: u8,
}

impl Process {
    fn start() -> Process {
        let instance = Instance::new("a", NONCE, timing(), Moment::default());
        Process { instance, known: Known::default(), act: None, wishes: 2 }
    }

    /// Spanner's time, which has nothing to do with the instance's.
    fn read_at(&self) -> Timestamp {
        Timestamp(1_000_000_000_000 + self.known.clock)
    }

    fn commit_at(&self) -> Timestamp {
        Timestamp(self.read_at().0 + 1)
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
        let seen = self
            .known
            .attempts
            .last()
            .map(|attempt| Seen { token: self.commit_at(), writer: attempt.writer.clone() });
        let changed = Answer::Rejected(Rejection::Changed(seen));
        let exists = Answer::Rejected(Rejection::TakeoverRowExists);
        let failed = [Answer::NotApplied, Answer::Unknown];
        let answers = match &self.act {
            None => Vec::new(),
            Some(Act::Observe) => self.reads(),
            Some(Act::Sweep { .. }) => vec![Answer::Swept { all: true }],
            Some(_) => vec![Answer::Applied { at: self.commit_at() }, changed, exists],
        };
        if !answers.is_empty() {
            events.extend(
                answers.into_iter().chain(failed).map(|answer| Some(Event::Answer(answer))),
            );
        }
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
        for attempt in self.known.attempts.iter().rev().take(2) {
            let observed = attempt.read.as_ref().map_or(0, |read| read.read_at.0);
            let written = observed + 1;
            rows.push(row(written, written, &attempt.writer, Some(timing().lease)));
            rows.push(row(written + 1, written, &attempt.writer, Some(timing().lease)));
            rows.push(row(observed, observed, &attempt.writer, Some(timing().lease)));
        }
        let answer = |row| Answer::Observed(Observation { row, read_at, wait: Duration::ZERO });
        rows.into_iter().map(answer).collect()
    }

    /// Lets it happen; says which guard of the contract does not hold.
    fn after(&self, event: Option<Event>, judged: &mut Judged) -> Result<Process, String> {
        let mut next = self.clone();
        let Some(event) = event else {
            next.known.clock += nanoseconds(SECOND);
            return Ok(next);
        };
        if !matches!(event, Event::Wake | Event::Early | Event::Answer(_)) {
            next.wishes -= 1;
        }
        if let Event::Answer(answer) = &event {
            next.hears(answer);
        }
        let now = Moment(Duration::from_nanos(next.known.clock.unsigned_abs()));
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
        let mut believed = next.known.terms.iter().enumerate().filter(|(_, term)| term.believed);
        let told = believed.next().map(|(t, term)| (term.id.token, next.known.until(t)));
        if next.instance.term() != told || believed.next().is_some() {
            return Err("believes something else than it announced".into());
        }
        Ok(next)
    }

    /// Notes what an answer proves.
    fn hears(&mut self, answer: &Answer) {
        let act = self.act.take();
        let mut begun = None;
        match (&act, answer) {
            (
                Some(Act::Insert { writer } | Act::Takeover { writer, .. }),
                Answer::Applied { at },
            ) => {
                begun = Some(TermId { token: *at, writer: writer.clone() });
            }
            (Some(Act::Heartbeat { .. }), Answer::Applied { .. }) => {
                self.known.beat.iter_mut().for_each(|beat| beat.applied = true);
            }
            (_, Answer::Observed(read)) => {
                let attempt =
                    read.row.as_ref().and_then(|row| Some((row, self.known.attempt(&row.writer)?)));
                if let Some((row, attempt)) = attempt
                    && row.heartbeat == row.token
                    && attempt.read.as_ref().is_some_and(|before| before.read_at < row.token)
                    && row.token <= read.read_at
                {
                    begun = Some(TermId { token: row.token, writer: row.writer.clone() });
                }
                self.known.read = Some(read.clone());
            }
            _ => {}
        }
        if let Some(id) = begun
            && self.known.term(&id).is_none()
        {
            self.known.terms.push(Begun { id, believed: false, since: 0 });
        }
    }

    fn announces(&mut self, said: Announcement, judged: &mut Judged) -> Result<(), String> {
        let known = &mut self.known;
        match said {
            Announcement::Began { token, writer, valid_until } => {
                let id = TermId { token, writer };
                let t = known.term(&id).ok_or("believe/acknowledged-once-applied")?;
                known.check("believe", &[("t", Value::Int(index(t)))], judged)?;
                let attempt = known.attempts.iter_mut().find(|attempt| attempt.writer == id.writer);
                let attempt = attempt.ok_or("believe: no such attempt")?;
                attempt.settled = true;
                known.terms[t].since = attempt.sent.unwrap_or_default();
                known.terms[t].believed = true;
                is_until(known.until(t), valid_until)
            }
            Announcement::Extended { valid_until } => {
                known.check("renew", &[("h", Value::Int(0))], judged)?;
                let beat = known.beat.clone().ok_or("renew: no heartbeat")?;
                known.terms[beat.term].since = beat.sent.unwrap_or_default();
                is_until(known.until(beat.term), valid_until)
            }
            Announcement::Ended { token, .. } => {
                let held = known.terms.iter().rposition(|term| term.id.token == token);
                let t = held.ok_or("stop-believing: no such term")?;
                known.check("stop-believing", &[("t", Value::Int(index(t)))], judged)?;
                known.terms[t].believed = false;
                Ok(())
            }
        }
    }

    fn asks(&mut self, act: &Act, judged: &mut Judged) -> Result<(), String> {
        let known = &mut self.known;
        let clock = known.clock;
        match act {
            Act::Insert { writer } | Act::Takeover { writer, .. } => {
                let seen = match act {
                    Act::Takeover { seen, .. } => Some(seen),
                    _ => None,
                };
                // An instance that attempts again has given up its attempts before.
                known.attempts.iter_mut().for_each(|attempt| attempt.settled = true);
                let read = known.read.take();
                if read.as_ref().is_some_and(|read| read.row.as_ref() != seen) {
                    return Err("send: names another row than was read".into());
                }
                if known.attempt(writer).is_none() {
                    let (writer, settled) = (writer.clone(), false);
                    known.attempts.push(Attempt { writer, read, sent: None, settled });
                }
                let parameters = [("w", Value::Text(writer.as_str().into()))];
                known.check("send", &parameters, judged)?;
                let attempt = known.attempts.last_mut().ok_or("send: no attempt")?;
                attempt.sent = Some(clock);
            }
            Act::Heartbeat { term } => {
                let term = known.term(term).ok_or("send-heartbeat: no such term")?;
                known.beat = Some(Beat { term, sent: None, applied: false });
                known.check("send-heartbeat", &[("h", Value::Int(0))], judged)?;
                known.beat = Some(Beat { term, sent: Some(clock), applied: false });
            }
            Act::Release { term, next, .. } => {
                let t = known.term(term).ok_or("release: no such term")?;
                if !known.terms[t].believed {
                    // It is given up if it was never announced.
                    let attempts = known.attempts.iter_mut();
                    let ours = attempts.filter(|attempt| attempt.writer == term.writer);
                    ours.for_each(|attempt| attempt.settled = true);
                }
                let next = Value::Text(next.writer().as_str().into());
                known.check("release", &[("t", Value::Int(index(t))), ("next", next)], judged)?;
            }
            Act::Observe | Act::Sweep { .. } => {}
        }
        Ok(())
    }
}

fn is_until(by_relation: Moment, announced: Moment) -> Result<(), String> {
    if by_relation == announced {
        return Ok(());
    }
    Err(format!("announced validity until {announced:?}, not {by_relation:?}"))
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
        for guard in RELATION.action(name).guards_of(Kind::Contract) {
            assert!(judged.contains(&(name, &guard.name)), "{name}/{} was never asked", guard.name);
        }
    }
}
