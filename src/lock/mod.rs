//! An instance of a lock, and the ways to hold: a guard, a task, a scheduled job.

mod guard;
mod handle;
mod lead;
mod lead_options;
mod nesting;
mod once;
mod start;
mod supervisor;
mod work;

pub use guard::Guard;
pub(crate) use guard::within;
pub use handle::Spindle;
pub use lead_options::{LeadOptions, TaskResult};
pub(crate) use once::last_run;
pub use once::{JobOutcome, LastRun, RunState};
pub use start::RunHandle;
pub(crate) use work::{Ended, Orders, Why, joined, run};
