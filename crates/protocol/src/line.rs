//! The line: who is next, when the lock is free again.
//!
//! A contender that waits for a held lock writes its place into the column `next`, and the release
//! moves that place into `writer`, as a promise of two polls. The place is a hint: it is written
//! without a condition on the term, never repeated, and may come late. So it costs time alone, and
//! I1 to I4 know nothing of it.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::{
    Cell, Column, Moment, Named, Observation, Rejection, Row, StoredRow, Succession, Timestamp,
    Writer,
};

/// The polls at which a contender couldn't take the lock, before it asks for a place.
pub(crate) const PATIENCE_POLLS: u8 = 2;

/// From one place in line to the next at least, however often a contender polls.
const MARK_INTERVAL_MIN: Duration = Duration::from_secs(1);

/// From a failure to the next place in line: whoever is in trouble adds no more to it (I8).
pub(crate) const MARK_PAUSE: Duration = Duration::from_secs(10);

/// The polls that show a lock vacant, after which a ranked contender leaves it to nobody.
const VACANT_POLLS: u8 = 3;

/// The waiter that stands for all readers in the line of a gate. No id of a process has a `/`.
pub(crate) const READERS: &str = "/readers";

/// A place in line: `<rank> <since> <id>#<nonce>`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The higher goes first.
    pub rank: u32,
    /// Spanner's timestamp of the first poll of the wait: of equal ranks, the older goes first.
    pub since: Timestamp,
    /// The process that waits, one of an id.
    pub waiter: Arc<str>,
}

impl Place {
    /// Reads what [`Display`](fmt::Display) wrote.
    pub fn parse(text: &str) -> Option<Place> {
        let mut parts = text.splitn(3, ' ');
        let rank = parts.next()?.parse().ok()?;
        let since = Timestamp(parts.next()?.parse().ok()?);
        let waiter = parts.next().filter(|waiter| !waiter.is_empty())?.into();
        Some(Place { rank, since, waiter })
    }

    /// Returns the place that a row tells; none where it tells none that can be read.
    pub fn of(row: &StoredRow) -> Option<Place> {
        row.next.as_deref().and_then(Place::parse)
    }

    /// Returns the id of who waits.
    pub fn id(&self) -> &str {
        id_of(&self.waiter)
    }

    /// Returns true if this place replaces the other. A process that starts anew replaces that of its
    /// former life.
    pub fn goes_before(&self, other: &Place) -> bool {
        if self.id() == other.id() {
            return self.waiter != other.waiter;
        }
        let order = |place: &Place| (std::cmp::Reverse(place.rank), place.since);
        order(self) < order(other)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.rank, self.since.0, self.waiter)
    }
}

/// Returns the name of one process in line.
pub fn waiter(id: &str, instance: u64) -> Arc<str> {
    format!("{id}#{instance:016x}").into()
}

/// Returns the name in line of the process whose term this is; none if it is no term of ours.
pub fn waiter_of(writer: &Writer) -> Option<Arc<str>> {
    match writer.names() {
        Named::Term { id, nonce } => Some(waiter(id, nonce.instance)),
        _ => None,
    }
}

/// Returns true if a release has promised the lock to the process of this name.
pub(crate) fn is_promised(row: &Row, waiter: &str) -> bool {
    row.is_released() && row.writer.names() == Named::Successor(waiter)
}

/// Returns the id of a waiter, and any other text as it is.
pub fn id_of(waiter: &str) -> &str {
    let is_instance =
        |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    waiter.rsplit_once('#').filter(|(_, it)| is_instance(it)).map_or(waiter, |(id, _)| id)
}

/// From when on a process may take a place: one a poll at the most, and one a second (I8).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Default)]
pub(crate) struct MarkLimit {
    from: Moment,
}

impl MarkLimit {
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        now >= self.from
    }

    /// Notes that a place is taken.
    pub(crate) fn marked(&mut self, now: Moment, poll_interval: Duration) {
        self.from = now + poll_interval.max(MARK_INTERVAL_MIN);
    }

    /// Notes that something failed, which a place would add to.
    pub(crate) fn failed(&mut self, now: Moment) {
        self.from = now + MARK_PAUSE;
    }
}

/// One contender's wait for the lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Wait {
    waiter: Arc<str>,
    standing: Standing,
    /// Spanner's timestamp of its first poll.
    since: Option<Timestamp>,
    /// At how many polls it couldn't take the lock.
    misses: u8,
    /// At how many polls a ranked contender has seen the lock vacant, under this token.
    vacant: Option<(Timestamp, u8)>,
}

/// How a contender stands in line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Standing {
    /// It takes what is vacant, and a place where nothing is.
    #[default]
    Plain,
    /// As well, but it leaves a vacant lock to a higher rank.
    Ranked {
        /// Its rank.
        rank: u32,
        /// True if its term ends for a higher rank that waits.
        preempts: bool,
    },
    /// As plain, in the one place of all readers.
    Reader,
    /// It takes no place.
    Aside,
    /// As well, since its pool does: what is promised to the pool, known by this nonce, is its own.
    Pooled {
        /// The nonce.
        pool: u64,
    },
}

/// A contender's choice after a poll.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It takes the lock, though this one stands in line.
    Take(Option<Place>),
    /// It waits, and takes this place.
    Wait(Option<Place>),
}

impl Wait {
    pub(crate) fn new(id: &str, instance: u64, standing: Standing) -> Wait {
        let waiter = match standing {
            Standing::Reader => READERS.into(),
            Standing::Pooled { pool } => waiter(id, pool),
            _ => waiter(id, instance),
        };
        Wait { waiter, standing, since: None, misses: 0, vacant: None }
    }

