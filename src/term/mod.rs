//! A term: one holder's time with the lock, from one token to the next.

mod health;
mod health_record;
mod log;
mod origin;
mod published;
mod silence;
mod table_health;
mod validity;
mod warnings;
mod watch;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use spindle_protocol::{Moment, TermId, Writer};
use tokio::sync::Notify;
use tokio::time::Instant;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

use crate::error::{Error, Result, TermEnd};
use crate::system::Clock;
use crate::token::FencingToken;

pub use health::{Failing, Health, Role, Trouble};
pub(crate) use health_record::{AgentTrouble, Failure};
pub(crate) use log::{Log, Teller};
pub(crate) use origin::origin;
pub(crate) use published::Published;
pub(crate) use silence::{GivenClient, Silence};
pub(crate) use table_health::Instances;
pub use table_health::TableHealth;
pub(crate) use warnings::Warnings;
pub use warnings::say;
pub use watch::{TermChange, TermWatch};

/// One holder's unbroken time with the lock. Cheap to clone.
///
/// A term is *cancelled* first, then it *expires*. Work stops when the term is cancelled, and has
/// until [`remaining`](Term::remaining) is zero for that. So a loop asks
/// [`is_cancelled`](Term::is_cancelled), or waits for [`cancelled`](Term::cancelled) beside its
/// work.
///
/// A task of [`lead`](crate::Spindle::lead) or of a shard may be told to stop while the lock is
/// still held. Its last writes still commit then, and others wait until it has ended:
///
/// | the term | `cancelled`, `is_cancelled` | [`has_lock`](crate::Spindle::has_lock) | its fence | `remaining` | [`ended`](Term::ended) |
/// | --- | --- | --- | --- | --- | --- |
/// | goes on | pending, false | its token | writes | renewed | none |
/// | goes on, but its task is to stop: by `cancel`, `resign`, the watchdog, a shard that moves | fired, true | its token | writes | renewed | none |
/// | is lost: superseded, evicted, deleted, out of contact, let go | fired, true | nothing | refused at once | counts down | the reason |
/// | has run out by the clock, and is not announced yet | fires when the runtime runs, true | nothing | refused at once | zero | the reason, soon |
///
/// A fence that was serialized and read again asks Spanner each time, in every row of this table.
///
/// # After a fork
///
/// A term belongs to the process that acquired it. In a child by `fork` its fence fails. The child has a copy
/// of what the last heartbeat before the fork allowed. So `remaining` and `has_lock` count down there to
/// that deadline, and then the child's `has_lock` ends, though the parent may go on.
///
/// ```no_run
/// # async fn step(fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
/// use spindle::Term;
///
/// /// Goes on until the term is cancelled, one fenced step after the other.
/// async fn work(term: Term) -> spindle::Result<()> {
///     while !term.is_cancelled() {
///         step(term.fence()).await?;
///         term.progress();
///     }
///     Ok(()) // still held, if only this task was told to stop
/// }
/// ```
#[derive(Clone)]
pub struct Term {
    state: Arc<TermState>,
    cancelled: CancellationToken,
    progress: Progress,
}

struct TermState {
    lock: Arc<str>,
    table: Arc<str>,
    token: FencingToken,
    writer: Writer,
    life: Arc<Life>,
}

/// How long a term lasts, and why no longer.
struct Life {
    cancelled: CancellationToken,
    valid_until: AtomicU64,
    end: OnceLock<TermEnd>,
    /// Told of each heartbeat that succeeded.
    renewals: Notify,
    clock: Clock,
    /// The process that holds the lock under it: a child by `fork` has a copy, and no loop.
    process_id: u32,
}

/// For logs: which term it is, and how it ended.
impl fmt::Debug for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TermState { lock, token, writer, life, .. } = &*self.state;
        f.debug_struct("Term")
            .field("lock", lock)
            .field("token", token)
            .field("writer", &writer.as_str())
            .field("ended", &life.end.get())
            .finish_non_exhaustive()
    }
}

impl Term {
    /// Returns the fencing token, which every write that must not come late has to carry.
    pub fn token(&self) -> FencingToken {
        self.state.token
    }

    /// Returns the name of the lock.
    pub fn lock(&self) -> &str {
        &self.state.lock
    }

