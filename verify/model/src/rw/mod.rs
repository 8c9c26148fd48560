//! Readers and writers, model checked: the second of two protocols that ship.
//!
//! The worlds here contain real [`spindle_protocol::Instance`]s behind the views of
//! [`spindle_protocol::rw`], on the table of [`crate::table`]. An onlooker judges each commit, and
//! in each state which fences would hold.

mod judge;
mod model;
mod party;
mod scenarios;
mod steps;
mod world;

pub use model::RwModel;
pub use scenarios::{Scenario, long, quick, short};
