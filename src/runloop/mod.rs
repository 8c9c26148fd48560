//! The loop of an instance, and those in this process who ask it for the lock.

#[cfg(feature = "__simulation")]
pub(crate) mod contract;
mod drive;
mod job;
mod metrics;
mod namesake;
mod report;
mod role;
mod row;
mod waiters;

pub(crate) use drive::{Command, Demand, Driver, overdue_limit};
pub(crate) use job::{JobRows, SlotSeen};
pub use role::RowRole;
pub(crate) use row::BatchedRow;
#[cfg(feature = "__simulation")]
pub(crate) use row::{LockRow, UnderWay};
pub(crate) use waiters::{End, Grant, NotGranted, Released, WaitMode, Waiter};