    /// Notes that the wait is over.
    pub(crate) fn ends(&mut self) {
        (self.since, self.misses, self.vacant) = (None, 0, None);
    }

    /// Returns true if a release has promised the lock to this very process.
    pub(crate) fn is_promised(&self, row: &Row) -> bool {
        is_promised(row, &self.waiter)
    }

    /// Returns what follows from a poll; `is_vacant` if the lock may be taken.
    pub(crate) fn polled(&mut self, seen: &Observation, is_vacant: bool) -> Step {
        if self.rank().is_some() {
            self.since.get_or_insert(seen.read_at);
        }
        let next = seen.next.as_ref();
        if !is_vacant {
            return Step::Wait(self.missed(next));
        }
        match (&self.standing, &seen.row) {
            (Standing::Ranked { .. }, Some(row)) => self.vacant(row, next),
            (Standing::Pooled { .. }, _) => {
                Step::Take(next.filter(|next| next.waiter == self.waiter).cloned())
            }
            // No place can stand where there is no row.
            _ => Step::Take(None),
        }
    }

    /// Returns the place to take after a race was lost: whose place stands there, nobody has said.
    pub(crate) fn lost_race(&mut self) -> Option<Place> {
        self.missed(None)
    }

    /// Returns true if a holder that stands so ends its term for some that wait.
    pub(crate) fn yields(&self) -> bool {
        matches!(self.standing, Standing::Ranked { preempts: true, .. })
    }

    /// Returns true if a holder that stands so ends its term for who has this place.
    pub(crate) fn yields_to(&self, place: &Place) -> bool {
        matches!(self.standing, Standing::Ranked { rank, preempts: true } if place.rank > rank)
    }

    fn missed(&mut self, next: Option<&Place>) -> Option<Place> {
        self.rank()?;
        self.misses = (self.misses + 1).min(PATIENCE_POLLS);
        self.vacant = None;
        self.place(next).filter(|_| self.misses >= PATIENCE_POLLS)
    }

    /// A ranked contender leaves a vacant lock to the place in line, which it takes itself if no
    /// higher rank has it. Whoever has it may be dead: so the wait is counted in polls of one vacancy.
    fn vacant(&mut self, row: &Row, next: Option<&Place>) -> Step {
        let seen = self.vacant.filter(|(token, _)| *token == row.token).map_or(0, |(_, seen)| seen);
        let seen = (seen + 1).min(VACANT_POLLS);
        self.vacant = Some((row.token, seen));
        let is_first = next.is_some_and(|next| next.waiter == self.waiter);
        let is_named = row.is_released() && row.writer.successor_id() == Some(id_of(&self.waiter));
        // A term that ran out is left to those who waited when its holder was last heard: who came since
        // may be what has just died, and dies again.
        let waited = |since: Timestamp| row.is_released() || since < row.heartbeat;
        let has_waited = self.since.is_some_and(waited);
        if is_named || is_first && has_waited {
            return Step::Take(None);
        }
        let passes = next.is_some_and(|next| has_waited && !waited(next.since));
        if passes || seen >= VACANT_POLLS {
            return Step::Take(next.cloned());
        }
        Step::Wait(self.place(next))
    }

    /// Returns the place that this contender takes, if it goes before what stands there.
    fn place(&self, next: Option<&Place>) -> Option<Place> {
        let (rank, since) = (self.rank()?, self.since?);
        let place = Place { rank, since, waiter: Arc::clone(&self.waiter) };
        next.is_none_or(|next| place.goes_before(next)).then_some(place)
    }

    /// Returns the rank of the place that it takes; none if it takes none.
    fn rank(&self) -> Option<u32> {
        match self.standing {
            Standing::Aside | Standing::Pooled { .. } => None,
            Standing::Plain | Standing::Reader => Some(0),
            Standing::Ranked { rank, .. } => Some(rank),
        }
    }
}

/// Returns the cell of a place that is taken; or why it isn't.
pub(crate) fn taken(row: Option<&StoredRow>, place: &Place) -> Result<(Column, Cell), Rejection> {
    let first = row.map(Place::of).ok_or(Rejection::Needless)?;
    if first.is_some_and(|first| !place.goes_before(&first)) {
        return Err(Rejection::Needless);
    }
    Ok((Column::Next, Cell::Text(place.to_string())))
}

/// Returns the cell that a begin clears: its own place, or the one that it has waited for.
pub(crate) fn cleared(
    row: Option<&StoredRow>,
    writer: &Writer,
    passes: Option<&Place>,
) -> Option<(Column, Cell)> {
    let place = row.and_then(Place::of);
    let is_over = place.is_some_and(|it| is_own(&it, writer) || Some(&it) == passes);
    is_over.then_some((Column::Next, Cell::Null))
}

/// Returns the succession to a term whose release goes by the line, and the cell that it clears.
pub(crate) fn succession(
    row: Option<&StoredRow>,
    writer: &Writer,
    next: &Succession,
) -> (Succession, Option<(Column, Cell)>) {
    let Succession::InLine { grace } = *next else { return (next.clone(), None) };
    let place = row.and_then(Place::of).filter(|place| !is_own(place, writer));
    let next = place.map_or(Succession::Anyone, |place| Succession::Successor {
        id: place.waiter.to_string(),
        grace,
    });
    (next, Some((Column::Next, Cell::Null)))
}

/// Returns true if a place is that of this term's own process. Another one of its id may live.
fn is_own(place: &Place, writer: &Writer) -> bool {
    waiter_of(writer).as_ref() == Some(&place.waiter)
}
