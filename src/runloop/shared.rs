//! The rows of readers and of writers, as one of them has them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use spindle_protocol::rw::{Reader, WriteLock};
use spindle_protocol::{Answer, Change, Observation, Rejection, Row};
use tokio::time::{Instant, timeout};

use crate::batch::{Columns, RetryCharge};
use crate::error::{Error, Outcome};
use crate::store::membership::poll_in_turn;
use crate::store::{REQUEST_LIMIT, Table};

/// So many readers' rows are deleted in one commit, at the most.
const READERS_MAX: usize = 1_000;

/// A reader's view of its row, the gate and the write lock.
#[derive(Debug)]
pub(crate) struct ReaderRow {
    view: Mutex<Reader>,
    place: Arc<ReadersPlace>,
}

/// The place of all readers in the line of the gate. Those of a handle share it: one asks for all.
#[derive(Debug)]
pub(crate) struct ReadersPlace {
    poll: Duration,
    asked: Mutex<Option<Instant>>,
}

/// A writer's view of the write lock and of the readers' rows.
#[derive(Debug)]
pub(crate) struct WriteLockRow {
    table: Arc<Table>,
    key: Arc<str>,
    /// The beginning of the keys of all these rows.
    prefix: String,
    view: Mutex<WriteLock>,
    retry_charge: RetryCharge,
}

impl ReaderRow {
    pub(crate) fn new(view: Reader, place: Arc<ReadersPlace>) -> ReaderRow {
        ReaderRow { view: Mutex::new(view), place }
    }

    pub(super) fn view(&self) -> MutexGuard<'_, Reader> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if no reader of the handle has asked for their place of late.
    pub(super) fn asks_for_place(&self) -> bool {
        self.place.asks()
    }
}

impl ReadersPlace {
    pub(crate) fn new(poll: Duration) -> ReadersPlace {
        ReadersPlace { poll, asked: Mutex::default() }
    }

    fn asks(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = asked.is_none_or(|asked| asked.elapsed() >= self.poll / 2);
        if is_due {
            *asked = Some(Instant::now());
        }
        is_due
    }
}

impl WriteLockRow {
    pub(crate) fn new(
        table: &Arc<Table>,
        (key, prefix): (Arc<str>, &str),
        view: WriteLock,
    ) -> WriteLockRow {
        let (table, prefix) = (Arc::clone(table), prefix.to_string());
        WriteLockRow {
            table,
            key,
            prefix,
            view: Mutex::new(view),
            retry_charge: RetryCharge::default(),
        }
    }

    pub(super) fn view(&self) -> MutexGuard<'_, WriteLock> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls the write lock and all readers' rows, in one request.
    pub(super) async fn observe(&self, limit: Duration) -> Outcome {
        let prefix = [&*self.prefix];
        let poll = poll_in_turn(&self.table, &self.retry_charge, &[], &prefix, Columns::ButInfo);
        let doing = || format!("lock `{}`: poll it and its readers", self.key);
        let polled = timeout(limit, poll).await;
        let found = match polled.unwrap_or_else(|_| Err(Error::timed_out(doing(), limit))) {
            Ok(found) => found,
            Err(error) => return Outcome::failed(Answer::NotApplied, error),
        };
        let (mut own, mut readers) = (None, Vec::new());
        for full in found.rows {
            let row = full.row();
            if *full.key == *self.key {
                own = Some(row);
            } else {
                readers.push((full.key, row));
            }
        }
        let own = Observation { row: own, next: None, read_at: found.read_at };
        Outcome::of(Answer::Observed(self.view().observed(own, readers)))
    }

    /// Deletes some rows of readers that are gone, where they are more than the begin should delete, and
    /// has it come too late. Each goes on the condition that nothing has changed it.
    pub(super) async fn clears(&self, change: &Change) -> Option<Outcome> {
        let Change::BeginWrite { readers, .. } = change else { return None };
        if readers.len() <= READERS_MAX {
            return None;
        }
        let change = |(key, row): &(String, Row)| {
            let remove = Change::Remove { seen: Some(row.clone()), takeovers: Vec::new() };
            (Arc::from(&**key), remove)
        };
        let changes = readers.iter().take(READERS_MAX).map(change).collect();
        let verdict = self.table.store.transact(changes, REQUEST_LIMIT).await;
        Some(match verdict.error {
            Some(error) => Outcome::failed(Answer::NotApplied, error),
            None => Outcome::of(Answer::Rejected(Rejection::Changed(None))),
        })
    }
}
