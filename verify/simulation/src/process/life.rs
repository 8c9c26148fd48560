//! The lives of a process, one after the other.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use rand::RngExt as _;
use spindle::CancellationToken;
use spindle::simulation::{self, House, Identity, Loop, Member};
use tokio::time::sleep;

use super::{Life, Process};
use crate::machine::lock;
use crate::store::{Eyes, Reach};
use crate::user;
use crate::world::World;

enum Ended {
    Stopped,
    Crashed,
}

impl Process {
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
                batcher: self.batcher,
            };
            let spawn = |batcher| drop(tokio::spawn(Arc::clone(&self).carry(batcher)));
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
            if world.closing().is_cancelled() {
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
            stepped(world, self);
            polled.map(|()| Ended::Stopped)
        })
        .await
    }

    /// Polls the batcher of the process, while the process runs.
    async fn carry(self: Arc<Process>, mut batcher: Loop) {
        poll_fn(|context| {
            {
                let mut state = lock(&self.state);
                if state.is_paused {
                    state.batchers_waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
            batcher.as_mut().poll(context)
        })
        .await;
    }
}

/// A process has taken a step.
fn stepped(world: &Arc<World>, process: &Process) {
    world.look_at(process);
    if process.has_lock().is_none() {
        return;
    }
    let Some(term) = process.term() else { return };
    world.resolves(process.who, &term);
    if world.random(|random| random.random_bool(0.02)) {
        user::write(world, process, &term);
    }
}
