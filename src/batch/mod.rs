//! The batcher: acts of many locks send together.
//!
//! One for each connection and runtime. It collects the acts of the instances there. It sends what
//! is due at about the same time as one read, or as one transaction over many rows. The protocol
//! knows nothing of it. Each row is judged alone by its act's own definition, and an instance's
//! validity counts from its decision, before its act gets here.

mod budget;
mod dispatch;
mod handle;
mod history;
pub(crate) mod judge;
mod op;
mod queues;
mod request;
mod store;
mod ticks;
mod together;
mod waiting;
mod window;

pub(crate) use budget::{Budget, Charge, Repeats};
pub(crate) use handle::{BatchHandle, Batchers};
pub(crate) use op::OpKind;
pub(crate) use store::{CommitOutcome, Leftovers, Need, OptionalColumns, Snapshot, Store, Verdict};
pub(crate) use ticks::Ticks;
