//! Members that share shards and permits, or read and write, or have ranks, as they ship: with the
//! carrier, and in a share of the worlds through the real client.
//!
//! A world of its own, since what is watched is another thing than a lock: who is at work on which
//! shard, and how often that changes. Each process has a connection, a carrier and a clock of its
//! own. When the storm is over, every shard has to be at work within
//! [`FleetPlan::patience`], the shares have to become even, and then nothing may move but what a
//! join or a leave makes move.

mod books;
mod calm;
mod network;
mod plan;
mod ranks;
mod readers;
mod seat;
mod storm;
mod world;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use plan::{FleetPlan, Subject, Trial};

use self::seat::Seat;
use self::world::FleetWorld;
use crate::checks::Invariant;
use crate::report::Report;

/// Lives the plan; with `prints`, tells every event.
pub fn run_fleet(plan: &FleetPlan, prints: bool) -> Report {
    let mut builder = Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    if plan.through_client {
        builder.enable_io();
    }
    // The library's draws come from the seed, too.
    spindle::simulation::draw_from(plan.seed.rotate_left(16));
    let runtime = builder.build();
    runtime.expect("a runtime on this thread alone").block_on(live(plan, prints))
}

async fn live(plan: &FleetPlan, prints: bool) -> Report {
    let world = Arc::new(FleetWorld::new(plan, prints).await);
    let (seats, guest) = Seat::all(&world);
    let fleet: Vec<_> = seats.iter().map(|seat| tokio::spawn(Arc::clone(seat).live())).collect();
    let whole = async {
        storm::rage(&world, &seats).await;
        if let Err((invariant, what)) = judge(&world, &seats, &guest).await {
            world.fail(invariant, what);
        }
        end(&world, &seats, fleet, &guest.id).await;
    };
    tokio::select! {
        biased;
        () = world.failed.cancelled() => {}
        () = whole => {}
    }
    Report {
        violation: world.books(|books| books.finding.first().cloned()),
        simulated: world.now(),
        instances: plan.members + 1,
        faults: world.network.faults(),
        sightings: world.network.sightings(),
        trace: world.network.trace(),
        repeats: !plan.through_client,
        history: Ok(BTreeMap::new()),
    }
}

/// Sees that what a fleet does goes on well. The `guest` is a seat for members that come later.
async fn judge(world: &Arc<FleetWorld>, seats: &[Arc<Seat>], guest: &Arc<Seat>) -> calm::Judged {
    match world.plan.subject {
        Subject::Shards => calm::shares(world, seats, guest).await,
        Subject::ReadersWriters => readers::judge(world, seats).await,
        Subject::Ranks => ranks::judge(world, seats, guest).await,
    }
}

/// Has all leave, and looks at what they leave behind.
async fn end(world: &FleetWorld, seats: &[Arc<Seat>], fleet: Vec<JoinHandle<()>>, guest: &str) {
    world.close();
    seats.iter().for_each(|seat| seat.leave(Duration::ZERO));
    for living in fleet {
        if timeout(world.plan.lease * 4, living).await.is_err() {
            world.fail(Invariant::I5, "a member does not leave".to_string());
        }
    }
    // Late requests of the dead.
    tokio::time::sleep(world.plan.lease * 2).await;
    if let Err((invariant, what)) = calm::nothing_is_left(world, guest) {
        world.fail(invariant, what);
    }
    world.compare_told();
}
