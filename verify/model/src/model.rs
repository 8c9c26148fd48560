//! The scenario as stateright explores it, and the properties that it is judged by.

use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher};

use stateright::{Model, Property};

use crate::goals::Meets;
use crate::history::{Goal, Invariant};
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
                |model: &LockModel, world: &World| model.leads_on(world),
            ),
            Property::always("I6 no other lock's row is touched", |_, world: &World| {
                world.neighbours_are_untouched()
            }),
            Property::always(
                "I7 a term's end is announced before anything else",
                |_, world: &World| {
                    !world.history.is_broken(Invariant::I7) && world.nobody_is_late()
                },
            ),
            Property::always(
                "nobody takes or keeps what its owner does not want",
                |_, world: &World| !world.history.is_broken(Invariant::Unasked),
            ),
            Property::always(
                "I8 a release leaves no takeover row of its own term",
                |_, world: &World| !world.history.is_broken(Invariant::I8),
            ),
            Property::always(
                "I8 a term that lives leaves one takeover row",
                |model: &LockModel, world: &World| model.tidies(world),
            ),
            Property::always("an evicted holder keeps away as told", |_, world: &World| {
                !world.history.is_broken(Invariant::KeptAway)
            }),
        ]);
        properties.extend(self.scenario.expected.iter().map(|goal| goal.is_met()));
        properties
    }
}

/// Returns the properties that hold wherever there is a lock: I1 to I4, and the grace of a named successor.
pub(crate) fn of_any_lock<M: Model<State: AsRef<World>>>() -> Vec<Property<M>> {
    vec![
        Property::always("I1 at most one has the lock", |_, state: &M::State| {
            let world = state.as_ref();
            world.history.interfered || world.holders() <= 1
        }),
        Property::always("I1 and nobody is at work beside it", |_, state: &M::State| {
            let world = state.as_ref();
            let at_work = world.nodes.iter().filter(|node| node.is_at_work()).count();
            world.history.interfered || at_work <= 1
        }),
        Property::always(
            "I2 tokens increase, and none is announced twice",
            |_, state: &M::State| !state.as_ref().history.is_broken(Invariant::I2),
        ),
        Property::always("I3 no fenced write of an earlier term commits", |_, state: &M::State| {
            !state.as_ref().fence_lets_the_past_write()
        }),
        Property::always("I4 no request changes the row of a later term", |_, state: &M::State| {
            !state.as_ref().history.is_broken(Invariant::I4)
        }),
        Property::always("an instance keeps the proof's contract", |_, state: &M::State| {
            !state.as_ref().history.is_broken(Invariant::Contract)
        }),
        Property::always("a named successor has its grace", |_, state: &M::State| {
            !state.as_ref().history.is_broken(Invariant::Grace)
        }),
    ]
}

impl LockModel {
    fn leads_on(&self, world: &World) -> bool {
        !self.is_continued(world) || world.leads_to_a_holder(&self.scenario)
    }

    /// Rows of other implementations, and what careless people leave, are excepted.
    fn tidies(&self, world: &World) -> bool {
        let excepted = world.history.interfered || self.scenario.has_peers();
        excepted || !self.is_continued(world) || world.is_tidied(&self.scenario)
    }

    /// Returns true if this is one of the states that are followed to their end.
    fn is_continued(&self, world: &World) -> bool {
        world.is_chosen(self.scenario.progress_checked_one_in)
    }
}

impl Meets<Goal> for World {
    fn has_met(&self, goal: Goal) -> bool {
        self.history.has_met(goal)
    }
}

impl AsRef<World> for World {
    fn as_ref(&self) -> &World {
        self
    }
}

impl World {
    /// Returns true for one world in so many.
    pub(crate) fn is_chosen(&self, one_in: u64) -> bool {
        let hash = || BuildHasherDefault::<DefaultHasher>::default().hash_one(self);
        one_in <= 1 || hash() % one_in == 0
    }

    /// Checks I7: nobody that gets its time still shows a term that is over by its own clock.
    fn nobody_is_late(&self) -> bool {
        self.nodes
            .iter()
            .all(|node| node.paused || node.published.is_none() || node.has_lock().is_some())
    }
}
