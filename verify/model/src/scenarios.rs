//! The scenarios that are run.

use spindle_protocol::Timing;
use spindle_protocol::line::Standing;

use crate::history::Goal;
use crate::scenario::{Budget, Clock, Member, Scenario, Start, short_lease, timing};

/// Returns the scenarios that run in CI: each is explored to its end.
pub fn short() -> Vec<Scenario> {
    small().into_iter().chain(larger()).collect()
}

fn larger() -> impl Iterator<Item = Scenario> {
    [contenders(), members(), in_line(), operators(), owners(), edited()].into_iter().flatten()
}

/// Returns the scenario of this name.
///
/// # Panics
/// If there is none.
pub fn named(name: &str) -> Scenario {
    let named = short().into_iter().find(|scenario| scenario.name == name);
    named.unwrap_or_else(|| panic!("no scenario is called `{name}`"))
}

/// Returns the same in small, with one fault at most: what a broken protocol rarely survives.
pub fn quick() -> Vec<Scenario> {
    small().into_iter().chain(larger().map(in_small)).collect()
}

fn in_small(scenario: Scenario) -> Scenario {
    let ticks = scenario.ticks.min(scenario.quick_ticks);
    let budget = Budget { faults: scenario.budget.faults.min(1), ..scenario.budget };
    let expected = match scenario.name {
        "line" => vec![Goal::TookPlace, Goal::LeftToFirst, Goal::FirstTook],
        "yields" => vec![Goal::Yielded],
        "contention" | "one term" | "three" | "peers" => vec![Goal::TookOver],
        _ => vec![],
    };
    Scenario { ticks, budget, expected, progress_checked_one_in: 8, ..scenario }
}

/// Returns the scenarios of a long run: the same, further, and with more at once.
pub fn long() -> Vec<Scenario> {
    let hasty = |scenario: Scenario, name, ticks| Scenario {
        name,
        ticks,
        budget: Budget { faults: scenario.budget.faults + 1, ..scenario.budget },
        expected: vec![],
        ..scenario
    };
    let two_edits = Budget { manual_edits: 2, ..Budget::default() };
    let mut scenarios: Vec<_> = short().into_iter().map(longer).collect();
    scenarios.extend([
        hasty(named("one term"), "one term, hasty", 5),
        hasty(named("leases"), "leases, hasty", 8),
        hasty(named("three"), "three, hasty", 5),
        Scenario { name: "two manual edits", budget: two_edits, ..named("manual edits") },
    ]);
    scenarios
}

/// Returns a scenario that goes on for longer. In one of them the time would be reached to which two edits set both token
/// and heartbeat: they would date the term, which docs/safety.md excepts.
fn longer(scenario: Scenario) -> Scenario {
    let ticks = if scenario.name == "forged" { scenario.ticks } else { scenario.ticks + 1 };
    Scenario { ticks, ..scenario }
}

/// Anything may go wrong, so many times in all.
fn faults(faults: u8) -> Budget {
    Budget {
        faults,
        delays: 3,
        unknowns: 2,
        aborts: 1,
        crashes: 2,
        pauses: 2,
        duplicates: 1,
        ..Budget::default()
    }
}

fn two(first: Timing, second: Timing) -> Vec<Member> {
    vec![Member::new("a", first), Member::new("b", second)]
}

fn pair() -> Scenario {
    Scenario {
        name: "pair",
        members: two(short_lease(), short_lease()),
        starts: vec![Start::Empty],
        ticks: 10,
        quick_ticks: 8,
        budget: faults(2),
        late_requests_max: 2,
        progress_checked_one_in: 64,
        clocks_break_i1: false,
        expected: vec![],
    }
}

/// Returns a small world of a holder and a contender, in which one thing of each kind goes wrong.
pub(crate) fn of_two(name: &'static str, ticks: u16) -> Scenario {
    Scenario {
        name,
        starts: vec![Start::Held],
        ticks,
        budget: Budget { faults: 1, delays: 1, unknowns: 1, crashes: 1, ..Budget::default() },
        late_requests_max: 1,
        progress_checked_one_in: 32,
        ..pair()
    }
}

