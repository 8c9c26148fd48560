//! The possible next steps.

use std::sync::Arc;

use spindle_protocol::{Answer, Event};

use super::party::{Party, Reply};
use super::scenarios::Scenario;
use super::world::World;
use crate::node::Passage;

/// One step of the world. Numbers are of parties, of their queues, or of changes that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Time passes.
    Tick,
    /// The moment to ask again has come.
    Wake(usize),
    /// A writer that has stopped new readers polls the others.
    Poll(usize),
    /// The request is carried out, and answered in no time.
    Exchange(usize, usize),
    /// The request is held up.
    HoldUp(usize, usize),
    /// The request is carried out, and the answer is held up.
    Arrive(usize, usize),
    /// The answer reaches its process.
    Answer(usize, usize),
    /// The time limit has passed.
    TimeOut(usize, usize),
    /// The outcome is unknown, before the time limit.
    Lose(usize, usize),
    /// The outcome is that nothing was done.
    Abort(usize, usize),
    /// A change whose sender gave it up arrives.
    ArriveLate(usize),
    /// The process dies.
    Crash(usize),
    /// The process gets no time, until it does something.
    Pause(usize),
    /// The owner lets go, or gives up waiting.
    LetGo(usize),
    /// The owner wants it again.
    Want(usize),
}

impl World {
    pub(super) fn steps(&self, scenario: &Scenario, steps: &mut Vec<Step>) {
        for index in 0..self.parties.len() {
            for queue in 0..2 {
                let asked = self.parties[index].asked[queue].as_ref();
                if asked.is_some_and(|asked| asked.passage == Passage::Leaving) {
                    // Its outcome is settled before anything else happens.
                    return self.outcomes(index, queue, steps);
                }
            }
        }
        for late in 0..self.late.len() {
            steps.push(Step::ArriveLate(late));
        }
        let now = self.now();
        let is_due = |party: &&Arc<Party>| {
            !party.paused && (party.wake_is_due(now) || party.poll_is_due(now))
        };
        let next = self.parties.iter().position(|party| is_due(&party));
        for (index, party) in self.parties.iter().enumerate() {
            let wakes = party.paused && (party.wake_is_due(now) || party.poll_is_due(now));
            self.steps_of(index, wakes || next == Some(index), steps);
            // Owners and machines act between two ticks: within one it would be the same.
            if next.is_none() {
                self.ends_of(index, steps);
            }
        }
        if self.tick < scenario.ticks && self.parties.iter().all(|party| party.is_prompt(now)) {
            steps.push(Step::Tick);
        }
    }

    fn outcomes(&self, index: usize, queue: usize, steps: &mut Vec<Step>) {
        steps.push(Step::Exchange(index, queue));
        if self.left.faults == 0 {
            return;
        }
        if self.left.delays > 0 {
            steps.extend([Step::HoldUp(index, queue), Step::Arrive(index, queue)]);
        }
        if self.left.unknowns > 0 {
            steps.extend([Step::Lose(index, queue), Step::Abort(index, queue)]);
        }
        if self.left.crashes > 0 {
            steps.push(Step::Crash(index));
        }
    }

    fn steps_of(&self, index: usize, is_next: bool, steps: &mut Vec<Step>) {
        let (party, now) = (&self.parties[index], self.now());
        if party.instance.is_none() {
            return;
        }
        if is_next {
            steps.push(if party.wake_is_due(now) { Step::Wake(index) } else { Step::Poll(index) });
        }
        for queue in 0..2 {
            let Some(asked) = &party.asked[queue] else { continue };
            match asked.passage {
                Passage::HeldUp => steps.push(Step::Exchange(index, queue)),
                Passage::Answered(_) => steps.push(Step::Answer(index, queue)),
                Passage::Leaving => {}
            }
            if party.is_out_of_time(queue, now) {
                steps.push(Step::TimeOut(index, queue));
            }
        }
    }

    fn ends_of(&self, index: usize, steps: &mut Vec<Step>) {
        let party = &self.parties[index];
        if party.instance.is_none() {
            return;
        }
        let may_let_go = party.held.is_some() || party.is_waiting();
        if party.wanted && may_let_go && self.left.departures > 0 {
            steps.push(Step::LetGo(index));
        }
        if !party.wanted && self.left.returns > 0 {
            steps.push(Step::Want(index));
        }
        if self.left.faults > 0 && self.left.crashes > 0 && party.term.is_some() {
            steps.push(Step::Crash(index));
        }
        if self.left.faults > 0 && self.left.pauses > 0 && !party.paused && party.term.is_some() {
            steps.push(Step::Pause(index));
        }
    }

    pub(super) fn after(&self, step: Step) -> World {
        let mut world = self.clone();
        world.history.notes.next_step();
        world.pay(step);
        let now = world.now();
        match step {
            Step::Tick => world.tick += 1,
            Step::Wake(index) => world.decide(index, Event::Wake),
            Step::Poll(index) => world.party_mut(index).poll(now),
            Step::Exchange(index, queue) => {
                world.arrive(index, queue);
                world.answer(index, queue);
            }
            Step::HoldUp(index, queue) => {
                if let Some(asked) = &mut world.party_mut(index).asked[queue] {
                    asked.passage = Passage::HeldUp;
                }
            }
            Step::Arrive(index, queue) => world.arrive(index, queue),
            Step::Answer(index, queue) => world.answer(index, queue),
            Step::TimeOut(index, queue) | Step::Lose(index, queue) => world.lose(index, queue),
            Step::Abort(index, queue) => {
                world.hear(index, queue, Reply::Answer(Answer::NotApplied));
            }
            Step::ArriveLate(at) => world.arrive_late(at),
            Step::Crash(index) => world.crash(index),
            Step::Pause(index) => world.party_mut(index).paused = true,
            Step::LetGo(index) => world.decide(index, Event::Contend(false)),
            Step::Want(index) => world.decide(index, Event::Contend(true)),
        }
        world
    }

    fn pay(&mut self, step: Step) {
        let left = &mut self.left;
        let kind = match step {
            Step::HoldUp(..) | Step::Arrive(..) => &mut left.delays,
            Step::Lose(..) | Step::Abort(..) => &mut left.unknowns,
            Step::Crash(_) => &mut left.crashes,
            Step::Pause(_) => &mut left.pauses,
            Step::LetGo(_) => {
                left.departures -= 1;
                return;
            }
            Step::Want(_) => {
                left.returns -= 1;
                return;
            }
            _ => return,
        };
        *kind -= 1;
        left.faults -= 1;
    }
}
