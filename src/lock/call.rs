//! Calls whose choices are made before they are awaited: a wait, a `lead`, a resignation.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use spindle_protocol::LEASE_MAX;
use tokio::time::timeout;

use super::lead_options::LeadOptions;
use crate::error::{Error, Kind, Result};
use crate::names::{check_id, subject};
use crate::settings::check_limit;
use crate::system::runtime;

/// The longest wait that is accepted.
const WAIT_MAX: Duration = Duration::from_secs(366 * 24 * 60 * 60);

type Running<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;
type Begin<C, T> = Box<dyn FnOnce(C) -> Running<T> + Send>;

/// A future that begins with its first poll, by the choices that were made until then.
struct Call<C, T> {
    choices: C,
    begin: Option<Begin<C, T>>,
    running: Option<Running<T>>,
}

impl<C: Default, T> Call<C, T> {
    fn new<Fut>(begin: impl FnOnce(C) -> Fut + Send + 'static) -> Call<C, T>
    where
        Fut: Future<Output = Result<T>> + Send + 'static,
    {
        let begin: Begin<C, T> = Box::new(|choices| Box::pin(begin(choices)));
        Call { choices: C::default(), begin: Some(begin), running: None }
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Result<T>> {
        if let Some(begin) = self.begin.take() {
            self.running = Some(begin(std::mem::take(&mut self.choices)));
        }
        self.running.as_mut().map_or(Poll::Pending, |running| running.as_mut().poll(context))
    }
}

impl<C: fmt::Debug, T> Call<C, T> {
    fn debug(&self, name: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(name).field("choices", &self.choices).finish_non_exhaustive()
    }
}

/// Waits for the row of this key, no longer than `limit` if there is one. The call `without` doesn't wait, and `trouble`
/// is what stood in the way last.
async fn within<T>(
    limit: Option<Duration>,
    key: &str,
    without: &str,
    waiting: impl Future<Output = Result<T>>,
    trouble: impl FnOnce() -> Option<Error>,
) -> Result<T> {
    let Some(limit) = limit else { return waiting.await };
    if limit.is_zero() || limit > WAIT_MAX {
        let rule = format!("more than zero (`{without}` doesn't wait) and at most a year");
        return Err(Error::config(format!("{}: wait of {limit:?}; {rule}", subject(key))));
    }
    runtime(&subject(key))?;
    timeout(limit, waiting).await.unwrap_or_else(|_| {
        let (subject, trouble) = (subject(key), trouble());
        Err(Error::new(Kind::NotAcquired { subject, limit, trouble }))
    })
}

/// A wait for a lock, a permit, or a turn to read or to write. Await it: it begins with that.
///
/// ```no_run
/// # async fn migrate(lock: spindle::Spindle) -> spindle::Result<()> {
/// use std::time::Duration;
///
/// let guard = lock.acquire().within(Duration::from_secs(30)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is waited for until it is awaited"]
pub struct Acquire<G>(Call<Option<Duration>, G>);

impl<G> Acquire<G> {
    /// Returns a wait for the row of this key, for crates that build on locks. The call `without` doesn't
    /// wait, as a refused limit says, and `trouble` is what stood in the way last.
    pub fn new(
        key: impl Into<String>,
        without: &'static str,
        waiting: impl Future<Output = Result<G>> + Send + 'static,
        trouble: impl FnOnce() -> Option<Error> + Send + 'static,
    ) -> Acquire<G> {
        let key = key.into();
        let begin = move |limit: Option<Duration>| async move {
            within(limit, &key, without, waiting, trouble).await
        };
        Acquire(Call::new(begin))
    }

    /// Waits no longer than `limit`. When that is over, the error
    /// [`is_not_acquired`](crate::Error::is_not_acquired), and has what stood in the way last, if
    /// something did: a refusal by Spanner, or a guard of this very instance. A `limit` of zero or of
    /// more than a year is refused.
    pub fn within(mut self, limit: Duration) -> Acquire<G> {
        self.0.choices = Some(limit);
        self
    }
}

/// A task that is to be run while an instance leads, made by [`Spindle::lead`](crate::Spindle::lead).
/// Await it: it begins with that.
///
/// ```no_run
/// # async fn import(fence: spindle::Fence) -> Result<(), std::io::Error> { Ok(()) }
/// # async fn service(lock: spindle::Spindle) -> spindle::Result<()> {
/// use std::time::Duration;
/// use spindle::{CancellationToken, Term};
///
/// let shutdown = CancellationToken::new();
/// let task = |term: Term| async move {
///     while !term.is_cancelled() {
///         import(term.fence()).await?;
///         term.progress();
///     }
///     Ok::<(), std::io::Error>(())
/// };
/// lock.lead(shutdown, task).watchdog(Duration::from_secs(300)).await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "nothing is led until it is awaited"]
pub struct Lead<T>(Call<LeadOptions, Option<T>>);

impl<T> Lead<T> {
    pub(super) fn new<Fut>(begin: impl FnOnce(LeadOptions) -> Fut + Send + 'static) -> Lead<T>
    where
        Fut: Future<Output = Result<Option<T>>> + Send + 'static,
    {
        Lead(Call::new(begin))
    }

    /// Sets the pauses between an error of the task and the next attempt to lead: 1 s to 60 s by
    /// default.
    ///
    /// The pause begins with `first` and doubles with each failure, up to `longest`, less a random
    /// part of up to a quarter. A task that has run for `longest` makes it begin anew. Meanwhile
    /// others may take the lock. From more than zero to a day; `first` no more than `longest`.
    pub fn pauses(mut self, first: Duration, longest: Duration) -> Lead<T> {
        self.0.choices.pause_first = first;
        self.0.choices.pause_longest = longest;
        self
    }

    /// Ends with the task's first error instead of contending again: that is returned, with
    /// [`is_task_failure`](crate::Error::is_task_failure).
    ///
    /// An error that says that the term was lost still ends nothing.
    pub fn end_on_error(mut self) -> Lead<T> {
        self.0.choices.ends_on_error = true;
        self
    }

    /// Stops a task that has not called [`progress`](crate::Term::progress) for `limit`, which
    /// counts from its start.
    ///
    /// As after a cancellation, its term is cancelled and it has the stop limit to end, then it is
    /// aborted. The instance releases the lock, pauses as after an error, and contends again.
    ///
    /// From more than zero to a day; by default no watchdog. The time that the machine is
    /// suspended doesn't count.
    pub fn watchdog(mut self, limit: Duration) -> Lead<T> {
        self.0.choices.watchdog = Some(limit);
        self
    }
}

/// A resignation, made by [`Spindle::resign`](crate::Spindle::resign). Await it: it begins with that.
#[must_use = "nobody resigns until it is awaited"]
pub struct Resign(Call<NamedSuccessor, bool>);

/// The instance that is to have the lock next.
#[derive(Clone, Debug, Default)]
pub(super) struct NamedSuccessor {
    pub(super) id: Option<String>,
    /// For how long, if that isn't a lease.
    pub(super) grace: Option<Duration>,
}

impl NamedSuccessor {
    /// Returns what was chosen, or the rule that it breaks.
    pub(super) fn checked(self) -> Result<NamedSuccessor, String> {
        if let Some(id) = &self.id {
            check_id(id)?;
        }
        match self.grace {
            Some(_) if self.id.is_none() => Err("a grace is for a successor; expected `to`".into()),
            Some(grace) => check_limit("grace", grace, LEASE_MAX).map(|()| self),
            None => Ok(self),
        }
    }
}

impl Resign {
    pub(super) fn new<Fut>(begin: impl FnOnce(NamedSuccessor) -> Fut + Send + 'static) -> Resign
    where
        Fut: Future<Output = Result<bool>> + Send + 'static,
    {
        Resign(Call::new(begin))
    }

    /// Resigns in favour of the instance `successor`: that one alone may take the lock within a lease
    /// from then on, after that anyone.
    ///
    /// If no such instance contends, the lock stays vacant for that lease. An id that no instance can
    /// have is refused, with [`is_config`](crate::Error::is_config).
    pub fn to(mut self, successor: impl Into<String>) -> Resign {
        self.0.choices.id = Some(successor.into());
        self
    }

    /// Sets for how long the [successor](Resign::to) alone may take the lock; a lease by default.
    ///
    /// From more than zero to a day. Anything else is refused, as a grace without a successor is, with
    /// [`is_config`](crate::Error::is_config).
    pub fn grace(mut self, grace: Duration) -> Resign {
        self.0.choices.grace = Some(grace);
        self
    }
}

impl<G> Future for Acquire<G> {
    type Output = Result<G>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<G>> {
        self.0.poll(context)
    }
}

impl<T> Future for Lead<T> {
    type Output = Result<Option<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Option<T>>> {
        self.0.poll(context)
    }
}

impl Future for Resign {
    type Output = Result<bool>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<bool>> {
        self.0.poll(context)
    }
}

impl<G> fmt::Debug for Acquire<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("Acquire", f)
    }
}

impl<T> fmt::Debug for Lead<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("Lead", f)
    }
}

impl fmt::Debug for Resign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.debug("Resign", f)
    }
}
