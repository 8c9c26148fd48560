//! The faults of a fleet, and their times.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle_emulator::Effect;
use tokio::time::{sleep, timeout};

use super::network::Line;
use super::plan::Subject;
use super::slot::{Slot, crash};
use super::world::FleetWorld;
use crate::coverage::CoverageGoal;
use crate::network_faults::Outage;
use crate::timeline::after;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Crash,
    Leave,
    Cut(Effect),
    StaleView,
    Unable,
    Evict,
    Outage(Outage),
    Restart,
    BadNetwork,
}

const FAULTS: [Fault; 16] = [
    Fault::Crash,
    Fault::Crash,
    Fault::Crash,
    Fault::Leave,
    Fault::Leave,
    Fault::Cut(Effect::Stall),
    Fault::Cut(Effect::StallReply),
    Fault::StaleView,
    Fault::StaleView,
    Fault::Unable,
    Fault::Evict,
    Fault::Outage(Outage::Refused),
    Fault::Outage(Outage::Silent),
    Fault::Restart,
    Fault::BadNetwork,
    Fault::BadNetwork,
];

/// Does harm until the storm is over.
pub(crate) async fn rage(world: &Arc<FleetWorld>, slots: &[Arc<Slot>]) {
    let mover = (world.plan.moves.is_some() && world.plan.subject == Subject::Shards)
        .then(|| tokio::spawn(move_about(Arc::clone(world))));
    while world.now() < world.plan.storm && !world.failed.is_cancelled() {
        let (pause, who, which) = world.random(|random| {
            let pause = world.plan.fault_every.mul_f64(random.random_range(0.0..2.0));
            let who = random.random_range(0..slots.len());
            (pause, who, random.random_range(0..FAULTS.len()))
        });
        sleep(pause.max(Duration::from_millis(1))).await;
        strike(world, slots, who, FAULTS[which]).await;
    }
    world.end_storm();
    world.tell(|| "the storm is over".to_string());
    if let Some(mover) = mover {
        let _ = mover.await;
    }
}

/// Moves the group to other counts of shards, while the storm lasts.
async fn move_about(world: Arc<FleetWorld>) {
    loop {
        let pause = world.some_leases(2.0);
        world.wait_in_storm(pause).await;
        if !world.is_stormy() {
            return;
        }
        let to = world.random(|random| random.random_range(1..=world.plan.shards));
        // It may be refused, or lost.
        let _ = world.resize(to).await;
    }
}

async fn strike(world: &Arc<FleetWorld>, slots: &[Arc<Slot>], who: usize, fault: Fault) {
    let slot = &slots[who];
    world.fault(|| format!("{}: {fault:?}", slot.id));
    let long = world.some_leases(2.0);
    let line = slot.line();
    match fault {
        Fault::Crash => {
            world.saw(CoverageGoal::MemberCrashed);
            // Most die at once; of some the last requests arrive.
            let arrives = world.random(|random| random.random_bool(0.2));
            let cut = if arrives { Effect::StallReply } else { Effect::Stall };
            crash(slot, slots, cut, long);
        }
        Fault::Leave => slot.leave(long),
        Fault::Cut(effect) => {
            change_line(world, line, long, move |line| line.cut = Some(effect));
        }
        Fault::StaleView => {
            world.saw(CoverageGoal::StaleViews);
            // A poll gives up after 5 s.
            let by = Duration::from_secs(4).mul_f64(world.random(|random| random.random()));
            change_line(world, line, long * 2, move |line| line.stale = Some(by));
        }
        Fault::Unable => change_line(world, line, long * 2, |line| line.is_unable = true),
        Fault::Evict => {
            let shard = world.random(|random| random.random_range(0..world.plan.pieces()));
            let eviction = world.tools_table().evict(world.shard_key(shard));
            let _ = timeout(world.plan.lease, eviction).await;
        }
        Fault::Outage(outage) => {
            world.change_faults(|network_faults| network_faults.outage = Some(outage));
            after(world, long, |world| {
                world.change_faults(|network_faults| network_faults.outage = None)
            });
        }
        Fault::Restart => {
            world.network.database.abort_all();
            world.change_faults(|network_faults| network_faults.outage = Some(Outage::Refused));
            after(world, long / 4, |world| {
                world.change_faults(|network_faults| network_faults.outage = None)
            });
        }
        Fault::BadNetwork => {
            world.change_faults(|network_faults| network_faults.loss = world.plan.loss);
            let usual = world.plan.loss / 20.0;
            after(world, long * 2, move |world| {
                world.change_faults(|network_faults| network_faults.loss = usual);
            });
        }
    }
}

fn change_line(
    world: &Arc<FleetWorld>,
    line: usize,
    long: Duration,
    change: impl FnOnce(&mut Line),
) {
    world.change_faults(|network_faults| change(&mut network_faults.lines[line]));
    after(world, long, move |world| {
        world.change_faults(|network_faults| network_faults.lines[line] = Line::default());
    });
}
