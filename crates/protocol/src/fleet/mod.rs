//! Stands on top of many locks: assigns them to the members of a group.
//!
//! Pure as the rest: nothing here acts. A wrong or an old view costs time and never safety, because
//! each shard is an ordinary lock with a token of its own.

mod count;
mod declaration;
mod joins;
mod plan;
mod share;
mod turn;

pub use count::{Count, CountNamed, CountStep, SHARDS_MAX};
pub use declaration::{Declaration, agreed_costs};
pub use joins::{Join, Life, declare_early, declared_early, joins};
pub use plan::{Move, Plan, plan, plan_by_weight};
pub use share::{Part, Participant, ShardState, Share, Step, View};
pub use turn::{Contest, LastHolder, Ranked, Vacancy, grace, turn};

#[cfg(test)]
mod count_tests;
#[cfg(test)]
mod joins_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod share_tests;
#[cfg(test)]
mod turn_tests;
