//! Watching a group, without joining it.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use spindle_protocol::{StoredRow, Timestamp};

use crate::batch::Columns;
use crate::error::Result;
use crate::names::{check_part, check_table_name, members_prefix};
use crate::operate::Polls;
use crate::settings::LEASE_DEFAULT;
use crate::store::Table;
use crate::store::membership::{holder, poll};
use crate::token::FencingToken;

/// The members of a group, as anyone sees them. Made by [`LockTable::members`](crate::LockTable::members).
///
/// A member is live while its lease has not run out, by Spanner's clock. So a member that crashed is
/// shown until then, and one that has left is not.
///
/// It works only while [`list`](Members::list) or [`next`](Members::next) is awaited: there is no task
/// behind it. Each poll is one strong read, however many members there are.
#[derive(Clone, Debug)]
#[must_use = "it reads nothing until `list` or `next` is called"]
pub struct Members {
    table: Arc<Table>,
    group: String,
    polls: Polls,
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
        let id = holder(&row, row.lease.unwrap_or(LEASE_DEFAULT), read_at)?.to_string();
        let token = FencingToken::from_timestamp(row.token);
        let heartbeat_age = read_at.since(row.heartbeat);
        Some(MemberState { id, info: full.info, token, heartbeat_age })
    }
}

impl Members {
    pub(crate) fn new(table: Arc<Table>, group: String) -> Members {
        Members { table, group, polls: Polls::new(), reported: None }
    }

    /// Sets the time from one poll of [`next`](Members::next) to the following one; 1 s by default,
    /// from 1 ms to a day.
    pub fn interval(mut self, interval: Duration) -> Members {
        self.polls.interval = interval;
        self
    }

    /// Returns the live members now, in the order of their ids: one strong read.
    ///
    /// # Errors
    ///
    /// [`is_config`](crate::Error::is_config) for a group that can't be; otherwise why Spanner could not be
    /// asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn list(&self) -> Result<Vec<MemberState>> {
        check_table_name(&self.table.name)?;
        check_part("group", &self.group)?;
        let found = poll(&self.table, &[], &[&members_prefix(&self.group)], Columns::All).await?;
        let (rows, read_at) = (found.rows.into_iter(), found.read_at);
        Ok(rows.filter_map(|full| MemberState::of(full, read_at)).collect())
    }

    /// Returns the live members: the first time at once, then each time that one has come, gone, or
    /// come again.
    ///
    /// It polls once per interval. A member that comes and goes between two polls is not seen.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut members = table.members("orders");
    /// loop {
    ///     let ids: Vec<String> = members.next().await?.into_iter().map(|it| it.id).collect();
    ///     println!("{ids:?}");
    /// }
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`list`](Members::list); [`is_config`](crate::Error::is_config) also for an interval that is too
    /// short or too long. The next call polls again, an interval later.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the next call reports the change.
    pub async fn next(&mut self) -> Result<Vec<MemberState>> {
        let subject = format!("group `{}`", self.group);
        loop {
            self.polls.turn(&subject).await?;
            let polled = self.list().await;
            self.polls.polled(self.polls.interval);
            let members = polled?;
            let seen = members.iter().map(|member| (member.id.clone(), member.token)).collect();
            if self.reported.as_ref() != Some(&seen) {
                self.reported = Some(seen);
                return Ok(members);
            }
        }
    }
}
