//! The faults of a fleet, and their times.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use tokio::time::{sleep, timeout};

use super::plan::Subject;
use super::slot::{Slot, crash};
use super::world::FleetWorld;
use crate::coverage::CoverageGoal;
use crate::flow::FlowFault;
use crate::network_faults::{Cut, Outage};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fault {
    Crash,
    Leave,
    CutOff(Cut),
    Flows,
    StaleView,
    Unable,
    Evict,
    Outage(Outage),
    Restart,
    BadNetwork,
}

const FAULTS: [Fault; 18] = [
    Fault::Crash,
    Fault::Crash,
    Fault::Crash,
    Fault::Leave,
    Fault::Leave,
    Fault::CutOff(Cut::Requests),
    Fault::CutOff(Cut::Replies),
    Fault::Flows,
    Fault::Flows,
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

/// Injects faults until the fault phase is over.
pub(crate) async fn run(world: &Arc<FleetWorld>, slots: &[Arc<Slot>]) {
    let mover = (world.plan.moves && world.plan.subject == Subject::Shards)
        .then(|| tokio::spawn(move_about(Arc::clone(world))));
    while world.now() < world.plan.fault_phase && !world.failed.is_cancelled() {
        let (pause, who, which) = world.random(|random| {
            let pause = world.plan.fault_every.mul_f64(random.random_range(0.0..2.0));
            let who = random.random_range(0..slots.len());
            (pause, who, random.random_range(0..FAULTS.len()))
        });
        sleep(pause.max(Duration::from_millis(1))).await;
        inject(world, slots, who, FAULTS[which]).await;
    }
    world.end_fault_phase();
    if let Some(mover) = mover {
        let _ = mover.await;
    }
}

/// Moves the group to other counts of shards, while the fault phase lasts.
async fn move_about(world: Arc<FleetWorld>) {
    loop {
        let pause = world.some_leases(2.0);
        world.wait_in_fault_phase(pause).await;
        if !world.is_fault_phase() {
            return;
        }
        let to = world.random(|random| random.random_range(1..=world.plan.shards));
        // It may be refused, or lost.
        let _ = world.resize(to).await;
    }
}

async fn inject(world: &Arc<FleetWorld>, slots: &[Arc<Slot>], who: usize, fault: Fault) {
    let slot = &slots[who];
    world.fault(who, &fault);
    let long = world.some_leases(2.0);
    let line = slot.line();
    match fault {
        Fault::Crash => {
            world.saw(CoverageGoal::MemberCrashed);
            // Most die at once; of some the last requests arrive.
            let arrives = world.random(|random| random.random_bool(0.2));
            let cut = if arrives { Cut::Replies } else { Cut::Requests };
            crash(slot, slots, cut, long);
        }
        Fault::Leave => slot.leave(long),
        Fault::CutOff(cut) => {
            world.network.change_line(line, long, |line| line.cut = Some(cut));
        }
        // Through the client, connections are the server's.
        Fault::Flows if world.plan.through_client => {
            world.network.change_line(line, long, |line| line.cut = Some(Cut::Requests));
        }
        Fault::Flows => {
            let fault = world.random(|random| FlowFault::any(random, world.plan.lease));
            world.note(who, &fault);
            world.network.flows.fail(line, fault);
        }
        Fault::StaleView => {
            world.saw(CoverageGoal::StaleViews);
            // A poll gives up after 5 s.
            let by = Duration::from_secs(4).mul_f64(world.random(|random| random.random()));
            world.network.change_line(line, long * 2, |line| line.stale = Some(by));
        }
        Fault::Unable => {
            let pieces = world.plan.all_pieces();
            world.network.change_line(line, long * 2, |line| line.unable = pieces);
        }
        Fault::Evict => {
            let shard = world.random(|random| random.random_range(0..world.plan.pieces()));
            let eviction = world.tools_table().evict(world.plan.piece(shard));
            let _ = timeout(world.plan.lease, eviction).await;
        }
        Fault::Outage(outage) => world.network.goes_away(outage, long),
        Fault::Restart => world.network.restarts(long / 4),
        Fault::BadNetwork => world.network.is_bad(long * 2),
    }
}
