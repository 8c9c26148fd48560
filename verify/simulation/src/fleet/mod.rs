//! Members that share shards and permits, or read and write, or have ranks, as they ship: with the
//! batcher, and in a share of the worlds through the real client.
//!
//! A world of its own, since what is watched is another thing than a lock: who is at work on which
//! shard, and how often that changes. The network, its faults and the load are those of all worlds.
//! Members run by the library's public calls, so none is paused. Each process has a connection, a
//! batcher and a clock of its own. When the fault phase is over, every shard has to be at work within
//! [`FleetPlan::limit`], the shares have to become even, and then nothing may move but what a
//! join or a leave makes move.

mod checks;
mod nemesis;
mod plan;
mod ranks;
mod readers;
mod settled;
mod slot;

mod world;

use std::sync::Arc;
use std::time::Duration;

use spindle::simulation;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use plan::{FleetPlan, Subject, Trial};

use self::slot::Slot;
use self::world::FleetWorld;
use crate::checks::Invariant;
use crate::report::Report;
use crate::run::in_virtual_time;
use crate::timeline::Judged;

/// Lives the plan; with `prints`, tells every event.
pub fn run_fleet(plan: &FleetPlan, prints: bool) -> Report {
    in_virtual_time(plan.seed, plan.through_client, live(plan, prints))
}

async fn live(plan: &FleetPlan, prints: bool) -> Report {
    let world = Arc::new(FleetWorld::new(plan, prints).await);
    let (slots, newcomer) = Slot::all(&world);
    let fleet: Vec<_> = slots.iter().map(|slot| tokio::spawn(Arc::clone(slot).live())).collect();
    let whole = async {
        nemesis::run(&world, &slots).await;
        world.judged(judge(&world, &slots, &newcomer).await);
        end(&world, &slots, fleet, &newcomer.id).await;
    };
    tokio::select! {
        biased;
        () = world.failed.cancelled() => {}
        () = whole => {}
    }
    world.report(plan.members + 1, !plan.through_client)
}

/// Sees that what a fleet does goes on well. The `newcomer` is a slot for members that come later.
async fn judge(world: &Arc<FleetWorld>, slots: &[Arc<Slot>], newcomer: &Arc<Slot>) -> Judged {
    match world.plan.subject {
        Subject::Shards => settled::shares(world, slots, newcomer).await,
        Subject::ReadersWriters => readers::judge(world, slots).await,
        Subject::Ranks => ranks::judge(world, slots, newcomer).await,
    }
}

/// Has all leave, and looks at what they leave behind.
async fn end(world: &FleetWorld, slots: &[Arc<Slot>], fleet: Vec<JoinHandle<()>>, newcomer: &str) {
    world.closing().cancel();
    slots.iter().for_each(|slot| slot.leave(Duration::ZERO));
    for living in fleet {
        if timeout(world.plan.lease * 4, living).await.is_err() {
            world.fail(Invariant::I5, "a member does not leave".to_string());
        }
    }
    // Late requests of the dead.
    tokio::time::sleep(world.plan.lease * 2).await;
    world.judged(settled::nothing_is_left(world, newcomer));
    world.judge_told();
    if let Some(rule) = simulation::broken_rule() {
        world.fail(Invariant::Contract, rule.into());
    }
}
