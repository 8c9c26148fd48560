//! Fleets of the lock that ships, in virtual time, with faults of every kind.
//!
//! A [`Plan`] follows from a seed: how many locks and instances, their leases, the rates of their
//! clocks, the network's faults. [`run`] lives it. The real loop and the real protocol of every instance run
//! on tokio's paused clock, on one thread. The embedded server's own engine answers them through a
//! network that delays, loses and reorders. For a share of the seeds the embedded server answers
//! through the real client. There, others hold the locks by `acquire`, `lead` and `run_once`
//! besides, and a tool looks and deposes.
//! When the fault phase is over, every lock must
//! have a holder within [`Plan::limit`]. The checkers in `checks` watch the invariants I1 to I8
//! all the while. They also watch that a lock which is reserved for somebody or for nobody stays
//! so.
//!
//! The same seed gives the same trace, unless it goes through the client, which draws from the
//! system's randomness.

mod callers;
mod checks;
mod coverage;
mod fleet;
mod flow;
mod instance;
mod load;
mod machine;
mod manual_edits;
mod nemesis;
mod network;
mod network_faults;
mod overload;
mod past;
mod plan;
mod reach;
mod report;
mod rows;
mod run;
mod server;
mod timeline;
mod told;
mod tool;
mod trace;
mod world;

pub use checks::{Invariant, Violation};
pub use coverage::{Coverage, CoverageGoal};
pub use fleet::{FleetPlan, Subject, Trial, run_fleet};
pub use overload::{Overload, Trouble};
pub use plan::{CallerPlan, LockPlan, MemberPlan, Plan};
pub use report::Report;
pub use run::run;
