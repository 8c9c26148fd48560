//! What is due now, and when to ask again.

use std::time::Duration;

use super::{Instance, Phase, Releasing, Turn};
use crate::{Act, Moment, Wake};

impl Instance {
    pub(super) fn due_act(&mut self, now: Moment) -> Option<Act> {
        let asked = Turn::Asked { sent: now };
        match &mut self.phase {
            Phase::Standby { look } if self.wanted && look.at <= now => {
                self.phase = Phase::Observing;
                Some(Act::Observe)
            }
            Phase::Resolving(_, turn) if turn.is_due(now) => {
                *turn = asked;
                Some(Act::Observe)
            }
            Phase::Holding(term) if !term.beat.is_due(now) => {
                // Once a term, and only in the pause between two heartbeats.
                term.sweep
                    .take_if(|_| matches!(term.beat, Turn::Due(_)))
                    .map(|before| Act::Sweep { before })
            }
            Phase::Holding(term) => {
                term.beat = asked;
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

    pub(super) fn next_wake(&self) -> Option<Wake> {
        let stop = self.stop_by.map(|at| Wake { at, spread: Duration::ZERO });
        let next = match &self.phase {
            Phase::Standby { look } => self.wanted.then_some(*look),
            Phase::Resolving(_, Turn::Due(wake)) => Some(*wake),
            Phase::Releasing(Releasing { turn: Turn::Due(wake), .. }) => Some(*wake),
            Phase::Holding(term) => {
                // The deadline is never put off by jitter (I7).
                let deadline = term.renewed + self.timing.renew_deadline;
                match term.beat {
                    Turn::Due(beat) if beat.at < deadline => {
                        Some(Wake { at: beat.at, spread: beat.spread.min(deadline.since(beat.at)) })
                    }
                    _ => Some(Wake { at: deadline, spread: Duration::ZERO }),
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
