//! Writes that come late are refused: in Spanner by a fence, elsewhere by the highest token seen.

mod attempts;
mod condition;
mod high_water_mark;
mod predicate;
#[cfg(feature = "serde")]
mod serde;
mod transaction;

pub use condition::Fence;
pub use high_water_mark::HighWaterMark;
pub use transaction::FencedTransaction;
