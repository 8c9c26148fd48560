//! A lock's past, read from Spanner's old versions of its row.

use std::sync::Arc;
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::transaction::TimestampBound;
use spindle_protocol::{StoredRow, Timestamp};
use tokio::time::{sleep, timeout};

use super::past_term::{HistoryEnd, PastTerm};
use super::walk::{Past, Version, Walk};
use crate::error::{self, Error, Missing, Result};
use crate::operate::LockState;
use crate::store::{REQUEST_LIMIT, Table, all_columns, read_rows, row};

/// As far back as Spanner keeps old versions unless a database says otherwise.
const WINDOW_DEFAULT: Duration = Duration::from_secs(60 * 60);

/// A walk through the terms of a lock, back in time. Made by
/// [`LockTable::history`](crate::LockTable::history).
///
/// It sends one strong read at first, and then two stale reads a term as a rule. They are four a term
/// on the average, at most.
#[derive(Debug)]
#[must_use = "a history reads nothing until `next` is called"]
pub struct History {
    table: Arc<Table>,
    lock: String,
    walk: Walk,
    pace: Duration,
}

impl History {
    pub(crate) fn new(table: Arc<Table>, lock: String) -> History {
        History { table, lock, walk: Walk::new(WINDOW_DEFAULT), pace: Duration::ZERO }
    }

    /// Begins with `latest`, which is not read again.
    pub(crate) fn begun_by(self, latest: &LockState) -> History {
        let walk = self.walk.begun_by(latest.stored(), latest.asked_at());
        History { walk, ..self }
    }

    /// Sets how far back to go; an hour by default. The term that was held then is the last.
    pub fn since(mut self, window: Duration) -> History {
        self.walk = self.walk.since(window);
        self
    }

    /// Sets how long to wait before each stale read, for a caller that loads many histories beside
    /// a busy database; not at all by default.
    pub fn pace(mut self, pause: Duration) -> History {
        self.pace = pause;
        self
    }

    /// Returns the next earlier term; none after the last.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a name that no lock can have; otherwise why Spanner
    /// could not be asked within 5 s for each read. The next call begins with the same term.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the next call begins with the same term.
    pub async fn next(&mut self) -> Result<Option<PastTerm>> {
        self.table.check_lock(&self.lock)?;
        // An interrupted or dropped step is begun anew.
        let mut walk = self.walk.clone();
        let past = LiveLock { table: &self.table, lock: &self.lock, pace: self.pace };
        let term = walk.next(&past).await?;
        self.walk = walk;
        Ok(term)
    }

    /// Returns why there is nothing earlier, once [`next`](History::next) has given nothing.
    pub fn ended(&self) -> Option<HistoryEnd> {
        self.walk.ended()
    }

    /// Returns how many reads the terms so far took.
    pub fn reads(&self) -> u64 {
        self.walk.reads()
    }
}

/// One lock's row on Spanner.
struct LiveLock<'a> {
    table: &'a Table,
    lock: &'a str,
    pace: Duration,
}

impl Past for LiveLock<'_> {
    async fn now(&self) -> Result<(Option<StoredRow>, Timestamp)> {
        self.table.read(self.lock, REQUEST_LIMIT).await
    }

    async fn at(&self, at: Timestamp) -> Result<Version> {
        if !self.pace.is_zero() {
            sleep(self.pace).await;
        }
        let moment = row::client_timestamp(at).ok_or_else(|| {
            Error::config(format!("lock `{}`: read at {}: no such time", self.lock, at.0))
        })?;
        let spanner = &self.table.spanner;
        let timed = spanner.ready(REQUEST_LIMIT).await?;
        let request = spanner.row_request(all_columns(), self.lock, timed.limit);
        let bound = TimestampBound::read_timestamp(moment);
        let read = timeout(timed.limit, read_rows(&timed.client, bound, request)).await;
        if let Ok(Err(error)) = &read
            && let Some(end) = end(error)
        {
            return Ok(Version::End(end));
        }
        let doing = || format!("lock `{}`: read an old version of its row", self.lock);
        let (rows, _) = spanner.answered(&timed, read, doing).await?;
        Ok(rows.into_iter().next().map_or(Version::None, Version::Row))
    }
}

/// Returns why nothing can be read of that time, if the error says so, and not that something is
/// missing now.
fn end(error: &google_cloud_spanner::Error) -> Option<HistoryEnd> {
    if let Some(Missing::Session | Missing::Database) = Missing::named_in(error) {
        return None;
    }
    match error::code(error)? {
        Code::FailedPrecondition | Code::OutOfRange => Some(HistoryEnd::Forgotten),
        Code::NotFound | Code::InvalidArgument => Some(HistoryEnd::OtherSchema),
        _ => None,
    }
}
