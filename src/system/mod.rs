//! Time, ticks and random numbers, from the machine; the simulation puts its own in their place. The
//! caller's runtime.

mod clock;
pub(crate) mod random;
mod runtime;
mod ticks;

pub use clock::Clock;
#[cfg(feature = "__simulation")]
pub use clock::Machine;
pub(crate) use runtime::{check_io, runtime};
pub(crate) use ticks::Ticks;
