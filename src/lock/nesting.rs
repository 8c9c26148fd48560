//! Callers who wait for themselves: they ask for the lock inside of what has it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use spindle_protocol::Moment;
use tokio::task;
use tokio::task::futures::TaskLocalFuture;

use crate::token::FencingToken;

/// A task that holds many guards in turn is warned no more often than this.
const WARNED_FOR: Duration = Duration::from_secs(60);

tokio::task_local! {
    /// The instance that waits for the end of this task.
    static UNDER: Arc<Taken>;
}

/// Returns the task under a term of this instance, as one that knows it.
pub(super) fn under<F: Future>(instance: &Arc<Taken>, task: F) -> TaskLocalFuture<Arc<Taken>, F> {
    UNDER.scope(Arc::clone(instance), task)
}

/// Returns true if the caller is part of the task whose end this instance waits for, be its term over or not.
pub(super) fn is_under(instance: &Arc<Taken>) -> bool {
    UNDER.try_with(|own| Arc::ptr_eq(own, instance)).unwrap_or(false)
}

/// The caller who has taken the lock of an instance by a guard, while that is there.
#[derive(Debug, Default)]
pub(super) struct Taken(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    by: Option<(FencingToken, Caller)>,
    warned: Option<Moment>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Caller {
    Task(task::Id),
    /// A runtime or another executor blocks a thread on a future, which is no task.
    Thread(ThreadId),
}

/// A guard that is there, until this is dropped.
#[derive(Debug)]
pub(super) struct TakenGuard {
    taken: Arc<Taken>,
    token: FencingToken,
}

impl Taken {
    /// Notes that this caller has taken the lock.
    pub(super) fn take(taken: &Arc<Taken>, token: FencingToken) -> TakenGuard {
        taken.state().by = Some((token, Caller::current()));
        TakenGuard { taken: Arc::clone(taken), token }
    }

    /// Returns true if this caller is to be warned: it has taken the lock itself.
    pub(super) fn is_to_warn(&self, held: FencingToken, now: Moment) -> bool {
        let mut state = self.state();
        let is_recent = state.warned.is_some_and(|warned| now.since(warned) < WARNED_FOR);
        let warns = state.by == Some((held, Caller::current())) && !is_recent;
        if warns {
            state.warned = Some(now);
        }
        warns
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for TakenGuard {
    fn drop(&mut self) {
        let mut state = self.taken.state();
        // After a loss another caller may have the next term.
        state.by.take_if(|(token, _)| *token == self.token);
    }
}

impl Caller {
    fn current() -> Caller {
        task::try_id().map_or_else(|| Caller::Thread(thread::current().id()), Caller::Task)
    }
}
