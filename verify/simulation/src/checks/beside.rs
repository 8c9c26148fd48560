//! I8: the rows that stand beside a lock's own once nothing goes wrong any more.

use std::collections::{BTreeMap, BTreeSet};

use spindle_emulator::engine::{Timestamp, Value};
use spindle_protocol::is_takeover_key;

/// One row at most beside that of a held lock, and none beside that of a released one.
///
/// Rows of a peer of another implementation are excepted.
pub(crate) fn check(
    lock: &str,
    rows: &[BTreeMap<String, Value>],
    peers: &BTreeSet<String>,
) -> Result<(), String> {
    let name = |row: &BTreeMap<String, Value>| match row.get("name") {
        Some(Value::String(name)) => name.clone(),
        _ => String::new(),
    };
    let Some(row) = rows.iter().find(|row| name(row) == lock) else { return Ok(()) };
    let is_released = row.get("heartbeat") == Some(&Value::Timestamp(Timestamp::EPOCH));
    // A row with a heartbeat is a lock's, whatever its name looks like.
    let beside: Vec<String> = rows
        .iter()
        .filter(|row| row.get("heartbeat") == Some(&Value::Null))
        .map(name)
        .filter(|key| is_takeover_key(lock, key) && !peers.contains(key))
        .collect();
    let most = usize::from(!is_released);
    if beside.len() <= most {
        return Ok(());
    }
    let state = if is_released { "released" } else { "held" };
    Err(format!("lock `{lock}` is {state}, and beside it stand {beside:?}; at most {most}"))
}
