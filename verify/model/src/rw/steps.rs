//! The possible next steps.

use std::sync::Arc;

use spindle_protocol::{Answer, Event};

use super::party::{Party, Reply};
use super::scenarios::Scenario;
use super::world::World;
use crate::node::Passage;

/// One step of the world. Numbers are of parties, of their contenders, or of changes that are late.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Time passes.
    Tick,
    /// The moment to ask again has come.
    Wake(usize, usize),
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
            for contender in 0..2 {
                let asked = self.parties[index].asked(contender);
                if asked.is_some_and(|asked| asked.passage == Passage::Leaving) {
                    // Its outcome is settled before anything else happens.
                    return self.outcomes(index, contender, steps);
                }
            }
        }
        for late in 0..self.late.len() {
            steps.push(Step::ArriveLate(late));
        }
        let now = self.now();
        let is_due = |party: &&Arc<Party>| !party.paused && party.due(now).is_some();
        let next = self.parties.iter().position(|party| is_due(&party));
        for (index, party) in self.parties.iter().enumerate() {
            let due = party.due(now).filter(|_| party.paused || next == Some(index));
            steps.extend(due.map(|contender| Step::Wake(index, contender)));
            self.steps_of(index, steps);
            // Owners and machines act between two ticks: within one it would be the same.
            if next.is_none() {
                self.ends_of(index, steps);
            }
        }
        if self.tick < scenario.ticks && self.parties.iter().all(|party| party.is_prompt(now)) {
            steps.push(Step::Tick);
        }
    }

    fn outcomes(&self, index: usize, contender: usize, steps: &mut Vec<Step>) {
        steps.push(Step::Exchange(index, contender));
        if self.left.faults == 0 {
            return;
        }
        if self.left.delays > 0 {
            steps.extend([Step::HoldUp(index, contender), Step::Arrive(index, contender)]);
        }
        if self.left.unknowns > 0 {
            steps.extend([Step::Lose(index, contender), Step::Abort(index, contender)]);
        }
        if self.left.crashes > 0 {
            steps.push(Step::Crash(index));
        }
    }

    fn steps_of(&self, index: usize, steps: &mut Vec<Step>) {
        for (contender, it) in self.parties[index].contenders.iter().enumerate() {
            let Some(it) = it else { continue };
            let Some(asked) = &it.asked else { continue };
            match asked.passage {
                Passage::HeldUp => steps.push(Step::Exchange(index, contender)),
                Passage::Answered(_) => steps.push(Step::Answer(index, contender)),
                Passage::Leaving => {}
            }
            if it.is_out_of_time(self.now()) {
                steps.push(Step::TimeOut(index, contender));
            }
        }
    }

    fn ends_of(&self, index: usize, steps: &mut Vec<Step>) {
        let party = &self.parties[index];
        if !party.is_alive {
            return;
        }
        let has_begun = party.contenders.iter().flatten().any(|contender| contender.term.is_some());
        if party.wanted && has_begun && self.left.departures > 0 {
            steps.push(Step::LetGo(index));
        }
        if !party.wanted && self.left.returns > 0 {
            steps.push(Step::Want(index));
        }
        if self.left.faults > 0 && self.left.crashes > 0 && has_begun {
            steps.push(Step::Crash(index));
        }
        if self.left.faults > 0 && self.left.pauses > 0 && !party.paused && has_begun {
            steps.push(Step::Pause(index));
        }
    }

    pub(super) fn after(&self, step: Step) -> World {
        let mut world = self.clone();
        world.history.notes.next_step();
        world.pay(step);
        match step {
            Step::Tick => world.tick += 1,
            Step::Wake(index, contender) => world.decide(index, contender, Event::Wake),
            Step::Exchange(index, contender) => {
                world.arrive(index, contender);
                world.answer(index, contender);
            }
            Step::HoldUp(index, contender) => {
                if let Some(asked) = world.party_mut(index).asked_mut(contender) {
                    asked.passage = Passage::HeldUp;
                }
            }
            Step::Arrive(index, contender) => world.arrive(index, contender),
            Step::Answer(index, contender) => world.answer(index, contender),
            Step::TimeOut(index, contender) | Step::Lose(index, contender) => {
                world.lose(index, contender)
            }
            Step::Abort(index, contender) => {
                world.hear(index, contender, Reply::Answer(Answer::NotApplied));
            }
            Step::ArriveLate(at) => world.arrive_late(at),
            Step::Crash(index) => world.crash(index),
            Step::Pause(index) => world.party_mut(index).paused = true,
            Step::LetGo(index) => world.contend(index, false),
            Step::Want(index) => world.contend(index, true),
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
