//! How long shards take to settle, by the `metrics` facade; nothing without the feature.

use std::time::Duration;

/// The meter of one member's share of some shards.
#[derive(Debug)]
pub(crate) struct Meter {
    #[cfg(feature = "metrics")]
    lock: String,
}

#[cfg(feature = "metrics")]
impl Meter {
    pub(crate) fn new(group: &str, name: &str) -> Meter {
        // A recorder that panics loses the number, and harms nothing. The panic hook has reported it.
        let _ = std::panic::catch_unwind(|| {
            metrics::describe_histogram!(
                "spindle_shards_settle_seconds",
                metrics::Unit::Seconds,
                "Time until all shards had owners and none moved"
            );
        });
        Meter { lock: format!("spindle:share:{group}/{name}") }
    }

    /// Notes that all shards have owners, and that it took so long.
    pub(crate) fn settled(&self, took: Duration) {
        let _ = std::panic::catch_unwind(|| {
            let lock = self.lock.clone();
            metrics::histogram!("spindle_shards_settle_seconds", "lock" => lock).record(took);
        });
    }
}

#[cfg(not(feature = "metrics"))]
impl Meter {
    pub(crate) fn new(_: &str, _: &str) -> Meter {
        Meter {}
    }

    pub(crate) fn settled(&self, _: Duration) {}
}
