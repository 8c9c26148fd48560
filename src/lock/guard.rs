//! Holding the lock for the life of a value.

use std::ops::Deref;

use spindle_protocol::line::Standing;
use spindle_protocol::{Moment, Succession};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::call::Acquire;
use super::handle::Spindle;
use super::nesting::{self, Taken, TakenGuard};
use crate::error::{Error, ReleaseOutcome, Result, TermEnd};
use crate::names::subject;
use crate::runloop::{End, Grant, NotGranted, Released, WaitMode};
use crate::term::{Term, say};

/// The lock, held. It is renewed in the background until this is released or dropped.
///
/// A guard derefs to its [`Term`], which has the token, the fence and the cancellation. A guard is
/// not the lock itself: the term can be lost while the guard is there. Then
/// [`cancelled`](Term::cancelled) resolves, before the lease has run out. An effect that must not
/// happen late has to carry the token: see [`Term::fence`].
///
/// **Dropping** it stops the renewal at once. The instance's loop then sends the release at the
/// next chance, and nobody hears how it went. So the lock is free soon after a drop, not by then.
/// If the process or its runtime ends first, the lock is free only when the lease has run out. Use
/// [`release`](Guard::release) where that matters. A leaked guard is held for ever. Rust drops what is
/// bound to `_` at once: write `let _guard = …`, not `let _ = …`.
///
/// A guard keeps the instance's loop alive, like any other handle.
///
/// ```no_run
/// # async fn step() -> [google_cloud_spanner::mutation::Mutation; 0] { [] }
/// # async fn migrate(lock: spindle::Spindle, client: google_cloud_spanner::client::DatabaseClient)
/// # -> spindle::Result<()> {
/// let guard = lock.acquire().await?;
/// for _ in 0..100 {
///     let writes = tokio::select! {
///         () = guard.cancelled() => break,
///         writes = step() => writes,
///     };
///     guard.fence().write(&client, writes).await?;
/// }
/// guard.release().await;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "dropping a guard releases the lock"]
pub struct Guard {
    term: Term,
    end: Option<(oneshot::Sender<End>, TakenGuard)>,
    lock: Spindle,
}

impl Spindle {
    /// Waits until this instance holds the lock, however long that takes.
    ///
    /// The first call starts the instance's loop, on the runtime that it is called on. The loop
    /// contends while somebody waits or holds and rests otherwise. So a process in which many wait
    /// polls no more than one in which one waits. They get the lock one after the other in the
    /// order of their calls. Between two of them the lock goes to the process that has waited longest,
    /// if others wait at all: a process that acquires again at once after a release waits in its turn. A
    /// process that has begun to wait and is gone may cost the others two poll intervals, once.
    ///
    /// A caller that has the lock is no exception: one that waits for a second guard, while it has
    /// the first, waits for itself. Pass the guard on instead. A task of [`lead`](Spindle::lead) that
    /// asks for the lock that it leads under is refused at once. Elsewhere nothing tells such a call
    /// from that of another future of the same task, which awaits its turn. So a call by the task
    /// that took the guard is logged at WARN at once, each minute at most. The text of the
    /// error of a limit, [`Acquire::within`], says that this very instance has the lock.
    ///
    /// ```no_run
    /// # async fn tick() {}
    /// # async fn bill(fence: spindle::Fence) -> spindle::Result<()> { Ok(()) }
    /// # async fn service(table: spindle::LockTable) -> spindle::Result<()> {
    /// let lock = table.lock("billing").build()?;
    /// loop {
    ///     let guard = lock.acquire().await?;
    ///     loop {
    ///         tokio::select! {
    ///             () = guard.cancelled() => break,
    ///             () = tick() => {}
    ///         }
    ///         match bill(guard.fence()).await {
    ///             Err(error) if error.is_fenced() => break, // the term is over
    ///             billed => billed?,
    ///         }
    ///     }
    /// } // a guard that is dropped is released, if it still holds
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// At once [`is_config`](Error::is_config) if the settings can't work, or if
    /// [`run`](Spindle::run) was called on this instance: then the loop holds by itself. So, too, if
    /// there is no tokio runtime for the loop to run on, or if a task of [`lead`](Spindle::lead)
    /// asks for the lock that it leads under. Later only what a change of the set-up alone can mend:
    /// [`is_schema`](Error::is_schema) and `is_config`. Outages, refused permissions and missing credentials are waited out, because they may pass;
    /// [`health`](Spindle::health) shows them meanwhile, and
    /// a wait with a limit ends with the last of them.
    ///
    /// # Cancellation safety
    ///
    /// Dropping the future withdraws from the queue. If the lock was just won for it, it is
    /// released, as by dropping a guard.
    pub fn acquire(&self) -> Acquire<Guard> {
        let (lock, waits) = (self.clone(), self.clone());
        let waiting = async move {
            waits.check_nesting()?;
            waits.acquire_in_turn(WaitMode::Waits, None).await
        };
        let trouble =
            move || lock.published().health_record().last_cause().or_else(|| lock.held_here());
        Acquire::new(self.name(), "try_acquire", waiting, trouble)
    }

    /// Refuses a caller of `call` that is part of the task of `lead`, whose end this instance waits for.
    pub(super) fn refuse_under_lead(&self, call: &str) -> Result<()> {
        if !nesting::is_under(&self.shared().taken) {
            return Ok(());
        }
        let why = format!(
            "`{call}` inside of the task of `lead` asks for what that task has, or had until its term ended"
        );
        let cure = "use the term that the task was given, and return once it is over";
        Err(Error::config(format!("{}: {why}; {cure}", subject(self.name()))))
    }

