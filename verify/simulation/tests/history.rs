//! The library's account of a lock's past is what was committed, whatever befell the fleet.

use std::collections::BTreeMap;

use spindle_simulation::{Plan, run};

/// Every cause that these worlds give rise to. Manual edits that delete a row also edit it, and what came
/// before an edit isn't compared. So deletions are left to the behaviour tests, as are tables without marks.
const CAUSES: [&str; 7] =
    ["evicted", "handed_to", "lease_ran_out", "cooldown", "released", "seized", "unheard"];

/// Small fleets meet every fault soon; large ones take long.
const INSTANCES_MAX: usize = 6;

#[test]
fn the_past_is_told_as_it_was_for_every_cause() {
    let mut told: BTreeMap<&str, u64> = BTreeMap::new();
    let small = |plan: &Plan| {
        let members: usize = plan.locks.iter().map(|lock| lock.members.len()).sum();
        members <= INSTANCES_MAX && !plan.through_client
    };
    for plan in (0..).map(Plan::from_seed).filter(small).take(40) {
        let report = run(&plan, false);
        assert_eq!(report.violation, None, "seed {}", plan.seed);
        let causes = report.history.unwrap_or_else(|what| panic!("seed {}: {what}", plan.seed));
        causes.into_iter().for_each(|(cause, count)| *told.entry(cause).or_default() += count);
    }
    let never: Vec<_> = CAUSES.into_iter().filter(|cause| !told.contains_key(cause)).collect();
    assert!(never.is_empty(), "never told: {never:?}; told: {told:?}");
    println!("{told:?}");
}
