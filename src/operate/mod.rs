//! Calls for anyone with the database, without an instance: to look, and to step in.

mod check;
#[cfg(feature = "admin")]
mod create;
mod depose;
mod exited;
mod history;
mod inspect;
pub(crate) mod jobs;
mod leader;
mod list;
mod observe;
mod pages;
mod remove;
pub(crate) mod state;

#[cfg(feature = "admin")]
pub(crate) use create::{admin, create, upgrade};
pub use depose::Evict;
#[doc(hidden)]
pub use exited::{AtExit, ExitedInstance};
pub(crate) use exited::{release_exited, release_left};
#[cfg(feature = "__simulation")]
pub(crate) use history::Walk;
pub use history::{Cause, History, HistoryEnd, PastTerm};
#[cfg(feature = "__simulation")]
#[doc(hidden)]
pub use history::{Past, Version};
pub(crate) use inspect::inspect;
pub(crate) use jobs::{job, jobs, remove_job};
pub use list::LockList;
pub use observe::Observer;
pub(crate) use remove::remove;
pub(crate) use state::LockState;
