//! One read of many rows at one timestamp.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Row, StoredRow, Timestamp};

use crate::batch::{Columns, READ, RetryCharge, Snapshot};
use crate::error::Result;
use crate::names::looks_like_takeover_row;
use crate::store::{REQUEST_LIMIT, Table};

/// As [`poll`], for one that polls by itself: a poll that repeats a failure is charged (I8).
pub(crate) async fn poll_in_turn(
    table: &Table,
    retry_charge: &RetryCharge,
    keys: &[&str],
    prefixes: &[&str],
    columns: Columns,
) -> Result<Snapshot> {
    retry_charge.send(table.budget(), READ, poll(table, keys, prefixes, columns)).await
}

/// Reads the rows of these keys, and all rows with these prefixes, each of which ends with `/`; no
/// takeover rows.
pub(crate) async fn poll(
    table: &Table,
    keys: &[&str],
    prefixes: &[&str],
    columns: Columns,
) -> Result<Snapshot> {
    let keys = keys.iter().map(|key| Arc::from(*key)).collect();
    // `0` is the character after `/`.
    let end = |prefix: &str| format!("{}0", prefix.trim_end_matches('/'));
    let ranges = prefixes.iter().map(|prefix| (prefix.to_string(), end(prefix))).collect();
    let Snapshot { rows, read_at } = table.store.rows(keys, ranges, columns, REQUEST_LIMIT).await?;
    let is_takeover = |row: &StoredRow| row.is_takeover() && looks_like_takeover_row(&row.key);
    let rows = rows.into_iter().filter(|row| !is_takeover(row)).collect();
    Ok(Snapshot { rows, read_at })
}

/// Returns until when the row protects somebody from everybody else, if it does.
pub(crate) fn taken_until(row: &Row, lease: Duration, read_at: Timestamp) -> Option<Timestamp> {
    Some(row.vacant_for_all_from(lease)).filter(|until| *until > read_at)
}

/// Returns the id in the row, if its lease has not run out.
pub(crate) fn holder(row: &Row, lease: Duration, read_at: Timestamp) -> Option<&str> {
    taken_until(row, lease, read_at)?;
    row.writer.id().filter(|_| !row.is_released())
}