/// Worlds in which few things go wrong.
fn small() -> Vec<Scenario> {
    vec![
        // Answers that come late, and processes that get their time late.
        Scenario {
            name: "slow",
            members: two(timing(6, 2, 4, 1, 1), short_lease()),
            starts: vec![Start::Empty],
            ticks: 10,
            budget: Budget { faults: 2, delays: 2, unknowns: 1, pauses: 1, ..Budget::default() },
            expected: vec![Goal::TookOver, Goal::ResolvedOurs],
            ..pair()
        },
        // Answers to heartbeats that come so late that it matters from when a term counts. That takes a
        // limit of more than a tick, and so an interval that is short beside the deadline.
        Scenario {
            name: "slow answers",
            members: two(timing(6, 1, 4, 1, 1), short_lease()),
            starts: vec![Start::Held],
            ticks: 10,
            budget: Budget { faults: 2, delays: 2, unknowns: 1, ..Budget::default() },
            expected: vec![Goal::TookOver],
            ..pair()
        },
        // A holder whose heartbeats may go early, by any part of their interval.
        Scenario {
            name: "early",
            members: two(timing(7, 2, 4, 1, 1), short_lease()),
            starts: vec![Start::Held],
            ticks: 10,
            budget: faults(1),
            expected: vec![Goal::WentEarly, Goal::TookOver, Goal::OutOfContact],
            ..pair()
        },
        // A holder that hears nothing of its heartbeats, again and again.
        Scenario {
            name: "unheard",
            starts: vec![Start::Held],
            ticks: 9,
            budget: Budget { faults: 4, unknowns: 4, ..Budget::default() },
            expected: vec![Goal::TookOver, Goal::OutOfContact],
            ..pair()
        },
        // A contender whose attempt is followed by another before anybody knows its outcome.
        Scenario {
            name: "again",
            starts: vec![Start::Empty, Start::Abandoned],
            ticks: 5,
            budget: Budget { faults: 3, delays: 1, unknowns: 2, ..Budget::default() },
            expected: vec![Goal::ResolvedOurs, Goal::ResolvedNotOurs, Goal::LateTakeover],
            ..pair()
        },
    ]
}

/// A holder and those who contend with it.
fn contenders() -> Vec<Scenario> {
    vec![
        // Two contenders for a lock that nobody has.
        Scenario {
            name: "contention",
            starts: vec![Start::Empty, Start::Abandoned],
            ticks: 8,
            expected: vec![
                Goal::TookOver,
                Goal::ResolvedOurs,
                Goal::ResolvedNotOurs,
                Goal::Collided,
                Goal::LateRefused,
                Goal::LateTakeover,
                Goal::TooLate,
            ],
            ..pair()
        },
        // A holder and a contender.
        Scenario {
            name: "one term",
            starts: vec![Start::Held],
            ticks: 9,
            expected: vec![
                Goal::TookOver,
                Goal::Repeated,
                Goal::LateHeartbeat,
                Goal::LateRefused,
                Goal::WokeUpLate,
                Goal::OutOfContact,
                Goal::Expired,
                Goal::TookOwn,
                Goal::DeletedFormer,
                Goal::FenceRefused,
            ],
            ..pair()
        },
    ]
}

