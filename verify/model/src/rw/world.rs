//! The world: readers, writers, the table, and what is on its way between them.

use std::sync::Arc;

use spindle_protocol::line::Place;
use spindle_protocol::{Answer, Change, Event, Moment, Observation, StoredRow, TermId, Timestamp};

use super::judge::{Goal, History, readers};
use super::party::{Ask, GATE, Party, Reply, WRITE_LOCK};
use super::scenarios::{Budget, Rule, Scenario};
use crate::node::Passage;
use crate::scenario::TICK;
use crate::table::Table;
use crate::world::DAWN;

/// Readers' rows.
const KEYS: [&str; 3] = ["rw/reader-0", "rw/reader-1", "rw/reader-2"];

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) tick: u16,
    pub(super) left: Budget,
    pub(super) parties: Vec<Arc<Party>>,
    pub(super) table: Table,
    /// Changes whose senders gave them up, still on their way, with the row that they are for.
    pub(super) late: Vec<(&'static str, Change)>,
    /// The rule that is left out, if one is.
    lacking: Option<Rule>,
    pub(super) history: History,
}

impl World {
    /// Returns the worlds as the scenario starts. Within a tick the parties act in one order, and
    /// each order is a world: what is to come between is what is held up.
    pub(super) fn all(scenario: &Scenario) -> Vec<World> {
        let (readers, writers) = (scenario.readers, scenario.writers);
        let all = readers + writers;
        let places = (0..1_u32 << all).filter(|places| places.count_ones() as usize == writers);
        places.map(|places| World::new(scenario, |at| places & (1 << at) != 0)).collect()
    }

    fn new(scenario: &Scenario, is_writer: impl Fn(usize) -> bool) -> World {
        let mut world = World {
            tick: 0,
            left: scenario.budget,
            parties: Vec::new(),
            table: Table::new([]),
            late: Vec::new(),
            lacking: scenario.lacking,
            history: History::default(),
        };
        let now = world.now();
        let mut keys = KEYS.into_iter();
        for at in 0..scenario.readers + scenario.writers {
            let reader = if is_writer(at) { None } else { keys.next() };
            world.parties.push(Party::start(at, reader, now).into());
        }
        world
    }

    /// The clock of every process.
    pub(super) fn now(&self) -> Moment {
        Moment(TICK * (10 + u32::from(self.tick)))
    }

    /// Spanner's clock.
    pub(super) fn spanner(&self) -> Timestamp {
        self.table.read_timestamp(DAWN + TICK * u32::from(self.tick))
    }

    pub(super) fn party_mut(&mut self, index: usize) -> &mut Party {
        Arc::make_mut(&mut self.parties[index])
    }

    pub(super) fn decide(&mut self, index: usize, contender: usize, event: Event) {
        let now = self.now();
        let late = self.party_mut(index).decide(contender, event, now);
        self.give_up(late);
        self.look();
    }

    pub(super) fn contend(&mut self, index: usize, wanted: bool) {
        let now = self.now();
        let late = self.party_mut(index).contend(wanted, now);
        self.give_up(late);
    }

    pub(super) fn crash(&mut self, index: usize) {
        if self.parties[index].is_waiting() {
            self.history.notes.meet(Goal::DiedWaiting);
        }
        let late = self.party_mut(index).crash();
        self.give_up(late);
    }

