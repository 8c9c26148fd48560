//! One ranked lock under the real protocol, and contenders who take turns by the real rules.
//!
//! The lock is that of a [`World`](crate::world::World). Beside each of its processes stands what
//! `spindle_protocol::fleet` remembers for a ranked contender: for how long it leaves a vacant lock to
//! others, and to whom it hands over as a leader. The rows of the members are inputs: one that lives is
//! listed, and one that has died until its lease is over. A contender decides by the members as they
//! are, or as it knew them a poll ago.

mod bounds;
mod goals;
mod judge;
mod model;
mod world;

pub use bounds::RankModel;
pub use goals::Goal;
pub use world::{RankStep, RankWorld};
