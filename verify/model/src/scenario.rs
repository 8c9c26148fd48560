//! The bounds of an exploration: who takes part, from where, how long, and what may go wrong.

use std::time::Duration;

use spindle_protocol::line::Standing;
use spindle_protocol::{Holder, Timing};

use crate::history::Goal;

/// The step of time in which everything happens.
pub const TICK: Duration = Duration::from_secs(1);

/// Commits within one tick differ by nanoseconds, which must not decide if a lease has run out. So
/// this much is taken off every lease, and off the margin, on which validity rests.
const HAIR: Duration = Duration::from_millis(1);

/// A space of worlds to explore.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// The members that take part.
    pub members: Vec<Member>,
    /// Where it starts.
    pub starts: Vec<Start>,
    /// How many ticks are explored.
    pub ticks: u16,
    /// How many ticks a quick run explores at most.
    pub quick_ticks: u16,
    /// The faults and requests that may happen, and how often.
    pub budget: Budget,
    /// How many requests whose sender gave up may still be on their way.
    pub late_requests_max: usize,
    /// One state in so many is checked for I5; it takes longer than all else together.
    pub progress_checked_one_in: u64,
    /// True if the clocks are so bad that I1 must be found broken.
    pub clocks_break_i1: bool,
    /// The events that must have been seen, or the exploration proves nothing.
    pub expected: Vec<Goal>,
}

/// One participant.
#[derive(Clone, Debug)]
pub struct Member {
    /// Its id; two may share one.
    pub id: &'static str,
    /// The durations that it lives by.
    pub timing: Timing,
    /// How well its clock runs.
    pub clock: Clock,
    /// How it stands in line.
    pub standing: Standing,
}

/// How a clock may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// As Spanner's.
    Exact,
    /// At any moment it may lose a tick, at most once in so many.
    Slow(u8),
    /// At any moment it may gain a tick, at most once in so many.
    Fast(u8),
}

/// Where an exploration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Start {
    /// No row.
    Empty,
    /// The first member has just begun to hold.
    Held,
    /// The first member has held for ten leases, and the others have just started.
    HeldLong,
    /// A holder of another implementation died long ago.
    Abandoned,
    /// As before, and its successor died between its two steps.
    HalfTakenOver,
    /// A row whose token is the epoch, as a careless hand writes it.
    EpochToken,
}

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// All the faults below together, up to `duplicates`.
    pub faults: u8,
    /// A request or an answer that is held up: for as long as it likes, also for good.
    pub delays: u8,
    /// An unknown outcome before the time limit; afterwards it is bounded by time alone.
    pub unknowns: u8,
    /// An outcome that is known not to be.
    pub aborts: u8,
    /// A crash.
    pub crashes: u8,
    /// A pause of any length.
    pub pauses: u8,
    /// A request that arrives twice.
    pub duplicates: u8,
    /// The owner's stop.
    pub stops: u8,
    /// The owner's resignation.
    pub resignations: u8,
    /// A change of whether the owner wants the lock, or another way in which it lets go.
    pub holds: u8,
    /// The tool's eviction.
    pub evictions: u8,
    /// The tool's removal of a vacant lock's row.
    pub removals: u8,
    /// A takeover row of a peer that died halfway.
    pub half_takeovers: u8,
    /// A hand outside the protocol.
    pub manual_edits: u8,
}

/// Returns the ticks that it takes for so long to pass.
pub(crate) fn ticks(duration: Duration) -> u16 {
    u16::try_from(duration.as_nanos().div_ceil(TICK.as_nanos())).unwrap_or(u16::MAX)
}

/// Returns a timing in ticks, with the lease's hair taken off.
pub fn timing(lease: u32, heartbeat: u32, renew: u32, margin: u32, poll: u32) -> Timing {
    Timing {
        lease: TICK * lease - HAIR,
        heartbeat_interval: TICK * heartbeat,
        renew_deadline: TICK * renew,
        clock_drift_margin: (TICK * margin).saturating_sub(HAIR),
        poll_interval: TICK * poll,
        release_limit: TICK * 2,
    }
}

/// Returns the timing of all members that need no other.
pub(crate) fn short_lease() -> Timing {
    timing(4, 1, 2, 1, 1)
}

impl Member {
    /// Returns a participant with an exact clock, which stands aside from the line.
    pub fn new(id: &'static str, timing: Timing) -> Member {
        Member { id, timing, clock: Clock::Exact, standing: Standing::Aside }
    }

    /// Returns the text that it writes of itself.
    pub fn holder(&self) -> Holder {
        Holder { lease: self.timing.lease, info: None }
    }

    /// Returns the same in line.
    pub fn with_standing(self, standing: Standing) -> Member {
        Member { standing, ..self }
    }

    /// Returns the same with another clock.
    pub fn with_clock(self, clock: Clock) -> Member {
        Member { clock, ..self }
    }
}

impl Scenario {
    /// Returns the longest lease of all members.
    pub fn longest_lease(&self) -> Duration {
        self.members.iter().map(|member| member.timing.lease).max().unwrap_or_default()
    }

    /// Returns the longest poll interval of all members.
    pub fn longest_poll(&self) -> Duration {
        self.members.iter().map(|member| member.timing.poll_interval).max().unwrap_or_default()
    }

    /// Returns how long a named successor has first refusal.
    pub fn grace(&self) -> Duration {
        TICK * 2
    }
}
