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

    /// Returns true if the row, when it was last looked at, said that it was seized.
    fn saw_seizure(&self) -> bool;
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
    /// True if the last poll read the row's lease.
    pub(crate) saw_lease: Arc<AtomicBool>,
    /// True if that row said that it was seized.
    pub(crate) saw_seizure: Arc<AtomicBool>,
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
            saw_lease: Arc::default(),
            saw_seizure: Arc::default(),
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
                Box::pin(ready(Outcome { answer: Answer::Swept { all: true }, error: None }))
            }
            (None, Act::Sweep { before }, _) => {
                Box::pin(row.handle.send(OpKind::Sweep(before), limit))
            }
            (None, _, Role::Reader(reader)) => Box::pin(row.observe_both(reader, limit)),
            (None, _, Role::Writer(writer)) => {
                let (observed, writer) = (row.observation(&row.saw_lease), Arc::clone(writer));
                let observing = row.handle.send(observed, limit);
                Box::pin(observing.inspect(move |outcome| writer.hears(&outcome.answer)))
            }
            (None, ..) => Box::pin(row.handle.send(row.observation(&row.saw_lease), limit)),
        }
    }

    fn ticks(&self) -> Ticks {
        self.0.handle.ticks()
    }

    fn saw_seizure(&self) -> bool {
        self.0.saw_seizure.load(Ordering::Relaxed)
    }
}

impl Batched {
    /// Returns the change that an act asks for; none for one that changes nothing.
    fn change(&self, act: &Act) -> Option<Change> {
        let info = self.release_info.lock().unwrap_or_else(PoisonError::into_inner);
        self.role.change(act, &self.holder, info.as_deref())
    }

    fn observation(&self, saw_lease: &Arc<AtomicBool>) -> OpKind {
        let (saw_lease, saw_seizure) = (Arc::clone(saw_lease), Arc::clone(&self.saw_seizure));
        let is_first = !self.has_looked.swap(true, Ordering::Relaxed);
        OpKind::Observe { is_first, saw_lease, saw_seizure }
    }

    /// Polls a reader's own row and the writers' in one request.
    fn observe_both(
        self: &Arc<Self>,
        reader: &ReaderRow,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + 'static {
        let own = self.handle.send(self.observation(&self.saw_lease), limit);
        let writer_row = reader.writer_row.send(self.observation(&reader.saw_lease), limit);
        let row = Arc::clone(self);
        async move {
            match (tokio::join!(own, writer_row), &row.role) {
                (
                    (
                        Outcome { answer: Answer::Observed(own), .. },
                        Outcome { answer: Answer::Observed(writer_row), .. },
                    ),
                    Role::Reader(reader),
                ) => {
                    let observation = reader.view().observed(own, writer_row);
                    Outcome { answer: Answer::Observed(observation), error: None }
                }
                ((failed @ Outcome { error: Some(_), .. }, _) | (_, failed), _) => failed,
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
        let saw_lease = match (change, &self.role) {
            (Change::BeginRead { .. }, Role::Reader(reader)) => {
                self.saw_lease.load(Ordering::Relaxed) && reader.saw_lease.load(Ordering::Relaxed)
            }
            _ => self.saw_lease.load(Ordering::Relaxed),
        };
        let displaces = matches!(change, Change::Takeover { .. } | Change::BeginRead { .. });
        let (has_lease, _) = self.store.optional_columns();
        if displaces && has_lease && !saw_lease {
            let answer = Answer::Rejected(Rejection::Changed(None));
            return Err(Outcome { answer, error: None });
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
