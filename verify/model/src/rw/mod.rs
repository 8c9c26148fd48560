//! Readers and writers, model checked: the second of two protocols that ship.
//!
//! The worlds here contain real [`spindle_protocol::Instance`]s behind the views of
//! [`spindle_protocol::rw`], on the table of [`crate::table`]: one of a reader, and two of a writer, for
//! the gate and for the write lock. An onlooker judges each commit, and in each state which fences
//! would hold. A rule of the writer's begin is left out in turn: then a fence must break.

mod judge;
mod model;
mod party;
mod scenarios;
mod steps;
mod world;

pub use model::RwModel;
pub use scenarios::{Scenario, broken, long, quick, short};
