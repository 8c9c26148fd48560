//! The ways to hold a lock: a guard, a task that runs while it is held, a scheduled job.

mod guard;
mod lead;
mod once;
mod work;

pub use guard::Guard;
pub(crate) use guard::WAIT_MAX;
pub use lead::{LeadOptions, TaskResult};
pub(crate) use once::last_run;
pub use once::{JobOutcome, LastRun, RunState};
pub(crate) use work::{Ended, Orders, Why, joined, run};
