use std::time::Duration;

use crate::Act;

/// The durations that one instance lives by; its maker validates them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long the last heartbeat protects a holder.
    pub lease: Duration,
    /// From one heartbeat to the next.
    pub heartbeat_interval: Duration,
    /// A term with no heartbeat for this long is cancelled; less than the lease less the margin.
    pub renew_deadline: Duration,
    /// The clock drift margin: a holder takes it off its lease, for clocks that run at different
    /// rates.
    pub clock_drift_margin: Duration,
    /// From one poll of a contender to the next, unless the lease runs out before.
    pub poll_interval: Duration,
    /// How long a release may go on trying.
    pub release_limit: Duration,
}

impl Timing {
    /// Returns the defaults that follow from a lease.
    pub fn from_lease(lease: Duration) -> Timing {
        Timing {
            lease,
            heartbeat_interval: lease / 2,
            renew_deadline: lease / 5 * 4,
            clock_drift_margin: lease / 100,
            poll_interval: Duration::from_secs(1).min(lease / 5),
            release_limit: Duration::from_secs(5).min(lease),
        }
    }

    /// Returns how long one attempt at `act` may take before its outcome counts as unknown.
    ///
    /// However long the lease: an answer that takes this long will not come.
    pub fn attempt_limit(&self, act: &Act) -> Duration {
        let limit = Duration::from_secs(10).min(self.lease / 3);
        match act {
            Act::Heartbeat { .. } => limit.min(self.heartbeat_limit()),
            _ => limit,
        }
    }

    /// Returns a limit so short that a term outlives one lost heartbeat: two attempts, and the
    /// pause between them, end before the renew deadline.
    fn heartbeat_limit(&self) -> Duration {
        let both = self.renew_deadline.saturating_sub(self.heartbeat_interval);
        let both = both.saturating_sub(self.heartbeat_pause() * 2);
        // A caller that sets a deadline without room for two attempts has one.
        (both / 2).max(self.lease / 10)
    }

    /// Before a heartbeat that failed is repeated, and as long again for jitter. Promptly, as long
    /// as the term lasts: what it needs is no retry to save on.
    pub fn heartbeat_pause(&self) -> Duration {
        Duration::from_secs(1).min(self.lease / 50)
    }

    /// Before something that failed is tried again, the first time.
    ///
    /// Not shorter for a short lease: what fails at once would be tried too often (I8).
    pub fn retry_pause(&self) -> Duration {
        (self.lease / 50).clamp(Duration::from_millis(250), Duration::from_secs(1))
    }

    /// Returns how long a holder may call itself holder after the moment its last heartbeat was
    /// sent.
    pub fn validity(&self) -> Duration {
        self.lease.saturating_sub(self.clock_drift_margin)
    }

    /// Returns how far contenders that wake for the same expiry spread, so that they collide less.
    pub fn jitter(&self) -> Duration {
        Duration::from_millis(50).min(self.lease / 50)
    }
}
