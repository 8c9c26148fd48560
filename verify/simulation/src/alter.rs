//! An ALTER of the table of four columns, under a fleet that runs.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt as _;
use spindle_emulator::sql::parse_ddl;

use crate::coverage::CoverageGoal;
use crate::world::World;

const UPGRADE: &str = include_str!("../../../ddl/googlesql-upgrade.sql");

/// For so long a column that was found missing counts as missing. For one lease a holder that has
/// not heard of it may go on.
const LEARNT_WITHIN: Duration = Duration::from_secs(60);

/// Adds the columns somewhere in the fault phase; later lives have leases of their own.
pub(crate) async fn the_table(world: Arc<World>) {
    let share = world.random(|random| random.random_range(0.05..0.3));
    world.wait_in_fault_phase(world.plan.fault_phase.mul_f64(share)).await;
    let upgrade = parse_ddl(UPGRADE).expect("the schema is fixed");
    world.database.change_schema(&upgrade).expect("the columns are new");
    world.saw(CoverageGoal::Altered);
    tokio::time::sleep(LEARNT_WITHIN + world.plan.longest_lease() * 2).await;
    world.let_leases_differ();
    for instance in world.instances() {
        if world.random(|random| random.random()) {
            instance.stop(Duration::ZERO);
        }
    }
}
