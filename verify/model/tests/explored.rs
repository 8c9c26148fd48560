//! The scenarios in small, so that a broken protocol or a vacuous model is seen within seconds.

use spindle_model::history::Goal;
use spindle_model::line::LineModel;
use spindle_model::permits::PermitModel;
use spindle_model::run::{Limits, Report, check, check_broken, explore};
use spindle_model::rw::{self, RwModel};
use spindle_model::scenario::{Budget, Scenario};
use spindle_model::scenarios;

/// One fault at most, and not for long.
fn in_small(scenario: Scenario) -> Report {
    let budget = Budget { faults: scenario.budget.faults.min(1), ..scenario.budget };
    let ticks = scenario.ticks.min(8);
    let expected = vec![Goal::TookOver];
    explore(&Scenario { budget, ticks, expected, ..scenario }, Limits::default())
}

#[test]
fn contenders_and_holders_keep_the_invariants() {
    for name in ["contention", "one term", "leases", "three"] {
        let report = in_small(scenarios::named(name));
        assert!(report.failures.is_empty() && report.complete, "{report}");
    }
}

#[test]
fn those_who_stand_in_line_keep_the_invariants() {
    let scenario = scenarios::named("ranks");
    let (ticks, expected) = (5, vec![Goal::TookPlace]);
    let report = explore(&Scenario { ticks, expected, ..scenario }, Limits::default());
    assert!(report.failures.is_empty() && report.complete, "{report}");
}

#[test]
fn nobody_waits_for_ever_unless_a_rule_of_the_line_is_left_out() {
    for model in LineModel::all() {
        let report = LineModel { has_late: false, ..model }.report();
        assert!(report.failures.is_empty() && report.complete, "{report}");
    }
}

#[test]
fn nobody_waits_for_ever_for_a_permit_unless_a_rule_is_left_out() {
    // The largest takes a minute here.
    for model in PermitModel::all().into_iter().filter(|model| model.name != "two permits") {
        let report = model.report();
        assert!(report.failures.is_empty() && report.complete, "{report}");
    }
}

#[test]
fn readers_and_writers_keep_the_invariants_unless_a_rule_of_the_begin_is_left_out() {
    for scenario in rw::quick().into_iter().take(1) {
        let report = check(scenario.name, RwModel { scenario }, Limits::default());
        assert!(report.failures.is_empty() && report.complete, "{report}");
    }
    for scenario in rw::broken() {
        let report = check_broken(scenario.name, RwModel { scenario }, Limits::default());
        assert!(report.failures.is_empty() && report.complete, "{report}");
    }
}

#[test]
fn clocks_beyond_the_margin_break_mutual_exclusion_and_no_fence() {
    let scenario = scenarios::named("broken clocks");
    let budget = Budget::default();
    let report = explore(&Scenario { budget, ..scenario }, Limits::default());
    // That two have the lock at once is among the things to be seen here.
    assert!(report.failures.is_empty() && report.complete, "{report}");
}

#[test]
fn a_quick_run_leaves_no_scenario_out() {
    let names = |scenarios: Vec<Scenario>| Vec::from_iter(scenarios.iter().map(|it| it.name));
    assert_eq!(names(scenarios::quick()), names(scenarios::short()));
}

#[test]
fn a_property_that_is_never_seen_fails_the_exploration() {
    let scenario = scenarios::named("one term");
    let (budget, expected) = (Budget::default(), vec![Goal::SuccessorTook]);
    let report = explore(&Scenario { budget, expected, ..scenario }, Limits::default());
    assert_eq!(report.failures.len(), 1, "{report}");
    assert!(report.failures[0].steps.is_none());
}
