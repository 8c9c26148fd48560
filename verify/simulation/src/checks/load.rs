//! I8: the requests that an instance sends by itself stay bounded, however Spanner answers.

use std::collections::VecDeque;
use std::time::Duration;

use spindle_protocol::Timing;

use crate::in_vain::{IN_VAIN_MAX, WINDOW};

/// A takeover, its sweep and a release, which a healthy instance sends besides its polls.
const TERM: usize = 9;

/// The requests of one instance in the last window, heartbeats left out.
#[derive(Debug, Default)]
pub(super) struct Load {
    sent: VecDeque<Duration>,
}

impl Load {
    pub(super) fn sent(&mut self, timing: &Timing, now: Duration) -> Result<(), String> {
        self.sent.push_back(now);
        while self.sent.front().is_some_and(|sent| *sent + WINDOW <= now) {
            self.sent.pop_front();
        }
        let limit = healthy(timing) + IN_VAIN_MAX;
        if self.sent.len() <= limit {
            return Ok(());
        }
        Err(format!("{} requests within {WINDOW:?}; at most {limit}", self.sent.len()))
    }
}

/// At the most: a contender comes back after three quarters of its poll interval.
fn healthy(timing: &Timing) -> usize {
    let shortest = (timing.poll_interval / 4 * 3).max(Duration::from_nanos(1));
    let polls = WINDOW.as_nanos().div_ceil(shortest.as_nanos());
    usize::try_from(polls).unwrap_or(usize::MAX).saturating_add(TERM)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_sent_within_the_window_counts() {
        let timing = Timing::from_lease(Duration::from_secs(20));
        let limit = healthy(&timing) + IN_VAIN_MAX;
        let mut load = Load::default();
        for _ in 0..limit {
            load.sent(&timing, Duration::ZERO).unwrap();
        }
        load.sent(&timing, Duration::from_secs(9)).unwrap_err();
        load.sent(&timing, Duration::from_secs(10)).unwrap();
    }
}
