//! The bounds of an exploration of ranked contenders.

use super::goals::Goal;
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
            members: scenarios::three().members,
            starts: vec![Start::Held, Start::Abandoned],
            ticks: 7,
            budget,
            ..two.scenario
        };
        let expected = vec![Goal::HandedOver, Goal::TurnLapsed];
        RankModel { scenario, ranks: vec![1, 2, 3], old_views: 0, expected }
    }
}
