//! I5: a vacant lock is taken, within a known bound, once nothing goes wrong any more.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use crate::world::World;

/// Waits until every lock has a holder, and sees that it stays so for two leases.
pub(crate) async fn settles(world: &Arc<World>) -> Result<(), String> {
    let settled_since = world.now();
    let limit = world.plan.limit();
    let pause = Duration::from_millis(250).max(world.plan.longest_lease() / 20);
    loop {
        let vacant = vacant(world);
        if vacant.is_empty() || world.has_failed() {
            break;
        }
        if world.now() > settled_since + limit {
            return Err(format!("{vacant:?} have no holder {limit:?} after the last fault"));
        }
        sleep(pause).await;
    }
    // All requests from before the quiet time have arrived by now, and nothing more is to come of them.
    sleep((settled_since + limit).saturating_sub(world.now())).await;
    let holders = world.holders();
    sleep(world.plan.longest_lease() * 2).await;
    let later = world.holders();
    if holders == later || world.has_failed() {
        Ok(())
    } else {
        Err(format!("without a fault the holders changed from {holders:?} to {later:?}"))
    }
}

fn vacant(world: &World) -> Vec<&str> {
    let held = world.holders();
    let locks = world.plan.locks.iter().enumerate();
    let wanted = locks.filter(|(_, lock)| !lock.members.is_empty());
    let vacant = wanted.filter(|(index, _)| held.iter().all(|(lock, ..)| lock != index));
    vacant.map(|(_, lock)| lock.name.as_str()).collect()
}
