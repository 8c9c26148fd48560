//! The proof that the lock is safe: the protocol that ships, model checked.
//!
//! The worlds explored here contain two or three real [`spindle_protocol::Instance`]s, an
//! executable specification of the lock table on Spanner, and everything that a network, a clock,
//! a machine, an owner and a careless hand may do to them, in every order, within the bounds of a
//! [`scenario::Scenario`].

pub mod history;
pub mod model;
pub mod node;
pub mod oracle;
mod progress;
pub mod run;
pub mod scenario;
pub mod scenarios;
mod sightings;
pub mod steps;
pub mod table;
pub mod world;
