//! One seat of the fleet: a process that runs, is paused, dies and comes back.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::{Poll, Waker};
use std::time::Duration;

use rand::RngExt as _;
use spindle::simulation::{self, House, Identity, Loop, Member};
use spindle::{CancellationToken, FencingToken, Term};
use spindle_protocol::{Succession, Timing};
use tokio::time::sleep;

use crate::format::Format;
use crate::machine::{Clocks, lock};
use crate::plan::MemberPlan;
use crate::store::{Eyes, Reach};
use crate::world::World;

/// A process and its machine.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) who: usize,
    pub(crate) lock: usize,
    pub(crate) lock_name: String,
    /// The process it is part of; those of one house live, sleep and die together.
    pub(crate) house: usize,
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
    /// Of the house's carrier, while it is paused.
    carriers_waker: Option<Waker>,
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

enum Ended {
    Stopped,
    Crashed,
}

impl State {
    fn wake(&mut self) {
        self.waker.take().into_iter().chain(self.carriers_waker.take()).for_each(Waker::wake);
    }
}

impl Process {
    pub(crate) fn new(
        who: usize,
        (lock, lock_name): (usize, String),
        (house, clocks, format): (usize, Arc<Clocks>, Format),
        plan: MemberPlan,
    ) -> Process {
        let timing = Mutex::new(plan.timing.clone());
        let state = Mutex::default();
        Process { who, lock, lock_name, house, format, plan, clocks, state, timing }
    }

    /// Lives for as long as the world does, life after life.
    pub(crate) async fn live(self: Arc<Process>, world: Arc<World>, house: Arc<House<Reach>>) {
        // Not all at once, as real ones don't start either.
        sleep(world.random(|random| self.plan.timing.lease.mul_f64(random.random()))).await;
        loop {
            let seed = world.random(|random| random.random());
            let cancel = CancellationToken::new();
            let timing = world.timing(&self.plan);
            *lock(&self.timing) = timing.clone();
            let identity = Identity {
                lock: self.lock_name.clone(),
                id: self.plan.id.clone(),
                timing,
                clock: simulation::clock(Arc::clone(&self.clocks) as _),
                seed,
            };
            let spawn = |carrier| drop(tokio::spawn(Arc::clone(&self).carry(carrier)));
            let (member, driver) = match world.server.as_ref() {
                Some(server) => {
                    let table = server.table(house.store().who);
                    Member::through(table, identity, spawn, cancel.clone())
                }
                None => {
                    let eyes = Eyes { world: Arc::clone(&world), who: self.who };
                    Member::on(&house, identity, eyes, spawn, cancel.clone())
                }
            };
            let member = Arc::new(member);
            lock(&self.state).life = Some(Life { member: Arc::clone(&member), cancel });
            let ended = self.drive(&world, driver).await;
            lock(&self.state).life = None;
            // The memory of a life that ended says nothing to the next.
            drop(member);
            world.gone(self.who, matches!(ended, Ended::Crashed));
            if world.is_closing() {
                return;
            }
            let down_for = std::mem::take(&mut lock(&self.state).down_for);
            world.wait_in_storm(down_for.max(Duration::from_millis(1))).await;
        }
    }

    /// Polls the loop while the process runs, and lets the world look at it after every step.
    async fn drive(&self, world: &Arc<World>, mut driver: Loop) -> Ended {
        poll_fn(|context| {
            {
                let mut state = lock(&self.state);
                if std::mem::take(&mut state.is_doomed) {
                    state.is_paused = false;
                    state.wake();
                    return Poll::Ready(Ended::Crashed);
                }
                state.waker = Some(context.waker().clone());
                if state.is_paused {
                    return Poll::Pending;
                }
            }
            let polled = driver.as_mut().poll(context);
            world.stepped(self);
            polled.map(|()| Ended::Stopped)
        })
        .await
    }

    /// Polls the carrier of the process, while the process runs.
    async fn carry(self: Arc<Process>, mut carrier: Loop) {
        poll_fn(|context| {
            {
                let mut state = lock(&self.state);
                if state.is_paused {
                    state.carriers_waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
            carrier.as_mut().poll(context)
        })
        .await;
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
