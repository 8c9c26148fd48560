//! Many changes in one transaction, each judged by its own rows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::{Change, Column, Rejection, StoredRow, Write};

/// Returns the keys and the columns that all of the changes are judged by.
pub fn reads(changes: &[(Arc<str>, Change)]) -> (Vec<String>, Vec<Column>) {
    let (mut keys, mut columns) = (Vec::new(), Vec::new());
    let mut known = HashSet::new();
    for (lock, change) in changes {
        let mut reads = change.reads(lock);
        // Those who begin to read share the rows of their writers.
        reads.keys.retain(|key| known.insert(key.clone()));
        keys.extend(reads.keys);
        for column in reads.columns {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
    }
    (keys, columns)
}

/// Returns what each of the changes writes, or why it is refused. A refusal affects no other lock.
/// The first of those who begin to read under one writer writes its rows for all of them.
pub fn judge(
    changes: &[(Arc<str>, Change)],
    found: &[StoredRow],
) -> Vec<Result<Vec<Write>, Rejection>> {
    let found: HashMap<&str, &StoredRow> = found.iter().map(|row| (&*row.key, row)).collect();
    let mut written = HashSet::new();
    let judged = changes.iter().map(|(lock, change)| {
        let keys = change.reads(lock).keys;
        let own = keys.iter().filter_map(|key| found.get(&**key).copied().cloned());
        let own: Vec<StoredRow> = own.collect();
        let mut writes = change.judge(lock, &own)?;
        if let Change::BeginRead { .. } = change {
            writes.retain(|write| write.key == **lock || written.insert(write.key.clone()));
        }
        Ok(writes)
    });
    judged.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Holder, Nonce, Row, Timestamp, WriteKind, Writer};

    #[test]
    fn the_first_of_those_who_begin_to_read_releases_the_dead_writer_for_all() {
        let dead = Writer::term("w", Nonce { instance: 1, attempt: 1 });
        let heartbeat = Timestamp(1_000);
        let vacant = Row { heartbeat, token: heartbeat, writer: dead.clone(), lease: None };
        let begin = |n: u64| {
            let writer = Writer::term("r", Nonce { instance: n, attempt: 1 });
            let vacant = [("gate".to_string(), None), ("write".to_string(), Some(vacant.clone()))];
            let holder = Holder { lease: std::time::Duration::from_secs(1), info: None };
            (
                format!("reader-{n}").into(),
                Change::BeginRead { vacant: vacant.into(), seen: None, writer, holder },
            )
        };
        let changes = [begin(1), begin(2)];
        assert_eq!(reads(&changes).0, ["reader-1", "gate", "write", "reader-2"]);
        let (heartbeat, token) = (Some(heartbeat), Some(heartbeat));
        let write_lock = StoredRow { heartbeat, token, writer: dead, ..StoredRow::new("write") };
        let writes: Vec<_> =
            judge(&changes, &[write_lock]).into_iter().flatten().flatten().collect();
        let written: Vec<_> = writes.iter().map(|write| (&*write.key, write.kind)).collect();
        let (insert, update) = (WriteKind::Insert, WriteKind::Update);
        assert_eq!(written, [("reader-1", insert), ("write", update), ("reader-2", insert)]);
    }
}
