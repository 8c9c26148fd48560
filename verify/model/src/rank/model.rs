//! The worlds of ranked contenders as stateright explores them, and the properties.

use stateright::{Model, Property};

use super::bounds::RankModel;
use super::goals::{Goal, Rule};
use super::world::{RankStep, RankWorld};
use crate::goals::Meets;
use crate::history::Invariant;
use crate::model::of_any_lock;
use crate::world::World;

impl Model for RankModel {
    type State = RankWorld;
    type Action = RankStep;

    fn init_states(&self) -> Vec<RankWorld> {
        self.scenario.starts.iter().map(|start| RankWorld::new(self, *start)).collect()
    }

    fn actions(&self, state: &RankWorld, steps: &mut Vec<RankStep>) {
        state.steps(self, steps);
    }

    fn next_state(&self, state: &RankWorld, step: RankStep) -> Option<RankWorld> {
        let mut next = state.clone();
        next.take(self, step);
        Some(next)
    }

    fn properties(&self) -> Vec<Property<RankModel>> {
        let mut properties = of_any_lock();
        properties.extend([
            Property::always(
                "I7 a term's end is announced before anything else",
                |_, state: &RankWorld| !state.world.history.is_broken(Invariant::I7),
            ),
            Property::always(
                "a vacant lock is left to a higher rank for a grace",
                |_, state: &RankWorld| !state.is_broken(Rule::Turn),
            ),
            Property::always(
                "a leader that goes names the higher rank for which it goes",
                |_, state: &RankWorld| !state.is_broken(Rule::ByName),
            ),
            Property::always(
                "a leader goes once for a term of a member",
                |_, state: &RankWorld| !state.is_broken(Rule::Once),
            ),
            Property::always(
                "the highest rank that lives comes to lead, or has had its turn",
                |model: &RankModel, state: &RankWorld| state.leads_to_the_highest(model),
            ),
        ]);
        properties.extend(self.expected.iter().map(|goal| goal.is_met()));
        properties
    }
}

impl Meets<Goal> for RankWorld {
    fn has_met(&self, goal: Goal) -> bool {
        self.met.has(goal)
    }
}

impl AsRef<World> for RankWorld {
    fn as_ref(&self) -> &World {
        &self.world
    }
}
