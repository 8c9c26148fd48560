//! A fresh flow in place of a silent one is load. It must not make an overload worse.

use std::time::Duration;

use spindle_simulation::{CoverageGoal, Overload, Plan, Trouble, run};

const HOLDERS: usize = 100;
const MINUTE: Duration = Duration::from_secs(60);

/// Returns how many terms end in such a world before they are released.
fn lost(seed: u64, overload: Overload, reconnects: bool) -> u64 {
    let plan = Plan { reconnects, ..Plan::of_overload(seed, HOLDERS, overload) };
    let report = run(&plan, false);
    assert_eq!(report.violation, None, "{overload:?}, seed {seed}, reconnects: {reconnects}");
    let ends = [CoverageGoal::OutOfContact, CoverageGoal::Expired, CoverageGoal::Superseded];
    ends.into_iter().map(|end| report.coverage.count(end)).sum()
}

/// Sees that no more terms are lost with reconnection than without. Returns how many are.
fn no_worse(trouble: Trouble) -> u64 {
    let mut all = 0;
    for (seed, connection) in [(1, 0.0), (2, 1.0)] {
        let overload = Overload { trouble, connection };
        let [with, without] = [true, false].map(|reconnects| lost(seed, overload, reconnects));
        println!(
            "{overload:?}, seed {seed}: {with} terms lost with reconnection, {without} without"
        );
        assert!(with <= without, "{overload:?}, seed {seed}: {with} terms lost, {without} without");
        all += with;
    }
    all
}

#[test]
fn a_server_that_stalls_for_two_fifths_of_the_lease_costs_no_term() {
    for seconds in [2, 4] {
        assert_eq!(no_worse(Trouble::Stall(Duration::from_secs(seconds))), 0, "{seconds} s");
    }
}

#[test]
fn a_server_that_does_nine_tenths_of_what_it_has_to_costs_no_term() {
    assert_eq!(no_worse(Trouble::Slow(0.9, MINUTE)), 0);
}

#[test]
fn a_server_that_does_too_little_loses_no_more_terms_with_reconnection() {
    assert!(no_worse(Trouble::Slow(0.7, MINUTE)) > 0, "it was not too little");
}
