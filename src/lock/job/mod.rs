//! Scheduled jobs: each slot is run once, and tried again where that fails.

mod builder;
mod outcome;
mod record;
mod run;
mod slot;
mod supervise;

pub use builder::Job;
pub use outcome::{JobOutcome, Skip};
pub use record::{SlotRecord, SlotState};
pub use run::JobRun;
pub use slot::Slot;
