//! How rows are written: as this version does, or as the previous one did.
//!
//! An instance of the previous version is the same loop. But nothing of the lock table reaches it,
//! or comes from it, except by the frozen description of that version's format.

mod first;

use std::collections::HashMap;
use std::sync::Arc;

use spindle::simulation::{Accepted, reads};
use spindle_emulator::engine::{Cell, KeyRange, Mutation, Value, WriteKind};
use spindle_protocol::{
    Cell as PresentCell, Change, Named, StoredRow, TermId, Timestamp, Write,
    WriteKind as PresentKind, Writer, takeover_key, takeover_keys,
};

use crate::rows::{TABLE, decode, key, timestamp};

/// A format of the lock table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// Of the protocol as it is.
    Present,
    /// Of the version before. Nothing was released yet, so it is the first.
    Previous,
}

/// The first reads of a transaction.
#[derive(Clone, Debug)]
pub(crate) struct Reads {
    /// The keys in the table, each with the one by which the loop asks for the row.
    pub(crate) keys: Vec<(String, String)>,
    pub(crate) columns: Vec<&'static str>,
}

impl Format {
    /// Returns what to read before these changes can be judged.
    pub(crate) fn reads(self, changes: &[(Arc<str>, Change)]) -> Reads {
        if self == Format::Present {
            let (keys, columns) = reads(changes);
            let columns = columns.into_iter().map(spindle_protocol::Column::name).collect();
            return Reads {
                keys: keys.into_iter().map(|key| (key.clone(), key)).collect(),
                columns,
            };
        }
        let mut keys = Vec::new();
        for (lock, change) in changes {
            let same = |key: &str| (key.to_string(), key.to_string());
            let takeover = |token| (first::takeover_key(lock, token), takeover_key(lock, token));
            match change {
                Change::Takeover { seen, .. } => keys.extend([same(lock), takeover(seen.token)]),
                Change::Release { displaced, .. } => {
                    keys.push(same(lock));
                    keys.extend(displaced.map(takeover));
                }
                // These were found in the table under just these keys.
                Change::Sweep { keys: found } => keys.extend(found.iter().map(|key| same(key))),
                Change::Remove { takeovers, .. } => {
                    keys.push(same(lock));
                    keys.extend(takeovers.iter().map(|key| same(key)));
                }
                _ => keys.push(same(lock)),
            }
        }
        Reads { keys, columns: first::columns(changes.iter().map(|(_, change)| change)) }
    }

    /// The cells of a row that were read, under the key by which the loop asked for it.
    pub(crate) fn row(self, asked: &str, columns: &[&str], cells: &[Value]) -> StoredRow {
        if self == Format::Present {
            return decode(asked, columns, cells);
        }
        let row = first::Row::read(columns, cells);
        StoredRow {
            key: asked.to_string(),
            heartbeat: row.heartbeat.map(timestamp),
            token: row.token.map(timestamp),
            writer: meaning(&first::names(&row.writer)),
            lease_ms: row.lease.and_then(|lease| match PresentCell::milliseconds(lease) {
                PresentCell::Milliseconds(milliseconds) => Some(milliseconds),
                _ => None,
            }),
            info: row.info,
        }
    }

    /// Returns the writes of a change that was not refused, where these rows were found under their
    /// keys in the table.
    pub(crate) fn writes(
        self,
        (lock, change, writes): &Accepted,
        found: &HashMap<String, StoredRow>,
    ) -> Vec<Mutation> {
        match self {
            Format::Present => writes.iter().map(mutation).collect(),
            Format::Previous => first::writes(lock, change, found),
        }
    }

    /// The keys among which the takeover rows of `lock` for tokens before `before` are.
    pub(crate) fn leftovers(self, lock: &str, before: Timestamp) -> (String, String) {
        match self {
            Format::Present => takeover_keys(lock, before),
            Format::Previous => {
                (first::takeover_key(lock, Timestamp::EPOCH), first::takeover_key(lock, before))
            }
        }
    }

    /// Returns the writer in the row for the one that the loop calls so.
    pub(crate) fn written(self, writer: &Writer) -> Writer {
        match (self, writer.names()) {
            (Format::Present, _) => writer.clone(),
            (Format::Previous, Named::Stranger(text)) => {
                let unknown = text.strip_prefix(UNKNOWN.0);
                let unknown = unknown.and_then(|text| text.strip_suffix(UNKNOWN.1));
                Writer::from(unknown.unwrap_or(text))
            }
            (Format::Previous, named) => Writer::from(first::writer(&named).as_str()),
        }
    }

    /// The term as its row has it.
    pub(crate) fn written_term(self, term: &TermId) -> TermId {
        TermId { token: term.token, writer: self.written(&term.writer) }
    }
}

/// Around what the previous version can't read, so that the present one can't either.
const UNKNOWN: (&str, &str) = ("(unknown to the previous version: ", ")");

/// The writer by which the loop knows whom a row names.
fn meaning(named: &Named<'_>) -> Writer {
    match *named {
        Named::Nobody => Writer::nobody(),
        Named::Term { id, nonce } => Writer::term(id, nonce),
        Named::Successor(id) => Writer::successor(id),
        Named::Cooldown => Writer::cooldown(),
        Named::KeptAway { id, keep_away } => Writer::kept_away(id, keep_away),
        Named::Stranger(text) => {
            let stranger = Writer::from(text);
            if matches!(stranger.names(), Named::Stranger(_)) {
                return stranger;
            }
            Writer::from(format!("{}{text}{}", UNKNOWN.0, UNKNOWN.1).as_str())
        }
    }
}