/// Members that share an id, have other leases or clocks, or are three.
fn members() -> Vec<Scenario> {
    vec![
        // Processes that share one id, die and come back.
        Scenario {
            name: "lives",
            members: vec![Member::new("a", short_lease()), Member::new("a", short_lease())],
            starts: vec![Start::Empty],
            ticks: 7,
            budget: faults(2),
            expected: vec![Goal::TookFormerLife, Goal::ResolvedNotOurs],
            ..pair()
        },
        // A rolling change of the lease: members with different ones.
        Scenario {
            name: "leases",
            members: two(timing(6, 3, 4, 1, 1), short_lease()),
            starts: vec![Start::Empty, Start::Held],
            ticks: 10,
            budget: faults(1),
            expected: vec![Goal::TookOver, Goal::LongerLease],
            ..pair()
        },
        // Three members.
        Scenario {
            name: "three",
            members: ["a", "b", "c"].map(|id| Member::new(id, short_lease())).into(),
            starts: vec![Start::Empty, Start::Held],
            ticks: 8,
            budget: faults(1),
            expected: vec![Goal::TookOver, Goal::Collided],
            ..pair()
        },
        // Clocks that go wrong as far as the margin allows, and at any moment.
        // A fast clock may jump a tick, so two of them have to fit between deadline and expiry.
        Scenario {
            name: "clocks",
            members: vec![
                Member::new("a", short_lease()).with_clock(Clock::Slow(4)),
                Member::new("b", timing(5, 1, 2, 1, 1)).with_clock(Clock::Fast(5)),
            ],
            starts: vec![Start::Empty, Start::Held],
            budget: faults(1),
            expected: vec![Goal::TookOver, Goal::OutOfContact],
            ..pair()
        },
    ]
}

/// Members that stand in line.
fn in_line() -> Vec<Scenario> {
    let stand = |ids: &[&'static str], standing: &[Standing]| -> Vec<Member> {
        let members = ids.iter().zip(standing);
        members.map(|(id, it)| Member::new(id, short_lease()).with_standing(*it)).collect()
    };
    let ranked = |rank, preempts| Standing::Ranked { rank, preempts };
    vec![
        // A holder that lets go, and one that waits.
        Scenario {
            name: "line",
            members: stand(&["a", "b"], &[Standing::Plain; 2]),
            starts: vec![Start::Held],
            ticks: 6,
            quick_ticks: 5,
            budget: Budget { holds: 1, stops: 1, ..faults(1) },
            expected: vec![
                Goal::TookPlace,
                Goal::LatePlace,
                Goal::OwnPlace,
                Goal::LeftToFirst,
                Goal::FirstTook,
                Goal::PassedDead,
            ],
            ..pair()
        },
        // Two that wait.
        Scenario {
            name: "line of two",
            members: stand(&["a", "b", "c"], &[Standing::Plain; 3]),
            starts: vec![Start::Held],
            ticks: 5,
            quick_ticks: 4,
            budget: Budget { holds: 1, faults: 1, crashes: 1, ..Budget::default() },
            expected: vec![Goal::LeftToFirst, Goal::FirstTook, Goal::PassedDead],
            ..pair()
        },
        // Two processes of one id that wait, and die and come back.
        Scenario {
            name: "line of one id",
            members: stand(&["a", "b", "b"], &[Standing::Plain; 3]),
            starts: vec![Start::Held],
            ticks: 6,
            quick_ticks: 5,
            budget: Budget { stops: 1, faults: 1, crashes: 1, delays: 1, ..Budget::default() },
            expected: vec![Goal::ReplacedFormer, Goal::FirstTook],
            ..pair()
        },
        // Ranked contenders for a lock that nobody has.
        Scenario {
            name: "ranks",
            members: stand(&["a", "b"], &[ranked(1, true), ranked(2, false)]),
            starts: vec![Start::Abandoned],
            ticks: 8,
            quick_ticks: 6,
            budget: faults(1),
            expected: vec![Goal::TookPlace, Goal::LatePlace, Goal::PassedPlace],
            ..pair()
        },
        // A holder that yields to a higher rank.
        Scenario {
            name: "yields",
            members: stand(
                &["a", "b", "c"],
                &[ranked(1, true), ranked(2, false), ranked(1, false)],
            ),
            starts: vec![Start::HeldLong],
            ticks: 47,
            quick_ticks: 44,
            budget: faults(1),
            expected: vec![Goal::Yielded, Goal::FirstTook],
            ..pair()
        },
    ]
}

