//! The answers to callers about their writes, compared with what was committed.

use std::collections::{BTreeMap, BTreeSet};

use spindle_emulator::engine::Value;

/// The answer to a caller about one write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// It was committed.
    Committed,
    /// It was not committed and will not be: repeating it does no harm.
    NotCommitted,
}

/// The serial numbers of writes, with what was said of each. A write of unknown outcome has none.
pub(crate) type Ledger = BTreeMap<i64, Announced>;

/// Checks that the table agrees with what was told.
pub(crate) fn compare(told: &Ledger, rows: &[BTreeMap<String, Value>]) -> Result<(), String> {
    let written: BTreeSet<i64> = rows
        .iter()
        .filter_map(|row| match row.get("serial") {
            Some(Value::Int64(serial)) => Some(*serial),
            _ => None,
        })
        .collect();
    for (serial, told) in told {
        match (told, written.contains(serial)) {
            (Announced::Committed, false) => {
                return Err(format!("write {serial} was told as committed, and is not there"));
            }
            (Announced::NotCommitted, true) => {
                return Err(format!("write {serial} was told as not committed, and is there"));
            }
            _ => {}
        }
    }
    Ok(())
}
