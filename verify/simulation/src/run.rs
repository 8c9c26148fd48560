//! The life of one world, from its fleet's start to its report.

use std::sync::Arc;

use tokio::runtime::Builder;

use crate::callers::Caller;
use crate::checks;
use crate::coverage::CoverageGoal;
use crate::instance::Instance;
use crate::plan::Plan;
use crate::report::Report;
use crate::world::World;
use crate::{alter, nemesis, tool};

/// Lives the plan; with `prints`, tells every event.
pub fn run(plan: &Plan, prints: bool) -> Report {
    in_virtual_time(plan.seed, plan.through_client, live(plan, prints))
}

/// Lives a life on one thread, in virtual time.
pub(crate) fn in_virtual_time<T>(
    seed: u64,
    through_client: bool,
    life: impl Future<Output = T>,
) -> T {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    if through_client {
        // Looking for input between any two steps would take a fifth of the time.
        builder.enable_io();
    }
    // The library's draws come from the seed, too.
    spindle::simulation::draw_from(seed.rotate_left(16));
    builder.build().expect("a runtime on this thread alone").block_on(life)
}

async fn live(plan: &Plan, prints: bool) -> Report {
    let world = Arc::new(World::new(plan, prints).await);
    if plan.through_client {
        world.saw(CoverageGoal::ThroughClient);
        if plan.old_table.is_some() {
            tokio::spawn(alter::the_table(Arc::clone(&world)));
        } else {
            tokio::spawn(tool::work(Arc::clone(&world)));
        }
    }
    for index in 0..plan.callers.len() {
        let caller = Caller::new(&world, index);
        tokio::spawn(caller.clone().live());
        tokio::spawn(caller.live());
    }
    let live = |it: &Arc<Instance>| tokio::spawn(Arc::clone(it).live(Arc::clone(&world)));
    let fleet: Vec<_> = world.instances().iter().map(live).collect();
    let whole = async {
        nemesis::run(&world).await;
        world.judged(checks::settles(&world).await);
        world.finish().await;
    };
    tokio::select! {
        biased;
        () = world.failed.cancelled() => {}
        () = whole => {}
    }
    fleet.iter().for_each(tokio::task::JoinHandle::abort);
    world.report()
}
