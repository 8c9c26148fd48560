//! The faults, and their times.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle_emulator::engine::{Cell, Mutation, WriteKind};
use spindle_protocol::{Succession, takeover_key};
use tokio::time::sleep;

use crate::checks::Purpose;
use crate::coverage::CoverageGoal;
use crate::flow::FlowFault;
use crate::instance::Instance;
use crate::manual_edits;
use crate::network_faults::{Cut, Outage};
use crate::rows::TABLE;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    Crash,
    Pause,
    Suspend,
    CutOff(Cut),
    Flows(FlowFault),
    Stop,
    Resign { names_successor: bool },
    Evict,
    HalfTakeover,
    Outage(Outage),
    Restart,
    BadNetwork,
    ManualEdits(manual_edits::ManualEdit),
}

/// Injects faults until the fault phase is over.
pub(crate) async fn run(world: &Arc<World>) {
    while world.now() < world.plan.fault_phase && !world.has_failed() {
        let (pause, who, fault) = world.random(|random| {
            let pause = world.plan.fault_every.mul_f64(random.random_range(0.0..2.0));
            let who = random.random_range(0..world.instances().len());
            let roll = random.random_range(0..if world.plan.has_manual_edits { 26 } else { 20 });
            (pause, who, roll)
        });
        sleep(pause.max(Duration::from_millis(1))).await;
        let fault = match fault {
            0 | 1 => Fault::Crash,
            2 | 3 => Fault::Pause,
            4 => Fault::Suspend,
            5 | 6 => Fault::CutOff(Cut::Requests),
            7 | 8 => Fault::CutOff(Cut::Replies),
            9 => Fault::Stop,
            10 => Fault::Resign { names_successor: false },
            11 => Fault::Resign { names_successor: true },
            12 => Fault::Evict,
            13 => Fault::HalfTakeover,
            14 => Fault::Outage(if world.random(|random| random.random()) {
                Outage::Silent
            } else {
                Outage::Refused
            }),
            15 => Fault::Restart,
            16 | 17 => Fault::BadNetwork,
            // Through the client, connections are the server's.
            18 | 19 if world.plan.through_client => Fault::CutOff(Cut::Requests),
            18 | 19 => {
                let lease = world.plan.longest_lease();
                Fault::Flows(world.random(|random| FlowFault::any(random, lease)))
            }
            _ => Fault::ManualEdits(manual_edits::ManualEdit::any(world)),
        };
        // Holders are more interesting than those who stand by.
        let instance = &world.instances()[who];
        let is_holder = |it: &&Arc<Instance>| it.lock == instance.lock && it.has_lock().is_some();
        let instance = match world.instances().iter().find(is_holder) {
            Some(holder) if world.random(|random| random.random_bool(0.7)) => holder,
            _ => instance,
        };
        inject(world, instance, fault).await;
    }
    world.end_fault_phase();
    for instance in world.instances() {
        instance.clocks.wake_up();
        instance.resume(world.now());
    }
}

async fn inject(world: &Arc<World>, instance: &Arc<Instance>, fault: Fault) {
    world.fault(instance.who, &fault);
    let lease = instance.plan.timing.lease;
    let (share, factor) =
        world.random(|random| (random.random::<f64>(), random.random_range(0.0..3.0)));
    let (short, long) = (lease.mul_f64(share), lease.mul_f64(factor));
    let holds = instance.has_lock().is_some();
    let mates = world.of_process(instance.process);
    match fault {
        Fault::Crash => {
            if holds {
                world.saw(CoverageGoal::HolderCrashed);
            }
            mates.iter().for_each(|mate| mate.crash(long));
        }
        Fault::Pause | Fault::Suspend => {
            let suspended = fault == Fault::Suspend;
            mates.iter().for_each(|mate| pause(world, mate, long, suspended));
        }
        Fault::CutOff(cut) => {
            if holds {
                world.saw(CoverageGoal::HolderCutOff);
            }
            world.network.change_line(instance.process, long, |line| line.cut = Some(cut));
        }
        Fault::Flows(fault) => {
            let is_holder = |mate: &Arc<Instance>| mate.has_lock().is_some();
            if fault == FlowFault::Die && mates.iter().any(is_holder) {
                world.saw(CoverageGoal::FlowDied);
            }
            world.network.flows.fail(instance.process, fault);
        }
        Fault::Stop => mates.iter().for_each(|mate| mate.stop(short)),
        Fault::Resign { names_successor } => {
            let successor = names_successor.then(|| successor(world, instance)).flatten();
            instance.resign(successor.unwrap_or_default());
        }
        Fault::Evict => manual_edits::evict(world, instance).await,
        Fault::HalfTakeover => leave(world, instance).await,
        Fault::Outage(outage) => {
            let long = world.plan.longest_lease().mul_f64(factor * factor / 3.0);
            if long > world.plan.longest_lease() {
                world.saw(CoverageGoal::LongOutage);
            }
            world.network.goes_away(outage, long);
        }
        Fault::Restart => world.network.restarts(short),
        Fault::BadNetwork => world.network.is_bad(long * 2),
        Fault::ManualEdits(edit) => manual_edits::apply(world, instance, edit).await,
    }
}

fn pause(world: &Arc<World>, instance: &Arc<Instance>, long: Duration, suspended: bool) {
    if instance.is_paused() {
        return;
    }
    let term = instance.term().filter(|_| instance.has_lock().is_some());
    instance.pause();
    if suspended {
        instance.clocks.suspend();
    }
    let (world, instance) = (Arc::clone(world), Arc::clone(instance));
    tokio::spawn(async move {
        sleep(long).await;
        if suspended {
            instance.clocks.wake_up();
        }
        if term.is_some_and(|term| term.remaining().is_zero()) {
            world.saw(if suspended {
                CoverageGoal::LateWakeFromSuspend
            } else {
                CoverageGoal::LateWake
            });
        }
        // Its owner may be scheduled, and ask, before the loop is.
        world.look_at(&instance);
        instance.resume(world.now());
    });
}

fn successor(world: &World, instance: &Instance) -> Option<Succession> {
    let others: Vec<_> = world
        .instances()
        .iter()
        .filter(|other| other.lock == instance.lock && other.who != instance.who)
        .collect();
    if others.is_empty() {
        return None;
    }
    let (which, share) =
        world.random(|random| (random.random_range(0..others.len()), random.random::<f64>()));
    let grace = instance.plan.timing.lease.mul_f64(share);
    Some(Succession::Successor { id: others[which].plan.id.clone(), grace })
}

/// Leaves the takeover row of the present term, as a peer of another implementation does that dies
/// between its two steps.
async fn leave(world: &World, instance: &Instance) {
    let Some(row) = manual_edits::row(world, &instance.lock_name).await else { return };
    let cells = [
        ("name", Cell::from(takeover_key(&instance.lock_name, row.token))),
        ("token", Cell::CommitTimestamp),
        ("writer", "a peer".into()),
    ];
    world.checks().peers.insert(takeover_key(&instance.lock_name, row.token));
    let left = Mutation::write(WriteKind::InsertOrUpdate, TABLE, cells);
    manual_edits::write(world, &instance.lock_name, Purpose::Peer, vec![left]).await;
}
