//! The count of a group's shards, read and moved by anyone with the database.

use std::fmt;
use std::time::Duration;

use spindle::rows::despite_others;
use spindle::{Error, LockTable, Result};
use spindle_protocol::fleet::{Count, CountNamed, SHARDS_MAX};
use tokio::time::{Instant, sleep};

use crate::count_row::{CountRow, Written};
use crate::names::check_part;

const LIMIT: Duration = Duration::from_secs(5);
/// The delay before a request is repeated that another transaction got in the way of.
const PAUSE: Duration = Duration::from_millis(20);

/// The count of a group's shards, as the row of their own names it for all members. Given by
/// [`read`](ShardCount::read).
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

impl ShardCount {
    /// Returns the count of a group's shards, as all members agree on it; nothing if no member has
    /// shared them yet.
    ///
    /// # Errors
    ///
    /// [`is_config`](spindle::Error::is_config) for names that can't be, and for a row that names no
    /// count; otherwise why Spanner could not be asked within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub async fn read(
        table: &LockTable,
        group: impl Into<String>,
        name: impl Into<String>,
    ) -> Result<Option<ShardCount>> {
        let (group, name) = (&*group.into(), &*name.into());
        let row = row_of(table, group, name)?;
        let found = despite_others(|| row.read()).await?;
        match CountNamed::by(found.as_ref()) {
            CountNamed::Nothing => Ok(None),
            CountNamed::Unreadable => Err(row.unreadable(found.as_ref())),
            CountNamed::Count(count) => Ok(Some(count.into())),
        }
    }

    /// Moves a group, running or not, to another count of shards: all of its members, by one commit.
    ///
    /// They learn it from their next poll. Each shard of the old count is given up first. None of the
    /// new ones runs before all are, so that a number never means two things at once. Without dead or
    /// slow members each shard is vacant for three polls and the time that its task takes to stop. The
    /// shards of a member that is out of contact are waited for until its lease is over.
    ///
    /// It gives the count once the move stands in the table: the members carry it out, whether or not
    /// the caller lives on. [`read`](ShardCount::read) shows a move that goes on. A
    /// member whose code names the count before the move may still begin. So move first, and deploy
    /// the new number at leisure. The count that is there already changes nothing.
    ///
    /// ```
    /// # use spindle::{CancellationToken, Database, Ddl, LockTable};
    /// # use spindle_emulator::Emulator;
    /// use spindle_fleet::ShardCount;
    /// # use spindle_fleet::{Member, Shard};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let database = "projects/p/instances/i/databases/d";
    /// # let emulator = Emulator::start().await?;
    /// # emulator.create_database(database, LockTable::ddl(Ddl::GoogleSql)).await?;
    /// # let table = LockTable::new(Database::at(emulator.endpoint(), database), "locktable");
    /// # let shards = Member::new(&table, "orders").build()?.shards("partitions", 6);
    /// # let (cancel, mut events) = (CancellationToken::new(), shards.events());
    /// # let sharing = tokio::spawn({
    /// #     let cancel = cancel.clone();
    /// #     let task = |shard: Shard| async move { shard.cancelled().await };
    /// #     async move { shards.run(cancel, task).await }
    /// # });
    /// # events.next().await;
    /// // A fleet runs whose code says `shards("partitions", 6)`.
    /// let count = ShardCount::resize(&table, "orders", "partitions", 8).await?;
    /// assert_eq!((count.shards, count.before, count.is_draining), (8, Some(6), true));
    /// while ShardCount::read(&table, "orders", "partitions").await?.is_some_and(|it| it.is_draining) {
    ///     tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    /// }
    /// # cancel.cancel();
    /// # sharing.await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`is_other_count`](crate::is_other_count) while another move drains, and if somebody else
    /// moved them at the same time. [`is_config`](spindle::Error::is_config) for names and counts that
    /// can't be, and for shards that no member has shared yet.
    /// [`is_outcome_unknown`](spindle::Error::is_outcome_unknown) if no answer came, where
    /// [`read`](ShardCount::read) tells and a repetition does no harm. Otherwise the
    /// reason why it could not be done within 5 s.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future leaves it open whether the move was written.
    pub async fn resize(
        table: &LockTable,
        group: impl Into<String>,
        name: impl Into<String>,
        to: usize,
    ) -> Result<ShardCount> {
        let (group, name) = (&*group.into(), &*name.into());
        let row = row_of(table, group, name)?;
        if !(1..=SHARDS_MAX).contains(&to) {
            return Err(Error::config(format!(
                "shards `{group}/{name}`: move to {to}; expected 1 to {SHARDS_MAX}"
            )));
        }
        let deadline = Instant::now() + LIMIT;
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
                    return Err(Error::timed_out(doing, LIMIT));
                }
                Err(error) if error.is_interrupted() && !remaining.is_zero() => {}
                Err(error) => return Err(error),
            }
            sleep(PAUSE).await;
        }
    }
}

fn row_of(table: &LockTable, group: &str, name: &str) -> Result<CountRow> {
    check_part("group", group)?;
    check_part("shards", name)?;
    Ok(CountRow::new(table, group, name))
}
