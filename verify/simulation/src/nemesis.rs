//! The faults, and their times.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle_emulator::engine::{Cell, Mutation, WriteKind};
use spindle_protocol::{Succession, takeover_key};
use tokio::time::sleep;

use crate::checks::Purpose;
use crate::coverage::CoverageGoal;
use crate::manual_edits;
use crate::network_faults::Outage;
use crate::process::{Cut, Process};
use crate::rows::TABLE;
use crate::timeline::after;
use crate::world::World;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fault {
    Crash,
    Pause,
    Suspend,
    CutOff(Cut),
    Stop,
    Resign { names_successor: bool },
    Cooldown,
    Evict,
    Leftover,
    Outage(Outage),
    Restart,
    BadNetwork,
    ManualEdits(manual_edits::ManualEdit),
}

/// Does harm until the storm is over.
pub(crate) async fn rage(world: &Arc<World>) {
    while world.now() < world.plan.storm && !world.has_failed() {
        let (pause, who, fault) = world.random(|random| {
            let pause = world.plan.fault_every.mul_f64(random.random_range(0.0..2.0));
            let who = random.random_range(0..world.processes().len());
            let roll = random.random_range(0..if world.plan.has_manual_edits { 24 } else { 18 });
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
            12 if world.random(|random| random.random()) => Fault::Cooldown,
            12 => Fault::Evict,
            13 => Fault::Leftover,
            14 => Fault::Outage(if world.random(|random| random.random()) {
                Outage::Silent
            } else {
                Outage::Refused
            }),
            15 => Fault::Restart,
            16 | 17 => Fault::BadNetwork,
            _ => Fault::ManualEdits(manual_edits::ManualEdit::any(world)),
        };
        // Holders are more interesting than those who stand by.
        let process = world.process(who);
        let holder = world
            .processes()
            .iter()
            .find(|other| other.lock == process.lock && other.has_lock().is_some());
        let process = match holder {
            Some(holder) if world.random(|random| random.random_bool(0.7)) => holder,
            _ => process,
        };
        strike(world, process, fault).await;
    }
    settled(world);
}

/// Nothing goes wrong from here on; what is under way may still arrive.
fn settled(world: &World) {
    world.set_outage(None);
    world.set_loss(0.0);
    world.storm_is_over();
    for process in world.processes() {
        process.cut_off(Cut::No);
        process.clocks.wake_up();
        process.resume(world.now());
    }
}

async fn strike(world: &Arc<World>, process: &Arc<Process>, fault: Fault) {
    world.fault(process.who, &fault);
    let lease = process.timing().lease;
    let (share, factor) =
        world.random(|random| (random.random::<f64>(), random.random_range(0.0..3.0)));
    let (short, long) = (lease.mul_f64(share), lease.mul_f64(factor));
    let holds = process.has_lock().is_some();
    let mates = world.housemates(process);
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
            mates.iter().for_each(|mate| mate.cut_off(cut));
            after(world, long, move |_| mates.iter().for_each(|mate| mate.cut_off(Cut::No)));
        }
        Fault::Stop => mates.iter().for_each(|mate| mate.stop(short)),
        Fault::Resign { names_successor } => {
            let successor = names_successor.then(|| successor(world, process)).flatten();
            process.resign(successor.unwrap_or_default());
        }
        Fault::Cooldown => process.resign(Succession::Cooldown { rest: short }),
        Fault::Evict => manual_edits::evict(world, process).await,
        Fault::Leftover => leave(world, process).await,
        Fault::Outage(outage) => {
            let long = world.plan.longest_lease().mul_f64(factor * factor / 3.0);
            if long > world.plan.longest_lease() {
                world.saw(CoverageGoal::LongOutage);
            }
            world.set_outage(Some(outage));
            after(world, long, |world| world.set_outage(None));
        }
        Fault::Restart => {
            world.saw(CoverageGoal::Restarted);
            world.database.abort_all();
            world.set_outage(Some(Outage::Refused));
            after(world, short, |world| world.set_outage(None));
        }
        Fault::BadNetwork => {
            world.set_loss(world.plan.loss);
            after(world, long * 2, |world| world.set_loss(world.plan.loss / 20.0));
        }
        Fault::ManualEdits(hand) => manual_edits::lay_on(world, process, hand).await,
    }
}

fn pause(world: &Arc<World>, process: &Arc<Process>, long: Duration, suspended: bool) {
    if process.is_paused() {
        return;
    }
    let term = process.term().filter(|_| process.has_lock().is_some());
    process.pause();
    if suspended {
        process.clocks.suspend();
    }
    let (world, process) = (Arc::clone(world), Arc::clone(process));
    tokio::spawn(async move {
        sleep(long).await;
        if suspended {
            process.clocks.wake_up();
        }
        if term.is_some_and(|term| term.remaining().is_zero()) {
            world.saw(if suspended {
                CoverageGoal::LateWakeFromSuspend
            } else {
                CoverageGoal::LateWake
            });
        }
        // Its owner may be scheduled, and ask, before the loop is.
        world.look_at(&process);
        process.resume(world.now());
    });
}

fn successor(world: &World, process: &Process) -> Option<Succession> {
    let others: Vec<_> = world
        .processes()
        .iter()
        .filter(|other| other.lock == process.lock && other.who != process.who)
        .collect();
    if others.is_empty() {
        return None;
    }
    let (which, share) =
        world.random(|random| (random.random_range(0..others.len()), random.random::<f64>()));
    let grace = process.timing().lease.mul_f64(share);
    Some(Succession::Successor { id: others[which].plan.id.clone(), grace })
}

/// Leaves the takeover row of the present term, as a peer of another implementation does that dies
/// between its two steps.
async fn leave(world: &World, process: &Process) {
    let Some(row) = manual_edits::row(world, &process.lock_name).await else { return };
    let cells = [
        ("name", Cell::from(takeover_key(&process.lock_name, row.token))),
        ("token", Cell::CommitTimestamp),
        ("writer", "a peer".into()),
    ];
    world.peer_leaves(takeover_key(&process.lock_name, row.token));
    let leftover = Mutation::write(WriteKind::InsertOrUpdate, TABLE, cells);
    manual_edits::write(world, &process.lock_name, Purpose::Peer, vec![leftover]).await;
}
