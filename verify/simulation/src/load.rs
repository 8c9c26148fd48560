//! I8: the requests that an instance sends by itself stay bounded, however Spanner answers. Judged
//! for all that shares one lock table: the locks of a process, or members, shards, permits, ranks,
//! readers and writers.
//!
//! Of each table, over any 10 s:
//!
//! ```text
//! repeats that came to nothing or are under way <= 30 + 6 × callers that asked within 20 s
//! all requests <= 36 + WINDOW / (3/4 of the poll interval), of an instance that is alone
//! ```
//!
//! A request repeats a failure if the last of its kind about each of its rows came to nothing. The poll of its group by
//! a member whose last one was answered repeats none: healthy members send it, too. Heartbeats are excepted.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use spindle_protocol::{Change, Timing};

use crate::checks::Invariant;
use crate::machine::lock;
use crate::timeline::Timeline;

/// Over any window of this length.
pub(crate) const WINDOW: Duration = Duration::from_secs(10);

/// So many may come to nothing in a window, besides those that are due: three a second.
const IN_VAIN_MAX: usize = 30;

/// A takeover, a release and a look before each, which a healthy instance sends besides its polls.
const TERM: usize = 6;

/// The requests of a caller that asks, though others for the same rows have failed: a read, a
/// transaction that begins and one that ends, and a read to find out.
const ASKED_MAX: usize = 6;

/// How many requests may leave in a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// Repeats that come to nothing.
    in_vain: usize,
    all: usize,
}

impl Bounds {
    /// Bounds nothing: a tool asks as its callers do.
    pub(crate) const NONE: Bounds = Bounds { in_vain: usize::MAX, all: usize::MAX };
    /// The number of requests of a healthy process of many locks depends on how they fall into step.
    /// So there only those count that come to nothing.
    pub(crate) const OF_MANY: Bounds = Bounds { in_vain: IN_VAIN_MAX, all: usize::MAX };

    /// Bounds an instance that shares its table with no other.
    pub(crate) fn of_one(timing: &Timing) -> Bounds {
        // At the most: a contender comes back after three quarters of its poll interval.
        let shortest = (timing.poll_interval / 4 * 3).max(Duration::from_nanos(1));
        let polls = WINDOW.as_nanos().div_ceil(shortest.as_nanos());
        let polls = usize::try_from(polls).unwrap_or(usize::MAX);
        Bounds { all: polls.saturating_add(TERM + IN_VAIN_MAX), ..Bounds::OF_MANY }
    }
}

/// The kinds of request that are bounded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Poll,
    /// Each member polls its group by itself.
    GroupPoll,
    Begin,
    Release,
}

impl Kind {
    /// Returns the kind of a transaction; none for heartbeats.
    fn of(change: &Change) -> Option<Kind> {
        match change {
            Change::Job { term, .. } => Kind::of(term),
            Change::Heartbeat { .. } => None,
            Change::Insert { .. }
            | Change::Takeover { .. }
            | Change::BeginRead { .. }
            | Change::BeginWrite { .. } => Some(Kind::Begin),
            _ => Some(Kind::Release),
        }
    }
}

/// The requests of all that shares the budget of one lock table.
#[derive(Debug)]
pub(crate) struct Load {
    bounds: Bounds,
    /// The rows whose last request of a kind came to nothing, with whom each attempt was for.
    failed: HashSet<(Kind, String)>,
    /// So many members live.
    members: usize,
    /// The last polls of so many of them may have been answered, by the rows of the group.
    may_poll: HashMap<Vec<String>, usize>,
    /// When callers have asked.
    asked: VecDeque<Duration>,
    /// Repeats that came to nothing, or are under way, with their numbers.
    in_vain: VecDeque<(Duration, u64)>,
    repeats: u64,
    /// All requests.
    all: VecDeque<Duration>,
}

impl Load {
    fn new(bounds: Bounds) -> Load {
        Load {
            bounds,
            failed: HashSet::new(),
            members: 0,
            may_poll: HashMap::new(),
            asked: VecDeque::new(),
            in_vain: VecDeque::new(),
            repeats: 0,
            all: VecDeque::new(),
        }
    }

    /// A user begins to live: none of its requests repeats another.
    pub(crate) fn begins(&mut self) {
        self.failed.clear();
        self.all.clear();
        self.members += 1;
    }

    /// Its life has ended.
    pub(crate) fn ends(&mut self) {
        self.members -= 1;
    }

    /// A caller asks.
    pub(crate) fn asked(&mut self, now: Duration) {
        self.asked.push_back(now);
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

    /// One more request leaves; gives the number of a repeat.
    fn sent(&mut self, now: Duration, is_repeat: bool) -> (Option<u64>, Result<(), String>) {
        self.all.push_back(now);
        forget(&mut self.all, |sent| *sent + WINDOW <= now);
        let (all, bounds) = (self.all.len(), self.bounds);
        if all > bounds.all {
            let what = format!("{all} requests within {WINDOW:?}; at most {}", bounds.all);
            return (None, Err(what));
        }
        if !is_repeat {
            return (None, Ok(()));
        }
        self.repeats += 1;
        self.in_vain.push_back((now, self.repeats));
        forget(&mut self.in_vain, |(sent, _)| *sent + WINDOW <= now);
        // A request may leave so long after it was asked for.
        forget(&mut self.asked, |asked| *asked + WINDOW * 2 <= now);
        let (in_vain, asked) = (self.in_vain.len(), self.asked.len() * ASKED_MAX);
        let most = bounds.in_vain.saturating_add(asked);
        let what =
            || format!("{in_vain} repeats within {WINDOW:?} came to nothing; at most {most}");
        (Some(self.repeats), if in_vain > most { Err(what()) } else { Ok(()) })
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
            self.in_vain.retain(|(_, number)| !sent.contains(number));
        }
    }
}

