//! I8 for many locks: the requests of one process that come to nothing stay bounded, whichever of
//! its batchers sends them.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use spindle_protocol::{Act, Answer};

use crate::in_vain::{IN_VAIN_MAX, InVain, WINDOW};

/// An act leaves no later than this after it was asked for, whatever the lease.
const ACT_MAX: Duration = Duration::from_secs(10);

/// The kinds of act whose requests are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Poll,
    Term,
    Sweep,
}

impl Kind {
    fn of(act: &Act) -> Option<Kind> {
        match act {
            Act::Observe => Some(Kind::Poll),
            Act::Insert { .. } | Act::Takeover { .. } | Act::Release { .. } => Some(Kind::Term),
            Act::Sweep { .. } => Some(Kind::Sweep),
            Act::Heartbeat { .. } => None,
        }
    }

    fn requests(self) -> usize {
        match self {
            Kind::Poll => 1,
            // Its read, and its end.
            Kind::Term => 2,
            Kind::Sweep => 3,
        }
    }
}

/// One request, until it is known to have come to something.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Sent(u64);

/// The batchers of all processes.
#[derive(Debug, Default)]
pub(super) struct Batchers {
    by_house: BTreeMap<usize, Load>,
    /// How the last acts of each instance fared.
    records: BTreeMap<usize, Record>,
    sent: u64,
}

/// The requests of all batchers of one process, heartbeats left out.
#[derive(Debug, Default)]
struct Load {
    in_vain: InVain,
    /// Acts that don't repeat one that failed; all of one kind in one batcher at one instant are one
    /// request.
    due: VecDeque<(Duration, Kind, usize)>,
}

#[derive(Debug, Default)]
struct Record {
    has_failed: bool,
    has_failed_in: [bool; 3],
}

impl Batchers {
    /// An instance hands an act to its batcher.
    pub(super) fn asked(
        &mut self,
        (house, batcher): (usize, usize),
        who: usize,
        act: &Act,
        now: Duration,
    ) {
        let Some(kind) = Kind::of(act) else { return };
        let record = self.records.entry(who).or_default();
        // A poll finds out what became of anything that failed.
        let is_repeat =
            record.has_failed_in[kind as usize] || (kind == Kind::Poll && record.has_failed);
        if !is_repeat {
            self.by_house.entry(house).or_default().due(kind, batcher, now);
        }
    }

    /// It is told how that ended.
    pub(super) fn answered(&mut self, who: usize, act: &Act, answer: &Answer) {
        let failed = matches!(answer, Answer::NotApplied | Answer::Unknown);
        let record = self.records.entry(who).or_default();
        record.has_failed = failed;
        if let Some(kind) = Kind::of(act) {
            record.has_failed_in[kind as usize] = failed;
        }
    }

    /// A batcher sends a request that is no heartbeat.
    pub(super) fn sent(&mut self, house: usize, now: Duration) -> (Sent, Result<(), String>) {
        self.sent += 1;
        let sent = Sent(self.sent);
        let bounded = self.by_house.entry(house).or_default().sent(sent, now);
        (sent, bounded.map_err(|what| format!("house {house}: {what}")))
    }

    /// It brought answers.
    pub(super) fn came_to_something(&mut self, house: usize, sent: Sent) {
        if let Some(load) = self.by_house.get_mut(&house) {
            load.in_vain.came_to_something(sent.0);
        }
    }

    /// A process is gone, and its batcher with it.
    pub(super) fn gone(&mut self, house: usize, who: usize) {
        self.by_house.remove(&house);
        self.records.remove(&who);
    }
}

impl Load {
    fn due(&mut self, kind: Kind, batcher: usize, now: Duration) {
        let mut at_this_instant = self.due.iter().rev().take_while(|(at, ..)| *at == now);
        if at_this_instant.all(|(_, of, by)| (*of, *by) != (kind, batcher)) {
            self.due.push_back((now, kind, batcher));
        }
    }

    fn sent(&mut self, sent: Sent, now: Duration) -> Result<(), String> {
        let in_vain = self.in_vain.sent(now, sent.0);
        while self.due.front().is_some_and(|(due, ..)| *due + WINDOW + ACT_MAX <= now) {
            self.due.pop_front();
        }
        let due: usize = self.due.iter().map(|(_, kind, _)| kind.requests()).sum();
        let limit = due + IN_VAIN_MAX;
        if in_vain <= limit {
            return Ok(());
        }
        Err(format!(
            "{in_vain} requests within {WINDOW:?} came to nothing; {due} were due, at most {limit}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_comes_to_nothing_counts_and_what_was_due_is_allowed() {
        let mut batchers = Batchers::default();
        batchers.asked((7, 0), 1, &Act::Observe, Duration::ZERO);
        for _ in 0..IN_VAIN_MAX {
            batchers.sent(7, Duration::ZERO).1.unwrap();
        }
        for _ in 0..100 {
            let (sent, bounded) = batchers.sent(7, Duration::from_secs(1));
            bounded.unwrap();
            batchers.came_to_something(7, sent);
        }
        batchers.sent(7, Duration::from_secs(2)).1.unwrap();
        batchers.sent(7, Duration::from_secs(2)).1.unwrap_err();
        batchers.sent(8, Duration::from_secs(2)).1.unwrap();
        batchers.sent(7, Duration::from_secs(12)).1.unwrap();
    }

    #[test]
    fn what_repeats_a_failure_is_not_due() {
        let mut batchers = Batchers::default();
        batchers.answered(1, &Act::Observe, &Answer::NotApplied);
        batchers.asked((7, 0), 1, &Act::Observe, Duration::ZERO);
        for _ in 0..IN_VAIN_MAX {
            batchers.sent(7, Duration::ZERO).1.unwrap();
        }
        batchers.sent(7, Duration::ZERO).1.unwrap_err();
    }
}
