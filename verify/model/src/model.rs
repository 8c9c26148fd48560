//! The scenario as stateright explores it, and the properties that it is judged by.

use stateright::{Model, Property};

use crate::history::{Goal, Invariant};
use crate::notes::{Holds, Noted as _};
use crate::progress::is_chosen;
use crate::scenario::Scenario;
use crate::steps::Step;
use crate::world::World;

/// A scenario, explored.
#[derive(Clone, Debug)]
pub struct LockModel {
    /// The scenario to explore.
    pub scenario: Scenario,
}

impl Model for LockModel {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let starts = self.scenario.starts.iter();
        starts.map(|&start| World::new(&self.scenario, start)).collect()
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        world.steps(&self.scenario, steps);
    }

    fn next_state(&self, world: &World, step: Step) -> Option<World> {
        Some(world.after(&self.scenario, step))
    }

    fn properties(&self) -> Vec<Property<LockModel>> {
        let mut properties = of_any_lock();
        if self.scenario.clocks_break_i1 {
            // The clocks are worse than I1 allows for: it is seen broken.
            properties.retain(|property| !property.name.starts_with("I1 "));
            properties
                .push(Property::sometimes("two have the lock at once", |_, world: &World| {
                    world.holders() > 1
                }));
        }
        properties.extend([
            Property::always(
                "I5 some continuation leads to a holder",
                |model: &LockModel, world: &World| model.comes_to_a_holder(world),
            ),
            Property::always(
                "a dead one in line costs two polls",
                |model: &LockModel, world: &World| {
                    world.a_dead_one_costs_two_polls(&model.scenario)
                },
            ),
            Property::always("I6 no other lock's row is touched", |_, world: &World| {
                world.neighbours_are_untouched()
            }),
            Property::always("I7 and by everybody who gets the time", |_, world: &World| {
                world.nobody_is_late()
            }),
            Property::always(
                "I8 a lock has one takeover row at most",
                |model: &LockModel, world: &World| world.has_few_rows(&model.scenario),
            ),
        ]);
        properties.extend(self.scenario.expected.iter().map(|goal| goal.property()));
        properties
    }
}

/// Returns the properties that hold wherever there is a lock: I1, I3, and each [`Invariant`] of a step.
pub(crate) fn of_any_lock<M: Model<State: AsRef<World>>>() -> Vec<Property<M>> {
    let mut properties = vec![
        Property::always("I1 at most one has the lock", |_, state: &M::State| {
            let world = state.as_ref();
            world.history.interfered || world.holders() <= 1
        }),
        Property::always("I1 and nobody is at work beside it", |_, state: &M::State| {
            let world = state.as_ref();
            let at_work = world.nodes.iter().filter(|node| node.is_at_work()).count();
            world.history.interfered || at_work <= 1
        }),
        Property::always("I3 no fenced write of an earlier term commits", |_, state: &M::State| {
            !state.as_ref().fence_lets_the_past_write()
        }),
    ];
    properties.extend(Invariant::properties());
    properties
}

impl LockModel {
    fn comes_to_a_holder(&self, world: &World) -> bool {
        let is_continued = is_chosen(world, self.scenario.progress_checked_one_in);
        !is_continued || world.leads_to_a_holder(&self.scenario)
    }
}

impl<S: AsRef<World>> Holds<Goal> for S {
    fn holds(&self, goal: Goal) -> bool {
        self.as_ref().history.notes.has_met(goal)
    }
}

impl<S: AsRef<World>> Holds<Invariant> for S {
    fn holds(&self, invariant: Invariant) -> bool {
        self.as_ref().history.notes.keeps(invariant)
    }
}

impl AsRef<World> for World {
    fn as_ref(&self) -> &World {
        self
    }
}

impl World {
    /// Checks I7: nobody that gets its time still shows a term that is over by its own clock.
    fn nobody_is_late(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| node.paused || node.published.is_none() || node.has_lock().is_some())
    }
}
