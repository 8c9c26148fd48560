//! What the loop publishes: the term, its gains and losses.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use spindle_protocol::{EndReason, Moment, Observation, Seen, Writer};
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::clock::Clock;
use crate::contact::{Failing, Recovered, Told};
use crate::error::{Error, Found};
use crate::fence::Fence;
use crate::health::{Health, Vitals};
use crate::locks::Leader;
use crate::token::FencingToken;

/// One unbroken tenure of one holder. Cheap to clone.
///
/// A term is *cancelled* first, then it *expires*: its cancellation fires when no heartbeat has
/// succeeded within the renew deadline, or when the lock turns out to be another's, and whoever
/// works under it should stop before [`remaining`](Term::remaining) is zero.
///
/// The term that a task of [`lead`](crate::Spindle::lead) is given is cancelled when that task is to
/// stop, which may be earlier than the loss of the lock.
#[derive(Clone, Debug)]
pub struct Term {
    state: Arc<TermState>,
    cancelled: CancellationToken,
    progress: Progress,
}

#[derive(Debug)]
struct TermState {
    lock: Arc<str>,
    table: Arc<str>,
    token: FencingToken,
    writer: Writer,
    cancelled: CancellationToken,
    valid_until: AtomicU64,
    loss: OnceLock<Loss>,
    clock: Clock,
}

impl Term {
    /// The fencing token, which every write that must not come late has to carry.
    pub fn token(&self) -> FencingToken {
        self.state.token
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        &self.state.lock
    }

    /// Waits until the term is over. Cancellation safe.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }

    /// A token that is cancelled when the term is over, to hand to what runs under it.
    ///
    /// Cancelling it ends what was handed it, not the term.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancelled.child_token()
    }

    /// The same term for a task that may be told to stop while the term goes on.
    pub(crate) fn with_cancellation(&self, cancelled: CancellationToken) -> Term {
        Term { state: Arc::clone(&self.state), cancelled, progress: Progress::default() }
    }

    /// Reports that the task that was given this term goes on: what the
    /// [watchdog](crate::LeadOptions::watchdog) waits for. Without a watchdog it does nothing.
    ///
    /// It costs a clock read; report each unit of work.
    pub fn progress(&self) {
        self.progress.report();
    }

    pub(crate) fn reported(&self) -> &Progress {
        &self.progress
    }

    /// Whether the term has ended; never false again once it was true.
    pub fn has_ended(&self) -> bool {
        self.state.cancelled.is_cancelled() || self.remaining().is_zero()
    }

    /// How long the last heartbeat still protects whoever works under the term.
    ///
    /// It goes on counting down after the term was cancelled: that is the time left to stop.
    /// Another instance may hold the lock once it is zero.
    pub fn remaining(&self) -> Duration {
        moment(self.state.valid_until.load(Ordering::Acquire)).since(self.state.clock.now())
    }

    /// Why the term ended, once it has been announced.
    pub fn loss(&self) -> Option<&Loss> {
        self.state.loss.get()
    }

    /// What makes a write in the same database conditional on this term.
    pub fn fence(&self) -> Fence {
        Fence::new(
            &self.state.table,
            &self.state.lock,
            self.state.token,
            self.state.writer.as_str(),
        )
        .of_term(self.clone())
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.state.writer
    }
}

/// The time at which a task last said that it goes on.
///
/// Its clock stands still while the machine is suspended: then the task can't go on either.
#[derive(Clone, Debug)]
pub(crate) struct Progress {
    began: Instant,
    last_ms: Arc<AtomicU64>,
}

impl Progress {
    fn report(&self) {
        let elapsed_ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.last_ms.fetch_max(elapsed_ms, Ordering::Relaxed);
    }

