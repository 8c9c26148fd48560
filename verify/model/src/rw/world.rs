//! The world: readers, writers, the table, and what is on its way between them.

use std::sync::Arc;

use spindle_protocol::{Answer, Change, Event, Moment, Observation, StoredRow, Timestamp};

use super::judge::{Goal, History, readers};
use super::party::{Ask, Party, Reply, WRITER_ROW};
use super::scenarios::{Budget, Scenario};
use crate::node::Passage;
use crate::scenario::TICK;
use crate::table::Table;
use crate::world::DAWN;

/// Readers' rows.
const KEYS: [&str; 3] = ["rw/0", "rw/1", "rw/2"];

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub(super) tick: u16,
    pub(super) left: Budget,
    pub(super) parties: Vec<Arc<Party>>,
    pub(super) table: Table,
    /// Changes whose senders gave them up, still on their way, with the row that they are for.
    pub(super) late: Vec<(&'static str, Change)>,
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
            history: History::default(),
        };
        let now = world.now();
        let mut keys = KEYS.into_iter();
        for at in 0..scenario.readers + scenario.writers {
            let key = if is_writer(at) { WRITER_ROW } else { keys.next().unwrap_or(KEYS[0]) };
            world.parties.push(Party::start(at, key, scenario.leaves_to_readers, now).into());
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

    pub(super) fn decide(&mut self, index: usize, event: Event) {
        let now = self.now();
        let late = self.party_mut(index).decide(event, now);
        self.give_up(index, late);
    }

    pub(super) fn crash(&mut self, index: usize) {
        if self.parties[index].is_waiting() {
            self.history.notes.meet(Goal::DiedBetween);
        }
        let late = self.party_mut(index).crash();
        self.give_up(index, late);
    }

    fn give_up(&mut self, index: usize, late: Vec<Change>) {
        let key = self.parties[index].key;
        let room = 2_usize.saturating_sub(self.late.len());
        self.late.extend(late.into_iter().take(room).map(|change| (key, change)));
    }

    /// Carries out what the queue asked for, and holds up the answer.
    pub(super) fn arrive(&mut self, index: usize, queue: usize) {
        let party = &self.parties[index];
        let (key, is_writer) = (party.key, party.is_writer());
        let Some(asked) = &party.asked[queue] else { return };
        let reply = match asked.ask.clone() {
            Ask::Change(change) => Reply::Answer(self.carry_out(key, &change)),
            Ask::Observe if is_writer => Reply::Answer(Answer::Observed(self.observe(WRITER_ROW))),
            Ask::Observe => Reply::Both(self.observe(key), self.observe(WRITER_ROW)),
            Ask::Poll => {
                let writer_row = self.observe(WRITER_ROW).row;
                let readers = readers(&self.table).collect();
                Reply::Rows { writer_row, readers, read_at: self.spanner() }
            }
        };
        if let Some(asked) = &mut self.party_mut(index).asked[queue] {
            asked.passage = Passage::Answered(reply);
        }
    }

    fn observe(&self, key: &str) -> Observation {
        let row = self.table.get(key).map(StoredRow::row);
        Observation { row, next: None, read_at: self.spanner() }
    }

    fn carry_out(&mut self, key: &str, change: &Change) -> Answer {
        let (before, now) = (self.table.clone(), self.spanner());
        let answer = self.table.change_of(key, DAWN + TICK * u32::from(self.tick), change);
        match answer {
            Answer::Applied { at } => {
                self.history.judge(key, change, &before, now, at);
                self.history.forget(&self.table);
            }
            Answer::Rejected(_) if matches!(change, Change::BeginRead { .. }) => {
                self.history.notes.meet(Goal::ReaderRefused);
            }
            _ => {}
        }
        answer
    }

    /// Delivers the answer to what the queue asked.
    pub(super) fn answer(&mut self, index: usize, queue: usize) {
        let asked = self.parties[index].asked[queue].as_ref();
        let Some(Passage::Answered(reply)) = asked.map(|asked| asked.passage.clone()) else {
            return;
        };
        self.hear(index, queue, reply);
    }

    /// Tells the process that nothing is known of what the queue asked; it may still arrive.
    pub(super) fn lose(&mut self, index: usize, queue: usize) {
        let asked = self.party_mut(index).asked[queue].take();
        let (is_change, late) = match asked {
            Some(asked) => (matches!(asked.ask, Ask::Change(_)), asked.late()),
            None => return,
        };
        self.give_up(index, late.into_iter().collect());
        let answer = if is_change { Answer::Unknown } else { Answer::NotApplied };
        self.hear(index, queue, Reply::Answer(answer));
    }

    /// Delivers an answer, and notes what comes of it.
    pub(super) fn hear(&mut self, index: usize, queue: usize, reply: Reply) {
        let now = self.now();
        let held = self.parties[index].held.is_some();
        let was_late = matches!(
            &reply,
            Reply::Rows { .. } | Reply::Answer(Answer::Rejected(_)) if queue == 1
        );
        let late = self.party_mut(index).hear(queue, reply, now);
        self.give_up(index, late);
        let party = &self.parties[index];
        if !held && party.held.is_some() && was_late {
            self.history.notes.meet(Goal::SecondUnknown);
        }
        let at_work = |writes: bool| {
            let holds = |party: &&Arc<Party>| party.has_lock(now).is_some();
            self.parties.iter().filter(holds).filter(|party| party.is_writer() == writes).count()
        };
        if at_work(false) > 1 {
            self.history.notes.meet(Goal::ReadTogether);
        }
        if queue == 1 && at_work(false) > 0 && self.parties[index].is_waiting() {
            self.history.notes.meet(Goal::WriterWaited);
        }
    }

    /// Delivers a change that its sender gave up; nobody hears the answer.
    pub(super) fn arrive_late(&mut self, at: usize) {
        let (key, change) = self.late.remove(at);
        let applied = matches!(self.carry_out(key, &change), Answer::Applied { .. });
        match (&change, applied) {
            (Change::BeginRead { .. }, true) => self.history.notes.meet(Goal::LateRead),
            (Change::BeginWrite { .. }, true) => self.history.notes.meet(Goal::LateSecond),
            _ => {}
        }
    }

    /// Counts who has the lock at this instant: writers, and readers.
    pub(super) fn holders(&self) -> (usize, usize) {
        let now = self.now();
        let holders = self.parties.iter().filter(|party| party.has_lock(now).is_some());
        let (writers, readers): (Vec<_>, Vec<_>) = holders.partition(|party| party.is_writer());
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
                for queue in 0..2 {
                    if self.parties[index].asked[queue].is_some() {
                        self.arrive_unless_answered(index, queue);
                        self.answer(index, queue);
                        is_still = false;
                    }
                }
                let party = &self.parties[index];
                if party.held.is_some() && party.wanted {
                    self.decide(index, Event::Contend(false));
                    is_still = false;
                } else if party.wake_is_due(now) {
                    self.decide(index, Event::Wake);
                    is_still = self.parties[index].asked[0].is_none() && is_still;
                } else if party.poll_is_due(now) {
                    self.party_mut(index).poll(now);
                    is_still = false;
                }
            }
            if is_still {
                return;
            }
        }
    }

    fn arrive_unless_answered(&mut self, index: usize, queue: usize) {
        let asked = self.parties[index].asked[queue].as_ref();
        if asked.is_some_and(|asked| !matches!(asked.passage, Passage::Answered(_))) {
            self.arrive(index, queue);
        }
    }
}
