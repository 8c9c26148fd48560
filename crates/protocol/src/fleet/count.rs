//! The count of shards that a group shares: the row that names it, and how a member follows it.

use std::fmt;

use crate::{Row, Timestamp, Writer};

/// The most shards that a group shares: each member reads all of their rows at every poll.
pub const SHARDS_MAX: usize = 10_000;

/// Begins the text of the row.
const SHARDS: &str = "shards";
/// Before the count that a move left.
const FROM: &str = "from";
/// The last word while a move drains.
const DRAINING: &str = "draining";

/// The count of shards, as the row of their own names it for all members of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Count {
    /// So many shards are shared.
    pub shards: usize,
    /// So many were shared before the last move; none if nobody has moved it.
    pub before: Option<usize>,
    /// True while the shards of before are given up. None of the others runs until all are.
    pub is_draining: bool,
}

/// The text of the row, as far as this version understands it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountNamed {
    /// There is no row.
    Nothing,
    /// There is a row, and no count in it that this version knows.
    Unreadable,
    /// This count.
    Count(Count),
}

/// The next thing that a running member does about the count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountStep {
    /// Shares as this says, and gives up the shards beyond.
    Share(Count),
    /// Keeps what it has and takes nothing: no row names a count. If there is one to write, it
    /// does.
    Keep(Option<Count>),
    /// Gives up every shard and takes none.
    Drain,
    /// Writes this: the move has drained.
    Finish(Count),
}

impl Count {
    /// Returns the count that the first member of a group writes.
    pub fn first(shards: usize) -> Count {
        Count { shards, before: None, is_draining: false }
    }

    /// Returns the count after a move, which drains first.
    pub fn moved(self, to: usize) -> Count {
        Count { shards: to, before: Some(self.shards), is_draining: true }
    }

    /// Returns the count once the shards of before are given up.
    pub fn drained(self) -> Count {
        Count { is_draining: false, ..self }
    }

    /// Returns true if a member may begin whose code names so many shards: the count of the row, or
    /// the one before it.
    ///
    /// The row alone says so, whoever is alive. The count before is let in, so that a process that
    /// restarts between a move and the deploy of the new number goes on.
    pub fn admits(self, shards: usize) -> bool {
        self.shards == shards || self.before == Some(shards)
    }

    /// Returns the text for the row's `writer`.
    pub fn to_writer(self) -> Writer {
        let Count { shards, before, is_draining } = self;
        let from = before.map(|before| format!(" {FROM} {before}")).unwrap_or_default();
        let draining = if is_draining { format!(" {DRAINING}") } else { String::new() };
        Writer::from(&*format!("{SHARDS} {shards}{from}{draining}"))
    }

    fn parse(text: &str) -> Option<Count> {
        let number = |text: &str| text.parse().ok().filter(|it| (1..=SHARDS_MAX).contains(it));
        let words: Vec<&str> = text.split(' ').collect();
        let [SHARDS, shards, ref rest @ ..] = *words else { return None };
        let first = Count::first(number(shards)?);
        let (before, is_draining) = match *rest {
            [] => return Some(first),
            [FROM, before] => (before, false),
            [FROM, before, DRAINING] => (before, true),
            _ => return None,
        };
        Some(Count { before: Some(number(before)?), is_draining, ..first })
    }
}

impl fmt::Display for Count {
    /// Says it for people, such as `80, from 60 before`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Count { shards, before: Some(before), is_draining: true, .. } => {
                write!(f, "{shards}, once those of {before} are given up")
            }
            Count { shards, before: Some(before), .. } => {
                write!(f, "{shards}, {before} before that")
            }
            Count { shards, before: None, .. } => write!(f, "{shards}"),
        }
    }
}

impl CountNamed {
    /// Returns the count that a row names. Nobody holds it, so it is as a released one.
    pub fn by(row: Option<&Row>) -> CountNamed {
        let Some(row) = row else { return CountNamed::Nothing };
        let count = Count::parse(row.writer.as_str()).filter(|_| row.is_released());
        count.map_or(CountNamed::Unreadable, CountNamed::Count)
    }

    /// Returns the count by which a shard may run that was taken by the row of this token. A row of
    /// another token gives the numbers another meaning.
    pub fn runs(row: Option<&Row>, taken_by: Timestamp) -> Option<Count> {
        match CountNamed::by(row.filter(|row| row.token == taken_by)) {
            CountNamed::Count(count) if !count.is_draining => Some(count),
            _ => None,
        }
    }

    /// Decides about a poll of a running member that shares `ours` shards. `is_drained` says that
    /// the same poll showed nobody to hold a shard.
    ///
    /// No attempt from before the move can still come to run a shard then: each of them asks for the
    /// row after it has won the shard, and the row was moved before that poll.
    pub fn step(self, ours: usize, is_drained: bool) -> CountStep {
        match self {
            CountNamed::Nothing => CountStep::Keep(Some(Count::first(ours))),
            CountNamed::Unreadable => CountStep::Keep(None),
            CountNamed::Count(count) if !count.is_draining => CountStep::Share(count),
            CountNamed::Count(count) if is_drained => CountStep::Finish(count.drained()),
            CountNamed::Count(_) => CountStep::Drain,
        }
    }
}
