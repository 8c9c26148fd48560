//! The walk back from one term to the one before, by as few reads as can be.

use std::time::Duration;

use spindle_protocol::{StoredRow, Timestamp};

use super::cause::{Later, is_term, past_term};
use super::past_term::{HistoryEnd, PastTerm};
use crate::error::Result;
use crate::settings::LEASE_DEFAULT;

/// How many reads a walk may make for each term, on the average.
const READS_PER_TERM: u64 = 4;

/// Spanner's commit timestamps lie at least this far apart.
const TICK: Duration = Duration::from_micros(1);

/// How far back to look for a row that was deleted.
const PROBES: [Duration; 3] =
    [Duration::from_secs(5), Duration::from_secs(60), Duration::from_secs(600)];

/// The versions of one row.
pub trait Past {
    /// Returns the row now, and Spanner's timestamp of the read.
    fn now(&self) -> impl Future<Output = Result<(Option<StoredRow>, Timestamp)>> + Send;

    /// Returns the row as it was then.
    fn at(&self, at: Timestamp) -> impl Future<Output = Result<Version>> + Send;
}

/// An old version of a row.
#[derive(Clone, Debug)]
pub enum Version {
    /// The row.
    Row(StoredRow),
    /// There was no row.
    None,
    /// There is nothing to be read.
    End(HistoryEnd),
}

/// How far the walk has come.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    window: Duration,
    /// The state that is known already, which is not read again.
    begun_by: Option<(Option<StoredRow>, Timestamp)>,
    since: Timestamp,
    position: Position,
    reads: u64,
    /// How many reads are left of what the terms so far allow.
    budget: u64,
}

#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "a walk has one")]
enum Position {
    Start,
    /// The latest version that no term has been made of, and what came after it.
    At(StoredRow, Later),
    Over(HistoryEnd),
}

impl Walk {
    pub(crate) fn new(window: Duration) -> Walk {
        Walk {
            window,
            begun_by: None,
            since: Timestamp::EPOCH,
            position: Position::Start,
            reads: 0,
            budget: 0,
        }
    }

    /// Begins with the state that a read has shown.
    pub(crate) fn begun_by(self, found: Option<StoredRow>, read_at: Timestamp) -> Walk {
        Walk { begun_by: Some((found, read_at)), ..self }
    }

    /// Goes so far back; it has not begun.
    pub(crate) fn since(self, window: Duration) -> Walk {
        Walk { begun_by: self.begun_by, ..Walk::new(window) }
    }

    pub(crate) fn ended(&self) -> Option<HistoryEnd> {
        match self.position {
            Position::Over(end) => Some(end),
            _ => None,
        }
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Returns the next earlier term.
    pub(crate) async fn next(&mut self, past: &impl Past) -> Result<Option<PastTerm>> {
        if matches!(self.position, Position::Start) {
            self.start(past).await?;
        }
        self.budget += READS_PER_TERM;
        loop {
            let (version, later) = match &self.position {
                Position::At(version, later) => (version.clone(), later.clone()),
                Position::Start | Position::Over(_) => return Ok(None),
            };
            let begun = version.row().token;
            if !is_term(&version) {
                if begun <= self.since {
                    // The term before ended with it, before the window.
                    self.position = Position::Over(HistoryEnd::Covered);
                    return Ok(None);
                }
                self.step_back(past, version).await?;
                continue;
            }
            let vacancy = if begun <= self.since {
                self.position = Position::Over(HistoryEnd::Covered);
                None
            } else {
                self.vacancy_before(past, version.clone()).await?
            };
            return Ok(Some(past_term(&version, &later, vacancy)));
        }
    }

    async fn start(&mut self, past: &impl Past) -> Result<()> {
        let (found, read_at) = match self.begun_by.take() {
            Some(known) => known,
            None => {
                self.reads += 1;
                past.now().await?
            }
        };
        let window = i64::try_from(self.window.as_nanos()).unwrap_or(i64::MAX);
        self.since = Timestamp(read_at.0.saturating_sub(window).max(0));
        self.budget = READS_PER_TERM;
        match found {
            Some(row) if row.row().token > read_at => {
                self.position = Position::Over(HistoryEnd::Edited);
            }
            Some(row) => self.position = Position::At(row, Later::Nothing(read_at)),
            None => self.probe(past, read_at).await?,
        }
        Ok(())
    }

    /// Goes back until a term is reached, and adds up for how long the lock was to be had.
    async fn vacancy_before(
        &mut self,
        past: &impl Past,
        mut version: StoredRow,
    ) -> Result<Option<Duration>> {
        let mut vacancy = Duration::ZERO;
        loop {
            let begun = version.row().token;
            self.step_back(past, version).await?;
            let Position::At(before, Later::Version(_)) = &self.position else { return Ok(None) };
            vacancy += begun.since(before.row().vacant_since(LEASE_DEFAULT));
            if is_term(before) {
                return Ok(Some(vacancy));
            }
            if before.row().token <= self.since {
                // Whatever came before is outside of the window.
                return Ok(None);
            }
            version = before.clone();
        }
    }

    /// Moves to the version before this one began.
    async fn step_back(&mut self, past: &impl Past, version: StoredRow) -> Result<()> {
        let begun = version.row().token;
        let Some(found) = self.read(past, before(begun, TICK)).await? else { return Ok(()) };
        match found {
            Version::Row(row) if row.row().token >= begun => {
                self.position = Position::Over(HistoryEnd::Edited);
            }
            Version::Row(row) => self.position = Position::At(row, Later::Version(version)),
            Version::None => self.probe(past, begun).await?,
            Version::End(end) => self.position = Position::Over(end),
        }
        Ok(())
    }

    /// Looks for a row that was deleted before `by`.
    async fn probe(&mut self, past: &impl Past, by: Timestamp) -> Result<()> {
        for back in PROBES {
            let at = before(by, back);
            if at <= self.since {
                break;
            }
            let Some(found) = self.read(past, at).await? else { return Ok(()) };
            match found {
                Version::Row(row) if row.row().token > at => {
                    self.position = Position::Over(HistoryEnd::Edited);
                    return Ok(());
                }
                Version::Row(row) => {
                    self.position = Position::At(row, Later::Deleted(at, by));
                    return Ok(());
                }
                Version::None => {}
                Version::End(end) => {
                    self.position = Position::Over(end);
                    return Ok(());
                }
            }
        }
        self.position = Position::Over(HistoryEnd::NoRow);
        Ok(())
    }

    /// Reads within the budget; without one the walk is over.
    async fn read(&mut self, past: &impl Past, at: Timestamp) -> Result<Option<Version>> {
        let Some(left) = self.budget.checked_sub(1) else {
            self.position = Position::Over(HistoryEnd::TooManyChanges);
            return Ok(None);
        };
        self.budget = left;
        self.reads += 1;
        past.at(at).await.map(Some)
    }
}

fn before(at: Timestamp, back: Duration) -> Timestamp {
    Timestamp(at.0.saturating_sub(i64::try_from(back.as_nanos()).unwrap_or(i64::MAX)).max(0))
}
