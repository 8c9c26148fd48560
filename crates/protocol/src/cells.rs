//! Rows as the lock table keeps them, cell by cell.

use std::time::Duration;

use crate::{Row, Timestamp, Writer};

/// A column beside the key, `name`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Column {
    /// A TIMESTAMP; NULL in a takeover row.
    Heartbeat,
    /// A TIMESTAMP.
    Token,
    /// A STRING: a [`Writer`].
    Writer,
    /// An INT64.
    LeaseMs,
    /// A STRING.
    Info,
    /// A TIMESTAMP: the token that the term displaced, by which its takeover row is known; NULL
    /// where there is none.
    Displaced,
    /// A STRING: the [`Place`](crate::line::Place) of who waits first, a hint.
    Next,
}

impl Column {
    /// All of them, in the order of the table.
    pub const ALL: [Column; 7] = [
        Column::Heartbeat,
        Column::Token,
        Column::Writer,
        Column::LeaseMs,
        Column::Info,
        Column::Displaced,
        Column::Next,
    ];

    /// Returns the column's name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Column::Heartbeat => "heartbeat",
            Column::Token => "token",
            Column::Writer => "writer",
            Column::LeaseMs => "lease_ms",
            Column::Info => "info",
            Column::Displaced => "displaced",
            Column::Next => "next",
        }
    }
}

/// A value to write into one column of one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Cell {
    /// The transaction's commit timestamp.
    CommitTimestamp,
    /// The Unix epoch.
    Epoch,
    /// Another time.
    Time(Timestamp),
    /// Nothing.
    Null,
    /// A text.
    Text(String),
    /// A duration.
    Milliseconds(i64),
}

impl Cell {
    /// Returns the duration, rounded up: a holder must not be owed less than it counts on.
    pub fn milliseconds(duration: Duration) -> Cell {
        let milliseconds = i64::try_from(duration.as_nanos().div_ceil(1_000_000));
        Cell::Milliseconds(milliseconds.unwrap_or(i64::MAX))
    }
}

/// One write to one row.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Write {
    /// The row's key.
    pub key: String,
    /// The kind of the write.
    pub kind: WriteKind,
    /// The cells that are written; none are for a deletion.
    pub cells: Vec<(Column, Cell)>,
}

/// The effect of a write on its row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    /// Makes a row; fails if there is one.
    Insert,
    /// Changes a row; fails if there is none.
    Update,
    /// Makes a row or changes it.
    InsertOrUpdate,
    /// Removes a row, if there is one.
    Delete,
}

/// A row as it was read. Columns that were not asked for are as if they were NULL.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoredRow {
    /// The key.
    pub key: String,
    /// The heartbeat, unless it is NULL.
    pub heartbeat: Option<Timestamp>,
    /// The token, unless it is NULL.
    pub token: Option<Timestamp>,
    /// The writer; NULL, which a manual edit may leave, names no one.
    pub writer: Writer,
    /// The lease, unless it is NULL.
    pub lease_ms: Option<i64>,
    /// The text, unless it is NULL.
    pub info: Option<String>,
    /// The token that the term displaced, unless it is NULL.
    pub displaced: Option<Timestamp>,
    /// The place of who waits first, unless it is NULL.
    pub next: Option<String>,
}

impl StoredRow {
    /// Returns a row of which nothing but the key is known.
    pub fn new(key: impl Into<String>) -> StoredRow {
        StoredRow {
            key: key.into(),
            heartbeat: None,
            token: None,
            writer: Writer::nobody(),
            lease_ms: None,
            info: None,
            displaced: None,
            next: None,
        }
    }

    /// Returns true if it is a takeover row: it has no heartbeat.
    pub fn is_takeover(&self) -> bool {
        self.heartbeat.is_none()
    }

    /// Returns true if somebody seized the lock. A seizure leaves a mark: no holder's own text
    /// stands in the row of a released lock.
    pub fn is_seized(&self) -> bool {
        let is_marked = self.info.as_deref().is_some_and(|info| info.starts_with("seized"));
        is_marked && self.heartbeat.is_some() && self.row().is_released()
    }

    /// Returns the row as the protocol looks at it. A NULL that a manual edit has set reads as the epoch: released, or older
    /// than any token.
    pub fn row(&self) -> Row {
        let lease = self.lease_ms.and_then(|lease_ms| u64::try_from(lease_ms).ok());
        Row {
            heartbeat: self.heartbeat.unwrap_or(Timestamp::EPOCH),
            token: self.token.unwrap_or(Timestamp::EPOCH),
            writer: self.writer.clone(),
            lease: lease.map(Duration::from_millis).map(|lease| lease.min(LEASE_MAX)),
        }
    }
}

/// The longest lease that an instance may have, and the most that `lease_ms` is taken for. A row that
/// says more is damaged, and would otherwise never fall vacant.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lease_is_never_written_shorter_than_it_is() {
        assert_eq!(Cell::milliseconds(Duration::from_micros(1_001)), Cell::Milliseconds(2));
        assert_eq!(Cell::milliseconds(Duration::from_secs(2)), Cell::Milliseconds(2_000));
        assert_eq!(Cell::milliseconds(Duration::MAX), Cell::Milliseconds(i64::MAX));
    }

    #[test]
    fn a_lease_that_nobody_can_have_written_is_not_believed_for_ever() {
        let believed = |lease_ms| {
            let row = StoredRow { lease_ms, ..StoredRow::new("job") };
            row.row().lease
        };
        assert_eq!(believed(Some(i64::MAX)), Some(LEASE_MAX));
        assert_eq!(believed(Some(86_399_999)), Some(Duration::from_millis(86_399_999)));
        assert_eq!(believed(Some(-1)), None);
        assert_eq!(believed(None), None);
    }
}