    fn give_up(&mut self, late: Vec<(&'static str, Change)>) {
        let room = 2_usize.saturating_sub(self.late.len());
        self.late.extend(late.into_iter().take(room));
    }

    /// Carries out what the contender asked for, and holds up the answer.
    pub(super) fn arrive(&mut self, index: usize, contender: usize) {
        let party = &self.parties[index];
        let (Some(asked), Some(it)) = (party.asked(contender), &party.contenders[contender]) else {
            return;
        };
        let key = it.key;
        let reply = match asked.ask.clone() {
            Ask::Change(key, change) => Reply::Answer(self.carry_out(key, &change)),
            Ask::Gate => Reply::Answer(Answer::Observed(self.observe(GATE))),
            Ask::Read => {
                Reply::Read(self.observe(key), [GATE, WRITE_LOCK].map(|key| self.observe(key)))
            }
            Ask::Write => Reply::Write(self.observe(WRITE_LOCK), readers(&self.table).collect()),
        };
        if let Some(asked) = self.party_mut(index).asked_mut(contender) {
            asked.passage = Passage::Answered(reply);
        }
    }

    fn observe(&self, key: &str) -> Observation {
        let found = self.table.get(key);
        let (row, next) = (found.map(StoredRow::row), found.and_then(Place::of));
        Observation { row, next, read_at: self.spanner() }
    }

    fn carry_out(&mut self, key: &str, change: &Change) -> Answer {
        let (before, now) = (self.table.clone(), self.spanner());
        let change = &self.as_lacking(change);
        let answer = self.table.change_of(key, DAWN + TICK * u32::from(self.tick), change);
        match answer {
            Answer::Applied { at } => {
                self.history.judge(key, change, (&before, &self.table), (now, at));
                self.history.forget(&self.table);
            }
            Answer::Rejected(_) => match change {
                Change::BeginRead { .. } => self.history.notes.meet(Goal::ReaderRefused),
                Change::BeginWrite { gate: (gate, term), .. }
                    if self.table.get(gate).is_none_or(|row| row.token != Some(term.token)) =>
                {
                    self.history.notes.meet(Goal::GateLost);
                }
                _ => {}
            },
            _ => {}
        }
        answer
    }

    /// Returns the change as it would be without the rule that is left out.
    fn as_lacking(&self, change: &Change) -> Change {
        let mut change = change.clone();
        if let Change::BeginWrite { gate: (key, term), readers, .. } = &mut change {
            match self.lacking {
                Some(Rule::Gate) => {
                    if let Some(row) = self.table.get(key).map(StoredRow::row) {
                        *term = TermId { token: row.token, writer: row.writer };
                    }
                }
                Some(Rule::Deletion) => readers.clear(),
                None => {}
            }
        }
        change
    }

    /// Delivers the answer to what the contender asked.
    pub(super) fn answer(&mut self, index: usize, contender: usize) {
        let asked = self.parties[index].asked(contender);
        let Some(Passage::Answered(reply)) = asked.map(|asked| asked.passage.clone()) else {
            return;
        };
        self.hear(index, contender, reply);
    }

    /// Tells the process that nothing is known of what the contender asked; it may still arrive.
    pub(super) fn lose(&mut self, index: usize, contender: usize) {
        let Some(it) = &mut self.party_mut(index).contenders[contender] else { return };
        let Some(asked) = it.asked.take() else { return };
        let is_change = matches!(asked.ask, Ask::Change(..));
        let late = asked.late();
        self.give_up(late.into_iter().collect());
        let answer = if is_change { Answer::Unknown } else { Answer::NotApplied };
        self.hear(index, contender, Reply::Answer(answer));
    }

    /// Delivers an answer, and notes what comes of it.
    pub(super) fn hear(&mut self, index: usize, contender: usize, reply: Reply) {
        let now = self.now();
        let late = self.party_mut(index).hear(contender, reply, now);
        self.give_up(late);
        self.look();
    }

    /// Notes who is at work.
    fn look(&mut self) {
        let (writers, readers) = self.holders();
        if readers > 1 {
            self.history.notes.meet(Goal::ReadTogether);
        }
        if readers > 0 && self.parties.iter().any(|party| party.is_waiting()) {
            self.history.notes.meet(Goal::WriterWaited);
        }
        let has_gate = |party: &Arc<Party>| {
            party.is_writer
                && party.contenders[0].as_ref().is_some_and(|contender| contender.term.is_some())
        };
        if writers > 0 && !self.parties.iter().any(has_gate) {
            self.history.notes.meet(Goal::WroteOn);
        }
    }

    /// Delivers a change that its sender gave up; nobody hears the answer.
    pub(super) fn arrive_late(&mut self, at: usize) {
        let (key, change) = self.late.remove(at);
        let applied = matches!(self.carry_out(key, &change), Answer::Applied { .. });
        match (&change, applied) {
            (Change::BeginRead { .. }, true) => self.history.notes.meet(Goal::LateRead),
            (Change::BeginWrite { .. }, true) => self.history.notes.meet(Goal::LateWrite),
            _ => {}
        }
    }

    /// Counts who has the lock at this instant: writers, and readers.
    pub(super) fn holders(&self) -> (usize, usize) {
        let now = self.now();
        let holders = self.parties.iter().filter(|party| party.has_lock(now).is_some());
        let (writers, readers): (Vec<_>, Vec<_>) = holders.partition(|party| party.is_writer);
        (writers.len(), readers.len())
    }

    /// Returns true if everybody who lives comes to hold, and lets go at once, when nothing fails
    /// any more.
    pub(super) fn has_everybody_hold(&self) -> bool {
        let mut world = self.clone();
        world.late.clear();
        for _ in 0..40 {
            world.settle();
            if world.parties.iter().all(|party| party.has_held || !party.wanted) {
                return true;
            }
            world.tick += 1;
        }
        false
    }

    /// Lets everybody do what is due, with nothing in the way.
    fn settle(&mut self) {
        loop {
            let mut is_still = true;
            for index in 0..self.parties.len() {
                let now = self.now();
                for contender in 0..2 {
                    if self.parties[index].asked(contender).is_some() {
                        self.arrive_unless_answered(index, contender);
                        self.answer(index, contender);
                        is_still = false;
                    }
                }
                let party = &self.parties[index];
                if party.is_at_work() && party.wanted {
                    self.contend(index, false);
                    is_still = false;
                } else if let Some(contender) = party.due(now) {
                    self.decide(index, contender, Event::Wake);
                    is_still = self.parties[index].asked(contender).is_none() && is_still;
                }
            }
            if is_still {
                return;
            }
        }
    }

    fn arrive_unless_answered(&mut self, index: usize, contender: usize) {
        let asked = self.parties[index].asked(contender);
        if asked.is_some_and(|asked| !matches!(asked.passage, Passage::Answered(_))) {
            self.arrive(index, contender);
        }
    }
}
