//! What the loop publishes: the term, and what there is to say of it.

use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use spindle_protocol::{EndReason, Moment, Seen, Writer};
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::clock::Clock;
use crate::error::{Error, Found};
use crate::fence::Fence;
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
pub struct Term(Arc<TermState>, CancellationToken);

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
        self.0.token
    }

    /// The name of the lock.
    pub fn lock(&self) -> &str {
        &self.0.lock
    }

    /// Waits until the term is over. Cancellation safe.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.1.cancelled()
    }

    /// A token that is cancelled when the term is over, to hand to what runs under it.
    ///
    /// Cancelling it ends what was handed it, not the term.
    pub fn cancellation(&self) -> CancellationToken {
        self.1.child_token()
    }

    /// The same term for a task that may be told to stop while the term goes on.
    pub(crate) fn with_cancellation(&self, cancelled: CancellationToken) -> Term {
        Term(Arc::clone(&self.0), cancelled)
    }

    /// Whether the term has ended; never true again once it was.
    pub fn has_ended(&self) -> bool {
        self.0.cancelled.is_cancelled() || self.remaining().is_zero()
    }

    /// How long the last heartbeat still protects whoever works under the term.
    ///
    /// It goes on counting down after the term was cancelled: that is the time left to stop.
    /// Another instance may hold the lock once it is zero.
    pub fn remaining(&self) -> Duration {
        moment(self.0.valid_until.load(Ordering::Acquire)).since(self.0.clock.now())
    }

    /// Why the term ended, once it has been announced.
    pub fn loss(&self) -> Option<&Loss> {
        self.0.loss.get()
    }

    /// What makes a write in the same database conditional on this term.
    pub fn fence(&self) -> Fence {
        Fence::new(&self.0.table, &self.0.lock, self.0.token, self.0.writer.as_str())
            .of_term(self.clone())
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.0.writer
    }
}

/// Why a term ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Loss {
    /// Its holder let go: cancelled, resigned, or dropped.
    Released,
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
            EndReason::Released => Loss::Released,
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

/// How an instance fares, for a readiness probe.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Health {
    /// What the instance is.
    pub role: Role,
    /// What has gone wrong since the last answer from Spanner, if something has.
    pub trouble: Option<Trouble>,
}

/// What an instance is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Role {
    /// Neither `run` nor anything else that starts the loop was called yet.
    Idle,
    /// Nobody in this process wants the lock at present; [`acquire`](crate::Spindle::acquire) will.
    Rests,
    /// It wants the lock and doesn't hold it.
    StandsBy,
    /// It holds the lock, under this token.
    Holds(FencingToken),
    /// Its loop has ended.
    Ended,
}

/// An instance is out of contact with its lock.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Trouble {
    /// For how long nothing has succeeded.
    pub lasting: Duration,
    /// What went wrong last.
    pub error: Error,
}

impl Health {
    /// Whether the instance does its duty: it runs, and nothing stands in its way.
    pub fn is_ok(&self) -> bool {
        matches!(self.role, Role::Rests | Role::StandsBy | Role::Holds(_)) && self.trouble.is_none()
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
    progress: Mutex<Progress>,
}

#[derive(Debug, Default)]
struct Progress {
    ran: bool,
    rests: bool,
    ended: bool,
    trouble: Option<(Moment, Error)>,
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
            progress: Mutex::default(),
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
        let term = Term(Arc::new(state), cancelled);
        // Whoever reads this token must also see that the last term's validity is over.
        fence(Ordering::Release);
        self.token.store(token.as_nanoseconds(), Ordering::Relaxed);
        self.valid_until.store(nanoseconds(valid_until), Ordering::Release);
        self.term.send_replace(Some(term));
    }

    pub(crate) fn extended(&self, valid_until: Moment) {
        if let Some(term) = &*self.term.borrow() {
            term.0.valid_until.store(nanoseconds(valid_until), Ordering::Release);
        }
        self.valid_until.store(nanoseconds(valid_until), Ordering::Release);
    }

    /// Says that the term is over: first the truth, then the cancellation, then the news (I7).
    pub(crate) fn ended(&self, loss: Loss) {
        self.valid_until.store(0, Ordering::Release);
        let Some(term) = self.term() else { return };
        // The first reason stands; a term ends once.
        let _ = term.0.loss.set(loss);
        term.0.cancelled.cancel();
        self.term.send_replace(None);
    }

    pub(crate) fn ran(&self) {
        self.progress().ran = true;
    }

    pub(crate) fn rests(&self, rests: bool) {
        self.progress().rests = rests;
    }

    /// The loop is gone, whatever the reason; no reader may believe in a term after it.
    pub(crate) fn loop_ended(&self) {
        self.ended(Loss::Abandoned);
        self.progress().ended = true;
    }

    pub(crate) fn in_contact(&self) {
        self.progress().trouble = None;
    }

    pub(crate) fn out_of_contact(&self, error: &Error) {
        let now = self.clock.now();
        let mut progress = self.progress();
        let since = progress.trouble.as_ref().map_or(now, |(since, _)| *since);
        progress.trouble = Some((since, error.clone()));
    }

    pub(crate) fn health(&self) -> Health {
        let held = self.has_lock();
        let progress = self.progress();
        let role = match held {
            _ if progress.ended => Role::Ended,
            _ if !progress.ran => Role::Idle,
            Some(token) => Role::Holds(token),
            None if progress.rests => Role::Rests,
            None => Role::StandsBy,
        };
        let trouble = progress.trouble.as_ref().map(|(since, error)| Trouble {
            lasting: self.clock.now().since(*since),
            error: error.clone(),
        });
        Health { role, trouble }
    }

    fn progress(&self) -> std::sync::MutexGuard<'_, Progress> {
        // Every write is one assignment, so a panic elsewhere leaves nothing half done.
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
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
