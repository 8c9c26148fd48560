//! I5: a vacant lock is taken, within a known bound, once nothing goes wrong any more.

use std::time::Duration;

use tokio::time::sleep;

use super::Invariant;
use crate::timeline::Judged;
use crate::world::World;

/// Waits until every lock has a holder, and sees that it stays so for two leases.
pub(crate) async fn settles(world: &World) -> Judged {
    let settled_since = world.now();
    let limit = world.plan.limit();
    let pause = Duration::from_millis(250).max(world.plan.longest_lease() / 20);
    let instead = || format!("{:?} have no holder", vacant(world));
    world.until(limit, pause, || vacant(world).is_empty(), instead).await?;
    // All requests from before the quiet time have arrived by now, and nothing more is to come of them.
    sleep((settled_since + limit).saturating_sub(world.now())).await;
    let holders = world.holders();
    sleep(world.plan.longest_lease() * 2).await;
    let later = world.holders();
    if holders == later {
        return Ok(());
    }
    let what = format!("without a fault the holders changed from {holders:?} to {later:?}");
    Err((Invariant::I5, what))
}

fn vacant(world: &World) -> Vec<&str> {
    let held = world.holders();
    let locks = world.plan.locks.iter().enumerate();
    let wanted = locks.filter(|(_, lock)| !lock.members.is_empty());
    let vacant = wanted.filter(|(index, _)| held.iter().all(|(lock, ..)| lock != index));
    vacant.map(|(_, lock)| lock.name.as_str()).collect()
}
