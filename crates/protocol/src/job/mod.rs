//! Jobs by slot: each scheduled time is run once, and tried again where that fails.
//!
//! A job is a lock, and a record in a row of its own. The commits that begin and that release a term
//! read and write both.

mod calendar;
mod change;
mod record;
mod runner;

#[cfg(test)]
mod tests;

pub use change::{Ending, RecordChange};
pub(crate) use change::{columns, given_up};
pub use record::{Record, Recorded, SlotState, nearest, not_before};
pub use runner::{Asked, Runner, Slot, Step};