    pub(crate) fn silent_for(&self) -> Duration {
        let last = Duration::from_millis(self.last_ms.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(last)
    }
}

impl Default for Progress {
    fn default() -> Progress {
        Progress { began: Instant::now(), last_ms: Arc::default() }
    }
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its holder let go: cancelled, resigned, or dropped. The release is sent after that, and may
    /// fail.
    LetGo,
    /// Its holder let go without a release, because its work could not be stopped: the lease runs
    /// out.
    Lapsed,
    /// The row is another's now, or nobody's: taken over, evicted, seized, edited or deleted.
    #[non_exhaustive]
    Superseded {
        /// The token in the row, if there is a row.
        by: Option<FencingToken>,
        /// Who holds under it.
        holder: Option<String>,
    },
    /// No heartbeat succeeded within the renew deadline.
    OutOfContact,
    /// The lease ran out before anything could be said; the process or its machine was paused.
    Expired,
    /// The loop is gone: it panicked, or its runtime shut down.
    Abandoned,
}

impl Loss {
    pub(crate) fn superseded(by: Option<Seen>) -> Loss {
        let Some(Seen { token, writer }) = by else {
            return Loss::Superseded { by: None, holder: None };
        };
        Loss::Superseded {
            by: Some(FencingToken::from_timestamp(token)),
            holder: writer.id().map(str::to_string),
        }
    }
}

impl From<EndReason> for Loss {
    fn from(reason: EndReason) -> Loss {
        match reason {
            EndReason::Released => Loss::LetGo,
            EndReason::Lapsed => Loss::Lapsed,
            EndReason::Superseded(seen) => Loss::superseded(seen),
            EndReason::OutOfContact => Loss::OutOfContact,
            EndReason::Expired => Loss::Expired,
        }
    }
}

/// A change that [`Watch::next`] reports.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Change {
    /// This instance holds the lock now.
    Gained(Term),
    /// It holds no more; the reason is in [`Term::loss`].
    Lost(Term),
}

/// A reader of gains and losses, in strict alternation.
#[derive(Clone, Debug)]
pub struct Watch {
    current: watch::Receiver<Option<Term>>,
    reported: Option<Term>,
}

impl Watch {
    /// The next change; none once the loop has ended and everything was reported.
    ///
    /// A gain is always followed by the loss of the same term before the next gain. A slow reader
    /// misses whole terms, never half of one. A new reader begins with the gain of the term that
    /// is held, if there is one.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future loses nothing: the change is reported by the next call.
    pub async fn next(&mut self) -> Option<Change> {
        loop {
            let current = self.current.borrow_and_update().clone();
            match (&self.reported, current) {
                (Some(old), current) => {
                    if current.is_none_or(|term| term.token() != old.token()) {
                        return self.reported.take().map(Change::Lost);
                    }
                }
                (None, Some(term)) => {
                    self.reported = Some(term.clone());
                    return Some(Change::Gained(term));
                }
                (None, None) => {}
            }
            if self.current.changed().await.is_err() {
                return self.reported.take().map(Change::Lost);
            }
        }
    }
}

/// The state that the loop writes and everybody reads.
#[derive(Debug)]
pub(crate) struct Published {
    clock: Clock,
    lock: Arc<str>,
    table: Arc<str>,
    /// The token of the term, meaningful while `valid_until` is not over.
    token: AtomicU64,
    /// The end of the term's validity in nanoseconds; zero without a term.
    valid_until: AtomicU64,
    term: watch::Sender<Option<Term>>,
    vitals: Mutex<Vitals>,
    /// The last poll's answer, and when it came.
    polled: Mutex<Option<(Observation, Moment)>>,
}

impl Published {
    pub(crate) fn new(clock: Clock, lock: Arc<str>, table: Arc<str>) -> Published {
        Published {
            clock,
            lock,
            table,
            token: AtomicU64::new(0),
            valid_until: AtomicU64::new(0),
            term: watch::Sender::new(None),
            vitals: Mutex::default(),
            polled: Mutex::default(),
        }
    }

    /// Judged by the clock at the moment of the call, not by a timer that has fired or not.
    pub(crate) fn has_lock(&self) -> Option<FencingToken> {
        loop {
            let valid_until = self.valid_until.load(Ordering::Acquire);
            if valid_until == 0 {
                return None;
            }
            let token = self.token.load(Ordering::Relaxed);
            fence(Ordering::Acquire);
            // The token of another term was stored in between: read the pair again.
            if self.valid_until.load(Ordering::Relaxed) != valid_until {
                continue;
            }
            let valid = self.clock.now() < moment(valid_until);
            return valid.then(|| FencingToken::from_nanoseconds(token));
        }
    }

    pub(crate) fn term(&self) -> Option<Term> {
        self.term.borrow().clone()
    }

    pub(crate) fn watch(&self) -> Watch {
        Watch { current: self.term.subscribe(), reported: None }
    }

