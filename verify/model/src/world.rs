//! The world: processes, the table, and what is on its way between them.

use std::sync::Arc;

use spindle_protocol::{
    Act, Answer, Change, Event, Row, StoredRow, TermId, Timestamp, Writer, takeover_key,
};

use crate::history::{Goal, History, Invariant};
use crate::node::{Asked, Node, Passage};
use crate::scenario::{Budget, Scenario, Start, TICK, ticks};
use crate::table::{LOCK, Request, Table, is_takeover_row, stored, takeover_row};

/// Spanner's clock at the first tick: as many digits as today's.
pub(crate) const DAWN: Timestamp = Timestamp(1_795_000_000_000_000_000);

/// Other locks, whose names are as close to a takeover row's as a lock's name may be (I6).
const NEIGHBOURS: [&str; 3] = ["job_0", "job_000000000000000", "jobs"];

/// One state of everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The ticks gone by.
    pub tick: u16,
    /// The faults that may still happen.
    pub left: Budget,
    /// The members; shared by all worlds in which they are the same.
    pub nodes: Vec<Arc<Node>>,
    /// The rows that Spanner keeps.
    pub table: Table,
    /// Requests whose senders gave up, still on their way.
    pub late: Vec<Request>,
    /// The onlooker's memory.
    pub history: History,
}

impl World {
    /// Returns the world as the scenario starts.
    pub fn new(scenario: &Scenario, start: Start) -> World {
        let neighbours = NEIGHBOURS.map(neighbour);
        let nodes = scenario.members.iter().enumerate();
        let mut world = World {
            tick: 0,
            left: scenario.budget,
            nodes: nodes.map(|(index, member)| Node::start(index, member).into()).collect(),
            table: Table::new(neighbours),
            late: Vec::new(),
            history: History::default(),
        };
        let dead = |token| Row {
            heartbeat: Timestamp(DAWN.0 - 60_000_000_000),
            token,
            writer: "dead-node".into(),
            lease: None,
        };
        let long_ago = Timestamp(DAWN.0 - 90_000_000_000);
        match start {
            Start::Empty => {}
            Start::Held => world.elect_first(scenario),
            Start::HeldLong => {
                world.elect_first(scenario);
                for _ in 0..10 * ticks(scenario.longest_lease()) {
                    world.pass(scenario, 0);
                    world.settle(scenario, 0);
                }
                world.history.notes.next_step();
            }
            Start::Abandoned => world.table.put(stored(LOCK, &dead(long_ago))),
            Start::HalfTakenOver => {
                world.table.put(stored(LOCK, &dead(long_ago)));
                world.leave_takeover_row();
            }
            Start::EpochToken => world.table.put(stored(LOCK, &dead(Timestamp::EPOCH))),
        }
        world
    }

    /// Spanner's clock.
    pub fn spanner(&self) -> Timestamp {
        self.spanner_at(self.tick)
    }

    /// Spanner's clock in that tick.
    pub fn spanner_at(&self, tick: u16) -> Timestamp {
        DAWN + TICK * u32::from(tick)
    }

    /// Returns the node, to be changed.
    pub(crate) fn node_mut(&mut self, index: usize) -> &mut Node {
        Arc::make_mut(&mut self.nodes[index])
    }

    /// Has the first member begin to hold, with nothing in its way.
    fn elect_first(&mut self, scenario: &Scenario) {
        self.decide(0, Event::Wake, scenario);
        while self.nodes[0].has_lock().is_none() {
            self.exchange(0, scenario);
        }
        self.history.notes.next_step();
    }

    /// Has the protocol decide for the node's process.
    pub fn decide(&mut self, index: usize, event: Event, scenario: &Scenario) {
        let node = Arc::make_mut(&mut self.nodes[index]);
        let replaced = node.decide(event, &mut self.history);
        if self.history.notes.has_met(Goal::Expired) && self.holders() > 0 {
            self.history.notes.meet(Goal::WokeUpLate);
        }
        self.give_up(index, replaced, scenario);
    }

    /// Carries out the node's request; the answer reaches it in no time.
    pub fn exchange(&mut self, index: usize, scenario: &Scenario) {
        self.arrive(index, scenario);
        self.answer(index, scenario);
    }

    /// Holds up the node's request.
    pub fn hold_up(&mut self, index: usize) {
        if let Some(asked) = &mut self.node_mut(index).asked {
            asked.passage = Passage::HeldUp;
        }
    }

