//! Deletes rows that nobody needs any more.

use std::sync::Arc;
use std::time::Duration;

use spindle::Result;
use spindle::rows::{self, Rows, Snapshot};
use spindle::task::say;
use spindle_protocol::{Change, Row, StoredRow, Timestamp};

/// The most rows in one transaction.
const ROWS_MAX: usize = 100;
/// The least time that a row stays after it fell vacant; ten leases if that is longer.
const AGE_MIN: Duration = Duration::from_secs(60);
/// From one search for the rows of those that are gone to the next, at the most.
const TIDY_SEARCH_INTERVAL: Duration = Duration::from_secs(600);
/// How long a deletion waits until it is paid for (I8).
const PAYMENT_WAIT: Duration = Duration::from_secs(5);

/// Returns the time to the next search.
pub(crate) fn tidy_pause() -> Duration {
    TIDY_SEARCH_INTERVAL.mul_f64(0.5 + fraction() / 2.0)
}

/// Draws a number from 0 up to 1.
pub(crate) fn fraction() -> f64 {
    // As many bits as fit.
    (rows::random() >> 11) as f64 / (1_u64 << 53) as f64
}

/// Finds those of these rows whose holders have been gone for long, and deletes them. A failure is left to
/// the next time.
pub(crate) async fn search_and_tidy(rows: &Rows, lease: Duration) {
    if let Ok(found) = rows.search().await {
        tidy(rows, &found, lease).await;
    }
}

/// Deletes the rows of members, readers and shards that have been gone for long, each on the condition
/// that nothing has changed it meanwhile. The rest is left to the next time.
pub(crate) async fn tidy(rows: &Rows, found: &Snapshot, lease: Duration) {
    let read_at = found.read_at;
    let is_old = |row: &Row| is_long_vacant(row, lease, read_at);
    let old = found.rows.iter().filter(|full| is_old(&full.row())).take(ROWS_MAX);
    let changes: Vec<_> = old.map(|full| removal(&full.key, full.row())).collect();
    if changes.is_empty() {
        return;
    }
    let of = changes.len();
    match rows.edit(changes, PAYMENT_WAIT).await {
        Ok(Some(deleted)) => {
            say(|| tracing::debug!(deleted, of, "rows of those that are gone"));
        }
        Ok(None) => {}
        Err(error) => say(|| tracing::debug!(of, %error, "rows of those that are gone")),
    }
}

/// Returns the deletion of a row, on the condition that it is as it was seen.
pub(crate) fn removal(key: &str, seen: Row) -> (Arc<str>, Change) {
    (Arc::from(key), Change::Remove { seen: Some(seen), takeovers: Vec::new() })
}

fn is_long_vacant(row: &Row, lease: Duration, read_at: Timestamp) -> bool {
    let age = (lease * 10).max(AGE_MIN);
    row.taken_until(lease, read_at).is_none() && read_at.since(row.vacant_since(lease)) >= age
}

/// Deletes the row of a member that has left, unless it has come again.
///
/// If that can't be done, another member deletes the row later.
pub(crate) async fn remove_released(rows: Rows, lock: &str) {
    if let Err(error) = try_remove_released(rows.key(lock), lock).await {
        say(|| tracing::debug!(lock, %error, "the row of a member that left stays for now"));
    }
}

async fn try_remove_released(rows: Rows, key: &str) -> Result<()> {
    let found = rows.search().await?;
    let row = found.rows.first().map(StoredRow::row).filter(Row::is_released);
    if let Some(row) = row {
        rows.edit([removal(key, row)], PAYMENT_WAIT).await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Nonce, Writer};

    use super::*;

    const NOW: Timestamp = Timestamp(1_795_000_000_000_000_000);
    const LEASE: Duration = Duration::from_secs(10);

    fn ago(seconds: i64) -> Timestamp {
        Timestamp(NOW.0 - seconds * 1_000_000_000)
    }

    #[test]
    fn a_row_is_old_ten_leases_after_it_fell_vacant_and_never_while_it_is_held() {
        let term = Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let held = |heartbeat| Row {
            heartbeat,
            token: ago(5_000),
            writer: term.clone(),
            lease: Some(LEASE),
        };
        assert!(!is_long_vacant(&held(ago(1)), LEASE, NOW));
        assert!(!is_long_vacant(&held(ago(109)), LEASE, NOW));
        assert!(is_long_vacant(&held(ago(110)), LEASE, NOW));
        let released = |token| Row {
            heartbeat: Timestamp::EPOCH,
            token,
            writer: Writer::nobody(),
            lease: None,
        };
        assert!(!is_long_vacant(&released(ago(99)), LEASE, NOW));
        assert!(is_long_vacant(&released(ago(100)), LEASE, NOW));
        let second = Duration::from_secs(1);
        assert!(!is_long_vacant(&released(ago(59)), second, NOW), "at least a minute");
    }
}
