//! One ranked lock under the real protocol, and contenders who take turns by the real rules.
//!
//! The lock is that of a [`World`](crate::world::World). Beside each of its processes stands what
//! `spindle_protocol::fleet` remembers for a ranked contender: for how long it leaves a vacant lock to
//! others, and to whom it hands over as a leader. The rows of the members are inputs: one that lives is
//! listed, and one that has died until its lease is over. A contender decides by the members as they
//! are, or as it knew them a poll ago.

mod judge;
mod model;
mod world;

pub use world::{RankStep, RankWorld};

use crate::notes::noted;
use crate::scenario::{Budget, Scenario, Start};
use crate::scenarios;

/// The contenders and their lock, explored.
#[derive(Clone, Debug)]
pub struct RankModel {
    /// The bounds, and the members.
    pub scenario: Scenario,
    /// The rank of each member.
    pub ranks: Vec<u32>,
    /// How many views may be a poll old.
    pub old_views: u8,
    /// The goals that there must be.
    pub expected: Vec<Goal>,
}

impl RankModel {
    /// Returns the explorations that run in CI.
    pub fn short() -> Vec<RankModel> {
        vec![RankModel::two(), RankModel::three()]
    }

    /// Returns the same in small.
    pub fn quick() -> Vec<RankModel> {
        let in_small = |model: RankModel| RankModel {
            scenario: Scenario { ticks: model.scenario.ticks - 2, ..model.scenario },
            expected: vec![Goal::HandedOver],
            ..model
        };
        RankModel::short().into_iter().map(in_small).collect()
    }

    /// A leader of the lower rank, and one of the higher.
    fn two() -> RankModel {
        let scenario = scenarios::of_two("rank", 9);
        let expected =
            vec![Goal::HandedOver, Goal::HandedAgain, Goal::HandedByOldView, Goal::MisledTurn];
        RankModel { scenario, ranks: vec![1, 2], old_views: 1, expected }
    }

    /// A leader of the lowest rank, and two above it.
    fn three() -> RankModel {
        let two = RankModel::two();
        let budget = Budget { faults: 1, crashes: 1, ..Budget::default() };
        let scenario = Scenario {
            name: "ranks",
            members: scenarios::named("three").members,
            starts: vec![Start::Held, Start::Abandoned],
            ticks: 7,
            budget,
            ..two.scenario
        };
        let expected = vec![Goal::HandedOver, Goal::TurnLapsed];
        RankModel { scenario, ranks: vec![1, 2, 3], old_views: 0, expected }
    }
}

noted! {
    always: pub(super) enum Rule {
        Turn: "a vacant lock is left to a higher rank for a grace",
        ByName: "a leader that goes names the higher rank for which it goes",
        Once: "a leader goes once for a term of a member",
    }
}

noted! {
    sometimes: pub enum Goal {
        HandedOver: "a leader went for a higher rank, which took the lock",
        HandedAgain: "a leader went again, for a later life of the same member",
        HandedByOldView: "a leader went by an old view",
        MisledTurn: "a turn was decided by an old view",
        TurnLapsed: "the lock was taken after the turn of one that goes before",
    }
}
