use std::time::Duration;

/// The durations that one instance lives by; validated by whoever builds it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Timing {
    /// How long the last heartbeat protects a holder.
    pub lease: Duration,
    /// From one heartbeat to the next.
    pub heartbeat_interval: Duration,
    /// A term with no heartbeat for this long is cancelled; less than the lease less the margin.
    pub renew_deadline: Duration,
    /// What a holder takes off its lease for clocks that run at different rates.
    pub margin: Duration,
    /// From one look of a contender to the next, unless the lease runs out before.
    pub poll_interval: Duration,
    /// How long a release may go on trying.
    pub release_limit: Duration,
}

impl Timing {
    /// The defaults that follow from a lease.
    pub fn from_lease(lease: Duration) -> Timing {
        Timing {
            lease,
            heartbeat_interval: lease / 3,
            renew_deadline: lease / 5 * 4,
            margin: lease / 100,
            poll_interval: Duration::from_secs(1).min(lease / 5),
            release_limit: Duration::from_secs(5).min(lease),
        }
    }

    /// How long one attempt at anything may take before its outcome counts as unknown.
    ///
    /// However long the lease: an answer that takes this long will not come.
    pub fn attempt_limit(&self) -> Duration {
        Duration::from_secs(10).min(self.lease / 3)
    }

    /// Before something that failed is tried again, the first time.
    ///
    /// Not shorter for a short lease: what fails at once would be tried too often (I8).
    pub fn retry_pause(&self) -> Duration {
        (self.lease / 50).clamp(Duration::from_millis(250), Duration::from_secs(1))
    }

    /// How long a holder may call itself holder after the moment its last heartbeat was sent.
    pub fn validity(&self) -> Duration {
        self.lease.saturating_sub(self.margin)
    }

    /// How much before it is due a heartbeat may go, to travel with those of other locks.
    pub fn early(&self) -> Duration {
        (self.lease / 6).min(self.heartbeat_interval / 2)
    }

    /// How far contenders that wake for the same expiry spread, so that they collide less.
    pub fn jitter(&self) -> Duration {
        Duration::from_millis(50).min(self.lease / 50)
    }
}
