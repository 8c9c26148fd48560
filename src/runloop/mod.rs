//! The loop of an instance, and those in this process who ask it for the lock.

#[cfg(all(feature = "__simulation", unix))]
pub(crate) mod contract;
mod drive;
mod inbox;
mod metrics;
mod role;
mod row;
mod waiters;
mod writer;

pub(crate) use drive::{Command, Demand, Driver, overdue_limit};
pub(crate) use inbox::{Inbox, Outbox};
pub(crate) use metrics::Meter;
#[cfg(all(feature = "__simulation", unix))]
pub(crate) use role::Role;
pub(crate) use role::RowRole;
#[cfg(all(feature = "__simulation", unix))]
pub(crate) use row::{Batched, WrittenColumns};
pub(crate) use row::{BatchedRow, LockRow, UnderWay};
pub(crate) use waiters::{End, Grant, Occupied, ReleaseNote, WaitMode, Waiter};
pub(crate) use writer::{WriterRow, WritersTurns};