/// Forgets the first ones, as long as they are over.
fn forget<T>(queue: &mut VecDeque<T>, is_over: impl Fn(&T) -> bool) {
    while queue.front().is_some_and(&is_over) {
        queue.pop_front();
    }
}

/// The load on the lock table of each connection.
#[derive(Clone, Debug)]
pub(crate) struct Loads {
    timeline: Arc<Timeline>,
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
    pub(crate) fn new(timeline: &Arc<Timeline>, bounds: Vec<Bounds>) -> Loads {
        let tables = bounds.into_iter().map(Load::new).collect();
        Loads { timeline: Arc::clone(timeline), tables: Arc::new(Mutex::new(tables)) }
    }

    /// The load of a connection's table.
    pub(crate) fn of<T>(&self, line: usize, look: impl FnOnce(&mut Load) -> T) -> T {
        look(&mut lock(&self.tables)[line])
    }

    pub(crate) fn read(&self, line: usize, kind: Kind, rows: Vec<String>) -> Asking {
        let is_repeat = self.of(line, |load| load.leaves(kind, &rows));
        let (loads, sent) = (self.clone(), Vec::new());
        let mut asking = Asking { loads, line, kind, rows, is_repeat, sent, is_answered: false };
        asking.sends();
        asking
    }

    /// Returns nothing for heartbeats.
    pub(crate) fn transaction(
        &self,
        line: usize,
        changes: &[(Arc<str>, Change)],
    ) -> Option<Asking> {
        let kind = changes.iter().find_map(|(_, change)| Kind::of(change))?;
        let row = |(lock, change): &(Arc<str>, Change)| match of_the_term(change) {
            // Each reader has a row of its own.
            Change::BeginRead { vacant, .. } => vacant[0].0.clone(),
            Change::Insert { writer, .. } | Change::Takeover { writer, .. } => {
                format!("{lock} for {}", writer.id().unwrap_or_default())
            }
            _ => lock.to_string(),
        };
        Some(self.read(line, kind, changes.iter().map(row).collect()))
    }
}

/// Returns the change of the term, which a job's record goes along with.
fn of_the_term(change: &Change) -> &Change {
    match change {
        Change::Job { term, .. } => term,
        change => change,
    }
}

impl Asking {
    /// One more request of it leaves.
    pub(crate) fn sends(&mut self) {
        let timeline = &self.loads.timeline;
        let (now, is_repeat) = (timeline.now(), self.is_repeat);
        let (number, bounded) = self.loads.of(self.line, |load| load.sent(now, is_repeat));
        self.sent.extend(number);
        timeline
            .expect(Invariant::I8, bounded.map_err(|what| format!("table {}: {what}", self.line)));
    }

    /// It has come to something.
    pub(crate) fn answered(mut self) {
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
        let (mut load, second) = (Load::new(Bounds::OF_MANY), Duration::from_secs(1));
        let rows = ["a".to_string()];
        assert!(!load.leaves(Kind::Poll, &rows));
        load.ended(Kind::Poll, &rows, &[], false);
        assert!(load.leaves(Kind::Poll, &rows));
        assert!(!load.leaves(Kind::Begin, &rows));
        for n in 0..100 {
            let (sent, bounded) = load.sent(second, true);
            assert_eq!(bounded, Ok(()), "answers are no load");
            load.ended(Kind::Poll, &rows, sent.as_slice(), n < 70);
        }
        assert_eq!(load.sent(second * 11, true).1, Ok(()), "the window is over");
        let bounded = (0..IN_VAIN_MAX).all(|_| load.sent(second * 12, true).1.is_ok());
        assert!(!bounded);
    }

    #[test]
    fn what_is_due_counts_for_an_instance_by_itself_alone() {
        let bounds = Bounds::of_one(&Timing::from_lease(Duration::from_secs(20)));
        for (bounds, is_bounded) in [(bounds, true), (Bounds::OF_MANY, false)] {
            let mut load = Load::new(bounds);
            let mut sent = |second| load.sent(Duration::from_secs(second), false).1;
            let most = if is_bounded { bounds.all } else { 1_000 };
            assert!((0..most).all(|_| sent(0).is_ok()));
            assert_eq!(sent(9).is_err(), is_bounded);
            assert_eq!(sent(10), Ok(()));
        }
    }

    #[test]
    fn a_poll_is_due_for_each_member_whose_last_one_was_answered() {
        let (mut load, rows) = (Load::new(Bounds::OF_MANY), ["a".to_string()]);
        (0..3).for_each(|_| load.begins());
        for is_answered in [true, true, false] {
            (0..3).for_each(|_| load.ended(Kind::GroupPoll, &rows, &[], is_answered));
        }
        let due = (0..5).filter(|_| !load.leaves(Kind::GroupPoll, &rows)).count();
        assert_eq!(due, 3, "as healthy ones poll");
    }
}
