//! One lock's row, as the loop reaches it: through a batcher.

use std::future::ready;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::OptionFuture;
use spindle_protocol::rw::Reader;
use spindle_protocol::{Act, Answer, Change, Holder, Rejection};
use tokio::time::Instant;

use super::role::RowRole;
use crate::batch::{BatchHandle, Need, OpKind, OptionalColumns, Store, Ticks};
use crate::error::Outcome;
use crate::settings::Settings;
use crate::store::Table;
use crate::system::random;

/// An act under way, and then how it ended.
pub(crate) type UnderWay = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Carries out the protocol's acts.
pub(crate) trait LockRow: Send + Sync + 'static {
    /// Carries out one act, sent once, in not much more than `limit`.
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay;

    /// Returns the ticks at which to act, together with the other locks that share a batcher.
    fn ticks(&self) -> Ticks;
}

/// One lock's row, as a batcher reaches it.
pub(crate) struct BatchedRow(Arc<Batched>);

struct Batched {
    handle: BatchHandle,
    /// A reader polls the writers' row beside its own.
    writer_row: Option<BatchHandle>,
    /// Where columns may be missing.
    store: Arc<dyn Store>,
    holder: Holder,
    /// From then on a request counts as slow: one that polls, and any other.
    poll_patience: Duration,
    patience: Duration,
    /// The mark that the next release leaves in the row, besides the successor.
    release_info: Arc<Mutex<Option<String>>>,
    /// The optional columns that the row of the present term was written with.
    written: Mutex<OptionalColumns>,
    /// True if it was polled before.
    has_looked: AtomicBool,
    /// True if the last poll read the leases of all that it read.
    is_lease_read: AtomicBool,
    role: RowRole,
}

