//! The lives of an instance, one after the other.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use rand::RngExt as _;
use spindle::simulation::{self, Identity, Loop, Member, Watch};
use spindle::{CancellationToken, Term};
use spindle_protocol::{Act, Answer};
use tokio::time::{sleep, timeout};

use super::{Instance, Life};
use crate::checks::Checks;
use crate::load::Load;
use crate::machine::lock;
use crate::reach::Reach;
use crate::world::World;

enum Ended {
    Stopped,
    Crashed,
}

/// The observer of one instance's acts.
struct Observer {
    checks: Arc<Mutex<Checks>>,
    instance: Arc<Instance>,
}

impl Watch for Observer {
    fn before(&self, act: &Act) {
        lock(&self.checks).before_act(&self.instance, act);
    }

    fn after(&self, act: &Act, answer: &Answer) {
        lock(&self.checks).after_act(&self.instance, act, answer);
    }
}

impl Instance {
    /// Lives for as long as the world does, life after life.
    pub(crate) async fn live(self: Arc<Instance>, world: Arc<World>) {
        // Not all at once, as real ones don't start either.
        sleep(world.random(|random| self.plan.timing.lease.mul_f64(random.random()))).await;
        loop {
            let seed = world.random(|random| random.random());
            let cancel = CancellationToken::new();
            let identity = Identity {
                lock: self.lock_name.clone(),
                id: self.plan.id.clone(),
                timing: self.plan.timing.clone(),
                clock: simulation::clock(Arc::clone(&self.clocks) as _),
                seed,
            };
            let spawn = |batcher| drop(tokio::spawn(Arc::clone(&self).carry(batcher)));
            let checks = Arc::clone(world.shared_checks());
            let observer = Observer { checks, instance: Arc::clone(&self) };
            let table = world.table(&self);
            let (member, driver) = Member::new(table, identity, observer, spawn, cancel.clone());
            let member = Arc::new(member);
            world.loads.of(self.process, Load::begins);
            lock(&self.state).life = Some(Life { member: Arc::clone(&member), cancel });
            let ended = self.drive(&world, driver).await;
            lock(&self.state).life = None;
            world.loads.of(self.process, Load::ends);
            // The memory of a life that ended says nothing to the next.
            drop(member);
            world.checks().gone(&self, matches!(ended, Ended::Crashed));
            if world.closing().is_cancelled() {
                return;
            }
            let down_for = std::mem::take(&mut lock(&self.state).down_for);
            world.wait_in_fault_phase(down_for.max(Duration::from_millis(1))).await;
        }
    }

    /// Polls the loop while it runs, and lets the world look at it after every step.
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

    /// Polls the batcher of its process, while the process runs.
    async fn carry(self: Arc<Instance>, mut batcher: Loop) {
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

/// An instance has taken a step.
fn stepped(world: &Arc<World>, instance: &Instance) {
    world.look_at(instance);
    if instance.has_lock().is_none() {
        return;
    }
    let Some(term) = instance.term() else { return };
    let writes = world.plan.overload.is_none() && world.random(|random| random.random_bool(0.02));
    if writes {
        write(world, instance, &term);
    }
}

/// Writes under the term now, or much later, after it is long over.
fn write(world: &Arc<World>, instance: &Instance, term: &Term) {
    let (network, term) = (Arc::clone(&world.network), term.clone());
    let reach = Reach::new(&network, instance.process);
    let lease = instance.plan.timing.lease;
    let (decided_early, think, serial) = world.random(|random| {
        let early = if random.random_bool(0.3) { random.random_range(0.0..3.0) } else { 0.0 };
        // Most know what they write; a few hold their transaction open across the end of the lease.
        let think = if random.random_bool(0.05) { random.random_range(0.0..1.2) } else { 0.0 };
        (lease.mul_f64(early), lease.mul_f64(think), random.random::<i64>())
    });
    tokio::spawn(async move {
        sleep(decided_early).await;
        let writing = reach.write(&term, serial, think);
        if let Ok((told, _)) = timeout(lease * 3, writing).await {
            network.told(serial, told);
        }
    });
}
