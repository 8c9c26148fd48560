use std::time::Duration;

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
    /// How long a release may go on trying; never longer than the term protects the row.
    pub release_limit: Duration,
}

impl Timing {
    /// Returns the defaults that follow from a lease.
    pub fn from_lease(lease: Duration) -> Timing {
        Timing {
            lease,
            heartbeat_interval: lease / 3,
            renew_deadline: lease / 5 * 4,
            clock_drift_margin: lease / 100,
            poll_interval: Duration::from_secs(1).min(lease / 5),
            release_limit: lease,
        }
    }

    /// Returns how long one attempt at an act may take before its outcome counts as unknown; a
    /// heartbeat has [until its term ends](crate::Instance::attempt_limit).
    ///
    /// Longer than the slowest heartbeat that keeps a term, so that whoever is that slow also
    /// begins. However long the lease: an answer that takes 15 s will hardly come.
    pub fn attempt_limit(&self) -> Duration {
        Duration::from_secs(15).min(self.lease / 2)
    }

    /// Returns how long a request may be without an answer before it counts as slow.
    pub fn patience(&self) -> Duration {
        self.lease / 20
    }

    /// Returns how long each heartbeat may take, and the term goes on, with a little to spare.
    pub fn carried_latency(&self) -> Duration {
        let Timing { lease, heartbeat_interval: interval, renew_deadline: deadline, .. } = *self;
        // The next one leaves when it is due, or when the one before is answered if that is later.
        let most =
            if interval * 2 <= deadline { deadline / 2 } else { deadline.saturating_sub(interval) };
        most.saturating_sub(lease / 20)
    }

    /// Returns for how long heartbeats may be without an answer, from any moment on, and the term goes
    /// on, with a little to spare.
    pub fn outlived_silence(&self) -> Duration {
        let (interval, lease) = (self.heartbeat_interval, self.lease);
        self.renew_deadline.saturating_sub(interval).saturating_sub(lease / 15)
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
