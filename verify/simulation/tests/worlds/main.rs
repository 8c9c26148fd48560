//! Some worlds of the simulation, small enough for every test run; `cargo simulate` lives more.

#![allow(clippy::unwrap_used, reason = "a test that panics has failed, which is what it is for")]

mod overload;

use std::time::Duration;

use spindle_simulation::{
    Coverage, CoverageGoal, FleetPlan, Plan, Report, Subject, Trial, run, run_fleet,
};

/// A plan of a seed, cut short.
fn brief(seed: u64) -> Plan {
    let plan = Plan::from_seed(seed);
    let fault_phase = plan.fault_phase.min(plan.longest_lease() * 40);
    Plan { through_client: false, callers: Vec::new(), fault_phase, ..plan }
}

/// Sees that these worlds keep the invariants, and meet these goals.
fn keep(worlds: impl IntoIterator<Item = Report>, goals: &[CoverageGoal]) {
    let mut seen = Coverage::default();
    for (index, report) in worlds.into_iter().enumerate() {
        assert_eq!(report.violation, None, "world {index}");
        seen.add(&report.coverage);
    }
    for goal in goals {
        assert!(seen.count(*goal) > 0, "never seen: {goal:?} in {seen}");
    }
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    for seed in [1, 2, 3] {
        let (first, second) = (run(&brief(seed), false), run(&brief(seed), false));
        assert_eq!(first.trace, second.trace, "seed {seed}");
        assert_eq!(first.coverage, second.coverage, "seed {seed}");
    }
    assert_ne!(run(&brief(1), false).trace, run(&brief(2), false).trace);
}

#[test]
fn the_same_seed_gives_the_same_trace_of_members() {
    for subject in [Subject::Shards, Subject::ReadersWriters, Subject::Ranks] {
        let plan = FleetPlan { subject, through_client: false, ..FleetPlan::from_seed(11) };
        let plan = FleetPlan { fault_phase: plan.lease * 4, trials: Vec::new(), ..plan };
        let (first, second) = (run_fleet(&plan, false), run_fleet(&plan, false));
        assert_eq!(first.violation, None, "{subject:?}");
        assert_eq!(first.trace, second.trace, "{subject:?}");
        let other = FleetPlan { seed: 12, ..plan };
        assert_ne!(first.trace, run_fleet(&other, false).trace, "{subject:?}");
    }
}

#[test]
fn whatever_shares_a_table_repeats_no_more_than_its_budget_pays_for() {
    // Without a budget, most of these send more repeats in vain than I8 allows. One world would
    // not do: any change of what a fleet sends changes which of them it is.
    for seed in 1_000..1_012 {
        let plan = FleetPlan::from_seed(seed);
        let (subject, fault_phase) = (Subject::Shards, plan.lease * 8);
        let plan =
            FleetPlan { subject, fault_phase, through_client: false, trials: Vec::new(), ..plan };
        let fault_every = Duration::from_secs(3);
        let plan = FleetPlan { shards: 60, callers: 0, loss: 0.95, fault_every, ..plan };
        assert_eq!(run_fleet(&plan, false).violation, None, "seed {seed}");
    }
    assert_eq!(run_fleet(&FleetPlan::from_seed(1_007), false).violation, None);
}

#[test]
fn members_on_the_real_client_share_shards_too() {
    let plan = FleetPlan::from_seed(3);
    let (subject, fault_phase) = (Subject::Shards, plan.lease * 3);
    let plan = FleetPlan { subject, fault_phase, through_client: true, trials: Vec::new(), ..plan };
    let report = run_fleet(&plan, false);
    assert_eq!(report.violation, None);
    assert!(!report.repeats);
}

#[test]
fn fleets_keep_the_invariants_through_faults() {
    let worlds = (100..130).map(|seed| run(&brief(seed), false));
    keep(worlds, &[CoverageGoal::TookOver, CoverageGoal::LateWake, CoverageGoal::FencedWrite]);
}

#[test]
fn what_is_reserved_stays_so_where_nobody_edits_rows() {
    let world = |seed| run(&Plan { has_manual_edits: false, ..brief(seed) }, false);
    let goals = [CoverageGoal::SuccessorTook, CoverageGoal::LongerLease];
    keep((200..220).map(world), &goals);
}

#[test]
fn a_fleet_on_the_real_client_keeps_them_too() {
    let plan = Plan::from_seed_through(7, true);
    let plan = Plan { fault_phase: plan.fault_phase.min(Duration::from_secs(60)), ..plan };
    keep([run(&plan, false)], &[CoverageGoal::ThroughClient]);
}

#[test]
fn processes_of_a_hundred_locks_keep_them_through_their_batchers() {
    let world = |seed| {
        let plan = Plan::of_many(seed, 100);
        run(&Plan { fault_phase: plan.longest_lease() * 8, ..plan }, false)
    };
    let goals = [CoverageGoal::ReadTogether, CoverageGoal::WrittenTogether, CoverageGoal::TookOver];
    keep((0..2).map(world), &goals);
}

#[test]
fn members_share_shards_and_permits_through_faults() {
    let trials = [vec![Trial::JoinAndLeave, Trial::ComeAndGo], vec![Trial::Unable]];
    let world = |(seed, trials)| {
        let (plan, subject) = (FleetPlan::from_seed(seed), Subject::Shards);
        run_fleet(&FleetPlan { trials, subject, fault_phase: plan.lease * 5, ..plan }, false)
    };
    let goals =
        [CoverageGoal::HandedOver, CoverageGoal::JoinMovedItsShare, CoverageGoal::CameAndWent];
    keep((1..).zip(trials).map(world), &goals);
}

#[test]
fn one_writes_or_others_read_through_faults() {
    let world = |seed| {
        let (plan, subject) = (FleetPlan::from_seed(seed), Subject::ReadersWriters);
        run_fleet(&FleetPlan { subject, fault_phase: plan.lease * 8, ..plan }, false)
    };
    let goals = [CoverageGoal::ReadersTogether, CoverageGoal::WriterStoppedReaders];
    keep((1..4).map(world), &goals);
}

#[test]
fn the_highest_rank_that_lives_leads_after_faults() {
    let world = |seed| {
        let (plan, subject) = (FleetPlan::from_seed(seed), Subject::Ranks);
        let fault_phase = plan.lease * 5;
        run_fleet(&FleetPlan { subject, preempts: true, fault_phase, ..plan }, false)
    };
    keep((1..4).map(world), &[CoverageGoal::HighestRankLed]);
}
