//! The possible next steps: every interleaving of processes, network, time, faults and manual edits.

use spindle_protocol::{Act, Change, Event, Succession, Timestamp};

use crate::history::Term;
use crate::node::Passage;
use crate::scenario::{Clock, Scenario, TICK};
use crate::table::{LOCK, is_takeover_row, stored};
use crate::world::World;

/// One step of the world. Indices are of members, or of requests that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Time passes; the clocks whose bits are set go wrong by a tick.
    Tick {
        /// One bit a member.
        drift: u8,
    },
    /// The moment to ask again has come.
    Wake(usize),
    /// A heartbeat goes before it is due, to share a request.
    Early(usize),
    /// The request is carried out, and the answer reaches its process in no time.
    Exchange(usize),
    /// The request is held up.
    HoldUp(usize),
    /// The request is carried out, and the answer is held up.
    Arrive(usize),
    /// The answer reaches its process.
    Answer(usize),
    /// The time limit has passed.
    TimeOut(usize),
    /// The outcome is unknown, before the time limit.
    Lose(usize),
    /// The outcome is that nothing was done.
    Abort(usize),
    /// The request was sent twice by the network.
    Duplicate(usize),
    /// A late request arrives.
    ArriveLate(usize),
    /// The process dies.
    Crash(usize),
    /// The process is started again.
    Restart(usize),
    /// The process gets no time, until it does something.
    Pause(usize),
    /// The owner is done.
    Stop(usize),
    /// The owner ends its term.
    Part(usize, Departure),
    /// The owner wants the lock from here on, or wants it no more.
    Want(usize, bool),
    /// The tool evicts the holder.
    Evict,
    /// The tool removes the row, since the lock is vacant.
    Remove,
    /// A peer of another implementation dies between its two steps.
    LeaveTakeoverRow,
    /// Somebody interferes.
    ManualEdit(ManualEdit),
}

/// How an owner ends its term.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Departure {
    /// It was told to go.
    Resign,
    /// It was told to go, and names the next member.
    ResignToNext,
    /// It is done, and others in its process are waiting.
    LetGo,
    /// It can't say whether its work has ended, so nothing is released.
    Lapse,
}

/// The acts of a hand outside the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ManualEdit {
    /// Delete the lock row.
    Delete,
    /// Set the token to that of an earlier term.
    TokenBack,
    /// Set the token to the epoch.
    TokenEpoch,
    /// Set the token to one that is yet to come.
    TokenAhead,
    /// Set the heartbeat to the epoch.
    HeartbeatEpoch,
    /// Set the heartbeat back by a lease.
    HeartbeatBack,
    /// Set the heartbeat to a time that is yet to come.
    HeartbeatAhead,
    /// Remove the takeover rows.
    LoseTakeoverRows,
    /// Have the term displace itself: the key that the next takeover deletes is the one it adds.
    Displaced,
    /// Bring the data back to what it was before the last term began.
    Restore,
    /// Take the lock at once, as the tool does.
    Seize,
}

const MANUAL_EDITS: [ManualEdit; 11] = [
    ManualEdit::Delete,
    ManualEdit::TokenBack,
    ManualEdit::TokenEpoch,
    ManualEdit::TokenAhead,
    ManualEdit::HeartbeatEpoch,
    ManualEdit::HeartbeatBack,
    ManualEdit::HeartbeatAhead,
    ManualEdit::LoseTakeoverRows,
    ManualEdit::Displaced,
    ManualEdit::Restore,
    ManualEdit::Seize,
];

impl Departure {
    fn event(self, index: usize, scenario: &Scenario) -> Event {
        match self {
            Departure::Resign => Event::Resign { next: Succession::Anyone },
            Departure::ResignToNext => {
                let next = &scenario.members[(index + 1) % scenario.members.len()];
                let (id, grace) = (next.id.to_string(), scenario.grace());
                Event::Resign { next: Succession::Successor { id, grace } }
            }
            Departure::LetGo => Event::LetGo { next: Succession::Anyone },
            Departure::Lapse => Event::Lapse,
        }
    }
}

impl World {
    /// Lists every step that may come next.
    pub fn steps(&self, scenario: &Scenario, steps: &mut Vec<Step>) {
        if self.tick >= scenario.ticks {
            return;
        }
        if let Some(index) = self.nodes.iter().position(|node| node.is_sending()) {
            return self.passage_steps(index, scenario, steps);
        }
        for index in 0..self.nodes.len() {
            self.member_steps(index, scenario, steps);
        }
        for index in 0..self.late.len() {
            // The same request twice makes no other step.
            if !self.late[..index].contains(&self.late[index]) {
                steps.push(Step::ArriveLate(index));
            }
        }
        if self.table.lock().is_some() {
            if self.left.evictions > 0 {
                steps.push(Step::Evict);
            }
            if self.left.removals > 0 && self.is_removable() {
                steps.push(Step::Remove);
            }
            if self.left.half_takeovers > 0 {
                steps.push(Step::LeaveTakeoverRow);
            }
            if self.left.manual_edits > 0 {
                steps.extend(MANUAL_EDITS.map(Step::ManualEdit));
            }
        }
        self.ticks(scenario, steps);
    }

