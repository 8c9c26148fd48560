//! The loop of an instance, and those in this process who ask it for the lock.

mod carried;
mod claims;
mod drive;
mod inbox;
mod metrics;
mod role;

#[cfg(all(feature = "__simulation", unix))]
pub(crate) use carried::{Carried, Told};
pub(crate) use carried::{CarriedRow, LockRow, UnderWay};
pub(crate) use claims::{Claim, End, Grant, Occupied, Parting, Patience};
pub(crate) use drive::{Command, Demand, Driver, overdue_limit};
pub(crate) use inbox::{Inbox, Outbox};
pub(crate) use role::Part;
#[cfg(all(feature = "__simulation", unix))]
pub(crate) use role::Role;
