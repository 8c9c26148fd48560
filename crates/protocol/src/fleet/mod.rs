//! Stands on top of many locks: assigns them to the members of a group.
//!
//! Pure as the rest: nothing here acts. A wrong or an old view costs time and never safety, because
//! each shard is an ordinary lock with a token of its own.

mod count;
mod counting;
mod declaration;
mod plan;
mod share;

pub use count::{Count, CountNamed, CountStep, SHARDS_MAX};
pub use counting::{Join, counts_from, usual_settling};
pub use declaration::Declaration;
pub use plan::{Move, Plan, plan};
pub use share::{Part, Participant, ShardState, Share, Step, View};

#[cfg(test)]
mod count_tests;
#[cfg(test)]
mod plan_tests;
#[cfg(test)]
mod share_tests;
