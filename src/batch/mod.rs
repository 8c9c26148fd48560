//! The batcher: sends the acts of many locks together.
//!
//! Each connection has one on each runtime. It collects the acts of the instances there, and sends
//! what is due at about the same time as one read, or as one transaction over many rows. The
//! protocol knows nothing of it: each row is judged alone by its act's own definition, and an
//! instance's validity counts from its decision, before its act gets here.

mod budget;
mod dispatch;
mod flow;
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
pub(crate) use store::{Channels, Columns, CommitOutcome, Snapshot, Store, TakeOver, Verdict};
pub(crate) use ticks::Ticks;
