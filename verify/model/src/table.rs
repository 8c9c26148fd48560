//! The lock table on Spanner, in small: rows by key, and a clock.
//!
//! The meaning of an act stands in [`spindle_protocol::Change`]; here it is only carried out, as
//! the library and the simulation carry it out. The relation that is proven says the same once more, and a
//! test of `verify/proof` compares both in this table.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::line::Place;
use spindle_protocol::{
    Act, Answer, Cell, Change, Column, Holder, Observation, Rejection, Row, StoredRow, TermId,
    Timestamp, Write, WriteKind, Writer, is_takeover_key,
};

/// The lock under proof.
pub const LOCK: &str = "job";

/// Everything Spanner keeps: rows in the order of their keys, and a clock that never hands out a
/// timestamp twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Table {
    /// Shared by all worlds in which they are the same: most steps change no row.
    rows: Arc<Vec<StoredRow>>,
    last: Timestamp,
}

/// A request as it arrives: an act, and what its sender would write of itself.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Request {
    /// The request.
    pub act: Act,
    /// The sender.
    pub holder: Holder,
}

impl Table {
    /// Returns a table with these rows.
    pub fn new(rows: impl IntoIterator<Item = StoredRow>) -> Table {
        let mut table = Table { rows: Arc::default(), last: Timestamp::EPOCH };
        for row in rows {
            table.put(row);
        }
        table
    }

    /// Returns the row of the key.
    pub fn get(&self, key: &str) -> Option<&StoredRow> {
        self.position(key).ok().map(|at| &self.rows[at])
    }

    /// Returns every row, in the order of the keys.
    pub fn rows(&self) -> impl Iterator<Item = &StoredRow> {
        self.rows.iter()
    }

    /// Writes a row, whether it exists or not.
    pub fn put(&mut self, row: StoredRow) {
        match self.position(&row.key) {
            Ok(at) => Arc::make_mut(&mut self.rows)[at] = row,
            Err(at) => Arc::make_mut(&mut self.rows).insert(at, row),
        }
    }

    /// Removes the rows that are not to be kept.
    pub fn retain(&mut self, keep: impl Fn(&StoredRow) -> bool) {
        Arc::make_mut(&mut self.rows).retain(keep);
    }

    /// Returns the lock row, as the protocol sees it.
    pub fn lock(&self) -> Option<Row> {
        self.get(LOCK).map(StoredRow::row)
    }

    /// Edits the lock row, if there is one.
    pub fn edit_lock(&mut self, edit: impl FnOnce(&mut StoredRow)) {
        if let Some(mut row) = self.get(LOCK).cloned() {
            edit(&mut row);
            self.put(row);
        }
    }

    /// Returns a strong read's timestamp: it sees every commit so far and none to come.
    pub fn read_timestamp(&self, now: Timestamp) -> Timestamp {
        self.last.max(now)
    }

    /// Returns a commit's timestamp: after every timestamp given so far.
    fn commit_timestamp(&mut self, now: Timestamp) -> Timestamp {
        self.last = Timestamp(self.last.max(now).0 + 1);
        self.last
    }

    /// Carries out one request, atomically, at Spanner's time `now`.
    pub fn carry_out(&mut self, now: Timestamp, request: &Request) -> Answer {
        match request.act.change(&request.holder) {
            Some(change) => self.change(now, &change),
            None => {
                let read_at = self.read_timestamp(now);
                Answer::Observed(Observation {
                    row: self.lock(),
                    next: self.get(LOCK).and_then(Place::of),
                    read_at,
                })
            }
        }
    }

    /// Runs one transaction: reads what the change has to be judged by, and writes what it says.
    pub fn change(&mut self, now: Timestamp, change: &Change) -> Answer {
        self.change_of(LOCK, now, change)
    }

