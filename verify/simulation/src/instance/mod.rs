//! A contender for one lock: it runs, is paused, dies and comes back.

mod life;

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use spindle::simulation::Member;
use spindle::{CancellationToken, FencingToken, Term};
use spindle_protocol::Succession;

use crate::machine::{Clocks, lock};
use crate::plan::MemberPlan;

/// A contender for one lock, and its machine.
#[derive(Debug)]
pub(crate) struct Instance {
    pub(crate) who: usize,
    pub(crate) lock: usize,
    pub(crate) lock_name: String,
    /// The process it is part of; those of one process live, sleep and die together.
    pub(crate) process: usize,
    /// The batcher of its process that sends for it; all of them share a budget.
    pub(crate) batcher: usize,
    pub(crate) plan: MemberPlan,
    pub(crate) clocks: Arc<Clocks>,
    pub(crate) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    life: Option<Life>,
    is_paused: bool,
    is_doomed: bool,
    waker: Option<Waker>,
    /// Of the process's batcher, while it is paused.
    batchers_waker: Option<Waker>,
    /// When it last came back from a pause, since the start.
    resumed: Option<Duration>,
    down_for: Duration,
}

#[derive(Clone, Debug)]
struct Life {
    member: Arc<Member>,
    cancel: CancellationToken,
}

impl State {
    fn wake(&mut self) {
        self.waker.take().into_iter().chain(self.batchers_waker.take()).for_each(Waker::wake);
    }
}

impl Instance {
    /// Stops it without its knowing; its clock goes on.
    pub(crate) fn pause(&self) {
        lock(&self.state).is_paused = true;
    }

    pub(crate) fn resume(&self, at: Duration) {
        let mut state = lock(&self.state);
        if std::mem::take(&mut state.is_paused) {
            state.resumed = Some(at);
        }
        state.wake();
    }

    /// Kills it; another life begins after `down_for`.
    pub(crate) fn crash(&self, down_for: Duration) {
        let mut state = lock(&self.state);
        if state.life.is_none() {
            return;
        }
        state.is_doomed = true;
        state.down_for = down_for;
        state.wake();
    }

    /// Asks it to end in order; another life begins after `down_for`.
    pub(crate) fn stop(&self, down_for: Duration) {
        let mut state = lock(&self.state);
        state.down_for = down_for;
        if let Some(life) = &state.life {
            life.cancel.cancel();
        }
    }

    pub(crate) fn resign(&self, next: Succession) {
        if let Some(member) = self.member() {
            member.resign(next);
        }
    }

    pub(crate) fn is_paused(&self) -> bool {
        lock(&self.state).is_paused
    }

    /// When it last came back from a pause; now, if it is paused.
    pub(crate) fn last_paused(&self, now: Duration) -> Option<Duration> {
        let state = lock(&self.state);
        if state.is_paused { Some(now) } else { state.resumed }
    }

    /// Returns what its owner would be told, also while it is paused.
    pub(crate) fn has_lock(&self) -> Option<FencingToken> {
        lock(&self.state).life.as_ref()?.member.has_lock()
    }

    pub(crate) fn term(&self) -> Option<Term> {
        self.member()?.term()
    }

    fn member(&self) -> Option<Arc<Member>> {
        lock(&self.state).life.as_ref().map(|life| Arc::clone(&life.member))
    }
}
