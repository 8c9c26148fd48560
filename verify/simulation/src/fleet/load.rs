//! I8 under faults, for all that shares one lock table: members, shards, permits, ranks, readers and
//! writers.
//!
//! A request repeats a failure if the last of its kind about each of its rows came to nothing.
//! Each member's first attempt at a row is due, and so is the poll of its group by a member whose
//! last one was answered: healthy ones send these too. Heartbeats are excepted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle_protocol::Change;
use tokio::time::Instant;

use crate::in_vain::{IN_VAIN_MAX, InVain, WINDOW};
use crate::machine::lock;

/// The requests of a caller that asks, though others for the same rows have failed: a read, a
/// transaction that begins and one that ends, and a read to find out.
const ASKED_MAX: usize = 6;

/// The kinds of request that are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Poll,
    /// Each member polls its group by itself.
    GroupPoll,
    Begin,
    Release,
    Sweep,
}

impl Kind {
    /// Returns the kind of a transaction; none for heartbeats.
    fn of(change: &Change) -> Option<Kind> {
        match change {
            Change::Heartbeat { .. } | Change::KeepWriting { .. } => None,
            Change::Insert { .. }
            | Change::Takeover { .. }
            | Change::BeginRead { .. }
            | Change::BeginWrite { .. } => Some(Kind::Begin),
            Change::Sweep { .. } => Some(Kind::Sweep),
            _ => Some(Kind::Release),
        }
    }
}

/// The requests of all that shares the budget of one lock table.
#[derive(Debug, Default)]
pub(super) struct Load {
    /// The rows whose last request of a kind came to nothing, with whom each attempt was for.
    failed: HashSet<(Kind, String)>,
    /// So many members live.
    members: usize,
    /// The last polls of so many of them may have been answered, by the rows of the group.
    may_poll: HashMap<Vec<String>, usize>,
    /// When callers have asked.
    asked: VecDeque<Duration>,
    /// Repeats that came to nothing, or are under way.
    in_vain: InVain,
    sent: u64,
    excess: Option<String>,
}

impl Load {
    /// A member begins to live: none of its requests repeats another.
    pub(super) fn begins(&mut self) {
        self.failed.clear();
        self.members += 1;
    }

    /// A member's life has ended.
    pub(super) fn ends(&mut self) {
        self.members -= 1;
    }

    /// A caller asks.
    pub(super) fn asked(&mut self, now: Duration) {
        self.asked.push_back(now);
    }

    /// Returns how a table first sent too much, if it did.
    pub(super) fn excess(&self) -> Option<&String> {
        self.excess.as_ref()
    }

    /// A request leaves. Returns true if it repeats a failure.
    fn leaves(&mut self, kind: Kind, rows: &[String]) -> bool {
        let repeats = rows.iter().all(|row| self.failed.contains(&(kind, row.clone())));
        match self.may_poll.get_mut(rows) {
            Some(members) if repeats && kind == Kind::GroupPoll && *members > 0 => {
                *members -= 1;
                false
            }
            _ => repeats,
        }
    }

    fn sent(&mut self, now: Duration) -> u64 {
        self.sent += 1;
        let in_vain = self.in_vain.sent(now, self.sent);
        // A request may leave so long after it was asked for.
        while self.asked.front().is_some_and(|asked| *asked + WINDOW * 2 <= now) {
            self.asked.pop_front();
        }
        let most = self.asked.len() * ASKED_MAX + IN_VAIN_MAX;
        if in_vain > most {
            let what =
                format!("{in_vain} repeats within {WINDOW:?} came to nothing; at most {most}");
            self.excess.get_or_insert(format!("by {now:?}, {what}"));
        }
        self.sent
    }

    fn ended(&mut self, kind: Kind, rows: &[String], sent: &[u64], is_answered: bool) {
        if kind == Kind::GroupPoll && is_answered {
            let members = self.may_poll.entry(rows.to_vec()).or_default();
            *members = (*members + 1).min(self.members);
        }
        for row in rows {
            let row = (kind, row.clone());
            if is_answered {
                self.failed.remove(&row)
            } else {
                self.failed.insert(row)
            };
        }
        if is_answered {
            sent.iter().for_each(|number| self.in_vain.came_to_something(*number));
        }
    }
}

