//! I5: from every reachable state some continuation without faults leads to a holder.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};

use spindle_protocol::Event;
use spindle_protocol::line::Standing;

use crate::node::{Asked, Passage};
use crate::scenario::{Member, Scenario, ticks};
use crate::world::World;

/// Returns true for one state in so many, which are followed to their end.
pub(crate) fn is_chosen(state: &impl Hash, one_in: u64) -> bool {
    let hash = || BuildHasherDefault::<DefaultHasher>::default().hash_one(state);
    one_in <= 1 || hash() % one_in == 0
}

impl World {
    /// Returns true if a contender that is left alone with Spanner comes to hold within the bound,
    /// whatever state the world is in. Each one that runs is tried by itself, and a fresh one if
    /// none does.
    pub fn leads_to_a_holder(&self, scenario: &Scenario) -> bool {
        let limit = Self::time_limit(scenario);
        self.survivors().into_iter().all(|it| self.holds_alone(scenario, it, limit))
    }

    /// Returns true if one that stood first and is dead costs two polls, and no more: whoever is left
    /// alone with Spanner comes to hold at its next poll after them, or at the third if it has a rank.
    /// Faults other than deaths may cost more.
    pub fn a_dead_one_costs_two_polls(&self, scenario: &Scenario) -> bool {
        let (given, left) = (scenario.budget, self.left);
        let Some(from) = self.promised_to_the_dead_from() else { return true };
        if given.faults - left.faults > given.crashes - left.crashes {
            return true;
        }
        let two_polls = scenario.longest_poll() * 2;
        let left = ticks((from + two_polls).since(self.spanner()));
        self.survivors().into_iter().all(|it| {
            let Member { timing, standing, .. } = &scenario.members[it];
            let polls = if matches!(standing, Standing::Ranked { .. }) { 3 } else { 1 };
            self.holds_alone(scenario, it, left + polls * ticks(timing.poll_interval))
        })
    }

    fn survivors(&self) -> Vec<usize> {
        let contends = |index: usize| {
            let node = &self.nodes[index];
            node.instance.is_some() && !node.stopped
        };
        let mut survivors: Vec<_> = (0..self.nodes.len()).filter(|&at| contends(at)).collect();
        if survivors.is_empty() {
            survivors.push(0);
        }
        survivors
    }

    /// Returns the most ticks that it may take. The waits are a lease of backing off after a
    /// release, and a lease to run out, each noticed at the next poll or two.
    fn time_limit(scenario: &Scenario) -> u16 {
        let lease = ticks(scenario.longest_lease());
        2 * lease + 6 * ticks(scenario.longest_poll()) + 6
    }

    /// Returns true if the survivor comes to hold within so many ticks.
    fn holds_alone(&self, scenario: &Scenario, survivor: usize, limit: u16) -> bool {
        let mut world = self.clone();
        world.late.clear();
        for index in 0..world.nodes.len() {
            if index != survivor || world.nodes[index].stopped {
                world.node_mut(index).crash();
            }
        }
        if world.nodes[survivor].instance.is_none() {
            world.node_mut(survivor).restart(survivor, &scenario.members[survivor]);
        }
        if !world.nodes[survivor].wanted {
            world.decide(survivor, Event::Contend(true), scenario);
        }
        for _ in 0..limit {
            world.settle(scenario, survivor);
            if world.nodes[survivor].has_lock().is_some() {
                return true;
            }
            world.pass(scenario, 0);
        }
        false
    }

    /// Everything that can happen at this instant happens, and nothing goes wrong.
    pub(crate) fn settle(&mut self, scenario: &Scenario, survivor: usize) {
        // More than any instant asks for; an endless loop is a failure to make progress.
        for _ in 0..16 {
            let node = &self.nodes[survivor];
            match &node.asked {
                Some(Asked { passage: Passage::Answered(_), .. }) => {
                    self.answer(survivor, scenario);
                }
                Some(_) => self.exchange(survivor, scenario),
                None if node.wake_is_due() => self.decide(survivor, Event::Wake, scenario),
                None => return,
            }
        }
    }
}
