//! One shard in one member: taken, worked under its term, given up.

use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use spindle_protocol::fleet::{CountNamed, Part};
use spindle_protocol::{Succession, Timestamp};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use spindle::task::{self, Ended, Orders, TaskError, Why, say};
use spindle::{Error, FencingToken, Guard, LockBuilder, Result, Spindle, Term};

use crate::count_row::CountRow;
use crate::shards_view::{ShardEvent, ShardsView};

/// A shard that this member has, given to its task. Cheap to clone.
///
/// It is held like any lock. It derefs to its [`Term`], which has the token, the fence and the
/// cancellation. The token is later than that of the shard's previous holder. A write that must not
/// come late has to carry the [`fence`](Term::fence).
///
/// A function that takes a [`Term`] gets `Term::clone(&shard)`.
///
/// [`cancelled`](Term::cancelled) resolves when the task is to stop: the shard goes to another
/// member, this member leaves, or the term was lost.
#[derive(Clone, Debug)]
pub struct Shard {
    number: usize,
    count: usize,
    term: Term,
}

impl Shard {
    /// Returns the number of the shard, from 0.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Returns the number of all shards.
    pub fn count(&self) -> usize {
        self.count
    }
}

impl Deref for Shard {
    type Target = Term;

    /// Returns the term under which this member has the shard.
    fn deref(&self) -> &Term {
        &self.term
    }
}

/// One shard's work in this member, as the member sees it.
#[derive(Clone, Debug)]
pub(crate) struct TaskHandle {
    number: usize,
    view: Arc<ShardsView>,
    /// Set once the shard was won.
    has_it: Arc<AtomicBool>,
    /// Fired to have the shard given up.
    leave: CancellationToken,
    /// The state that its release leaves then.
    next: Arc<Mutex<Succession>>,
}

impl TaskHandle {
    pub(crate) fn new(number: usize, view: &Arc<ShardsView>) -> TaskHandle {
        TaskHandle {
            number,
            view: Arc::clone(view),
            has_it: Arc::default(),
            leave: CancellationToken::new(),
            next: Arc::default(),
        }
    }

    pub(crate) fn part(&self) -> Part {
        if self.leave.is_cancelled() {
            Part::Leaving
        } else if self.has_it.load(Ordering::Acquire) {
            Part::Working
        } else {
            Part::Taking
        }
    }

    pub(crate) fn is_leaving(&self) -> bool {
        self.leave.is_cancelled()
    }

    /// Has the task stopped, and the shard released then.
    pub(crate) fn leave(&self, next: Succession) {
        if self.part() == Part::Working {
            let to = next.writer().successor_id().map(str::to_string);
            self.view.tell(ShardEvent::GivingUp { shard: self.number, to });
        }
        *self.next.lock().unwrap_or_else(PoisonError::into_inner) = next;
        self.leave.cancel();
    }