    fn member_steps(&self, index: usize, scenario: &Scenario, steps: &mut Vec<Step>) {
        let (node, left) = (&self.nodes[index], &self.left);
        if node.instance.is_none() {
            if !node.stopped {
                steps.push(Step::Restart(index));
            }
            return;
        }
        if node.wake_is_due() {
            steps.push(Step::Wake(index));
        }
        if node.may_go_early() {
            steps.push(Step::Early(index));
        }
        if node.asked.is_some() {
            self.passage_steps(index, scenario, steps);
        } else if left.faults > 0 && left.crashes > 0 {
            steps.push(Step::Crash(index));
        }
        if left.faults > 0 && left.pauses > 0 && !node.paused {
            steps.push(Step::Pause(index));
        }
        if left.stops > 0 {
            steps.push(Step::Stop(index));
        }
        if left.resignations > 0 && node.published.is_some() {
            let departures = [Departure::Resign, Departure::ResignToNext];
            steps.extend(departures.map(|departure| Step::Part(index, departure)));
        }
        if left.holds > 0 {
            steps.push(Step::Want(index, !node.wanted));
            if node.published.is_some() {
                let departures = [Departure::LetGo, Departure::Lapse];
                steps.extend(departures.map(|departure| Step::Part(index, departure)));
            }
        }
    }

    /// Lists the possible outcomes of the request under way.
    fn passage_steps(&self, index: usize, scenario: &Scenario, steps: &mut Vec<Step>) {
        let (node, left) = (&self.nodes[index], &self.left);
        let Some(asked) = &node.asked else { return };
        let faulty = left.faults > 0;
        let leaves = asked.passage == Passage::Leaving;
        match asked.passage {
            Passage::Leaving => {
                steps.push(Step::Exchange(index));
                if faulty && left.delays > 0 {
                    steps.extend([Step::HoldUp(index), Step::Arrive(index)]);
                }
            }
            Passage::HeldUp => steps.extend([Step::Exchange(index), Step::Arrive(index)]),
            Passage::Answered(_) => steps.push(Step::Answer(index)),
        }
        if node.is_out_of_time() {
            steps.push(Step::TimeOut(index));
        } else if faulty && left.unknowns > 0 {
            steps.push(Step::Lose(index));
        }
        if faulty && left.aborts > 0 && leaves {
            steps.push(Step::Abort(index));
        }
        let room = self.late.len() < scenario.late_requests_max;
        if faulty && left.duplicates > 0 && leaves && room && asked.act != Act::Observe {
            steps.push(Step::Duplicate(index));
        }
        if faulty && left.crashes > 0 {
            steps.push(Step::Crash(index));
        }
    }

    /// Lists the step of time, once every process that gets its time has used it.
    fn ticks(&self, scenario: &Scenario, steps: &mut Vec<Step>) {
        let members = || self.nodes.iter().zip(&scenario.members);
        if !self.nodes.iter().all(|node| node.is_prompt()) {
            return;
        }
        let can_drift = members()
            .enumerate()
            .filter(|(_, (node, member))| node.instance.is_some() && node.may_drift(member.clock))
            .fold(0_u8, |bits, (index, _)| bits | 1 << index);
        let subsets = (0..=can_drift).filter(|drift| drift & !can_drift == 0);
        steps.extend(subsets.map(|drift| Step::Tick { drift }));
    }

    /// Returns the world after the step.
    pub fn after(&self, scenario: &Scenario, step: Step) -> World {
        let mut world = self.clone();
        world.history.notes.next_step();
        world.take(scenario, step);
        world
    }

    fn take(&mut self, scenario: &Scenario, step: Step) {
        self.pay(step);
        match step {
            Step::Tick { drift } => self.pass(scenario, drift),
            Step::Wake(index) => self.decide(index, Event::Wake, scenario),
            Step::Early(index) => self.decide(index, Event::Early, scenario),
            Step::Exchange(index) => self.exchange(index, scenario),
            Step::HoldUp(index) => self.hold_up(index),
            Step::Arrive(index) => self.arrive(index, scenario),
            Step::Answer(index) => self.answer(index, scenario),
            Step::TimeOut(index) | Step::Lose(index) => self.lose(index, scenario),
            Step::Abort(index) => self.abort(index, scenario),
            Step::Duplicate(index) => self.duplicate(index, scenario),
            Step::ArriveLate(index) => self.arrive_late(index),
            Step::Crash(index) => self.crash(index, scenario),
            Step::Restart(index) => self.node_mut(index).restart(index, &scenario.members[index]),
            Step::Pause(index) => self.node_mut(index).paused = true,
            Step::Stop(index) => self.decide(index, Event::Stop, scenario),
            Step::Part(index, departure) => {
                self.decide(index, departure.event(index, scenario), scenario);
            }
            Step::Want(index, wanted) => self.decide(index, Event::Contend(wanted), scenario),
            Step::Evict => self.evict(),
            Step::Remove => self.remove(),
            Step::LeaveTakeoverRow => self.leave_takeover_row(),
            Step::ManualEdit(hand) => self.interfere(scenario, hand),
        }
    }

