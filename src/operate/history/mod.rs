//! A lock's past, read from Spanner's old versions of its row.

mod cause;
mod past_term;
mod terms;
mod walk;

pub use past_term::{Cause, HistoryEnd, PastTerm};
pub use terms::History;
#[cfg(feature = "__simulation")]
pub(crate) use walk::Walk;
#[cfg(feature = "__simulation")]
pub use walk::{Past, Version};
