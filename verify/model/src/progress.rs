//! I5: from every reachable state some continuation without faults leads to a holder.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash};
use std::time::Duration;

use spindle_protocol::Event;

use crate::node::{Asked, Passage};
use crate::scenario::{Scenario, ticks};
use crate::table::is_takeover_row;
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
        let holds = |survivor| self.holds_alone(scenario, survivor).is_some();
        self.survivors().into_iter().all(holds)
    }

    /// Checks I8: a term that is left alone and lives has no takeover row but its own after a
    /// while. The while is a heartbeat interval and the longest pause after sweeps that have
    /// failed.
    pub fn is_tidied(&self, scenario: &Scenario) -> bool {
        self.survivors().into_iter().all(|survivor| {
            let interval = scenario.members[survivor].timing.heartbeat_interval;
            let mut world = self.clone();
            // One that was out of contact before is lost, and begins anew.
            for _ in 0..3 {
                let Some(holding) = world.holds_alone(scenario, survivor) else { return true };
                world = holding;
                let term = |world: &World| world.nodes[survivor].has_lock().map(|it| it.token);
                let began = term(&world);
                for _ in 0..ticks(interval + Duration::from_secs(10)) {
                    world.pass(scenario, 0);
                    world.settle(scenario, survivor);
                }
                if term(&world) == began {
                    return world.table.rows().filter(|row| is_takeover_row(row)).count() <= 1;
                }
            }
            false
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
    /// release, a lease to run out, and one for a leftover, each noticed at the next poll or two.
    fn time_limit(scenario: &Scenario) -> u16 {
        let lease = ticks(scenario.longest_lease());
        let poll = scenario.members.iter().map(|member| member.timing.poll_interval).max();
        3 * lease + 6 * ticks(poll.unwrap_or_default()) + 6
    }

    /// Returns the world in which the survivor has come to hold.
    fn holds_alone(&self, scenario: &Scenario, survivor: usize) -> Option<World> {
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
        for _ in 0..Self::time_limit(scenario) {
            world.settle(scenario, survivor);
            if world.nodes[survivor].has_lock().is_some() {
                return Some(world);
            }
            world.pass(scenario, 0);
        }
        None
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
