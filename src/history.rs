//! What a lock was in the past, read from Spanner's old versions of its row.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use google_cloud_gax::error::rpc::Code;
use google_cloud_spanner::transaction::TimestampBound;
use google_cloud_spanner::value::Timestamp as ClientTimestamp;
use spindle_protocol::{StoredRow, Timestamp};
use tokio::time::timeout;

use crate::error::{Error, Result};
use crate::locks::{LockTable, REQUEST_LIMIT};
use crate::names::{check_lock_name, check_table_name};
use crate::row;
use crate::table::{Table, without_read_timestamp};
use crate::token::FencingToken;

mod cause;
mod walk;

pub(crate) use walk::{Past, Version, Walk};

/// As far back as Spanner keeps old versions unless a database says otherwise.
const WINDOW_DEFAULT: Duration = Duration::from_secs(60 * 60);

impl LockTable {
    /// The terms of the lock `name` so far, the latest first, by stale reads of its row.
    ///
    /// No history table is needed: a read just before a term's token shows the row as the term
    /// before left it. Spanner keeps old versions for an hour, unless the database's
    /// `version_retention_period` says otherwise. Nothing is sent before the first
    /// [`next`](History::next).
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut history = table.history("billing");
    /// while let Some(term) = history.next().await? {
    ///     println!("{} from {} to {:?}: {:?}", term.holder, term.begin(), term.end, term.cause);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn history(&self, name: impl Into<String>) -> History {
        History {
            table: Arc::clone(self.table()),
            lock: name.into(),
            walk: Walk::new(WINDOW_DEFAULT),
        }
    }
}

/// A walk through the terms of a lock, back in time. Made by [`LockTable::history`].
///
/// It sends one strong read at first and then at most four stale reads for each term, two as a rule.
#[derive(Debug)]
#[must_use = "a history reads nothing until `next` is called"]
pub struct History {
    table: Arc<Table>,
    lock: String,
    walk: Walk,
}

/// A term as the versions of its row tell of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastTerm {
    /// The id of the holder.
    pub holder: String,
    /// The fencing token, which says when the term began.
    pub token: FencingToken,
    /// The last heartbeat, by Spanner's clock.
    pub heartbeat: DateTime<Utc>,
    /// What the holder said of itself.
    pub info: Option<String>,
    /// When it ended, by Spanner's clock; at the latest, where a lease ran out or a row was deleted.
    /// Nothing if it goes on.
    pub end: Option<DateTime<Utc>>,
    /// Why it ended; nothing if it goes on.
    pub cause: Option<Cause>,
    /// For how long the lock had been there for the taking when this term began. Neither the grace
    /// of a successor nor the time that a lock is parked counts, nor the rest of a lease. Nothing
    /// where the versions don't tell.
    pub vacancy: Option<Duration>,
}

impl PastTerm {
    /// When it began, by Spanner's clock.
    pub fn begin(&self) -> DateTime<Utc> {
        self.token.to_datetime()
    }
}

/// Why a term of the past ended, as far as the row tells.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Its holder let go.
    Released,
    /// Its holder let go in favour of a named contender.
    #[non_exhaustive]
    HandedTo {
        /// The id of the contender.
        to: String,
    },
    /// Its holder let go, and nobody was to take the lock before this time.
    #[non_exhaustive]
    Parked {
        /// By Spanner's clock.
        until: DateTime<Utc>,
    },
    /// Somebody ended it gracefully.
    #[non_exhaustive]
    Evicted {
        /// Who did it, if the row says so.
        by: Option<String>,
        /// Why, if the row says so.
        reason: Option<String>,
    },
    /// Somebody took the lock from its holder.
    #[non_exhaustive]
    Seized {
        /// Who did it, if the row says so.
        by: Option<String>,
        /// Why, if the row says so.
        reason: Option<String>,
    },
    /// No heartbeat came for a lease. A crash, a hang, lost contact and work that could not be
    /// stopped look alike; the end is the last moment that the holder can have believed in.
    LeaseRanOut,
    /// As `LeaseRanOut`, before the first heartbeat: perhaps the holder was never told that it held.
    Unheard,
    /// The row was deleted; other terms may have come and gone before it was.
    Deleted,
    /// Released or seized: a table without the column `info` doesn't tell which.
    Unmarked,
}

