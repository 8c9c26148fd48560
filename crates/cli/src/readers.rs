//! Readers and writers: who has the gate stops new readers, and waits for those there are. So that row
//! alone does not tell if it writes; the rows of the readers do.

use std::collections::BTreeMap;

use spindle::{LockState, LockTable, Result};

use crate::record::{LEASE_ASSUMED, Record, State};

/// The names of all their rows begin so.
pub const KIND: &str = "spindle:rw:";

/// The role of a row of readers and writers.
pub fn role(name: &str) -> &'static str {
    match name.strip_prefix(KIND).and_then(|name| name.split_once('/')) {
        None => "gate",
        // The name of a reader's row ends in `-` and 16 digits.
        Some((_, "write")) => "writer",
        Some(_) => "reader",
    }
}

/// How many readers are at work, by the name of their gate.
#[derive(Clone, Debug, Default)]
pub struct Readers(BTreeMap<String, usize>);

impl Readers {
    /// Counts the readers among the rows of a table.
    pub fn among<'a>(rows: impl IntoIterator<Item = &'a LockState>) -> Readers {
        let mut readers = BTreeMap::<String, usize>::new();
        for row in rows {
            if let Some(gate) = row.fleet()
                && gate.starts_with(KIND)
                && role(&row.name) == "reader"
                && keeps_writers_out(row)
            {
                *readers.entry(gate.to_string()).or_default() += 1;
            }
        }
        Readers(readers)
    }

    /// Reads those for whom the holder of this gate waits; another row has none.
    pub async fn of(table: &LockTable, state: &LockState) -> Result<Readers> {
        let mut rows = Vec::new();
        if state.is_held() && state.name.starts_with(KIND) {
            let mut listing = table.list().prefix(format!("{}/", state.name)).page_rows(1_000);
            while let Some(row) = listing.next().await? {
                rows.push(row);
            }
        }
        Ok(Readers::among(&rows))
    }

    /// Returns true if somebody holds the lock: a writer that waits does not.
    pub fn is_held(&self, state: &LockState) -> bool {
        state.is_held() && !self.0.contains_key(&state.name)
    }

    /// Returns the lock as the output shows it.
    pub fn record(&self, state: &LockState) -> Record {
        let mut record = Record::new(state);
        if let Some(readers) = self.0.get(&state.name).filter(|_| record.is_held()) {
            record.state = State::Waiting;
            record.next = format!("waits until no reader is left ({readers} now), and writes then");
        }
        record
    }

    /// Returns the locks as the output shows them, if these are all rows that there are of each fleet.
    pub fn records(rows: &[LockState]) -> Vec<Record> {
        let readers = Readers::among(rows);
        rows.iter().map(|row| readers.record(row)).collect()
    }
}

/// Returns true while the lease of a reader's last heartbeat runs: also an evicted one may read for
/// as long.
fn keeps_writers_out(reader: &LockState) -> bool {
    reader.heartbeat_age.is_some_and(|age| age < reader.lease.unwrap_or(LEASE_ASSUMED))
}