/// A write of the present version as the engine takes it.
pub(crate) fn mutation(write: &Write) -> Mutation {
    let kind = match write.kind {
        PresentKind::Insert => WriteKind::Insert,
        PresentKind::Update => WriteKind::Update,
        PresentKind::InsertOrUpdate => WriteKind::InsertOrUpdate,
        PresentKind::Delete => {
            let keys = vec![KeyRange::prefix(key(&write.key))];
            return Mutation::Delete { table: TABLE.to_string(), keys };
        }
    };
    let cells = write.cells.iter().map(|(column, cell)| {
        let cell = match cell {
            PresentCell::CommitTimestamp => Cell::CommitTimestamp,
            PresentCell::Epoch => spindle_emulator::engine::Timestamp::EPOCH.into(),
            PresentCell::Null => Cell::Value(Value::Null),
            PresentCell::Text(text) => text.as_str().into(),
            PresentCell::Milliseconds(milliseconds) => (*milliseconds).into(),
        };
        (column.name(), cell)
    });
    let name = [("name", Cell::from(write.key.as_str()))];
    Mutation::write(kind, TABLE, name.into_iter().chain(cells))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use spindle_protocol::{Holder, Nonce, Row, Succession};

    use super::*;

    const LOCK: &str = "job";
    const BEFORE: Timestamp = Timestamp(1_795_000_000_123_456_000);

    fn term() -> TermId {
        let nonce = Nonce { instance: 0xfeed, attempt: 12 };
        TermId { token: BEFORE, writer: Writer::term("node#1", nonce) }
    }

    fn changes() -> Vec<Change> {
        let info = || Some("text".to_string());
        let holder = |info| Holder { lease: Duration::from_micros(2_000_001), info };
        let TermId { writer, token } = term();
        let seen = Row { heartbeat: token, token, writer: writer.clone(), lease: None };
        let away = |time| Change::Evict { keep_away: time, info: info() };
        let takeover = |over_leftover| Change::Takeover {
            seen: seen.clone(),
            writer: writer.clone(),
            over_leftover,
            holder: holder(None),
        };
        let mut changes = vec![
            Change::Insert { writer: writer.clone(), holder: holder(info()) },
            takeover(false),
            takeover(true),
            Change::Heartbeat { term: term(), holder: None },
            Change::Heartbeat { term: term(), holder: Some(holder(info())) },
            away(None),
            away(Some(Duration::from_micros(1_500))),
            away(Some(Duration::from_secs(7_200))),
            Change::Fence { term: term() },
        ];
        for next in [
            Succession::Anyone,
            Succession::Successor { id: "b".into(), grace: Duration::from_micros(1_001) },
            Succession::Cooldown { rest: Duration::from_secs(3) },
        ] {
            changes.push(Change::Seize { next: next.clone(), info: info() });
            for displaced in [None, Some(Timestamp(BEFORE.0 - 1))] {
                let next = next.clone();
                changes.push(Change::Release { term: term(), next, displaced, info: None });
            }
        }
        changes
    }

    /// Both formats are the first, today: this goes with the first change of the present one.
    #[test]
    fn the_previous_version_writes_and_understands_what_this_one_does() {
        let lock_row = StoredRow {
            heartbeat: Some(BEFORE),
            token: Some(BEFORE),
            writer: term().writer,
            ..StoredRow::new(LOCK)
        };
        let takeover_row = StoredRow::new(takeover_key(LOCK, Timestamp(BEFORE.0 - 1)));
        for change in changes() {
            let mut found = vec![lock_row.clone(), takeover_row.clone()];
            if matches!(change, Change::Insert { .. }) {
                found.remove(0);
            }
            let by_key = found.iter().map(|row| (row.key.clone(), row.clone())).collect();
            let writes = change.judge(LOCK, &found).unwrap_or_else(|refused| {
                panic!("{change:?} was refused: {refused:?}");
            });
            let reads = |format: Format| {
                let reads = format.reads(&[(LOCK.into(), change.clone())]);
                (reads.keys, reads.columns)
            };
            if !matches!(change, Change::Evict { .. } | Change::Seize { .. }) {
                assert_eq!(reads(Format::Present), reads(Format::Previous), "{change:?}");
            }
            let accepted = (LOCK.into(), change.clone(), writes);
            let mut previous = Format::Previous.writes(&accepted, &by_key);
            // Both are one write to a row that is there.
            if matches!(change, Change::Seize { .. })
                && let [Mutation::Write { kind, .. }] = &mut *previous
            {
                *kind = WriteKind::Update;
            }
            assert_eq!(Format::Present.writes(&accepted, &by_key), previous, "{change:?}");
        }
        for text in
            ["", ">", ">b", ">b#000000000000feed-3", "a#000000000000feed-3", "!a!5", "!a!3600001"]
                .into_iter()
                .chain(["a#000000000000feed-+3", "a#00feed-3", "!!1", "go-node#7", "!a!"])
        {
            let cells = vec![Value::String(text.to_string()), Value::Int64(i64::MAX)];
            let row = |format: Format| format.row(LOCK, &["writer", "lease_ms"], &cells);
            let (present, previous) = (row(Format::Present), row(Format::Previous));
            assert_eq!(present.row(), previous.row(), "{text}");
            assert_eq!(Format::Previous.written(&previous.writer), Writer::from(text));
        }
    }
}
