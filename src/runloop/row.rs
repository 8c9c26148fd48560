//! One lock's row, as the loop reaches it: through a batcher.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{OptionFuture, join_all};
use spindle_protocol::{Act, Answer, Change, Holder, Rejection};

use super::role::RowRole;
use super::shared::{ReaderRow, WriteLockRow};
use crate::batch::{BatchHandle, OpKind};
use crate::error::Outcome;
use crate::settings::Settings;
use crate::store::Table;
use crate::system::{Ticks, random};
use crate::witness::Registration;

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
    /// The rows that are polled beside its own: gate and write lock by a reader, a job's record.
    others: Vec<BatchHandle>,
    holder: Holder,
    /// From then on a request counts as slow: one that polls, and any other.
    poll_patience: Duration,
    patience: Duration,
    /// True if it was polled before.
    has_looked: AtomicBool,
    role: RowRole,
    /// Tells the agent of this instance, before it first begins a term.
    registration: Option<Arc<Registration>>,
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
        registration: Option<Arc<Registration>>,
    ) -> BatchedRow {
        let handle = |lock| table.batchers.handle(&table.store, lock, random::draw());
        let others = role.other_rows().into_iter().map(handle).collect();
        let handle = handle(Arc::clone(&settings.name));
        if settings.is_repeat {
            handle.repeats();
        }
        let row = BatchedRow::with_handle(handle, settings);
        BatchedRow(Arc::new(Batched { others, role, registration, ..row }))
    }

    /// Returns the row of an ordinary lock, in the batcher of this handle.
    #[cfg(feature = "__simulation")]
    pub(crate) fn of(handle: BatchHandle, settings: &Settings) -> BatchedRow {
        BatchedRow(Arc::new(BatchedRow::with_handle(handle, settings)))
    }

    fn with_handle(handle: BatchHandle, settings: &Settings) -> Batched {
        Batched {
            handle,
            others: Vec::new(),
            holder: Holder { lease: settings.timing.lease, info: settings.info.clone() },
            poll_patience: settings.timing.patience().max(settings.timing.poll_interval),
            patience: settings.timing.patience(),
            has_looked: AtomicBool::default(),
            role: RowRole::Lock,
            registration: None,
        }
    }
}

impl LockRow for BatchedRow {
    /// Each kind of act has a future of its own: thousands may be under way at once, and none keeps
    /// room for what another needs.
    fn carry_out(&self, act: Act, limit: Duration) -> UnderWay {
        let row = &self.0;
        let registering = row.registering(&act, limit);
        match (row.role.change(&act, &row.holder), &row.role) {
            (Some(change), RowRole::Lock) if registering.is_none() => {
                Box::pin(row.handle.send(OpKind::Change(change), limit, row.patience))
            }
            (Some(change @ Change::Mark { .. }), RowRole::Reader(reader)) => {
                Box::pin(row.mark(change, reader, limit))
            }
            (Some(change), role) => {
                let (handle, patience, role) = (row.handle.clone(), row.patience, role.clone());
                Box::pin(async move {
                    OptionFuture::from(registering).await;
                    if let RowRole::WriteLock(row) = role
                        && let Some(outcome) = row.clears(&change).await
                    {
                        return outcome;
                    }
                    handle.send(OpKind::Change(change), limit, patience).await
                })
            }
            (None, RowRole::Reader(_) | RowRole::Job(_)) => Box::pin(row.observe_all(limit)),
            (None, RowRole::WriteLock(row)) => {
                let row: Arc<WriteLockRow> = Arc::clone(row);
                Box::pin(async move { row.observe(limit).await })
            }
            (None, RowRole::Lock) => Box::pin(row.observe(limit)),
        }
    }

    fn ticks(&self) -> Ticks {
        self.0.handle.ticks()
    }
}

impl Batched {
    /// Registers the instance with the agent, if the act is its first attempt to begin a term.
    fn registering(
        &self,
        act: &Act,
        limit: Duration,
    ) -> Option<impl Future<Output = ()> + Send + use<>> {
        let (Act::Insert { writer } | Act::Takeover { writer, .. }) = act else { return None };
        let registration = self.registration.as_ref()?;
        // However long it takes, half of the time is the attempt's.
        registration.begins(writer.nonce()?.instance, limit / 2)
    }

    /// Polls the row.
    fn observe(&self, limit: Duration) -> impl Future<Output = Outcome> + Send + use<> {
        let is_first = !self.has_looked.swap(true, Ordering::Relaxed);
        self.handle.send(OpKind::Observe { is_first }, limit, self.poll_patience)
    }

    /// Polls its own row and the others in one request.
    fn observe_all(&self, limit: Duration) -> impl Future<Output = Outcome> + Send + use<> {
        let own = self.observe(limit);
        let patience = self.poll_patience;
        let send =
            |row: &BatchHandle| row.send(OpKind::Observe { is_first: false }, limit, patience);
        let others = join_all(self.others.iter().map(send));
        let role = self.role.clone();
        async move {
            let (own, others) = tokio::join!(own, others);
            let Answer::Observed(own) = own.answer else { return own };
            let mut seen = Vec::with_capacity(others.len());
            for other in others {
                let Answer::Observed(observation) = other.answer else { return other };
                seen.push(observation);
            }
            Outcome::of(Answer::Observed(role.observed(own, &seen)))
        }
    }

    /// Takes the place of all readers in the line of the gate, unless another one of the handle has asked
    /// for it.
    fn mark(
        &self,
        change: Change,
        reader: &ReaderRow,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let gate = self.others.first().filter(|_| reader.asks_for_place());
        let asked = gate.map(|gate| gate.send(OpKind::Change(change), limit, self.patience));
        async move {
            let needless = || Outcome::of(Answer::Rejected(Rejection::Needless));
            OptionFuture::from(asked).await.unwrap_or_else(needless)
        }
    }
}