    /// Refuses a caller that would wait for its own end, and warns one that may.
    fn check_nesting(&self) -> Result<()> {
        self.refuse_under_lead("acquire")?;
        let (Some(term), Ok(settings)) = (self.term(), self.settings()) else { return Ok(()) };
        let (lock, id, token) = (&*settings.name, &*settings.id, term.token());
        if self.shared().taken.is_to_warn(token, settings.clock.now()) {
            say(|| {
                tracing::warn!(
                    lock,
                    id,
                    %token,
                    "this task waits for a guard that it took itself: drop that guard first, or pass \
                     it on; where another future of the task has it by now, ignore this"
                );
            });
        }
        Ok(())
    }

    /// Returns what stands in the way of a caller while another one of this instance has the lock.
    fn held_here(&self) -> Option<Error> {
        let token = self.has_lock()?;
        let cure = "release or drop that guard first, or pass it on";
        Some(Error::config(format!("a guard of this very instance has it, token {token}; {cure}")))
    }

    /// Polls once, and takes the lock if it is vacant: never held, released, or expired, however
    /// recently. Returns nothing if it is not; [`known_leader`](Spindle::known_leader) then says
    /// who holds it. [`inspect`](crate::LockTable::inspect) says what else stands in the way, such as
    /// a promise to a successor.
    ///
    /// It starts the loop as [`acquire`](Spindle::acquire) does, and overtakes those who wait in
    /// this process only if the lock is vacant right now.
    ///
    /// # Errors
    ///
    /// As `acquire`, and whatever kept it from polling, or from taking the vacant lock.
    ///
    /// # Cancellation safety
    ///
    /// As `acquire`.
    pub async fn try_acquire(&self) -> Result<Option<Guard>> {
        let settings = self.settings()?;
        if matches!(settings.standing, Standing::Ranked { .. }) {
            let lock = &settings.name;
            let rule = "`try_acquire` polls once, so that it can't wait for a turn";
            return Err(Error::config(format!(
                "lock `{lock}` by rank: {rule}; `acquire().within(limit)` can"
            )));
        }
        let until = settings.clock.now() + settings.timing.lease;
        match self.try_until(until).await {
            Ok(guard) => Ok(Some(guard)),
            Err(NotGranted::Occupied) => Ok(None),
            Err(NotGranted::Failed(error)) => Err(error),
        }
    }

    /// Polls, and after a lost race polls again, but not after `until`.
    pub(crate) async fn try_until(&self, until: Moment) -> Result<Guard, NotGranted> {
        let asked = self.settings()?.clock.now();
        let grant = self.ask(WaitMode::Tries { asked, until }, None).await?;
        Ok(Guard::new(self.clone(), grant))
    }

    /// `resign` fires when the instance is told to resign; then the guard is to be released.
    pub(crate) async fn acquire_in_turn(
        &self,
        mode: WaitMode,
        resign: Option<CancellationToken>,
    ) -> Result<Guard> {
        loop {
            match self.ask(mode, resign.clone()).await {
                Ok(grant) => return Ok(Guard::new(self.clone(), grant)),
                Err(NotGranted::Failed(error)) => return Err(error),
                // A caller that waits is not told that the lock is occupied.
                Err(NotGranted::Occupied) => {}
            }
        }
    }
}

impl Guard {
    pub(crate) fn new(lock: Spindle, grant: Grant) -> Guard {
        let taken = Taken::take(&lock.shared().taken, grant.term.token());
        Guard { term: grant.term, end: Some((grant.end, taken)), lock }
    }

    /// Releases the lock and says what came of it, within the [release
    /// limit](crate::LockBuilder::release_limit).
    ///
    /// [`has_lock`](Spindle::has_lock) is empty before the release is sent.
    ///
    /// # Cancellation safety
    ///
    /// Once polled, the release goes on whether or not the future is dropped.
    pub async fn release(self) -> ReleaseOutcome {
        self.release_to(Succession::Anyone).await
    }

    /// Releases it for this successor, as [`release`](Guard::release) does.
    ///
    /// # Cancellation safety
    ///
    /// As `release`.
    pub async fn release_to(self, next: Succession) -> ReleaseOutcome {
        self.released(next).await.outcome
    }

    /// As [`release_to`](Guard::release_to).
    pub(super) async fn released(mut self, next: Succession) -> Released {
        // No loop runs in a child by `fork` that would answer.
        if self.term.check_process().is_err() {
            let held_for = self.term.remaining();
            return Released::not_acknowledged(ReleaseOutcome::Unacknowledged { held_for });
        }
        let (done, released) = oneshot::channel();
        // A message that could not be sent comes back, and must not be kept: it has the sender of
        // the answer.
        let end = self.end.take();
        let told = end.is_some_and(|(end, _)| end.send(End::Release { next, done }).is_ok());
        if told && let Ok(release) = released.await {
            return release;
        }
        let end = self.term.ended().cloned().unwrap_or(TermEnd::Abandoned);
        Released::not_acknowledged(ReleaseOutcome::EndedBefore(end))
    }

    /// Ends the term without a release: others get the lock once the lease has run out, as after a
    /// crash.
    ///
    /// For work that can't be stopped, or of which nobody knows whether it still goes on.
    ///
    /// # Cancellation safety
    ///
    /// Once polled, the term ends whether or not the future is dropped.
    pub async fn lapse(mut self) {
        // No loop runs in a child by `fork` that would end it.
        if self.term.check_process().is_err() {
            return;
        }
        if let Some((end, _)) = self.end.take() {
            // If nobody hears it, the term is over already.
            let _ = end.send(End::Lapse);
        }
        self.term.cancelled().await;
    }

    /// Returns the instance that holds.
    pub fn instance(&self) -> &Spindle {
        &self.lock
    }
}

impl Deref for Guard {
    type Target = Term;

    /// Returns the term that is held.
    fn deref(&self) -> &Term {
        &self.term
    }
}
