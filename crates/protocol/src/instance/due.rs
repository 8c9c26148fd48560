//! The act that is due now, and the time to ask again.

use super::{Holding, Instance, Phase, Releasing, Sweep, Turn};
use crate::{Act, Moment, Timing, Wake};

impl Instance {
    /// Returns the act that is due. Of one that holds:
    ///
    /// | its heartbeat | and | the act |
    /// | --- | --- | --- |
    /// | is due, or may go early now | | a heartbeat, in place of a sweep that has no answer |
    /// | is due later | a sweep has time to leave before it | a sweep |
    /// | is under way | | none |
    pub(super) fn due_act(&mut self, now: Moment, is_early: bool) -> Option<Act> {
        let is_early = is_early && self.early().is_some();
        let asked = Turn::Asked { sent: now };
        match &mut self.phase {
            Phase::Standby { poll } if self.wanted && poll.at <= now => {
                self.phase = Phase::Observing;
                Some(Act::Observe)
            }
            Phase::Resolving(_, turn) if turn.is_due(now) => {
                *turn = asked;
                Some(Act::Observe)
            }
            // Only in the pause between two heartbeats.
            Phase::Holding(Holding { heartbeat: Turn::Due(heartbeat), .. })
                if heartbeat.at > now && !is_early =>
            {
                let heartbeat = *heartbeat;
                self.sweep_before(heartbeat, now).and_then(|_| self.due_sweep(now))
            }
            Phase::Sweeping { .. } => self.due_sweep(now),
            Phase::Holding(term) if term.heartbeat.is_due(now) || is_early => {
                term.heartbeat = asked;
                if let Some(Sweep { turn: Turn::Asked { .. }, .. }) = self.sweep {
                    // Replaced, and its answer never heard.
                    let turn = Turn::Due(self.sweep_failed(now));
                    self.sweep = self.sweep.take().map(|sweep| Sweep { turn, ..sweep });
                }
                let Phase::Holding(term) = &self.phase else { return None };
                Some(Act::Heartbeat { term: term.id.clone() })
            }
            Phase::Releasing(release) if release.turn.is_due(now) => {
                release.turn = asked;
                Some(Act::Release {
                    term: release.term.clone(),
                    next: release.next.clone(),
                    displaced: release.displaced,
                })
            }
            _ => None,
        }
    }

    fn due_sweep(&mut self, now: Moment) -> Option<Act> {
        let sweep = self.sweep.as_mut().filter(|sweep| sweep.turn.is_due(now))?;
        sweep.turn = Turn::Asked { sent: now };
        Some(Act::Sweep { before: sweep.before })
    }

    /// Returns when a sweep may begin before this heartbeat, which replaces it unless it is answered by then.
    ///
    /// Both are drawn to the same ticks: without time to leave, each sweep could be taken back.
    fn sweep_before(&self, heartbeat: Wake, now: Moment) -> Option<Wake> {
        let Some(Sweep { turn: Turn::Due(due), .. }) = &self.sweep else { return None };
        let (at, room) = (due.at.max(now), self.timing.heartbeat_interval / 8);
        let spread = due.spread.min(heartbeat.at.since(at + room));
        (at + room <= heartbeat.at).then_some(Wake { at, spread })
    }

    /// Returns when a heartbeat may go early. Never a repeat, which is as prompt as it may be, none
    /// where none is ever due, and none that would replace a sweep.
    ///
    /// By all of its interval, to share a request with those of other locks: with less, locks that were
    /// begun at different times would keep to different rounds for ever.
    pub(super) fn early(&self) -> Option<Wake> {
        if let Some(Sweep { turn: Turn::Asked { .. }, .. }) = self.sweep {
            return None;
        }
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

    pub(super) fn next_wake(&self, now: Moment) -> Option<Wake> {
        let stop = self.stop_by.map(Wake::at);
        let next = match &self.phase {
            Phase::Standby { poll } => self.wanted.then_some(*poll),
            Phase::Resolving(_, Turn::Due(wake)) => Some(*wake),
            Phase::Releasing(Releasing { turn: Turn::Due(wake), .. }) => Some(*wake),
            Phase::Holding(term) => {
                // The deadline is never put off by jitter (I7).
                let deadline = term.renewed + self.timing.renew_deadline;
                let next = match term.heartbeat {
                    Turn::Due(heartbeat) => {
                        Some(self.sweep_before(heartbeat, now).unwrap_or(heartbeat))
                    }
                    Turn::Asked { .. } => None,
                };
                match next {
                    Some(next) if next.at < deadline => {
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