    /// Carries out the node's request and holds up the answer.
    pub fn arrive(&mut self, index: usize, scenario: &Scenario) {
        let holder = scenario.members[index].holder();
        let Some(asked) = &self.nodes[index].asked else { return };
        let request = Request { act: asked.act.clone(), holder };
        let answer = self.carry_out(&request);
        self.note_waiting(index, &answer, scenario);
        if let Some(asked) = &mut self.node_mut(index).asked {
            asked.passage = Passage::Answered(answer);
        }
    }

    /// Delivers a request whose sender gave up; nobody hears the answer.
    pub fn arrive_late(&mut self, index: usize) {
        let request = self.late.remove(index);
        let applied = matches!(self.carry_out(&request), Answer::Applied { .. });
        self.history.notes.meet(match (&request.act, applied) {
            (Act::Insert { .. } | Act::Takeover { .. }, true) => Goal::LateTakeover,
            (Act::Heartbeat { .. }, true) => Goal::LateHeartbeat,
            (Act::Release { .. }, true) => Goal::LateRelease,
            (Act::Mark { .. }, true) => Goal::LatePlace,
            (Act::Observe, true) => return,
            (_, false) => Goal::LateRefused,
        });
    }

    /// Delivers the answer to its process.
    pub fn answer(&mut self, index: usize, scenario: &Scenario) {
        let asked = self.nodes[index].asked.as_ref();
        if let Some(Passage::Answered(answer)) = asked.map(|asked| asked.passage.clone()) {
            self.hear(index, answer, scenario);
        }
    }

    /// Tells the process that the outcome is unknown; its request may still arrive.
    pub fn lose(&mut self, index: usize, scenario: &Scenario) {
        let asked = self.nodes[index].asked.clone();
        self.give_up(index, asked, scenario);
        self.hear(index, Answer::Unknown, scenario);
    }

    /// Tells the process that nothing was done.
    pub fn abort(&mut self, index: usize, scenario: &Scenario) {
        self.hear(index, Answer::NotApplied, scenario);
    }

    /// Sends a second copy of the request on its way.
    pub fn duplicate(&mut self, index: usize, scenario: &Scenario) {
        let asked = self.nodes[index].asked.clone();
        self.give_up(index, asked, scenario);
    }

    /// Lets the process die; its request may still arrive.
    pub fn crash(&mut self, index: usize, scenario: &Scenario) {
        let asked = self.node_mut(index).crash();
        self.give_up(index, asked, scenario);
    }

    /// Returns true if the row protects nobody: released, and reserved for nobody, or run out by
    /// its own lease.
    pub fn is_removable(&self) -> bool {
        let Some(row) = self.table.lock() else { return false };
        let now = self.table.read_timestamp(self.spanner());
        match row.lease {
            _ if row.is_released() => row.writer == Writer::nobody(),
            Some(lease) => row.heartbeat + lease <= now,
            None => false,
        }
    }

    /// Removes the row as it stands, with its takeover rows, by the tool.
    pub fn remove(&mut self) {
        let remove = Change::Remove { seen: self.table.lock(), takeovers: self.takeover_rows() };
        if let Answer::Applied { .. } = self.table.change(self.spanner(), &remove) {
            self.history.notes.meet(Goal::Removed);
        }
    }

    /// Lets a peer of another implementation die between its two steps.
    pub fn leave_takeover_row(&mut self) {
        if let Some(row) = self.table.lock() {
            let key = takeover_key(LOCK, row.token);
            self.table.put(takeover_row(key, row.token, "dead-peer".into()));
        }
    }

    /// Counts for I1 how many have the lock at this instant.
    pub fn holders(&self) -> usize {
        self.nodes.iter().filter(|node| node.has_lock().is_some()).count()
    }

    /// Returns true if a fenced write of some earlier term would commit at this instant (I3).
    pub fn fence_lets_the_past_write(&self) -> bool {
        self.history.begun.iter().any(|term| {
            self.table.fence_holds(term.token, &term.writer)
                && !self.history.is_latest(term.token, &term.writer)
        })
    }

    /// Checks I6: other locks are as they were, and nothing but takeover rows was added.
    pub fn neighbours_are_untouched(&self) -> bool {
        let mut count = 0;
        for row in self.table.rows().filter(|row| row.key != LOCK && !is_takeover_row(row)) {
            count += 1;
            let expected = NEIGHBOURS.into_iter().find(|name| *name == row.key).map(neighbour);
            if expected.as_ref() != Some(row) {
                return false;
            }
        }
        count == NEIGHBOURS.len()
    }

