//! I6: nothing done for one lock touches a row of another.

use std::collections::BTreeMap;

use spindle_emulator::engine::{Cell, KeyPart, KeyRange, Mutation, Timestamp, Value, WriteKind};

use crate::rows::TABLE;

/// Rows that nobody in the fleet has any business with, named so that carelessness finds them: a
/// prefix, a pattern, a takeover row's digits.
pub(crate) const BYSTANDERS: [&str; 5] =
    ["job_", "job_0", "job_1700000000000000000x", "job_1700000000000000000", "lock"];

/// A bystander as it is written at the start, with a heartbeat, and as it must be at the end.
pub(crate) fn bystander_row(name: &str) -> Mutation {
    let cells = [
        ("name", Cell::from(name)),
        ("heartbeat", Timestamp::EPOCH.into()),
        ("token", Timestamp::EPOCH.into()),
        ("writer", "bystander".into()),
    ];
    Mutation::write(WriteKind::InsertOrUpdate, TABLE, cells)
}

/// Checks that each key that one mutation of the lock table touches is of this lock.
pub(super) fn check(lock: &str, mutation: &Mutation) -> Result<(), String> {
    let keys = all_keys(mutation).map_err(|what| format!("lock `{lock}`: {what}"))?;
    match keys.iter().find(|key| !belongs(lock, key)) {
        None => Ok(()),
        Some(key) => Err(format!("lock `{lock}`: row `{key}` was touched for it")),
    }
}

/// The keys that one mutation of the lock table touches.
pub(super) fn all_keys(mutation: &Mutation) -> Result<Vec<String>, String> {
    match mutation {
        Mutation::Write { columns, cells, .. } => {
            let named = columns.iter().zip(cells).find(|(column, _)| *column == "name");
            match named {
                Some((_, Cell::Value(Value::String(name)))) => Ok(vec![name.clone()]),
                _ => Err("a write without a name".to_string()),
            }
        }
        Mutation::Delete { keys, .. } => keys.iter().map(one_key).collect(),
    }
}

/// Checks that every bystander is as it was.
pub(crate) fn unharmed(rows: &[BTreeMap<String, Value>]) -> Result<(), String> {
    let is_untouched =
        |row: &&BTreeMap<String, Value>| row.get("writer") == Some(&"bystander".into());
    for name in BYSTANDERS {
        let found = rows.iter().find(|row| row.get("name") == Some(&name.into()));
        if found.filter(is_untouched).is_none() {
            return Err(format!("row `{name}`, which is nobody's here, is now {found:?}"));
        }
    }
    Ok(())
}

fn belongs(lock: &str, key: &str) -> bool {
    if lock.starts_with("spindle:rw:") && writers_row(lock) == writers_row(key) {
        return true;
    }
    if key.strip_prefix("spindle:job:") == Some(lock) {
        return true;
    }
    let Some(rest) = key.strip_prefix(lock) else { return false };
    rest.is_empty()
        || rest.strip_prefix('_').is_some_and(|digits| {
            digits.len() == 19 && digits.bytes().all(|byte| byte.is_ascii_digit())
        })
}

/// The row of the writers, of it or of a reader's: those of one lock to read and write under change each other.
fn writers_row(key: &str) -> &str {
    key.rsplit_once('/').map_or(key, |(writers, _)| writers)
}

fn one_key(range: &KeyRange) -> Result<String, String> {
    match range.start.0.as_slice() {
        [KeyPart::Ascending(Value::String(name))]
            if *range == KeyRange::prefix(range.start.clone()) =>
        {
            Ok(name.clone())
        }
        _ => Err(format!("a range of keys was deleted: {range:?}")),
    }
}
