//! Time and chance, from the machine. The simulation puts its own in their place.

pub(crate) mod chance;
mod clock;

pub use clock::Clock;
#[cfg(all(feature = "__simulation", unix))]
pub use clock::Machine;
