//! Jobs, as their rows tell them.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use spindle_protocol::job::{Record, Recorded};
use spindle_protocol::{Answer, Change, Row, StoredRow, Timestamp};
use tokio::time::Instant;

use super::pages::Pages;
use super::remove::once_more;
use crate::batch::Columns;
use crate::error::{Error, Kind, Result};
use crate::lock::SlotRecord;
use crate::names::{JOBS_PREFIX, check_not_reserved, check_table_name, job_key, job_name};
use crate::settings::LEASE_DEFAULT;
use crate::store::{REQUEST_LIMIT, Table, despite_others};
use crate::term::say;

/// A job as it stands in the table: its last slots.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct JobState {
    /// The name of the job, which is that of its lock.
    pub name: String,
    /// The last slot that was started; nothing if this version can't read the row.
    pub last: Option<SlotRecord>,
    /// The slots before, the latest first: ten of them at most.
    pub past: Vec<SlotRecord>,
    /// When Spanner read the job's row, by its clock.
    pub read_at: DateTime<Utc>,
}

impl JobState {
    pub(super) fn new(full: &StoredRow, lock: Option<&Row>, read_at: Timestamp) -> JobState {
        let (name, row) = (job_name(&full.key), full.row());
        let last = match Recorded::by(Some(&row)) {
            Recorded::Slot(record) => {
                let holds = |lock: &&Row| lock.writer == record.by;
                let held = lock.filter(holds).and_then(|it| it.taken_until(LEASE_DEFAULT, read_at));
                Some(SlotRecord::last(&record, &row, held.is_some()))
            }
            Recorded::Nothing | Recorded::Unreadable => None,
        };
        let past = Record::past(full.info.as_deref());
        let past = past.iter().map(SlotRecord::past).collect();
        let read_at = DateTime::from_timestamp_nanos(read_at.0);
        JobState { name: name.to_string(), last, past, read_at }
    }
}

/// Returns the states of all jobs of a table, in the order of their names.
pub(crate) async fn jobs(table: &Table) -> Result<Vec<JobState>> {
    check_table_name(&table.name)?;
    let mut pages = Pages::all();
    pages.prefix = JOBS_PREFIX.to_string();
    let mut jobs = Vec::new();
    while let Some((rows, _)) = pages.next(table).await? {
        let rows = rows.into_iter().filter(|row| !row.is_takeover());
        jobs.extend(states(table, rows.collect()).await?);
    }
    Ok(jobs)
}

/// Returns the states of the jobs of these rows.
async fn states(table: &Table, jobs: Vec<StoredRow>) -> Result<Vec<JobState>> {
    let name = |row: &StoredRow| job_name(&row.key).to_string();
    let keys = || jobs.iter().map(|row| Arc::from(name(row))).collect();
    if jobs.is_empty() {
        return Ok(Vec::new());
    }
    let read = || table.store.rows(keys(), Vec::new(), Columns::ButInfo, REQUEST_LIMIT);
    let locks = despite_others(read).await?;
    let read_at = locks.read_at;
    let locks: HashMap<String, Row> =
        locks.rows.into_iter().map(|full| (full.key.clone(), full.row())).collect();
    let states = jobs.iter().map(|full| JobState::new(full, locks.get(&name(full)), read_at));
    Ok(states.collect())
}

/// Returns the state of one job; nothing if no slot of it was started so far.
pub(crate) async fn job(table: &Table, name: &str) -> Result<Option<JobState>> {
    table.check_lock(name)?;
    check_not_reserved(name)?;
    let key = job_key(name);
    let (found, _) = despite_others(|| table.read(&key, REQUEST_LIMIT)).await?;
    Ok(states(table, found.into_iter().collect()).await?.into_iter().next())
}

/// Forgets the record of a job that doesn't run; true if there was one.
pub(crate) async fn remove_job(table: &Table, name: &str) -> Result<bool> {
    table.check_lock(name)?;
    check_not_reserved(name)?;
    let key = job_key(name);
    let deadline = Instant::now() + REQUEST_LIMIT;
    loop {
        let keys = || vec![Arc::from(name), Arc::from(&*key)];
        let read = || table.store.rows(keys(), Vec::new(), Columns::All, REQUEST_LIMIT);
        let found = despite_others(read).await?;
        let row = |key: &str| found.rows.iter().find(|row| row.key == key).map(StoredRow::row);
        let Some(seen) = row(&key) else { return Ok(false) };
        if row(name).is_some_and(|lock| lock.taken_until(LEASE_DEFAULT, found.read_at).is_some()) {
            let holding = "its job runs, or the lease of the last run has not run out".to_string();
            return Err(Error::new(Kind::NotVacant { lock: name.to_string(), holding }));
        }
        let record = seen.writer.to_string();
        let change = Change::Remove { seen: Some(seen), takeovers: Vec::new() };
        let (outcome, _) = table.carry_out(&key, change, REQUEST_LIMIT).await;
        if let Answer::Applied { .. } = outcome.answer {
            say(|| tracing::info!(job = name, record, "the record of a job was removed"));
            return Ok(true);
        }
        once_more(outcome, deadline, || format!("job `{name}`: remove its record")).await?;
    }
}