    /// Runs one transaction for the lock of this name.
    pub fn change_of(&mut self, lock: &str, now: Timestamp, change: &Change) -> Answer {
        let writes = match change.judge(lock, &self.found(lock, change)) {
            Ok(writes) => writes,
            Err(rejection) => return Answer::Rejected(rejection),
        };
        let exists = |write: &Write| self.get(&write.key).is_some();
        if writes.iter().any(|write| write.kind == WriteKind::Insert && exists(write)) {
            return Answer::Rejected(Rejection::Changed(None));
        }
        if writes.iter().any(|write| write.kind == WriteKind::Update && !exists(write)) {
            return Answer::NotApplied;
        }
        let at = self.commit_timestamp(now);
        for write in writes {
            self.write(write, at);
        }
        Answer::Applied { at }
    }

    /// Returns the rows and columns that the change asks for.
    pub fn found(&self, lock: &str, change: &Change) -> Vec<StoredRow> {
        let reads = change.reads(lock);
        let found = reads.keys.iter().filter_map(|key| self.get(key));
        found.map(|row| with_columns(row, reads.columns)).collect()
    }

    /// Returns true if a fenced write of the term would commit: the check is part of its
    /// transaction.
    pub fn fence_holds(&self, token: Timestamp, writer: &Writer) -> bool {
        let term = TermId { token, writer: writer.clone() };
        let found: Vec<StoredRow> = self.get(LOCK).cloned().into_iter().collect();
        Change::Fence { term }.judge(LOCK, &found).is_ok()
    }

    fn write(&mut self, write: Write, at: Timestamp) {
        if write.kind == WriteKind::Delete {
            return self.retain(|row| row.key != write.key);
        }
        let mut row = self.get(&write.key).cloned().unwrap_or(StoredRow::new(write.key));
        for (column, cell) in write.cells {
            set(&mut row, column, cell, at);
        }
        self.put(row);
    }

    fn position(&self, key: &str) -> Result<usize, usize> {
        self.rows.binary_search_by(|row| row.key.as_str().cmp(key))
    }
}

/// Returns the row as the table keeps it.
pub fn stored(key: &str, row: &Row) -> StoredRow {
    let milliseconds = |lease: Duration| i64::try_from(lease.as_millis()).unwrap_or(i64::MAX);
    StoredRow {
        heartbeat: Some(row.heartbeat),
        token: Some(row.token),
        writer: row.writer.clone(),
        lease_ms: row.lease.map(milliseconds),
        ..StoredRow::new(key)
    }
}

/// Returns a takeover row.
pub fn takeover_row(key: String, token: Timestamp, writer: Writer) -> StoredRow {
    StoredRow { token: Some(token), writer, ..StoredRow::new(key) }
}

/// Returns true if a takeover row of the lock under proof has this key.
pub fn is_takeover_row(row: &StoredRow) -> bool {
    is_takeover_key(LOCK, &row.key)
}

/// Returns the row as a read of these columns shows it.
fn with_columns(row: &StoredRow, columns: &[Column]) -> StoredRow {
    let mut shown = StoredRow::new(row.key.clone());
    for column in columns {
        match column {
            Column::Heartbeat => shown.heartbeat = row.heartbeat,
            Column::Token => shown.token = row.token,
            Column::Writer => shown.writer = row.writer.clone(),
            Column::LeaseMs => shown.lease_ms = row.lease_ms,
            Column::Info => shown.info.clone_from(&row.info),
            Column::Displaced => shown.displaced = row.displaced,
            Column::Next => shown.next.clone_from(&row.next),
        }
    }
    shown
}

fn set(row: &mut StoredRow, column: Column, cell: Cell, at: Timestamp) {
    let time = match &cell {
        Cell::CommitTimestamp => Some(at),
        Cell::Epoch => Some(Timestamp::EPOCH),
        Cell::Time(time) => Some(*time),
        _ => None,
    };
    let text = match &cell {
        Cell::Text(text) => Some(text.clone()),
        _ => None,
    };
    match column {
        Column::Heartbeat => row.heartbeat = time,
        Column::Token => row.token = time,
        Column::Writer => row.writer = Writer::from(text.unwrap_or_default().as_str()),
        Column::LeaseMs => {
            row.lease_ms = match cell {
                Cell::Milliseconds(milliseconds) => Some(milliseconds),
                _ => None,
            };
        }
        Column::Info => row.info = text,
        Column::Displaced => row.displaced = time,
        Column::Next => row.next = text,
    }
}