/// Acts of the tool, and of other implementations.
fn operators() -> Vec<Scenario> {
    vec![
        // A tool that evicts whoever holds.
        Scenario {
            name: "evicted",
            starts: vec![Start::Empty, Start::Held],
            ticks: 9,
            budget: Budget { evictions: 1, ..faults(1) },
            expected: vec![Goal::Superseded, Goal::EvictedWaited],
            ..pair()
        },
        // A tool that removes the row of a lock that is vacant.
        Scenario {
            name: "removed",
            starts: vec![Start::Held],
            ticks: 8,
            quick_ticks: 7,
            budget: Budget { removals: 1, stops: 1, ..faults(1) },
            expected: vec![Goal::Removed, Goal::TookOver],
            ..pair()
        },
        // Peers of another implementation that died halfway. They write no lease.
        Scenario {
            name: "peers",
            starts: vec![Start::Abandoned, Start::HalfTakenOver, Start::Held],
            budget: Budget { half_takeovers: 1, ..faults(1) },
            ticks: 12,
            quick_ticks: 9,
            expected: vec![Goal::WroteOver, Goal::TookOver],
            ..pair()
        },
    ]
}

/// Owners that let go in every way.
fn owners() -> Vec<Scenario> {
    vec![
        // Owners that stop and resign.
        Scenario {
            name: "owners",
            starts: vec![Start::Empty, Start::Held],
            ticks: 7,
            quick_ticks: 5,
            budget: Budget { stops: 1, resignations: 1, ..faults(1) },
            expected: vec![
                Goal::Released,
                Goal::LateRelease,
                Goal::SuccessorTook,
                Goal::StoppedInAttempt,
            ],
            ..pair()
        },
        // Owners that want the lock for a while, let go of it, or leave their term to lapse.
        Scenario {
            name: "holds",
            starts: vec![Start::Empty, Start::Held],
            ticks: 9,
            quick_ticks: 7,
            budget: Budget { holds: 1, ..faults(1) },
            expected: vec![Goal::Released, Goal::Lapsed, Goal::GivenBack],
            ..pair()
        },
    ]
}

/// People outside the protocol, and clocks that are worse than it allows for.
fn edited() -> Vec<Scenario> {
    vec![
        // People outside the protocol delete, edit, lose and seize; I1 is exempt from then on.
        Scenario {
            name: "manual edits",
            starts: vec![Start::Held, Start::EpochToken],
            ticks: 7,
            quick_ticks: 5,
            budget: Budget { manual_edits: 1, ..faults(1) },
            expected: vec![Goal::TookInterfered, Goal::Superseded, Goal::FenceRefused],
            ..pair()
        },
        // Two edits in a row, while the outcome of an attempt is unknown.
        Scenario {
            name: "forged",
            members: two(timing(6, 2, 4, 1, 2), timing(6, 2, 4, 1, 2)),
            starts: vec![Start::Abandoned],
            ticks: 4,
            budget: Budget { manual_edits: 2, ..faults(1) },
            expected: vec![Goal::TookInterfered],
            ..pair()
        },
        // Clocks that go wrong further than the margin allows: two may have the lock at once, yet no
        // fenced write of the earlier one commits.
        Scenario {
            name: "broken clocks",
            members: ["a", "b"]
                .map(|id| Member { clock: Clock::Slow(1), ..Member::new(id, short_lease()) })
                .into(),
            starts: vec![Start::Held],
            ticks: 8,
            budget: faults(1),
            clocks_break_i1: true,
            expected: vec![Goal::TookOver],
            ..pair()
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::notes::Noted as _;

    #[test]
    fn a_scenario_expects_each_goal() {
        let expected: Vec<Goal> = short().into_iter().flat_map(|it| it.expected).collect();
        for goal in Goal::ALL {
            assert!(expected.contains(goal), "no scenario expects {goal:?}");
        }
    }
}