    /// Waits until work under the term is to stop. Cancellation safe.
    pub fn cancelled(&self) -> WaitForCancellationFuture<'_> {
        self.cancelled.cancelled()
    }

    /// Returns true if work under the term is to stop; stays true from then on.
    ///
    /// Unlike the token of [`cancellation`](Term::cancellation) it looks at the clock too. So it is
    /// right at once after a pause of any length.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.is_cancelled() || self.is_over()
    }

    /// Returns a token that is cancelled when work under the term is to stop, to hand to what runs
    /// under it.
    ///
    /// Cancelling it ends what was handed it, not the term.
    pub fn cancellation(&self) -> CancellationToken {
        self.cancelled.child_token()
    }

    /// Returns the same term for a task that may be told to stop while the term goes on: by `cancelled`, a
    /// child of its [`cancellation`](Term::cancellation), which tells of its loss, too.
    pub fn with_cancellation(&self, cancelled: CancellationToken) -> Term {
        Term { state: Arc::clone(&self.state), cancelled, progress: Progress::default() }
    }

    /// Reports that the task that was given this term goes on: what the
    /// [watchdog](crate::Lead::watchdog) waits for. Without a watchdog it does nothing.
    ///
    /// It costs a clock read; report each unit of work.
    pub fn progress(&self) {
        self.progress.report();
    }

    pub(crate) fn reported(&self) -> &Progress {
        &self.progress
    }

    /// Returns true if the lock is not held under this term any more; stays true from then on.
    pub(crate) fn is_over(&self) -> bool {
        self.state.life.cancelled.is_cancelled() || self.remaining().is_zero()
    }

    /// Returns how long the last heartbeat still protects whoever works under the term.
    ///
    /// It goes on counting down after the term was cancelled: that is the time left to stop.
    /// Another instance may hold the lock once it is zero.
    pub fn remaining(&self) -> Duration {
        moment(self.state.life.valid_until.load(Ordering::Acquire))
            .since(self.state.life.clock.now())
    }

    /// Waits until a heartbeat has succeeded after this call: then [`remaining`](Term::remaining)
    /// is longer again. A term that is over is renewed no more: wait beside it for
    /// [`cancelled`](Term::cancelled).
    ///
    /// ```no_run
    /// # fn tell(remaining: std::time::Duration) {}
    /// /// Tells somebody else how long the term lasts, as often as that changes.
    /// async fn follow(term: &spindle::Term) {
    ///     loop {
    ///         let renewed = term.renewed(); // before the look, so that none is missed
    ///         tell(term.remaining());
    ///         tokio::select! {
    ///             () = renewed => {}
    ///             () = term.cancelled() => return,
    ///         }
    ///     }
    /// }
    /// ```
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future changes nothing.
    pub fn renewed(&self) -> impl Future<Output = ()> + Send + '_ {
        self.state.life.renewals.notified()
    }

    /// Returns how the term ended, once that has been announced.
    pub fn ended(&self) -> Option<&TermEnd> {
        self.state.life.end.get()
    }

    /// Fails in a child by `fork` of the process that holds the lock under this term.
    pub(crate) fn check_process(&self) -> Result<()> {
        let (lock, token) = (self.lock(), self.token());
        check_process(self.state.life.process_id, || format!("lock `{lock}`: token {token}"))
    }

    /// Returns the name of the table that the lock is in.
    pub(crate) fn table(&self) -> &str {
        &self.state.table
    }

    /// Returns true if `error` or one of its causes says that this very term is over.
    ///
    /// [`is_fenced`](crate::is_fenced) says it of any term.
    pub fn is_ended_by(&self, error: &(dyn std::error::Error + 'static)) -> bool {
        Error::is_of_lost_term(error, self.lock(), self.token())
    }

    /// Returns what tells this term from all others in the rows of the table, for crates that read
    /// [rows](crate::rows).
    pub fn id(&self) -> TermId {
        TermId { token: self.token().to_timestamp(), writer: self.writer().clone() }
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.state.writer
    }
}

impl Term {
    fn begin(
        lock: Arc<str>,
        table: Arc<str>,
        token: FencingToken,
        writer: Writer,
        valid_until: Moment,
        clock: Clock,
    ) -> Term {
        let cancelled = CancellationToken::new();
        let life = Life {
            cancelled: cancelled.clone(),
            valid_until: AtomicU64::new(nanoseconds(valid_until)),
            end: OnceLock::new(),
            renewals: Notify::new(),
            clock,
            process_id: std::process::id(),
        };
        let state = TermState { lock, table, token, writer, life: life.into() };
        Term { state: Arc::new(state), cancelled, progress: Progress::default() }
    }

    fn extend(&self, valid_until: Moment) {
        self.state.life.valid_until.store(nanoseconds(valid_until), Ordering::Release);
        self.state.life.renewals.notify_waiters();
    }

    /// Says why it ended, and cancels what runs under it.
    fn end(&self, end: TermEnd) {
        // The first reason stands; a term ends once.
        let _ = self.state.life.end.set(end);
        self.state.life.cancelled.cancel();
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

/// Fails in another process than `process_id`, to which `subject` belongs. Where that is a parent, a
/// child by `fork` has a copy of its memory, and none of the threads that would answer.
pub(crate) fn check_process(process_id: u32, subject: impl FnOnce() -> String) -> Result<()> {
    let here = std::process::id();
    if here == process_id {
        return Ok(());
    }
    let (subject, cure) = (subject(), "build the lock anew after the fork, and acquire it there");
    Err(Error::config(format!(
        "{subject} belongs to process {process_id}, and process {here} is a fork of it; {cure}"
    )))
}

fn moment(nanoseconds: u64) -> Moment {
    Moment(Duration::from_nanos(nanoseconds))
}

fn nanoseconds(moment: Moment) -> u64 {
    // Zero stands for "no term".
    u64::try_from(moment.0.as_nanos()).unwrap_or(u64::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_belongs_to_another_process_is_refused_and_both_are_named() {
        let here = std::process::id();
        assert!(check_process(here, || unreachable!()).is_ok());
        let parent = here.wrapping_add(1);
        let refused = check_process(parent, || "lock `job`: token 7".into()).unwrap_err();
        assert!(refused.is_config() && !refused.is_fenced(), "{refused}");
        let told =
            format!("token 7 belongs to process {parent}, and process {here} is a fork of it");
        assert!(refused.to_string().contains(&told), "{refused}");
    }
}
