//! An instance of a lock, and the ways to hold: a guard, a task, a scheduled job; by rank, too.

mod guard;
mod handle;
mod lead;
mod once;
mod rank;
mod work;

pub use guard::Guard;
pub(crate) use guard::WAIT_MAX;
pub use handle::{RunHandle, Spindle};
pub use lead::{LeadOptions, TaskResult};
pub(crate) use once::last_run;
pub use once::{JobOutcome, LastRun, RunState};
pub(crate) use work::{Ended, Orders, Why, joined, run};
