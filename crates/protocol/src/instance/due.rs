//! The act that is due now, and the time to ask again.

use super::{Holding, Instance, Phase, Releasing, Turn};
use crate::{Act, Moment, Timing, Wake};

impl Instance {
    /// Returns the act that is due.
    pub(super) fn due_act(&mut self, now: Moment, is_early: bool) -> Option<Act> {
        let is_early = is_early && self.early().is_some();
        let asked = Turn::Asked { sent: now };
        match &mut self.phase {
            Phase::Standby { poll, .. } if self.wanted && poll.at <= now => {
                self.phase = Phase::Observing;
                Some(Act::Observe)
            }
            Phase::Resolving(_, turn) if turn.is_due(now) => {
                *turn = asked;
                Some(Act::Observe)
            }
            Phase::Holding(term) if term.heartbeat.is_due(now) || is_early => {
                term.heartbeat = asked;
                let looks = self.line.yields() && term.is_old(now, self.timing.lease);
                Some(Act::Heartbeat { term: term.id.clone(), looks })
            }
            Phase::Releasing(release) if release.turn.is_due(now) => {
                release.turn = asked;
                Some(Act::Release { term: release.term.clone(), next: release.next.clone() })
            }
            _ => None,
        }
    }

    /// Returns when a heartbeat may go early. Never a repeat, which is as prompt as it may be, and none
    /// where none is ever due.
    ///
    /// By all of its interval, to share a request with those of other locks: with less, locks that were
    /// begun at different times would keep to different rounds for ever.
    pub(super) fn early(&self) -> Option<Wake> {
        let Timing { heartbeat_interval: interval, renew_deadline, .. } = self.timing;
        match &self.phase {
            Phase::Holding(Holding { renewed, heartbeat: Turn::Due(heartbeat), .. })
                if heartbeat.spread.is_zero() && interval < renew_deadline =>
            {
                Some(Wake { at: *renewed, spread: interval })
            }
            _ => None,
        }
    }

    pub(super) fn next_wake(&self) -> Option<Wake> {
        let stop = self.stop_by.map(Wake::at);
        let next = match &self.phase {
            Phase::Standby { poll, .. } => self.wanted.then_some(*poll),
            Phase::Resolving(_, Turn::Due(wake)) => Some(*wake),
            Phase::Releasing(Releasing { turn: Turn::Due(wake), .. }) => Some(*wake),
            Phase::Holding(term) => {
                // The deadline is never put off by jitter (I7).
                let deadline = term.renewed + self.timing.renew_deadline;
                match term.heartbeat {
                    Turn::Due(next) if next.at < deadline => {
                        Some(Wake { at: next.at, spread: next.spread.min(deadline.since(next.at)) })
                    }
                    _ => Some(Wake::at(deadline)),
                }
            }
            _ => None,
        };
        match (next, stop) {
            (Some(next), Some(stop)) if stop.at < next.at => Some(stop),
            (next, stop) => next.or(stop),
        }
    }
}
