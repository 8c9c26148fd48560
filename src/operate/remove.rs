//! Deleting the row of a vacant lock.

use std::time::Duration;

use google_cloud_spanner::key;
use google_cloud_spanner::key::{KeyRange, KeySet};
use spindle_protocol::{
    Answer, Change, Named, Rejection, Row, StoredRow, Timestamp, is_takeover_key, takeover_keys,
};
use tokio::time::{Instant, sleep};

use super::state::{Holding, LockState};
use crate::error::{Error, Kind, Outcome, Result};
use crate::names::check_is_lock;
use crate::store::{PAUSE, REQUEST_LIMIT, Table, despite_others};
use crate::term::say;

/// The rows of one read of the range in which a lock's takeover rows are.
const RANGE_ROWS: i64 = 1_000;

/// The most takeover rows that go in one transaction.
const TAKEOVERS_MAX: usize = 1_000;

/// Deletes the row of a lock that nobody needs any more.
pub(crate) async fn remove(table: &Table, name: &str) -> Result<bool> {
    table.check_lock(name)?;
    check_is_lock(name)?;
    let deadline = Instant::now() + REQUEST_LIMIT;
    loop {
        let (found, read_at) = despite_others(|| table.read(name, REQUEST_LIMIT)).await?;
        if let Some(full) = &found
            && !is_vacant(&full.row(), read_at)
        {
            return Err(not_vacant(name, full.clone(), read_at));
        }
        // Those that the row doesn't name, which nothing needs once it is gone.
        let before = if found.is_some() { Timestamp(i64::MAX) } else { read_at };
        let takeovers = table.takeover_rows(name, before).await?;
        let seen = found.as_ref().map(StoredRow::row);
        let change = Change::Remove { seen, takeovers };
        let (outcome, _) = table.carry_out(name, change, REQUEST_LIMIT).await;
        match outcome.answer {
            Answer::Applied { .. } => {
                if let Some(full) = &found {
                    // Nothing else tells of an eviction from here on.
                    let info = full.info.as_deref().unwrap_or_default();
                    say(|| tracing::info!(lock = name, info, "the row was removed"));
                }
                return Ok(found.is_some());
            }
            Answer::Rejected(Rejection::Needless) => return Ok(false),
            _ => once_more(outcome, deadline, || format!("lock `{name}`: remove it")).await?,
        }
    }
}

/// Waits before an act is tried once more that others got in the way of; says why it isn't, if so.
pub(super) async fn once_more(
    outcome: Outcome,
    deadline: Instant,
    doing: impl FnOnce() -> String,
) -> Result<()> {
    let is_time_left = Instant::now() < deadline;
    match (outcome.answer, outcome.error) {
        (Answer::Rejected(_), None) if is_time_left => {}
        (_, Some(error)) if error.is_interrupted() && is_time_left => {}
        (_, Some(error)) => return Err(error),
        (_, None) => return Err(Error::timed_out(doing(), REQUEST_LIMIT)),
    }
    sleep(PAUSE).await;
    Ok(())
}

impl Table {
    /// Returns the keys of the takeover rows of `lock` for tokens before `before`, in the order of the
    /// tokens, and no more than a transaction takes: what is left goes with the next removal.
    async fn takeover_rows(&self, lock: &str, before: Timestamp) -> Result<Vec<String>> {
        let (first, end) = takeover_keys(lock, before);
        let mut range = KeyRange::closed_open(key![first], key![end.clone()]);
        let mut found = Vec::new();
        loop {
            let keys = KeySet::builder().add_range(range).build();
            let (rows, _) = despite_others(|| self.read_page(keys.clone(), RANGE_ROWS)).await?;
            let is_last = i64::try_from(rows.len()).is_ok_and(|rows| rows < RANGE_ROWS);
            let last = rows.last().map(|row| row.key.clone());
            // Other locks' rows stand in the same range: of `job_1` among those of `job` (I6).
            let own = |row: &StoredRow| row.is_takeover() && is_takeover_key(lock, &row.key);
            found.extend(rows.into_iter().filter(own).map(|row| row.key));
            found.truncate(TAKEOVERS_MAX);
            match last {
                Some(last) if !is_last && found.len() < TAKEOVERS_MAX => {
                    range = KeyRange::open_open(key![last], key![end.clone()]);
                }
                _ => return Ok(found),
            }
        }
    }
}

/// Returns true if the row protects nobody, by what stands in it alone.
fn is_vacant(row: &Row, read_at: Timestamp) -> bool {
    let is_reserved = match row.writer.names() {
        Named::Successor(_) if row.is_released() => row.lease.is_none(),
        _ => false,
    };
    let is_owed = !row.is_released() && row.lease.is_none();
    !is_reserved && !is_owed && row.vacant_for_all_from(Duration::ZERO) <= read_at
}

fn not_vacant(name: &str, full: StoredRow, read_at: Timestamp) -> Error {
    let LockState { holding, heartbeat_age, lease, .. } = LockState::new(name, Some(full), read_at);
    let holding = match holding {
        Holding::Held { id } => format!("held by `{id}`"),
        Holding::Promised { to } => format!("reserved for `{to}`"),
        Holding::Expired { id } => format!("`{id}` may still hold"),
        Holding::Evicted => "its holder was evicted".to_string(),
        Holding::NeverHeld | Holding::Released => format!("{holding:?}"),
    };
    let holding = match (heartbeat_age, lease) {
        (Some(age), None) => format!("{holding}, last heard of {age:?} ago, of no known lease"),
        (Some(age), Some(lease)) => {
            format!("{holding}, last heard of {age:?} ago, lease {lease:?}")
        }
        (None, _) => holding,
    };
    Error::new(Kind::NotVacant { lock: name.to_string(), holding })
}

#[cfg(test)]
mod tests {
    use spindle_protocol::{Nonce, Writer};

    use super::*;

    const NOW: Timestamp = Timestamp(1_795_000_000_000_000_000);

    fn row(age: u64, writer: Writer, lease: Option<u64>) -> Row {
        let before =
            |seconds: u64| Timestamp(NOW.0 - i64::try_from(seconds).unwrap() * 1_000_000_000);
        let lease = lease.map(Duration::from_secs);
        Row { heartbeat: before(age), token: before(100), writer, lease }
    }

    fn released(writer: Writer, lease: Option<u64>) -> Row {
        Row { heartbeat: Timestamp::EPOCH, ..row(0, writer, lease) }
    }

    #[test]
    fn a_row_is_removed_only_if_it_protects_nobody() {
        let term = || Writer::term("a", Nonce { instance: 1, attempt: 1 });
        let vacant = [
            released(Writer::nobody(), None),
            released(Writer::successor("b"), Some(100)),
            released(Writer::successor("b"), Some(10)),
            row(10, term(), Some(10)),
            row(10, Writer::nobody(), Some(10)),
        ];
        let kept = [
            row(9, term(), Some(10)),
            row(9, Writer::nobody(), Some(10)),
            row(3_600, term(), None),
            released(Writer::successor("b"), None),
            released(Writer::successor("b"), Some(101)),
        ];
        for row in vacant {
            assert!(is_vacant(&row, NOW), "{row:?}");
        }
        for row in kept {
            assert!(!is_vacant(&row, NOW), "{row:?}");
        }
    }
}