    pub(crate) fn began(&self, token: FencingToken, writer: Writer, valid_until: Moment) {
        let cancelled = CancellationToken::new();
        let state = TermState {
            lock: Arc::clone(&self.lock),
            table: Arc::clone(&self.table),
            token,
            writer,
            cancelled: cancelled.clone(),
            valid_until: AtomicU64::new(nanoseconds(valid_until)),
            loss: OnceLock::new(),
            clock: self.clock.clone(),
        };
        let term = Term { state: Arc::new(state), cancelled, progress: Progress::default() };
        // Whoever reads this token must also see that the last term's validity is over.
        fence(Ordering::Release);
        self.token.store(token.as_nanoseconds(), Ordering::Relaxed);
        self.valid_until.store(nanoseconds(valid_until), Ordering::Release);
        self.term.send_replace(Some(term));
    }

    pub(crate) fn extended(&self, valid_until: Moment) {
        if let Some(term) = &*self.term.borrow() {
            term.state.valid_until.store(nanoseconds(valid_until), Ordering::Release);
        }
        self.valid_until.store(nanoseconds(valid_until), Ordering::Release);
    }

    /// Says that the term is over: first the truth, then the cancellation, then the news (I7).
    pub(crate) fn ended(&self, loss: Loss) {
        self.valid_until.store(0, Ordering::Release);
        let Some(term) = self.term() else { return };
        // The first reason stands; a term ends once.
        let _ = term.state.loss.set(loss);
        term.state.cancelled.cancel();
        self.term.send_replace(None);
    }

    /// The loop was started, and ought to run before long.
    pub(crate) fn starts(&self, slack: Duration) {
        let now = self.clock.now();
        self.vitals().starts(now + slack);
    }

    /// The loop runs, and ought to run again by `due`; never, if nothing can come but a command.
    pub(crate) fn runs(&self, due: Option<Moment>) {
        self.vitals().runs(due);
    }

    pub(crate) fn wants(&self, wanted: bool) {
        self.vitals().wants(wanted);
    }

    /// The loop is gone, whatever the reason; no reader may believe in a term after it.
    pub(crate) fn loop_ended(&self, by_itself: bool) {
        self.ended(Loss::Abandoned);
        let now = self.clock.now();
        self.vitals().ended(now, by_itself);
    }

    pub(crate) fn failed(&self, what: Failing, error: &Error) -> Told {
        let now = self.clock.now();
        self.vitals().contact.failed(what, now, error)
    }

    pub(crate) fn succeeded(&self, what: Failing) -> Option<Recovered> {
        let now = self.clock.now();
        self.vitals().contact.succeeded(what, now)
    }

    /// A task runs, and its last failure is forgotten once it has done so for `long_enough`.
    pub(crate) fn task_runs(&self, long_enough: Duration) {
        let now = self.clock.now();
        self.vitals().contact.task_runs(now + long_enough);
    }

    /// Returns the error that kept the instance from the lock last, if one still does.
    pub(crate) fn last_cause(&self) -> Option<Error> {
        let now = self.clock.now();
        self.vitals().contact.last_cause(now).cloned()
    }

    pub(crate) fn health(&self) -> Health {
        let held = self.has_lock();
        let now = self.clock.now();
        self.vitals().health(&self.lock, held, now)
    }

    pub(crate) fn observed(&self, observation: &Observation) {
        let polled = Some((observation.clone(), self.clock.now()));
        *self.polled.lock().unwrap_or_else(PoisonError::into_inner) = polled;
    }

    /// Who held at the last poll, unless the lease that it saw has run out since.
    pub(crate) fn polled(&self, lease: Duration) -> Option<Leader> {
        let polled = self.polled.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (Observation { row, read_at }, at) = polled?;
        let row = row.filter(|row| !row.is_released())?;
        let heartbeat_age = read_at.since(row.heartbeat) + self.clock.now().since(at);
        (heartbeat_age < row.lease.unwrap_or(lease)).then_some(())?;
        Some(Leader {
            id: row.writer.id()?.to_string(),
            token: FencingToken::from_timestamp(row.token),
            info: None,
            lease: row.lease,
            heartbeat_age,
        })
    }

    fn vitals(&self) -> std::sync::MutexGuard<'_, Vitals> {
        // Nothing that is done under it can panic halfway.
        self.vitals.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whose a row was found to be, for an error.
pub(crate) fn found(row: &spindle_protocol::Row) -> Found {
    Found {
        token: FencingToken::from_timestamp(row.token),
        holder: row.writer.id().map(str::to_string),
    }
}

fn moment(nanoseconds: u64) -> Moment {
    Moment(Duration::from_nanos(nanoseconds))
}

fn nanoseconds(moment: Moment) -> u64 {
    // Zero stands for "no term".
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX).max(1)
}