/// The load on the lock table of each connection.
#[derive(Clone, Debug)]
pub(super) struct Loads {
    started: Instant,
    tables: Arc<Mutex<Vec<Load>>>,
}

/// A read or a transaction under way; one that is dropped has come to nothing.
#[derive(Debug)]
pub(crate) struct Asking {
    loads: Loads,
    line: usize,
    kind: Kind,
    rows: Vec<String>,
    is_repeat: bool,
    sent: Vec<u64>,
    is_answered: bool,
}

impl Loads {
    pub(super) fn new(lines: usize) -> Loads {
        let tables = (0..lines).map(|_| Load::default()).collect();
        Loads { started: Instant::now(), tables: Arc::new(Mutex::new(tables)) }
    }

    /// The load of a connection's table.
    pub(super) fn of<T>(&self, line: usize, look: impl FnOnce(&mut Load) -> T) -> T {
        look(&mut lock(&self.tables)[line])
    }

    pub(super) fn read(&self, line: usize, kind: Kind, rows: Vec<String>) -> Asking {
        let is_repeat = self.of(line, |load| load.leaves(kind, &rows));
        let (loads, sent) = (self.clone(), Vec::new());
        let mut asking = Asking { loads, line, kind, rows, is_repeat, sent, is_answered: false };
        asking.sends();
        asking
    }

    /// Returns nothing for heartbeats.
    pub(super) fn transaction(
        &self,
        line: usize,
        changes: &[(Arc<str>, Change)],
    ) -> Option<Asking> {
        let kind = changes.iter().find_map(|(_, change)| Kind::of(change))?;
        let row = |(lock, change): &(Arc<str>, Change)| match change {
            // Each reader has a row of its own.
            Change::BeginRead { writer_row, .. } => writer_row.clone(),
            Change::Insert { writer, .. } | Change::Takeover { writer, .. } => {
                format!("{lock} for {}", writer.id().unwrap_or_default())
            }
            _ => lock.to_string(),
        };
        Some(self.read(line, kind, changes.iter().map(row).collect()))
    }
}

impl Asking {
    /// One more request of it leaves.
    pub(super) fn sends(&mut self) {
        if self.is_repeat {
            let now = self.loads.started.elapsed();
            self.sent.push(self.loads.of(self.line, |load| load.sent(now)));
        }
    }

    /// It has come to something.
    pub(super) fn answered(mut self) {
        self.is_answered = true;
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        let Asking { line, kind, rows, sent, is_answered, .. } = self;
        self.loads.of(*line, |load| load.ended(*kind, rows, sent, *is_answered));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats_that_come_to_nothing_count_until_their_window_is_over() {
        let (mut load, second) = (Load::default(), Duration::from_secs(1));
        let rows = ["a".to_string()];
        assert!(!load.leaves(Kind::Poll, &rows));
        load.ended(Kind::Poll, &rows, &[], false);
        assert!(load.leaves(Kind::Poll, &rows));
        assert!(!load.leaves(Kind::Begin, &rows));
        for n in 0..100 {
            let sent = load.sent(second);
            load.ended(Kind::Poll, &rows, &[sent], n < 70);
        }
        assert_eq!(load.excess(), None, "answers are no load");
        load.sent(second * 11);
        assert_eq!(load.excess(), None, "the window is over");
        for _ in 0..IN_VAIN_MAX {
            load.sent(second * 12);
        }
        assert!(load.excess().is_some());
    }

    #[test]
    fn a_poll_is_due_for_each_member_whose_last_one_was_answered() {
        let (mut load, rows) = (Load::default(), ["a".to_string()]);
        (0..3).for_each(|_| load.begins());
        for is_answered in [true, true, false] {
            (0..3).for_each(|_| load.ended(Kind::GroupPoll, &rows, &[], is_answered));
        }
        let due = (0..5).filter(|_| !load.leaves(Kind::GroupPoll, &rows)).count();
        assert_eq!(due, 3, "as healthy ones poll");
    }
}
