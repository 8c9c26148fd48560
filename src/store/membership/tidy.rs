//! Deletes rows that nobody needs any more.

use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Change, Row, Timestamp};

use super::poll::{poll, taken_until};
use crate::batch::{Columns, CommitOutcome, READ, Snapshot, TRANSACTION};
use crate::error::Error;
use crate::names::subject;
use crate::store::{REQUEST_LIMIT, Table};
use crate::system::random;
use crate::term::say;

/// The most rows in one transaction.
const ROWS_MAX: usize = 100;
/// The least time that a row stays after it fell vacant; ten leases if that is longer.
const AGE_MIN: Duration = Duration::from_secs(60);
/// From one search for the rows of those that are gone to the next, at the most.
pub(crate) const TIDY_SEARCH_INTERVAL: Duration = Duration::from_secs(600);

/// Returns the time to the next search.
pub(crate) fn tidy_pause() -> Duration {
    TIDY_SEARCH_INTERVAL.mul_f64(0.5 + random::draw::<f64>() / 2.0)
}

/// Finds the rows with this prefix of those that have been gone for long, and deletes them. A failure
/// is left to the next time.
pub(crate) async fn search_and_tidy(table: &Table, prefix: &str, lease: Duration) {
    let (doing, polling) =
        (|| subject(prefix), async { poll(table, &[], &[prefix], Columns::ButInfo).await });
    let found = table.budget().requests.tidying(doing, READ, REQUEST_LIMIT, polling).await;
    if let Ok(found) = found {
        tidy(table, &found, lease).await;
    }
}

/// Deletes the rows of members and readers that have been gone for long, each on the condition that
/// nothing has changed it meanwhile. The rest is left to the next time.
pub(crate) async fn tidy(table: &Table, found: &Snapshot, lease: Duration) {
    let read_at = found.read_at;
    let is_old = |row: &Row| is_long_vacant(row, lease, read_at);
    let old = found.rows.iter().filter(|full| is_old(&full.row())).take(ROWS_MAX);
    let changes: Vec<(Arc<str>, Change)> = old
        .map(|full| {
            let remove = Change::Remove { seen: Some(full.row()), takeovers: Vec::new() };
            (Arc::from(&*full.key), remove)
        })
        .collect();
    if changes.is_empty() {
        return;
    }
    let rows = changes.len();
    let doing = || "delete rows of those that are gone".to_string();
    let deleting = async {
        let verdict = table.store.transact(changes, REQUEST_LIMIT).await;
        let refused = verdict.refused.iter().flatten().count();
        let deleted = if matches!(verdict.commit, CommitOutcome::Applied { .. }) {
            rows - refused
        } else {
            0
        };
        verdict.error.map_or(Ok(deleted), Err)
    };
    match table.budget().requests.tidying(doing, TRANSACTION, REQUEST_LIMIT, deleting).await {
        Ok(deleted) => say(|| tracing::debug!(deleted, of = rows, "rows of those that are gone")),
        Err(error) => say(|| tracing::debug!(of = rows, %error, "rows of those that are gone")),
    }
}

fn is_long_vacant(row: &Row, lease: Duration, read_at: Timestamp) -> bool {
    let age = (lease * 10).max(AGE_MIN);
    taken_until(row, lease, read_at).is_none() && read_at.since(row.vacant_since(lease)) >= age
}

/// Deletes the row of a member that has left, unless it has come again.
///
/// If that can't be done, another member deletes the row later.
pub(crate) async fn remove_released(table: &Table, key: &str) {
    let removed = async {
        let (found, _) = table.read(key, REQUEST_LIMIT).await?;
        let Some(row) = found.map(|full| full.row()).filter(Row::is_released) else {
            return Ok::<(), Error>(());
        };
        let remove = Change::Remove { seen: Some(row), takeovers: Vec::new() };
        let verdict = table.store.transact(vec![(Arc::from(key), remove)], REQUEST_LIMIT).await;
        verdict.error.map_or(Ok(()), Err)
    };
    let doing = || format!("lock `{key}`: delete its row");
    let requests = &table.budget().requests;
    let tidying = requests.tidying(doing, READ + TRANSACTION, REQUEST_LIMIT, removed);
    if let Err(error) = tidying.await {
        say(|| tracing::debug!(lock = key, %error, "the row of a member that left stays for now"));
    }
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
