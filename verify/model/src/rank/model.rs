//! The worlds of ranked contenders as stateright explores them, and the properties.

use stateright::{Model, Property};

use super::bounds::RankModel;
use super::goals::{Goal, Rule};
use super::world::{RankStep, RankWorld};
use crate::history::Invariant;

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
        let mut properties = vec![
            Property::always("I1 at most one has the lock", |_, state: &RankWorld| {
                state.world.holders() <= 1
            }),
            Property::always("I1 and nobody is at work beside it", |_, state: &RankWorld| {
                state.world.nodes.iter().filter(|node| node.is_at_work()).count() <= 1
            }),
            Property::always("I2 tokens increase", |_, state: &RankWorld| {
                !state.world.history.is_broken(Invariant::I2)
            }),
            Property::always(
                "I3 no fenced write of an earlier term commits",
                |_, state: &RankWorld| !state.world.fence_lets_the_past_write(),
            ),
            Property::always(
                "I4 no request changes the row of a later term",
                |_, state: &RankWorld| !state.world.history.is_broken(Invariant::I4),
            ),
            Property::always(
                "I7 a term's end is announced before anything else",
                |_, state: &RankWorld| !state.world.history.is_broken(Invariant::I7),
            ),
            Property::always("a named successor has its grace", |_, state: &RankWorld| {
                !state.world.history.is_broken(Invariant::Grace)
            }),
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
        ];
        properties.extend(self.expected.iter().map(|&goal| seen(goal)));
        properties
    }
}
fn seen(goal: Goal) -> Property<RankModel> {
    // A property's condition captures nothing.
    match goal {
        Goal::HandedOver => Property::sometimes(
            "a leader went for a higher rank, which took the lock",
            |_, state: &RankWorld| state.seen.has(Goal::HandedOver),
        ),
        Goal::HandedAgain => Property::sometimes(
            "a leader went again, for a later life of the same member",
            |_, state: &RankWorld| state.seen.has(Goal::HandedAgain),
        ),
        Goal::HandedByOldView => {
            Property::sometimes("a leader went by an old view", |_, state: &RankWorld| {
                state.seen.has(Goal::HandedByOldView)
            })
        }
        Goal::MisledTurn => {
            Property::sometimes("a turn was decided by an old view", |_, state: &RankWorld| {
                state.seen.has(Goal::MisledTurn)
            })
        }
        Goal::TurnLapsed => Property::sometimes(
            "the lock was taken after the turn of one that goes before",
            |_, state: &RankWorld| state.seen.has(Goal::TurnLapsed),
        ),
    }
}
