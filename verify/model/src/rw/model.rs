//! The scenario as stateright explores it, and the properties that it is judged by.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use stateright::{Model, Property};

use super::judge::{Goal, Invariant};
use super::scenarios::Scenario;
use super::steps::Step;
use super::world::World;
use crate::goals::Meets;

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
            unbroken("I2 each term's token is later than every earlier one's", Invariant::I2),
            unbroken("I4 no request changes the row of another's term", Invariant::I4),
            Property::always("an instance keeps the proof's contract", |_, world: &World| {
                world.parties.iter().all(|party| !party.broke_contract)
            }),
            unbroken("a writer, waiting too, stops new readers", Invariant::Stops),
            unbroken("a writer begins where nobody reads", Invariant::Waits),
            Property::always("I5 all who live come to hold", |model: &RwModel, world: &World| {
                let one_in = model.scenario.continued_one_in;
                let hash = || BuildHasherDefault::<DefaultHasher>::default().hash_one(world);
                hash() % one_in != 0 || world.leads_on()
            }),
        ];
        properties.extend(self.scenario.expected.iter().map(|goal| goal.is_met()));
        properties
    }
}

fn unbroken(name: &'static str, invariant: Invariant) -> Property<RwModel> {
    // A property's condition captures nothing.
    let condition: fn(&RwModel, &World) -> bool = match invariant {
        Invariant::I2 => |_, world| !world.history.is_broken(Invariant::I2),
        Invariant::I4 => |_, world| !world.history.is_broken(Invariant::I4),
        Invariant::Stops => |_, world| !world.history.is_broken(Invariant::Stops),
        Invariant::Waits => |_, world| !world.history.is_broken(Invariant::Waits),
    };
    Property::always(name, condition)
}

impl Meets<Goal> for World {
    fn has_met(&self, goal: Goal) -> bool {
        self.history.has_met(goal)
    }
}
