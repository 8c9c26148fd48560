//! Somebody with the database and no instance: looks, ends terms, tidies up.

use std::sync::Arc;

use rand::RngExt as _;
use spindle::{Holding, LockState, LockTable, operate::PastTerm};
use tokio::time::timeout;

use crate::checks::Invariant;
use crate::coverage::CoverageGoal;
use crate::plan::NIGHTLY;
use crate::world::World;

/// Uses every verb in turn and at random until the fault phase is over.
pub(crate) async fn work(world: Arc<World>) {
    let Some(server) = &world.server else { return };
    let table = server.table(world.callers_line(world.plan.callers.len()));
    while world.is_fault_phase() {
        let lease = world.plan.longest_lease();
        let (verb, which, pause) = world.random(|random| {
            let which = random.random_range(0..=world.plan.locks.len());
            (random.random_range(0..7), which, lease.mul_f64(random.random_range(0.0..2.0)))
        });
        // One is the lock of a job, whose record stays.
        let name = world.plan.locks.get(which).map_or(NIGHTLY, |lock| lock.name.as_str());
        match verb {
            0 => inspect(&world, table, name).await,
            1 => list(&world, table).await,
            2 => observe(&world, table, name).await,
            3 => evict(&world, table, name).await,
            // Two may hold after it, so only where I1 is not promised.
            4 if world.plan.has_manual_edits => {
                if let Ok(Some(deposed)) = table.evict(name).at_once().await {
                    world.saw(CoverageGoal::SeizedByTool);
                    is_deposed(&world, table, name, &deposed).await;
                }
            }
            5 => remove(&world, table, name).await,
            _ => {
                if table.check().await.is_err_and(|error| error.is_schema()) {
                    world.fail(Invariant::I6, "the table is said to be wrong".to_string());
                }
            }
        }
        world.wait_in_fault_phase(pause).await;
    }
}

async fn evict(world: &World, table: &LockTable, name: &str) {
    let Ok(Some(deposed)) = table.evict(name).await else { return };
    world.saw(CoverageGoal::Deposed);
    is_deposed(world, table, name, &deposed).await;
}

/// A lock's row goes only where nobody has the lock, by what anybody could see.
async fn remove(world: &World, table: &LockTable, name: &str) {
    let before = world.holder_of(name);
    if let Ok(true) = table.remove(name).await {
        world.saw(CoverageGoal::RemovedByTool);
        // An instance that was evicted, or whose row is edited, may believe in a term that has no
        // row.
        if before.is_some() && before == world.holder_of(name) && !world.plan.has_manual_edits {
            let what = format!("lock `{name}`: {before:?} holds, and its row was removed");
            world.fail(Invariant::I1, what);
        }
    }
}

async fn inspect(world: &World, table: &LockTable, name: &str) {
    let before = world.holder_of(name);
    let Ok(state) = table.inspect(name).await else { return };
    if state.name != name {
        let what = format!("inspect(`{name}`) told of `{}`", state.name);
        world.fail(Invariant::I6, what);
    }
    if state.is_held() {
        world.saw(CoverageGoal::Inspected);
        return;
    }
    // An evicted instance holds on until it hears of it, and is owed its lease.
    let owed = state.holding == Holding::Evicted || world.plan.has_manual_edits;
    if before.is_some() && before == world.holder_of(name) && !owed {
        let what = format!("lock `{name}`: {before:?} holds, and is said to be {state:?}");
        world.fail(Invariant::I1, what);
    }
}

/// Checks that the row no longer has the token of a deposed instance.
async fn is_deposed(world: &World, table: &LockTable, name: &str, deposed: &PastTerm) {
    let Ok(state) = table.inspect(name).await else { return };
    if state.token == Some(deposed.token) {
        let what = format!("lock `{name}`: {deposed:?}, and the row has its token");
        world.fail(Invariant::I2, what);
    }
}

async fn list(world: &World, table: &LockTable) {
    let mut locks = table.list();
    while let Ok(Some(state)) = locks.next().await {
        world.saw(CoverageGoal::Listed);
        if !world.is_name_of_a_lock(&state.name) {
            let what = format!("`{}` was listed, and is no lock's name", state.name);
            world.fail(Invariant::I6, what);
        }
    }
}

async fn observe(world: &World, table: &LockTable, name: &str) {
    let lease = world.plan.longest_lease();
    let mut observer = table.observe(name).interval(lease / 4);
    let two = async {
        let first = observer.next().await?;
        let second = observer.next().await?;
        Ok::<_, spindle::Error>((first, second))
    };
    if let Ok(Ok((first, second))) = timeout(lease * 2, two).await {
        world.saw(CoverageGoal::Observed);
        let term = |state: &LockState| state.token.filter(|_| state.is_held());
        if term(&first) == term(&second) {
            let what = format!("lock `{name}`: {:?} was observed twice in a row", first.holding);
            world.fail(Invariant::I7, what);
        }
    }
}
