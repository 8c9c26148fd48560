//! The count of a group's shards, read and moved by anyone with the database.

use std::fmt;
use std::sync::Arc;

use spindle_protocol::fleet::{Count, CountNamed, SHARDS_MAX};
use tokio::time::{Instant, sleep};

use super::count_row::{CountRow, Written};
use crate::error::{Error, Result};
use crate::names::{check_part, check_table_name};
use crate::store::{PAUSE, REQUEST_LIMIT, Table, despite_others};

/// The count of a group's shards, as the row of their own names it for all members. Given by
/// [`LockTable::shard_count`](crate::LockTable::shard_count).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShardCount {
    /// So many shards are shared.
    pub shards: usize,
    /// So many were shared before the last move; nothing if nobody has moved it. A member whose code
    /// still names that many may begin, too.
    pub before: Option<usize>,
    /// True while the shards of before are given up. None of the others runs until all are.
    pub is_draining: bool,
}

impl From<Count> for ShardCount {
    fn from(Count { shards, before, is_draining, .. }: Count) -> ShardCount {
        ShardCount { shards, before, is_draining }
    }
}

impl fmt::Display for ShardCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShardCount { shards, before, is_draining } = *self;
        Count { before, is_draining, ..Count::first(shards) }.fmt(f)
    }
}

/// Moves a group to another count of shards.
pub(crate) async fn resize_shards(
    table: &Arc<Table>,
    group: &str,
    name: &str,
    to: usize,
) -> Result<ShardCount> {
    let row = row_of(table, group, name)?;
    if !(1..=SHARDS_MAX).contains(&to) {
        return Err(Error::config(format!(
            "shards `{group}/{name}`: move to {to}; expected 1 to {SHARDS_MAX}"
        )));
    }
    let deadline = Instant::now() + REQUEST_LIMIT;
    let mut first = None;
    loop {
        let seen = despite_others(|| row.read()).await?;
        // An attempt that was aborted may have met another mover, too.
        let is_moved = *first.get_or_insert_with(|| seen.clone()) != seen;
        let next = match CountNamed::by(seen.as_ref()) {
            CountNamed::Nothing => {
                return Err(Error::config(format!(
                    "shards `{group}/{name}`: no member has shared them yet; the first one names the \
                     count"
                )));
            }
            CountNamed::Unreadable => Count::first(to).moved(to),
            CountNamed::Count(count) if count.shards == to => return Ok(count.into()),
            CountNamed::Count(count) if count.is_draining || is_moved => {
                return Err(row.other_count(to, count));
            }
            CountNamed::Count(count) => count.moved(to),
        };
        let remaining = deadline.saturating_duration_since(Instant::now());
        match row.write(seen, next, remaining).await {
            Ok(Written::Yes) => return Ok(next.into()),
            Ok(Written::No) => {}
            Ok(Written::Unpaid) => {
                let doing = format!("shards `{group}/{name}`: move to {to}");
                return Err(Error::timed_out(doing, REQUEST_LIMIT));
            }
            Err(error) if error.may_be_anothers() && !remaining.is_zero() => {}
            Err(error) => return Err(error),
        }
        sleep(PAUSE).await;
    }
}

/// Returns the count, as the row names it.
pub(crate) async fn shard_count(
    table: &Arc<Table>,
    group: &str,
    name: &str,
) -> Result<Option<ShardCount>> {
    let row = row_of(table, group, name)?;
    match CountNamed::by(despite_others(|| row.read()).await?.as_ref()) {
        CountNamed::Nothing => Ok(None),
        CountNamed::Unreadable => Err(row.unreadable()),
        CountNamed::Count(count) => Ok(Some(count.into())),
    }
}

fn row_of(table: &Arc<Table>, group: &str, name: &str) -> Result<CountRow> {
    check_table_name(&table.name)?;
    check_part("group", group)?;
    check_part("shards", name)?;
    Ok(CountRow::new(Arc::clone(table), group, name))
}
