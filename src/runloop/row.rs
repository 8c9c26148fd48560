//! One lock's row, as the loop reaches it: through a batcher.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::{OptionFuture, join_all};
use spindle_protocol::{Act, Answer, Change, Holder, Rejection};

use super::role::RowRole;
use crate::batch::{BatchHandle, OpKind};
use crate::error::{Outcome, Result};
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
    /// None for an ordinary lock's.
    role: Option<Arc<dyn RowRole>>,
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
        role: Option<Arc<dyn RowRole>>,
        registration: Option<Arc<Registration>>,
    ) -> BatchedRow {
        let handle = |lock| table.batchers.handle(&table.store, lock, random::draw());
        let others = role.iter().flat_map(|role| role.other_rows()).map(handle).collect();
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
            role: None,
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
        let Some(role) = &row.role else {
            return match (act.change(&row.holder), registering) {
                (None, _) => Box::pin(row.observe(limit)),
                (Some(change), None) => Box::pin(row.send(change, limit)),
                (Some(change), Some(registering)) => {
                    let row = Arc::clone(row);
                    Box::pin(async move {
                        registering.await;
                        row.send(change, limit).await
                    })
                }
            };
        };
        match role.change(&act, &row.holder) {
            None => Box::pin(Arc::clone(row).observe_all(Arc::clone(role), limit)),
            Some(change @ Change::Mark { .. }) => Box::pin(row.mark(change, &**role, limit)),
            Some(change) => {
                let (row, role) = (Arc::clone(row), Arc::clone(role));
                Box::pin(async move {
                    OptionFuture::from(registering).await;
                    match role.before(&change) {
                        None => row.send(change, limit).await,
                        Some(before) => comes_too_late(before.await),
                    }
                })
            }
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

    fn send(
        &self,
        change: Change,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        self.handle.send(OpKind::Change(change), limit, self.patience)
    }

    /// Polls its own row and the others in one request.
    async fn observe_all(self: Arc<Batched>, role: Arc<dyn RowRole>, limit: Duration) -> Outcome {
        if let Some(poll) = role.poll(limit) {
            return match poll.await {
                Ok(observation) => Outcome::of(Answer::Observed(observation)),
                Err(error) => Outcome::failed(Answer::NotApplied, error),
            };
        }
        let own = self.observe(limit);
        let patience = self.poll_patience;
        let send =
            |row: &BatchHandle| row.send(OpKind::Observe { is_first: false }, limit, patience);
        let others = join_all(self.others.iter().map(send));
        let (own, others) = tokio::join!(own, others);
        let Answer::Observed(own) = own.answer else { return own };
        let mut seen = Vec::with_capacity(others.len());
        for other in others {
            let Answer::Observed(observation) = other.answer else { return other };
            seen.push(observation);
        }
        Outcome::of(Answer::Observed(role.observed(own, &seen)))
    }

    /// Takes a place in line before the first of the other rows, or its own, if one is to be asked for.
    fn mark(
        &self,
        change: Change,
        role: &dyn RowRole,
        limit: Duration,
    ) -> impl Future<Output = Outcome> + Send + use<> {
        let row = self.others.first().unwrap_or(&self.handle);
        let row = role.asks_for_place().then_some(row);
        let asked = row.map(|row| row.send(OpKind::Change(change), limit, self.patience));
        async move {
            let needless = || Outcome::of(Answer::Rejected(Rejection::Needless));
            OptionFuture::from(asked).await.unwrap_or_else(needless)
        }
    }
}

/// The outcome of a change that was not sent, as another had to be made before.
fn comes_too_late(before: Result<()>) -> Outcome {
    match before {
        Ok(()) => Outcome::of(Answer::Rejected(Rejection::Changed(None))),
        Err(error) => Outcome::failed(Answer::NotApplied, error),
    }
}