/// Why a history goes no further back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HistoryEnd {
    /// All of the time that was asked for is covered.
    Covered,
    /// The lock had no row before: it was never held, or the row was deleted.
    NoRow,
    /// Spanner no longer has the versions; the database's `version_retention_period` sets how long
    /// it keeps them.
    Forgotten,
    /// The table, or a column of it, was made later.
    OtherSchema,
    /// The token of a row is not older than the version that came after it: somebody edited it.
    Edited,
    /// More than four changes to the row lie between two terms.
    TooManyChanges,
}

impl History {
    /// How far back to go; an hour by default. The term that was held then is the last.
    pub fn since(mut self, window: Duration) -> History {
        self.walk = Walk::new(window);
        self
    }

    /// The next earlier term; none after the last.
    ///
    /// # Errors
    ///
    /// [`is_config`](Error::is_config) for a name that no lock can have; otherwise why Spanner could
    /// not be asked within 5 s for each read. The next call begins with the same term.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the next call begins with the same term.
    pub async fn next(&mut self) -> Result<Option<PastTerm>> {
        check_table_name(&self.table.name)?;
        check_lock_name(&self.lock)?;
        // What a failure or a drop interrupts is begun anew.
        let mut walk = self.walk.clone();
        let term = walk.next(&LockRow { table: &self.table, lock: &self.lock }).await?;
        self.walk = walk;
        Ok(term)
    }

    /// Why there is nothing earlier, once [`next`](History::next) has given nothing.
    pub fn ended(&self) -> Option<HistoryEnd> {
        self.walk.ended()
    }

    /// How many reads the terms so far took.
    pub fn reads(&self) -> u64 {
        self.walk.reads()
    }
}

/// One lock's row on Spanner.
struct LockRow<'a> {
    table: &'a Table,
    lock: &'a str,
}

impl Past for LockRow<'_> {
    async fn now(&self) -> Result<(Option<StoredRow>, Timestamp)> {
        let (found, read_at) = self.read(TimestampBound::strong()).await?;
        let doing = format!("lock `{}`: read its row", self.lock);
        let read_at = read_at.ok_or_else(|| without_read_timestamp(&doing))?;
        Ok((found, row::timestamp(read_at)))
    }

    async fn at(&self, at: Timestamp) -> Result<Version> {
        let moment = ClientTimestamp::new(at.0.div_euclid(NANOS), nanos(at)).map_err(|error| {
            Error::config(format!("lock `{}`: read at {}: {error}", self.lock, at.0))
        })?;
        match self.read(TimestampBound::read_timestamp(moment)).await {
            Ok((Some(row), _)) => Ok(Version::Row(row)),
            Ok((None, _)) => Ok(Version::None),
            Err(error) => match error.code() {
                Some(Code::FailedPrecondition | Code::OutOfRange) => {
                    Ok(Version::End(HistoryEnd::Forgotten))
                }
                Some(Code::NotFound | Code::InvalidArgument) => {
                    Ok(Version::End(HistoryEnd::OtherSchema))
                }
                _ => Err(error),
            },
        }
    }

    fn has_marks(&self) -> bool {
        self.table.optional.has_info()
    }
}

const NANOS: i64 = 1_000_000_000;

fn nanos(at: Timestamp) -> i32 {
    // Less than a second's.
    i32::try_from(at.0.rem_euclid(NANOS)).unwrap_or_default()
}

impl LockRow<'_> {
    async fn read(
        &self,
        bound: TimestampBound,
    ) -> Result<(Option<StoredRow>, Option<ClientTimestamp>)> {
        let doing = || format!("lock `{}`: read an old version of its row", self.lock);
        let leased = self.table.connection.client(REQUEST_LIMIT).await?;
        let reading = async {
            let transaction = leased.client.read_only_transaction();
            let transaction = transaction.set_timestamp_bound(bound).build().await?;
            let request = self.table.row_request(self.table.columns(), self.lock, REQUEST_LIMIT);
            let mut rows = transaction.execute_read(request).await?;
            let found = row::stored_row(&mut rows).await?;
            Ok((found, transaction.read_timestamp()))
        };
        match timeout(REQUEST_LIMIT, reading).await {
            Ok(read) => read.map_err(|error| Error::from_read(doing(), error)),
            Err(_) => Err(Error::timed_out(doing(), REQUEST_LIMIT)),
        }
    }
}