    fn next(&self) -> Succession {
        self.next.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The view shows the shard as this member's while this lives. It tells of a loss if this is dropped,
/// as it is if the runtime ends.
struct Gained {
    number: usize,
    view: Arc<ShardsView>,
    is_given_up: bool,
}

impl Gained {
    fn new(number: usize, view: &Arc<ShardsView>, token: FencingToken) -> Gained {
        view.tell(ShardEvent::Gained { shard: number, token });
        Gained { number, view: Arc::clone(view), is_given_up: false }
    }

    fn given_up(mut self) {
        self.is_given_up = true;
    }
}

impl Drop for Gained {
    fn drop(&mut self) {
        let shard = self.number;
        self.view.tell(match self.is_given_up {
            true => ShardEvent::GivenUp { shard },
            false => ShardEvent::Lost { shard },
        });
    }
}

/// The result of a shard's task.
pub(crate) type Outcome = Result<(), TaskError>;

/// How a shard's work in this member ended.
#[derive(Debug)]
pub(crate) enum Finished {
    /// It was given up as it was told, or lost, or never won.
    Gone,
    /// The attempt to take it failed: nobody knows if this member may have it.
    Unanswered,
    /// The task ended by itself; it had run for so long.
    Failed(Duration),
    /// The task could not be stopped, and still runs.
    Unstoppable(Error),
}

/// The work on one shard, from the attempt to take it to its release.
pub(crate) struct Worker {
    pub(crate) number: usize,
    /// The token of the row of the count by which the shard is taken.
    pub(crate) taken_by: Timestamp,
    pub(crate) count_row: Arc<CountRow>,
    pub(crate) lock: LockBuilder,
    pub(crate) handle: TaskHandle,
    /// The member's own cancellation.
    pub(crate) cancel: CancellationToken,
    /// Fired when the member leaves.
    pub(crate) over: CancellationToken,
    /// Fired when nobody waits for the member any more.
    pub(crate) dropped: CancellationToken,
}

impl Worker {
    /// Takes the shard if it is free, and works it for as long as this member has it.
    pub(crate) async fn work<F, Fut>(self, work: Arc<F>) -> Finished
    where
        F: Fn(Shard) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        let lock = match self.lock.clone().build() {
            Ok(lock) => lock,
            Err(error) => return self.unanswered(&error),
        };
        // Dropping the attempt releases what it may have won.
        let taken = tokio::select! {
            biased;
            () = self.handle.leave.cancelled() => return ends(lock).await,
            () = self.dropped.cancelled() => return Finished::Gone,
            taken = self.take(&lock) => taken,
        };
        let (guard, count) = match taken {
            Ok(Some(taken)) => taken,
            // Another was faster.
            Ok(None) => return Finished::Gone,
            Err(error) => return self.unanswered(&error),
        };
        self.handle.has_it.store(true, Ordering::Release);
        let number = self.number;
        let gained = Gained::new(number, &self.handle.view, guard.token());
        let orders = Orders {
            resign: self.handle.leave.clone(),
            dropped: self.dropped.clone(),
            ..Orders::default()
        };
        // A panic before there is a future must not take the worker along.
        let work = move |term| async move { work(Shard { number, count, term }).await };
        let began = Instant::now();
        let ended = task::run(&guard, &orders, work).await;
        let is_lost = match &ended {
            Ended::Returned(Err(error)) => guard.is_ended_by(&**error),
            ended => matches!(ended, Ended::Stopped(Why::Lost, _) | Ended::Unstoppable(..)),
        };
        // A loss is told at once, what is given up once it is released.
        let gained = (!is_lost).then_some(gained);
        let finished = self.end(guard, &lock, ended, began.elapsed()).await;
        if let Some(gained) = gained {
            gained.given_up();
        }
        finished
    }

    fn unanswered(&self, error: &Error) -> Finished {
        let shard = self.number;
        say(|| tracing::debug!(shard, %error, "a shard could not be taken"));
        Finished::Unanswered
    }

    /// Returns the count of the shards besides, if this member has the shard now.
    async fn take(&self, lock: &Spindle) -> Result<Option<(Guard, usize)>> {
        let Some(guard) = lock.try_acquire().await? else { return Ok(None) };
        // The poll that led here may be from before a move. Who has read that all shards are vacant,
        // after the move, relies on it that no attempt from before still comes to run one.
        let named = self.count_row.read_anew().await;
        // The answer may have taken longer than the lease.
        if !guard.is_cancelled()
            && let Ok(row) = &named
            && let Some(count) = CountNamed::runs(row.as_ref(), self.taken_by)
        {
            return Ok(Some((guard, count.shards)));
        }
        guard.release().await;
        named.map(|_| None)
    }

    /// Ends the term.
    async fn end(
        &self,
        guard: Guard,
        lock: &Spindle,
        ended: Ended<Outcome>,
        ran: Duration,
    ) -> Finished {
        let (name, id, token) = (lock.name(), lock.id(), guard.token());
        match ended {
            Ended::Stopped(Why::Lost, _) => Finished::Gone,
            Ended::Stopped(_, returned) => {
                task::say_dropped(&guard, returned);
                self.give_up(guard, lock).await
            }
            // It watches the member's own cancellation, of which it is told here a little later.
            Ended::Returned(returned) if self.cancel.is_cancelled() => {
                task::say_dropped(&guard, Some(returned));
                self.handle.leave.cancelled().await;
                self.give_up(guard, lock).await
            }
            Ended::Returned(Err(source)) => failed(guard, source, ran).await,
            Ended::Returned(Ok(())) => {
                say(|| tracing::info!(lock = name, id, %token, ?ran, "a shard's task returned"));
                guard.release().await;
                Finished::Failed(ran)
            }
            Ended::Panicked(message) => {
                say(
                    || tracing::error!(lock = name, id, %token, message, "a shard's task panicked"),
                );
                guard.release().await;
                Finished::Failed(ran)
            }
            Ended::Unstoppable(_, running) => {
                guard.lapse().await;
                // The next task of this shard here starts after this one.
                tokio::select! {
                    biased;
                    _ = running => return Finished::Failed(ran),
                    () = self.over.cancelled() => {}
                }
                Finished::Unstoppable(Error::unstoppable(name))
            }
        }
    }

    /// Releases the shard for whom it was told to.
    async fn give_up(&self, guard: Guard, lock: &Spindle) -> Finished {
        let (next, token) = (self.handle.next(), guard.token());
        let to = next.writer();
        let (lock, id, to) = (lock.name(), lock.id(), to.successor_id());
        say(|| tracing::info!(lock, id, %token, to, "gives a shard up"));
        guard.release_to(next).await;
        Finished::Gone
    }
}

/// Waits until an attempt that was given up is resolved, and what it won released: the member's process
/// may end next.
async fn ends(lock: Spindle) -> Finished {
    let mut terms = lock.watch();
    drop(lock);
    while terms.next().await.is_some() {}
    Finished::Gone
}

/// Gives the shard to others after an error of its task.
async fn failed(guard: Guard, source: TaskError, ran: Duration) -> Finished {
    let (lock, token) = (guard.lock().to_string(), guard.token());
    let id = guard.instance().id().to_string();
    let Some(error) = task::released_after_error(guard, source).await else {
        return Finished::Gone;
    };
    say(|| tracing::warn!(lock, id, %token, ?ran, %error, "a shard's task failed"));
    Finished::Failed(ran)
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {}", self.number, self.count)
    }
}
