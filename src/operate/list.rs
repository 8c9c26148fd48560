use std::collections::VecDeque;
use std::sync::Arc;

use super::inspect::{PAGE_ROWS, keys_with};
use super::state::LockState;
use crate::error::Result;
use crate::names::{check_table_name, looks_like_takeover_row};
use crate::store::Table;

/// A listing of locks under way, made by [`LockTable::list`](crate::LockTable::list).
///
/// It has one page in memory, of 100 rows unless told otherwise, however large the table. Each page
/// is one strong read of its own: a lock that changes hands meanwhile is shown as it was when its
/// page was read.
#[derive(Clone, Debug)]
#[must_use = "a listing reads nothing until `next` is called"]
pub struct LockList {
    table: Arc<Table>,
    prefix: String,
    page_rows: i64,
    page: VecDeque<LockState>,
    /// The last key that was read.
    last: Option<String>,
    is_last_page: bool,
}

impl LockList {
    pub(crate) fn new(table: Arc<Table>) -> LockList {
        LockList {
            table,
            prefix: String::new(),
            page_rows: PAGE_ROWS,
            page: VecDeque::new(),
            last: None,
            is_last_page: false,
        }
    }

    /// Restricts the list to locks whose names begin with `prefix`; the rows of others are not
    /// read.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut shards = table.list().prefix("shard-");
    /// while let Some(lock) = shards.next().await? {
    ///     println!("{} since {:?}", lock.name, lock.since());
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn prefix(mut self, prefix: impl Into<String>) -> LockList {
        self.prefix = prefix.into();
        self
    }

    /// Sets how many rows are in a page, and so in one read: the more, the fewer reads and the more
    /// memory. None counts as one.
    ///
    /// ```no_run
    /// # async fn example(table: spindle::LockTable) -> spindle::Result<()> {
    /// let mut all_of_one_instant = table.list().page_rows(10_000);
    /// while let Some(lock) = all_of_one_instant.next().await? {
    ///     println!("{} as of {}", lock.name, lock.read_at);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn page_rows(mut self, rows: u32) -> LockList {
        self.page_rows = i64::from(rows.max(1));
        self
    }

    /// Returns the next lock; none after the last.
    ///
    /// # Errors
    ///
    /// Why a page could not be read within 5 s. The next call tries that page again.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the next call reads the page again.
    pub async fn next(&mut self) -> Result<Option<LockState>> {
        loop {
            if let Some(lock) = self.page.pop_front() {
                return Ok(Some(lock));
            }
            if self.is_last_page {
                return Ok(None);
            }
            self.read_page().await?;
        }
    }

    async fn read_page(&mut self) -> Result<()> {
        let table = &self.table;
        check_table_name(&table.name)?;
        let keys = keys_with(&self.prefix, self.last.as_deref());
        let (rows, read_at) = table.read_page(keys, self.page_rows).await?;
        // A page may be all takeover rows, yet not the last.
        self.is_last_page = i64::try_from(rows.len()).is_ok_and(|rows| rows < self.page_rows);
        self.last = rows.last().map(|row| row.name.clone()).or(self.last.take());
        self.page = rows
            .into_iter()
            .filter(|row| !(row.without_heartbeat && looks_like_takeover_row(&row.name)))
            .map(|row| LockState::new(&row.name.clone(), Some(row), read_at))
            .collect();
        Ok(())
    }
}