    /// Takes the step off what may still happen.
    fn pay(&mut self, step: Step) {
        let left = &mut self.left;
        let (is_fault, kind) = match step {
            Step::HoldUp(_) => (true, &mut left.delays),
            Step::Arrive(index) if self.nodes[index].is_sending() => (true, &mut left.delays),
            Step::Lose(_) => (true, &mut left.unknowns),
            Step::Abort(_) => (true, &mut left.aborts),
            Step::Duplicate(_) => (true, &mut left.duplicates),
            Step::Crash(_) => (true, &mut left.crashes),
            Step::Pause(_) => (true, &mut left.pauses),
            Step::Stop(_) => (false, &mut left.stops),
            Step::Part(_, Departure::Resign | Departure::ResignToNext) => {
                (false, &mut left.resignations)
            }
            Step::Part(..) | Step::Want(..) => (false, &mut left.holds),
            Step::Evict => (false, &mut left.evictions),
            Step::Remove => (false, &mut left.removals),
            Step::LeaveTakeoverRow => (false, &mut left.half_takeovers),
            Step::ManualEdit(_) => (false, &mut left.manual_edits),
            _ => return,
        };
        *kind -= 1;
        left.faults -= u8::from(is_fault);
    }

    fn evict(&mut self) {
        self.table.change(self.spanner(), &Change::Evict { info: None });
    }

    /// Lets a tick of Spanner's clock and of everybody's own pass.
    pub fn pass(&mut self, scenario: &Scenario, drift: u8) {
        self.tick += 1;
        for index in 0..self.nodes.len() {
            let node = self.node_mut(index);
            let clock = scenario.members[index].clock;
            // The clock of a dead process is read by nobody.
            let clock = if node.instance.is_some() { clock } else { Clock::Exact };
            node.tick(clock, drift & (1 << index) != 0);
        }
    }

    fn interfere(&mut self, scenario: &Scenario, hand: ManualEdit) {
        self.history.interfered = true;
        let now = self.spanner();
        let Some(row) = self.table.lock() else { return };
        let lease = scenario.longest_lease();
        match hand {
            ManualEdit::Delete => self.table.retain(|row| row.key != LOCK),
            ManualEdit::LoseTakeoverRows => self.table.retain(|row| !is_takeover_row(row)),
            ManualEdit::Displaced => self.table.edit_lock(|row| row.displaced = row.token),
            ManualEdit::Restore => self.restore(),
            ManualEdit::Seize => {
                let seize = Change::Seize { next: Succession::Anyone, info: None };
                self.table.change(now, &seize);
            }
            ManualEdit::TokenBack => {
                let earlier = self.history.begun.iter().rev().nth(1);
                let token = earlier.map_or(Timestamp(row.token.0 - 1), |term| term.token);
                // A repeat of an attempt may have brought its writer back: then the token revives the
                // term for its fences.
                let is_of = |term: &Term| term.token == token && term.writer == row.writer;
                if !self.history.begun.iter().any(is_of) {
                    self.table.edit_lock(|row| row.token = Some(token));
                }
            }
            ManualEdit::TokenEpoch => {
                self.table.edit_lock(|row| row.token = Some(Timestamp::EPOCH))
            }
            // Beyond the end of the worlds in which both edits meet: reached, they would date the term.
            ManualEdit::TokenAhead => self.table.edit_lock(|row| row.token = Some(now + TICK * 5)),
            ManualEdit::HeartbeatEpoch => {
                self.table.edit_lock(|row| row.heartbeat = Some(Timestamp::EPOCH));
            }
            ManualEdit::HeartbeatBack => {
                let back = i64::try_from(lease.as_nanos()).unwrap_or(i64::MAX);
                let back = Timestamp(row.heartbeat.0.saturating_sub(back));
                self.table.edit_lock(|row| row.heartbeat = Some(back));
            }
            ManualEdit::HeartbeatAhead => {
                self.table.edit_lock(|row| row.heartbeat = Some(now + TICK * 5));
            }
        }
    }

    /// Sets the database back: what was written under the last term is gone with it.
    fn restore(&mut self) {
        self.history.lose_latest();
        match self.history.displaced.take() {
            Some(row) => self.table.put(stored(LOCK, &row)),
            None => self.table.retain(|row| row.key != LOCK),
        }
    }
}