    fn hear(&mut self, index: usize, answer: Answer, scenario: &Scenario) {
        let asked = self.nodes[index].asked.clone();
        let held = self.nodes[index].published.is_some();
        let act = asked.as_ref().map(|asked| &asked.act);
        let has_looked = matches!(act, Some(Act::Heartbeat { looks: true, .. }))
            && matches!(answer, Answer::Applied { .. });
        let resolves = matches!(&answer, Answer::Observed(_)) && self.nodes[index].unresolved;
        self.decide(index, Event::Answer(answer.clone()), scenario);
        self.note_heard(index, asked, &answer, held, resolves);
        if has_looked {
            self.look(index, scenario);
        }
    }

    /// Of an act that its sender gave up, what may still arrive and matter.
    fn give_up(&mut self, index: usize, asked: Option<Asked>, scenario: &Scenario) {
        let Some(Asked { act, passage, .. }) = asked else { return };
        let carried_out = matches!(passage, Passage::Answered(_));
        if carried_out || act == Act::Observe || self.late.len() >= scenario.late_requests_max {
            return;
        }
        let request = Request { act, holder: scenario.members[index].holder() };
        self.late.push(request);
    }

    /// Carries a request out and judges what it did to the row.
    fn carry_out(&mut self, request: &Request) -> Answer {
        let stored = self.table.get(LOCK).cloned();
        let before = stored.as_ref().map(StoredRow::row);
        let takeovers = self.takeover_rows();
        let answer = self.table.carry_out(self.spanner(), request);
        let Answer::Applied { at } = answer else { return answer };
        if let Some(stored) = &stored {
            self.judge_place(&request.act, stored);
        }
        match &request.act {
            Act::Insert { writer } => {
                if before.is_some() {
                    self.history.notes.breaks(Invariant::I4);
                }
                self.history.begin(at, writer, None);
            }
            Act::Takeover { seen, writer, .. } => {
                self.judge_takeover(before, seen, writer, at);
                let own = takeover_key(LOCK, seen.token);
                if takeovers.contains(&own) {
                    self.history.notes.meet(Goal::WroteOver);
                }
                if takeovers.iter().any(|key| self.table.get(key).is_none()) {
                    self.history.notes.meet(Goal::DeletedFormer);
                }
            }
            Act::Heartbeat { term, .. } | Act::Release { term, .. } => {
                if !self.history.is_latest(term.token, &term.writer) {
                    self.history.notes.breaks(Invariant::I4);
                }
                if matches!(request.act, Act::Release { .. }) {
                    self.judge_release(term);
                }
            }
            Act::Observe | Act::Mark { .. } => {}
        }
        answer
    }

    /// Returns the keys of the takeover rows.
    fn takeover_rows(&self) -> Vec<String> {
        let takeovers = self.table.rows().filter(|row| is_takeover_row(row));
        takeovers.map(|row| row.key.clone()).collect()
    }

    /// Checks I8: a lock has one takeover row, and one more for each that a peer or a careless hand
    /// left.
    pub fn has_few_rows(&self, scenario: &Scenario) -> bool {
        let (given, left) = (scenario.budget, self.left);
        let edits = given.manual_edits - left.manual_edits;
        let half_takeovers = given.half_takeovers - left.half_takeovers;
        self.takeover_rows().len() <= 1 + usize::from(edits) + usize::from(half_takeovers)
    }

    /// Notes for I8 that the takeover row that carries the term's writer is gone. An edit may have had
    /// the term forget it.
    fn judge_release(&mut self, term: &TermId) {
        let mut takeovers = self.table.rows().filter(|row| is_takeover_row(row));
        let is_left = takeovers.any(|row| row.is_takeover() && row.writer == term.writer);
        if is_left && !self.history.interfered {
            self.history.notes.breaks(Invariant::I8);
        }
    }

    fn judge_takeover(&mut self, before: Option<Row>, seen: &Row, writer: &Writer, at: Timestamp) {
        // Written out, not asked of the protocol, whose comparison is what is under proof.
        let same = before.as_ref().is_some_and(|row| {
            (row.heartbeat, row.token, &row.writer) == (seen.heartbeat, seen.token, &seen.writer)
        });
        if !same {
            self.history.notes.breaks(Invariant::I4);
        }
        if let Some(row) = &before {
            self.note_takeover(row, writer, at);
        }
        self.history.begin(at, writer, before);
    }
}

fn neighbour(name: &str) -> StoredRow {
    let row = Row {
        heartbeat: Timestamp(DAWN.0 - 1),
        token: Timestamp(DAWN.0 - 1),
        writer: "neighbour".into(),
        lease: None,
    };
    stored(name, &row)
}
