//! Watching a group, without joining it.

use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle::rows::{Rows, Snapshot};
use spindle::{Error, FencingToken, LockTable, Result};
use spindle_protocol::{LEASE_MAX, StoredRow, Timestamp};
use tokio::time::{Instant, sleep_until};

use crate::names::{check_part, members_prefix};

/// The lease of a row that tells none.
const LEASE_DEFAULT: Duration = Duration::from_secs(10);
const INTERVAL_DEFAULT: Duration = Duration::from_secs(1);
const INTERVAL_MIN: Duration = Duration::from_millis(1);

/// The members of a group, as anyone sees them. Made by [`new`](Members::new).
///
/// A member is live while its lease has not run out, by Spanner's clock. So a member that crashed is
/// shown until then, and one that has left is not.
///
/// It works only while [`list`](Members::list) or [`next`](Members::next) is awaited: there is no task
/// behind it. Each poll is one strong read, however many members there are.
#[derive(Clone, Debug)]
#[must_use = "it reads nothing until `list` or `next` is called"]
pub struct Members {
    rows: Rows,
    group: String,
    interval: Duration,
    poll_at: Option<Instant>,
    reported: Option<Vec<(String, FencingToken)>>,
}

/// One live member of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemberState {
    /// The id of the member.
    pub id: String,
    /// The text that it says of itself, such as its address.
    pub info: Option<String>,
    /// The token of its membership: another one after it has been away.
    pub token: FencingToken,
    /// The age of its last heartbeat, by Spanner's clock.
    pub heartbeat_age: Duration,
}

impl MemberState {
    /// Returns the time of its join, by Spanner's clock.
    pub fn since(&self) -> DateTime<Utc> {
        self.token.to_datetime()
    }

    fn of(full: StoredRow, read_at: Timestamp) -> Option<MemberState> {
        let row = full.row();
        let id = row.holder(row.lease.unwrap_or(LEASE_DEFAULT), read_at)?.to_string();
        let token = FencingToken::from_timestamp(row.token);
        let heartbeat_age = read_at.since(row.heartbeat);
        Some(MemberState { id, info: full.info, token, heartbeat_age })
    }
}

impl Members {
    /// Shows the live members of the group, once or each time that they change. It joins nothing.
    ///
    /// Nothing is sent before [`list`](Members::list) or [`next`](Members::next).
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// use spindle_fleet::Members;
    ///
    /// for member in Members::new(&table, "orders").list().await? {
    ///     println!("{} at {:?} since {}", member.id, member.info, member.since());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn new(table: &LockTable, group: impl Into<String>) -> Members {
        let group = group.into();
        let rows = table.rows().prefix(members_prefix(&group)).with_info();
        Members { rows, group, interval: INTERVAL_DEFAULT, poll_at: None, reported: None }
    }

    /// Sets the time from one poll of [`next`](Members::next) to the following one; 1 s by default,
    /// from 1 ms to a day.
    pub fn interval(mut self, interval: Duration) -> Members {
        self.interval = interval;
        self
    }

    /// Returns the live members now, in the order of their ids: one strong read.
    ///
    /// # Errors
    ///
    /// [`is_config`](spindle::Error::is_config) for a group that can't be; otherwise why Spanner could not be
    /// asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn list(&self) -> Result<Vec<MemberState>> {
        check_part("group", &self.group)?;
        let Snapshot { rows, read_at } = self.rows.read().await?;
        Ok(rows.into_iter().filter_map(|full| MemberState::of(full, read_at)).collect())
    }

    /// Returns the live members: the first time at once, then each time that one has come, gone, or
    /// come again.
    ///
    /// It polls once per interval. A member that comes and goes between two polls is not seen.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut members = spindle_fleet::Members::new(&table, "orders");
    /// loop {
    ///     let ids: Vec<String> = members.next().await?.into_iter().map(|it| it.id).collect();
    ///     println!("{ids:?}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Members::list); [`is_config`](spindle::Error::is_config) also for an interval that is too
    /// short or too long. The next call polls again, an interval later.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future drops its poll, and loses nothing else: the next call polls anew, and reports the
    /// change. Beside events that come faster than an answer, await it in a task of its own.
    pub async fn next(&mut self) -> Result<Vec<MemberState>> {
        let (group, interval) = (&self.group, self.interval);
        if !(INTERVAL_MIN..=LEASE_MAX).contains(&interval) {
            return Err(Error::config(format!(
                "group `{group}`: interval {interval:?} between polls; expected {INTERVAL_MIN:?} to \
                 {LEASE_MAX:?}"
            )));
        }
        loop {
            if let Some(at) = self.poll_at {
                sleep_until(at).await;
            }
            let polled = self.list().await;
            self.poll_at = Some(Instant::now() + interval);
            let members = polled?;
            let seen = members.iter().map(|member| (member.id.clone(), member.token)).collect();
            if self.reported.as_ref() != Some(&seen) {
                self.reported = Some(seen);
                return Ok(members);
            }
        }
    }
}
