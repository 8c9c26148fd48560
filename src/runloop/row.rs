//! One lock's row, as the loop reaches it: through a batcher.

use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use spindle_protocol::{Act, Answer, Change, Holder, Rejection};
use tokio::time::Instant;

use super::role::{ReaderRow, Role, RowRole};
use crate::batch::{BatchHandle, Need, OpKind, Store, Ticks};
use crate::error::Outcome;
use crate::settings::Settings;
use crate::store::Table;
use crate::system::chance;

/// An act under way, and then how it ended.
pub(crate) type UnderWay = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Carries out the protocol's acts.
pub(crate) trait LockRow: Send + Sync + 'static {
    /// Carries out one act, sent once, in not much more than `limit`.
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay;

    /// The marks at which to act, together with the other locks that share a batcher.
    fn ticks(&self) -> Ticks;
}

/// One lock's row, as a batcher reaches it.
pub(crate) struct BatchedRow(pub(crate) Arc<Batched>);

pub(crate) struct Batched {
    pub(crate) handle: BatchHandle,
    /// Where columns may be missing.
    pub(crate) store: Arc<dyn Store>,
    pub(crate) holder: Holder,
    /// The mark that the next release leaves in the row, besides the successor.
    pub(crate) release_info: Arc<Mutex<Option<String>>>,
    pub(crate) written: WrittenColumns,
    /// True if it was polled before.
    pub(crate) has_looked: AtomicBool,
    /// True if the last poll read the leases of all that it read.
    pub(crate) is_lease_read: AtomicBool,
    pub(crate) role: Role,
}

impl BatchedRow {
    /// Returns the row of the lock of these settings, in the batcher of this runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(
        table: &Table,
        settings: &Settings,
        row_role: RowRole,
        release_info: Arc<Mutex<Option<String>>>,
    ) -> BatchedRow {
        let role = row_role.with_handles(table);
        let handle =
            table.batchers.handle(&table.store, Arc::clone(&settings.name), chance::random());
        if settings.is_repeat {
            handle.repeats();
        }
        BatchedRow(Arc::new(Batched {
            handle,
            store: Arc::clone(&table.store),
            holder: Holder { lease: settings.timing.lease, info: settings.info.clone() },
            release_info,
            written: WrittenColumns::default(),
            has_looked: AtomicBool::default(),
            is_lease_read: AtomicBool::default(),
            role,
        }))
    }
}

impl LockRow for BatchedRow {
    /// Each kind of act has a future of its own: thousands may be under way at once, and none keeps
    /// room for what another needs.
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay {
        let row = &self.0;
        match (row.change(&act), act, &row.role) {
            (Some(change), ..) if begins(&change) => {
                Box::pin(Arc::clone(row).begin(Box::new(change), limit))
            }
            (Some(change), ..) => Box::pin(row.keep(change, limit)),
            // Readers leave no takeover rows.
            (None, Act::Sweep { .. }, Role::Reader(_)) => {
                Box::pin(ready(Outcome::of(Answer::Swept { all: true })))
            }
            (None, Act::Sweep { before }, _) => {
                Box::pin(row.handle.send(OpKind::Sweep(before), limit))
            }
            (None, _, Role::Reader(reader)) => Box::pin(row.observe_both(reader, limit)),
            (None, _, Role::Writer(writer)) => {
                let (observing, writer) = (row.observe(limit), Arc::clone(writer));
                Box::pin(observing.inspect(move |outcome| writer.hears(&outcome.answer)))
            }
            (None, ..) => Box::pin(row.observe(limit)),
        }
    }

    fn ticks(&self) -> Ticks {
        self.0.handle.ticks()
    }
}

impl Batched {
    /// Returns the change that an act asks for; none for one that changes nothing.
    fn change(&self, act: &Act) -> Option<Change> {
        let info = self.release_info.lock().unwrap_or_else(PoisonError::into_inner);
        self.role.change(act, &self.holder, info.as_deref())
    }

    /// Polls the row.
    fn observe(
        self: &Arc<Self>,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let is_first = !self.has_looked.swap(true, Ordering::Relaxed);
        let row = Arc::clone(self);
        self.handle.send(OpKind::Observe { is_first }, limit).inspect(move |outcome| {
            row.is_lease_read.store(outcome.is_lease_read, Ordering::Relaxed);
        })
    }

    /// Polls a reader's own row and the writers' in one request.
    fn observe_both(
        self: &Arc<Self>,
        reader: &ReaderRow,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let own = self.observe(limit);
        let writer_row = reader.writer_row.send(OpKind::Observe { is_first: false }, limit);
        let row = Arc::clone(self);
        async move {
            let (own, writer_row) = tokio::join!(own, writer_row);
            let is_lease_read = own.is_lease_read && writer_row.is_lease_read;
            row.is_lease_read.store(is_lease_read, Ordering::Relaxed);
            match (own, writer_row, &row.role) {
                (
                    Outcome { answer: Answer::Observed(own), .. },
                    Outcome { answer: Answer::Observed(writer_row), .. },
                    Role::Reader(reader),
                ) => {
                    let observation = reader.view().observed(own, writer_row);
                    Outcome::of(Answer::Observed(observation))
                }
                (failed @ Outcome { error: Some(_), .. }, ..) | (_, failed, _) => failed,
            }
        }
    }

    async fn begin(self: Arc<Self>, change: Box<Change>, limit: Duration) -> Outcome {
        let asked = Instant::now();
        if let Err(outcome) = self.confirm(&change, limit).await {
            return outcome;
        }
        // Known before the answer is: an attempt whose outcome is unknown may have been ours.
        self.written.set(self.store.optional_columns());
        let limit = limit.saturating_sub(asked.elapsed());
        self.handle.send(OpKind::Change(*change), limit).await
    }

    /// Prolongs or ends a term.
    fn keep(
        self: &Arc<Self>,
        mut change: Change,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let tells = self.store.optional_columns();
        let mut is_heartbeat = false;
        if let Change::Heartbeat { holder, .. } | Change::KeepWriting { holder, .. } = &mut change {
            is_heartbeat = true;
            if self.written.get() != tells {
                *holder = Some(self.holder.clone());
            }
        }
        let row = Arc::clone(self);
        self.handle.send(OpKind::Change(change), limit).map(move |outcome| {
            if is_heartbeat && matches!(outcome.answer, Answer::Applied { .. }) {
                row.written.set(tells);
            }
            outcome
        })
    }

    /// Refuses to begin while a column may be wrongly thought missing. Refuses to take over from a
    /// row whose lease was not read although there may be one (I1).
    async fn confirm(&self, change: &Change, limit: Duration) -> Result<(), Outcome> {
        let ready = self.store.knows(Need::Begin, limit).await;
        ready.map_err(|error| Outcome::failed(Answer::NotApplied, error))?;
        let displaces = matches!(change, Change::Takeover { .. } | Change::BeginRead { .. });
        let (has_lease, _) = self.store.optional_columns();
        if displaces && has_lease && !self.is_lease_read.load(Ordering::Relaxed) {
            return Err(Outcome::of(Answer::Rejected(Rejection::Changed(None))));
        }
        Ok(())
    }
}

fn begins(change: &Change) -> bool {
    matches!(change, Change::Insert { .. } | Change::Takeover { .. } | Change::BeginRead { .. })
}

/// The optional columns that the row of the present term was written with.
#[derive(Debug, Default)]
pub(crate) struct WrittenColumns(Mutex<(bool, bool)>);

impl WrittenColumns {
    fn set(&self, columns: (bool, bool)) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = columns;
    }

    fn get(&self) -> (bool, bool) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
