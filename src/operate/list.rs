//! The states of all locks, or of those whose names begin alike.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use spindle_protocol::{StoredRow, Timestamp};

use super::jobs::JobState;
use super::pages::Pages;
use super::state::LockState;
use crate::error::Result;
use crate::names::{check_table_name, is_job_key, is_no_lock, job_name, looks_like_takeover_row};
use crate::store::Table;

/// A listing of locks under way, made by [`LockTable::list`](crate::LockTable::list).
///
/// The rows of takeovers, of counts of shards and of
/// [jobs](crate::LockTable::jobs) are no locks.
///
/// It has one page in memory, of 100 rows unless told otherwise, and the rows of the jobs on the pages before,
/// however large the table. Each page
/// is one strong read of its own: a lock that changes hands meanwhile is shown as it was when its
/// page was read.
#[derive(Clone, Debug)]
#[must_use = "a listing reads nothing until `next` is called"]
pub struct LockList {
    table: Arc<Table>,
    pages: Pages,
    page: VecDeque<LockState>,
    /// The rows of jobs on the pages so far, for [`jobs`](LockList::jobs).
    jobs: Vec<(StoredRow, Timestamp)>,
}

impl LockList {
    pub(crate) fn new(table: Arc<Table>) -> LockList {
        LockList { table, pages: Pages::all(), page: VecDeque::new(), jobs: Vec::new() }
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
        self.pages.prefix = prefix.into();
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
        self.pages.rows_max = i64::from(rows.max(1));
        self
    }

    /// Returns the jobs whose rows were on the pages so far, judged by these locks: for who lists all locks
    /// anyway, it is no read more.
    pub fn jobs(&self, locks: &BTreeMap<String, LockState>) -> Vec<JobState> {
        let jobs = self.jobs.iter();
        jobs.map(|(row, read_at)| {
            let lock = locks.get(job_name(&row.key)).and_then(|lock| lock.row.as_ref());
            JobState::new(row, lock, *read_at)
        })
        .collect()
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
        check_table_name(&self.table.name)?;
        loop {
            if let Some(lock) = self.page.pop_front() {
                return Ok(Some(lock));
            }
            let Some((rows, read_at)) = self.pages.next(&self.table).await? else {
                return Ok(None);
            };
            let jobs = rows.iter().filter(|row| is_job_key(&row.key) && !row.is_takeover());
            self.jobs.extend(jobs.map(|row| (row.clone(), read_at)));
            // A page may have no lock, yet not be the last.
            self.page = rows
                .into_iter()
                .filter(|row| !(row.is_takeover() && looks_like_takeover_row(&row.key)))
                .filter(|row| !is_no_lock(&row.key))
                .map(|row| LockState::new(&row.key.clone(), Some(row), read_at))
                .collect();
        }
    }
}
