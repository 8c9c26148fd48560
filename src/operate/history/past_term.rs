//! A term of the past, and why it ended.

use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle_protocol::{StoredRow, Timestamp};

use crate::token::FencingToken;

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
    /// The holder's own text.
    pub info: Option<String>,
    /// When it ended, by Spanner's clock; at the latest, where a lease ran out or a row was
    /// deleted. Nothing if it goes on.
    pub end: Option<DateTime<Utc>>,
    /// Why it ended; nothing if it goes on.
    pub cause: Option<Cause>,
    /// How long the lock had been free when this term began. Neither the grace of a successor counts,
    /// nor the rest of a lease. Nothing where the versions don't tell.
    pub vacancy: Option<Duration>,
}

impl PastTerm {
    /// Returns the term of this row, which was ended at that moment; none if the row was nobody's.
    pub(crate) fn ended_by(found: &StoredRow, at: Timestamp, cause: Cause) -> Option<PastTerm> {
        let row = found.row();
        let holder = row.writer.id()?.to_string();
        let [heartbeat, end] = [row.heartbeat, at].map(|at| DateTime::from_timestamp_nanos(at.0));
        let (token, info) = (FencingToken::from_timestamp(row.token), found.info.clone());
        let (end, cause, vacancy) = (Some(end), Some(cause), None);
        Some(PastTerm { holder, token, heartbeat, info, end, cause, vacancy })
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
    /// Somebody ended it gracefully.
    #[non_exhaustive]
    Evicted {
        /// The operator, if the row names one.
        by: Option<String>,
        /// Why, if the row says so.
        reason: Option<String>,
    },
    /// Somebody took the lock from its holder.
    #[non_exhaustive]
    Seized {
        /// The operator, if the row names one.
        by: Option<String>,
        /// Why, if the row says so.
        reason: Option<String>,
    },
    /// No heartbeat came for a lease. A crash, a hang, lost contact and work that could not be
    /// stopped look alike. The end is the last moment that the holder can have believed in.
    LeaseRanOut,
    /// As `LeaseRanOut`, before the first heartbeat: the holder died early, or was never told that
    /// it held.
    BeforeHeartbeat,
    /// The row was deleted later, by the end that is told. Before that the term may have ended in
    /// any way, and other terms may have come and gone.
    Unknown,
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
