//! One slot of the fleet: a process that runs, is paused, dies and comes back.

mod life;

use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use spindle::simulation::Member;
use spindle::{CancellationToken, FencingToken, Term};
use spindle_protocol::{Succession, Timing};

use crate::format::Format;
use crate::machine::{Clocks, lock};
use crate::plan::MemberPlan;

/// A process and its machine.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) who: usize,
    pub(crate) lock: usize,
    pub(crate) lock_name: String,
    /// The process it is part of; those of one house live, sleep and die together.
    pub(crate) house: usize,
    /// The batcher of its house that sends for it; all of them share a budget.
    pub(crate) batcher: usize,
    /// How it writes rows and understands them.
    pub(crate) format: Format,
    pub(crate) plan: MemberPlan,
    pub(crate) clocks: Arc<Clocks>,
    state: Mutex<State>,
    /// By which its present life, or its last, goes.
    timing: Mutex<Timing>,
}

#[derive(Debug, Default)]
struct State {
    life: Option<Life>,
    is_paused: bool,
    is_doomed: bool,
    cut: Cut,
    waker: Option<Waker>,
    /// Of the house's batcher, while it is paused.
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

/// A cut between one process and the network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Cut {
    #[default]
    No,
    /// Nothing it sends arrives.
    Requests,
    /// It hears nothing back.
    Replies,
}

impl State {
    fn wake(&mut self) {
        self.waker.take().into_iter().chain(self.batchers_waker.take()).for_each(Waker::wake);
    }
}

impl Process {
    pub(crate) fn new(
        who: usize,
        (lock, lock_name): (usize, String),
        (house, batcher): (usize, usize),
        (clocks, format): (Arc<Clocks>, Format),
        plan: MemberPlan,
    ) -> Process {
        let timing = Mutex::new(plan.timing.clone());
        let state = Mutex::default();
        Process { who, lock, lock_name, house, batcher, format, plan, clocks, state, timing }
    }

    /// Stops the process without its knowing; its clock goes on.
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

    pub(crate) fn cut_off(&self, cut: Cut) {
        lock(&self.state).cut = cut;
    }

    pub(crate) fn cut(&self) -> Cut {
        lock(&self.state).cut
    }

    pub(crate) fn is_paused(&self) -> bool {
        lock(&self.state).is_paused
    }

    /// By which its present life, or its last, goes.
    pub(crate) fn timing(&self) -> Timing {
        lock(&self.timing).clone()
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
