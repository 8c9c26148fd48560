//! The scenario as stateright explores it, and the properties that it is judged by.

use stateright::{Model, Property};

use super::judge::{Goal, Invariant};
use super::scenarios::Scenario;
use super::steps::Step;
use super::world::World;
use crate::notes::{Holds, Noted as _};
use crate::progress::is_chosen;

/// A scenario of readers and writers, explored.
#[derive(Clone, Debug)]
pub struct RwModel {
    /// The scenario to explore.
    pub scenario: Scenario,
}

impl Model for RwModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        World::all(&self.scenario)
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(&self.scenario, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        Some(world.after(step))
    }

    fn properties(&self) -> Vec<Property<RwModel>> {
        let mut properties = vec![
            Property::always("I1 one writes, or others read", |_, world: &World| {
                matches!(world.holders(), (0, _) | (1, 0))
            }),
            Property::always(
                "I3 no fence of a writer holds beside one of a reader",
                |_, world: &World| matches!(world.history.fences(&world.table), (0, _) | (1, 0)),
            ),
            Property::always("an instance keeps the proof's contract", |_, world: &World| {
                !world.parties.iter().any(|party| party.broke_contract)
            }),
            Property::always("I5 all who live come to hold", |model: &RwModel, world: &World| {
                !is_chosen(world, model.scenario.continued_one_in) || world.has_everybody_hold()
            }),
        ];
        properties.extend(Invariant::properties());
        properties.extend(self.scenario.expected.iter().map(|goal| goal.property()));
        properties
    }
}

impl Holds<Goal> for World {
    fn holds(&self, goal: Goal) -> bool {
        self.history.notes.has_met(goal)
    }
}

impl Holds<Invariant> for World {
    fn holds(&self, invariant: Invariant) -> bool {
        self.history.notes.keeps(invariant)
    }
}
