//! How the life of a world went.

use std::time::Duration;

use crate::checks::Violation;
use crate::coverage::Coverage;

/// How a run ended.
#[derive(Clone, Debug)]
pub struct Report {
    /// The first violation, if there was one.
    pub violation: Option<Violation>,
    /// How much virtual time has passed.
    pub simulated: Duration,
    /// How many instances lived in it, lives after a crash not counted.
    pub instances: usize,
    /// How many faults there were, of processes, network and server.
    pub faults: u64,
    /// The things seen so far.
    pub coverage: Coverage,
    /// The same for the same events in the same order.
    pub trace: u64,
    /// True if the same seed gives the same trace: none of it went through the client.
    pub repeats: bool,
}
