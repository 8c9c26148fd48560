//! An instance of a lock, and the ways to hold: a guard, a task, a scheduled job.

mod call;
mod guard;
mod handle;
mod job;
mod lead;
mod lead_each;
mod lead_options;
mod nesting;
mod start;
mod supervisor;
mod work;

pub use call::{Acquire, Lead, Resign};
pub use guard::Guard;
pub use handle::Spindle;
pub use job::{Job, JobOutcome, JobRun, Skip, Slot, SlotRecord, SlotState};
pub use lead_each::LeadEach;
pub use lead_options::TaskResult;
pub use start::RunHandle;
pub use supervisor::{released_after_error, say_dropped};
pub use work::{Ended, Orders, Why, joined, run};
