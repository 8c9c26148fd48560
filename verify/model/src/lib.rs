//! The proof that the lock is safe: the protocol that ships, model checked.
//!
//! The worlds explored here contain two or three real [`spindle_protocol::Instance`]s and an
//! executable specification of the lock table on Spanner. They contain all that a network, a clock,
//! a machine, an owner and a careless hand may do to them. Every order is tried, within the bounds
//! of a [`scenario::Scenario`].

mod coverage;
pub mod history;
pub mod line;
pub mod model;
pub mod node;
pub mod notes;
pub mod permits;
mod places;
mod progress;
pub mod run;
pub mod rw;
pub mod scenario;
pub mod scenarios;
mod search;
pub mod shard;
pub mod steps;
pub mod table;
pub mod world;
