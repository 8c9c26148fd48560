//! The lock protocol of spindle as a pure function: no clock, no runtime, no client.
//!
//! An [`Instance`] contends for one lock, or holds it. It is driven by [`Instance::decide`]: something
//! happened, here is the time, what now? The answer is a [`Decision`]: what to announce first, at
//! most one [`Act`] to carry out on the lock table, and when to ask again. The answer to an act is
//! the next event. Nothing else changes the state, so a model checker and a simulation that call
//! `decide` run the protocol that ships.
//!
//! # How to drive it
//!
//! 1. Read the clock, then call [`Instance::decide`]; a request that the decision asks for must
//!    leave *after* that reading, because validity counts from it.
//! 2. Carry out [`Decision::announce`] in order, then start [`Decision::act`], if there is one. A
//!    new act replaces one still under way: its answer must never be delivered.
//! 3. Call again with [`Event::Answer`] when the act has been answered, with [`Event::Wake`] when
//!    [`Decision::wake`] has come, or with what the owner asks for.
//!
//! Time has two sources that never mix: [`Timestamp`] is Spanner's, [`Moment`] is the process's
//! own.

mod act;
mod cells;
mod change;
pub mod fleet;
mod instance;
pub mod job;
pub mod line;
pub mod permits;
mod row;
pub mod rw;
mod time;
mod timing;
pub mod transaction;

pub use act::{Act, Announcement, Answer, Decision, EndReason, Event, Rejection, Seen, Wake};
pub use cells::{Cell, Column, LEASE_MAX, StoredRow, Write, WriteKind};
pub use change::{Change, Expected, Holder, Reads};
pub use instance::Instance;
pub use row::{
    Named, Nonce, Observation, Row, Succession, TermId, Writer, is_takeover_key, takeover_key,
    takeover_keys,
};
pub use time::{Moment, Timestamp};
pub use timing::Timing;

#[cfg(test)]
mod tests;
