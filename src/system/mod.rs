//! Time and random numbers, from the machine. The simulation puts its own in their place.

mod clock;
pub(crate) mod random;

pub use clock::Clock;
#[cfg(all(feature = "__simulation", unix))]
pub use clock::Machine;
