//! The tables, and their rows as the engine keeps them.

use spindle_emulator::engine::{Cell, Key, KeyPart, KeyRange, Mutation, Value, WriteKind};
use spindle_protocol::{
    Cell as ProtocolCell, StoredRow, Timestamp, Write, WriteKind as ProtocolKind, Writer,
};

pub(crate) const TABLE: &str = "locktable";
pub(crate) const LEDGER: &str = "ledger";

pub(crate) const SCHEMA: &str = concat!(
    include_str!("../../../ddl/googlesql.sql"),
    "CREATE TABLE ledger (serial INT64 NOT NULL, lock_name STRING(MAX)) PRIMARY KEY (serial)"
);

/// The key of a row of the lock table.
pub(crate) fn key(name: &str) -> Key {
    Key(vec![KeyPart::Ascending(name.into())])
}

/// A timestamp as the protocol has it.
pub(crate) fn timestamp(timestamp: spindle_emulator::engine::Timestamp) -> Timestamp {
    Timestamp(i64::try_from(timestamp.nanos()).unwrap_or(i64::MAX))
}

/// A row as it was read.
pub(crate) fn decode(name: &str, columns: &[&str], cells: &[Value]) -> StoredRow {
    let mut row = StoredRow::new(name);
    for (column, cell) in columns.iter().zip(cells) {
        match (*column, cell) {
            ("heartbeat", Value::Timestamp(time)) => row.heartbeat = Some(timestamp(*time)),
            ("token", Value::Timestamp(time)) => row.token = Some(timestamp(*time)),
            ("writer", Value::String(writer)) => row.writer = Writer::from(writer.as_str()),
            ("lease_ms", Value::Int64(lease_ms)) => row.lease_ms = Some(*lease_ms),
            ("info", Value::String(info)) => row.info = Some(info.clone()),
            ("displaced", Value::Timestamp(time)) => row.displaced = Some(timestamp(*time)),
            ("next", Value::String(next)) => row.next = Some(next.clone()),
            _ => {}
        }
    }
    row
}

/// A write of the protocol as the engine takes it.
pub(crate) fn mutation(write: &Write) -> Mutation {
    let kind = match write.kind {
        ProtocolKind::Insert => WriteKind::Insert,
        ProtocolKind::Update => WriteKind::Update,
        ProtocolKind::InsertOrUpdate => WriteKind::InsertOrUpdate,
        ProtocolKind::Delete => {
            let keys = vec![KeyRange::prefix(key(&write.key))];
            return Mutation::Delete { table: TABLE.to_string(), keys };
        }
    };
    let cells = write.cells.iter().map(|(column, cell)| {
        let cell = match cell {
            ProtocolCell::CommitTimestamp => Cell::CommitTimestamp,
            ProtocolCell::Epoch => spindle_emulator::engine::Timestamp::EPOCH.into(),
            ProtocolCell::Time(time) => {
                let time = spindle_emulator::engine::Timestamp::from_nanos(i128::from(time.0));
                time.expect("a time of 64 bits").into()
            }
            ProtocolCell::Null => Cell::Value(Value::Null),
            ProtocolCell::Text(text) => text.as_str().into(),
            ProtocolCell::Milliseconds(milliseconds) => (*milliseconds).into(),
        };
        (column.name(), cell)
    });
    let name = [("name", Cell::from(write.key.as_str()))];
    Mutation::write(kind, TABLE, name.into_iter().chain(cells))
}
