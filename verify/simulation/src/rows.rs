//! The tables, and their rows as the engine keeps them.

use spindle_emulator::engine::{Key, KeyPart, Value};
use spindle_protocol::{StoredRow, Timestamp, Writer};

pub(crate) const TABLE: &str = "locktable";
pub(crate) const LEDGER: &str = "ledger";

pub(crate) const SCHEMA: &str = concat!(
    include_str!("../../../ddl/googlesql.sql"),
    ";\nCREATE TABLE ledger (serial INT64 NOT NULL, lock_name STRING(MAX)) PRIMARY KEY (serial)"
);

/// As other implementations make it.
pub(crate) const OLD_SCHEMA: &str = concat!(
    include_str!("../../../tests/four_columns.sql"),
    ";\nCREATE TABLE ledger (serial INT64 NOT NULL, lock_name STRING(MAX)) PRIMARY KEY (serial)"
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
            _ => {}
        }
    }
    row
}
