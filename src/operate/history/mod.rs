//! A lock's past, read from Spanner's old versions of its row.

mod cause;
mod past_term;
mod terms;
mod walk;

pub use past_term::{Cause, HistoryEnd, PastTerm};
pub use terms::History;
#[cfg(all(feature = "__simulation", unix))]
pub(crate) use walk::Walk;
#[cfg(all(feature = "__simulation", unix))]
pub use walk::{Past, Version};
