//! The rows of readers and of writers, as one of them has them.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use spindle::rows::{RowRole, Rows};
use spindle::{Error, Result};
use spindle_protocol::line::Standing;
use spindle_protocol::rw::{Reader, WriteLock};
use spindle_protocol::{Act, Change, Holder, Observation};
use tokio::time::{Instant, timeout};

use crate::tidy::removal;

/// So many readers' rows are deleted in one commit, at the most.
const READERS_MAX: usize = 1_000;
/// How long that waits until it is paid for (I8).
const PAYMENT_WAIT: Duration = Duration::from_secs(5);

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
    /// Its own, and all readers'.
    rows: Rows,
    key: Arc<str>,
    view: Mutex<WriteLock>,
}

impl ReaderRow {
    pub(crate) fn new(view: Reader, place: Arc<ReadersPlace>) -> ReaderRow {
        ReaderRow { view: Mutex::new(view), place }
    }

    fn view(&self) -> MutexGuard<'_, Reader> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RowRole for ReaderRow {
    fn standing(&self) -> Standing {
        Standing::Reader
    }

    fn other_rows(&self) -> Vec<Arc<str>> {
        self.view().keys().map(Arc::from).to_vec()
    }

    fn observed(&self, own: Observation, others: &[Observation]) -> Observation {
        let [gate, write_lock] = others else { return own };
        self.view().observed(own, [gate.clone(), write_lock.clone()])
    }

    fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        self.view().change(act, holder)
    }

    fn asks_for_place(&self) -> bool {
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
    pub(crate) fn new(rows: Rows, key: Arc<str>, view: WriteLock) -> WriteLockRow {
        WriteLockRow { rows, key, view: Mutex::new(view) }
    }

    fn view(&self) -> MutexGuard<'_, WriteLock> {
        self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Polls the write lock and all readers' rows, in one request.
    async fn observe(&self, limit: Duration) -> Result<Observation> {
        let doing = || format!("lock `{}`: poll it and its readers", self.key);
        let polled = timeout(limit, self.rows.poll()).await;
        let found = polled.unwrap_or_else(|_| Err(Error::timed_out(doing(), limit)))?;
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
        Ok(self.view().observed(own, readers))
    }
}

impl RowRole for WriteLockRow {
    fn standing(&self) -> Standing {
        Standing::Aside
    }

    fn poll(&self, limit: Duration) -> Option<BoxFuture<'_, Result<Observation>>> {
        Some(self.observe(limit).boxed())
    }

    fn change(&self, act: &Act, holder: &Holder) -> Option<Change> {
        self.view().change(act, holder)
    }

    /// Deletes some rows of readers that are gone, where they are more than the begin should delete. Each
    /// goes on the condition that nothing has changed it.
    fn before(&self, change: &Change) -> Option<BoxFuture<'_, Result<()>>> {
        let Change::BeginWrite { readers, .. } = change else { return None };
        if readers.len() <= READERS_MAX {
            return None;
        }
        let gone = readers.iter().take(READERS_MAX);
        let changes: Vec<_> = gone.map(|(key, row)| removal(key, row.clone())).collect();
        Some(async move { self.rows.edit(changes, PAYMENT_WAIT).await.map(drop) }.boxed())
    }
}