impl BatchedRow {
    /// Returns the row of the lock of these settings, in the batcher of this runtime.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(crate) fn new(
        table: &Table,
        settings: &Settings,
        role: RowRole,
        release_info: Arc<Mutex<Option<String>>>,
    ) -> BatchedRow {
        let handle = |lock| table.batchers.handle(&table.store, lock, random::draw());
        let writer_row = role.writer_row().map(handle);
        let handle = handle(Arc::clone(&settings.name));
        if settings.is_repeat {
            handle.repeats();
        }
        let row = BatchedRow::with_handle(handle, Arc::clone(&table.store), settings);
        BatchedRow(Arc::new(Batched { writer_row, release_info, role, ..row }))
    }

    /// Returns the row of an ordinary lock, in the batcher of this handle.
    #[cfg(all(feature = "__simulation", unix))]
    pub(crate) fn of(
        handle: BatchHandle,
        store: Arc<dyn Store>,
        settings: &Settings,
    ) -> BatchedRow {
        BatchedRow(Arc::new(BatchedRow::with_handle(handle, store, settings)))
    }

    fn with_handle(handle: BatchHandle, store: Arc<dyn Store>, settings: &Settings) -> Batched {
        Batched {
            handle,
            writer_row: None,
            store,
            holder: Holder { lease: settings.timing.lease, info: settings.info.clone() },
            poll_patience: settings.timing.patience().max(settings.timing.poll_interval),
            patience: settings.timing.patience(),
            release_info: Arc::default(),
            written: Mutex::default(),
            has_looked: AtomicBool::default(),
            is_lease_read: AtomicBool::default(),
            role: RowRole::Lock,
        }
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
            (None, Act::Sweep { .. }, RowRole::Reader(_)) => {
                Box::pin(ready(Outcome::of(Answer::Swept { all: true })))
            }
            (None, Act::Sweep { before }, _) => {
                Box::pin(row.handle.send(OpKind::Sweep(before), limit, row.patience))
            }
            (None, _, RowRole::Reader(reader)) => {
                Box::pin(row.observe_both(Arc::clone(reader), limit))
            }
            (None, _, RowRole::Writer(writer)) => {
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
    fn observe(self: &Arc<Self>, limit: Duration) -> impl Future<Output = Outcome> + Send + use<> {
        let is_first = !self.has_looked.swap(true, Ordering::Relaxed);
        let row = Arc::clone(self);
        self.handle.send(OpKind::Observe { is_first }, limit, self.poll_patience).inspect(
            move |outcome| {
                row.is_lease_read.store(outcome.is_lease_read, Ordering::Relaxed);
            },
        )
    }

    /// Polls a reader's own row and the writers' in one request.
    fn observe_both(
        self: &Arc<Self>,
        reader: Arc<Mutex<Reader>>,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let own = self.observe(limit);
        let patience = self.poll_patience;
        let send =
            |row: &BatchHandle| row.send(OpKind::Observe { is_first: false }, limit, patience);
        let writer_row = OptionFuture::from(self.writer_row.as_ref().map(send));
        let row = Arc::clone(self);
        async move {
            let (own, writer_row) = tokio::join!(own, writer_row);
            let Some(writer_row) = writer_row else { return own };
            let is_lease_read = own.is_lease_read && writer_row.is_lease_read;
            row.is_lease_read.store(is_lease_read, Ordering::Relaxed);
            match (own, writer_row) {
                (
                    Outcome { answer: Answer::Observed(own), .. },
                    Outcome { answer: Answer::Observed(writer_row), .. },
                ) => {
                    let mut reader = reader.lock().unwrap_or_else(PoisonError::into_inner);
                    Outcome::of(Answer::Observed(reader.observed(own, writer_row)))
                }
                (failed @ Outcome { error: Some(_), .. }, _) | (_, failed) => failed,
            }
        }
    }

    async fn begin(self: Arc<Self>, change: Box<Change>, limit: Duration) -> Outcome {
        let asked = Instant::now();
        if let Err(outcome) = self.confirm(&change, limit).await {
            return outcome;
        }
        // Known before the answer is: an attempt whose outcome is unknown may have been ours.
        self.written(self.store.optional_columns());
        let limit = limit.saturating_sub(asked.elapsed());
        self.handle.send(OpKind::Change(*change), limit, self.patience).await
    }

    /// Prolongs or ends a term.
    fn keep(
        self: &Arc<Self>,
        mut change: Change,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let tells = self.store.optional_columns();
        let mut is_heartbeat = false;
        if let Change::Heartbeat { holder, .. } | Change::KeepWriting { holder, .. } = &mut change {
            is_heartbeat = true;
            if *self.written.lock().unwrap_or_else(PoisonError::into_inner) != tells {
                *holder = Some(self.holder.clone());
            }
        }
        let row = Arc::clone(self);
        self.handle.send(OpKind::Change(change), limit, self.patience).map(move |outcome| {
            if is_heartbeat && matches!(outcome.answer, Answer::Applied { .. }) {
                row.written(tells);
            }
            outcome
        })
    }

    fn written(&self, columns: OptionalColumns) {
        *self.written.lock().unwrap_or_else(PoisonError::into_inner) = columns;
    }

    /// Refuses to begin while a column may be wrongly thought missing. Refuses to take over from a
    /// row whose lease was not read although there may be one (I1).
    async fn confirm(&self, change: &Change, limit: Duration) -> Result<(), Outcome> {
        let ready = self.store.knows(Need::Begin, limit).await;
        ready.map_err(|error| Outcome::failed(Answer::NotApplied, error))?;
        let displaces = matches!(change, Change::Takeover { .. } | Change::BeginRead { .. });
        let has_lease = self.store.optional_columns().lease;
        if displaces && has_lease && !self.is_lease_read.load(Ordering::Relaxed) {
            return Err(Outcome::of(Answer::Rejected(Rejection::Changed(None))));
        }
        Ok(())
    }
}

fn begins(change: &Change) -> bool {
    matches!(change, Change::Insert { .. } | Change::Takeover { .. } | Change::BeginRead { .. })
}
