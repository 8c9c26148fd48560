//! The worlds of ranked contenders as stateright explores them, and the properties.

use stateright::{Model, Property};

use super::world::{RankStep, RankWorld};
use super::{Goal, RankModel, Rule};
use crate::model::of_any_lock;
use crate::notes::{Holds, Noted as _};
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
        properties.extend(Rule::properties());
        properties.push(Property::always(
            "the highest rank that lives comes to lead, or has had its turn",
            |model: &RankModel, state: &RankWorld| state.leads_to_the_highest(model),
        ));
        properties.extend(self.expected.iter().map(|goal| goal.property()));
        properties
    }
}

impl Holds<Goal> for RankWorld {
    fn holds(&self, goal: Goal) -> bool {
        self.notes.has_met(goal)
    }
}

impl Holds<Rule> for RankWorld {
    fn holds(&self, rule: Rule) -> bool {
        self.notes.keeps(rule)
    }
}

impl AsRef<World> for RankWorld {
    fn as_ref(&self) -> &World {
        &self.world
    }
}
