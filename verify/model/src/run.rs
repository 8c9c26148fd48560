//! One exploration from beginning to verdict.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hash;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use crate::model::LockModel;
use crate::scenario::Scenario;

/// How far an exploration may go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// For how long.
    pub time: Option<Duration>,
    /// To how many distinct states, roughly.
    pub states: Option<usize>,
    /// On how many threads; one, if none is named, which finds the shortest counterexample.
    pub threads: usize,
}

/// The findings of an exploration.
#[derive(Debug)]
pub struct Report {
    /// The scenario.
    pub name: &'static str,
    /// Transitions taken.
    pub transitions: usize,
    /// Distinct states reached.
    pub states: usize,
    /// The longest path taken.
    pub depth: usize,
    /// How long it took.
    pub took: Duration,
    /// True if every state within the scenario's bounds was reached.
    pub complete: bool,
    /// How many invariants were judged in each state.
    pub invariants: usize,
    /// How many things were to be seen, and how many were.
    pub goals: (usize, usize),
    /// The failures: an invariant broken, with the steps to it, or a thing never seen.
    pub failures: Vec<Failure>,
}

/// Something that is wrong.
#[derive(Debug)]
pub struct Failure {
    /// The property.
    pub property: &'static str,
    /// The steps that show it; none if it is that something was never seen.
    pub steps: Option<Vec<String>>,
}

/// Starts to measure how long something takes.
#[expect(clippy::disallowed_methods, reason = "measures a run, decides nothing")]
pub fn stopwatch() -> Instant {
    Instant::now()
}

/// Explores the scenario, breadth first.
pub fn explore(scenario: &Scenario, limits: Limits) -> Report {
    check(scenario.name, LockModel { scenario: scenario.clone() }, limits)
}

/// Explores a model from which a rule is left out: unless an invariant breaks, the model is blind.
pub fn check_broken<M>(name: &'static str, model: M, limits: Limits) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + fmt::Debug + PartialEq,
{
    let report = check(name, model, limits);
    let is_seen = report.failures.iter().any(|failure| failure.steps.is_some());
    let unseen = Failure { property: "an invariant breaks without the rule", steps: None };
    let failures = if is_seen { Vec::new() } else { vec![unseen] };
    let goals = (1, usize::from(is_seen));
    // How many states come before that depends on the threads.
    Report { transitions: 0, states: 0, depth: 0, complete: is_seen, goals, failures, ..report }
}

/// Explores a model, breadth first.
pub fn check<M>(name: &'static str, model: M, limits: Limits) -> Report
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + fmt::Debug + Hash + PartialEq + Send + Sync,
    M::Action: Clone + fmt::Debug + PartialEq,
{
    let properties = model.properties();
    let invariants: BTreeSet<_> = properties
        .iter()
        .filter(|property| matches!(property.expectation, Expectation::Always))
        .map(|property| property.name)
        .collect();
    let began = stopwatch();
    let mut builder =
        model.checker().threads(limits.threads.max(1)).finish_when(HasDiscoveries::AnyFailures);
    if let Some(time) = limits.time {
        builder = builder.timeout(time);
    }
    if let Some(states) = limits.states {
        // The checker counts transitions; about two in three lead to a state that is new.
        builder = builder.target_state_count(states + states / 2);
    }
    let checker = builder.spawn_bfs().join();
    let took = began.elapsed();
    let in_time = limits.time.is_none_or(|time| took < time);
    let cut = limits.states.is_some_and(|states| checker.state_count() >= states + states / 2);
    let complete = in_time && !cut;
    let discoveries = checker.discoveries();
    let mut failures = Vec::new();
    for property in properties.iter().map(|property| property.name) {
        let found = discoveries.get(property);
        let steps = found.map(|path| {
            let steps = path.clone().into_actions();
            steps.iter().map(|step| format!("{step:?}")).collect()
        });
        // A thing not seen in a part may be seen in the whole.
        if invariants.contains(property) && found.is_some()
            || !invariants.contains(property) && found.is_none() && complete
        {
            failures.push(Failure { property, steps });
        }
    }
    let goals = properties.len() - invariants.len();
    let seen = discoveries.keys().filter(|name| !invariants.contains(*name)).count();
    Report {
        name,
        transitions: checker.state_count(),
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        took,
        complete: complete && failures.iter().all(|failure| failure.steps.is_none()),
        invariants: invariants.len(),
        goals: (goals, seen),
        failures,
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.failures.is_empty(), self.complete) {
            (false, _) => "FAILED",
            (true, true) => "complete",
            (true, false) => "cut short",
        };
        write!(
            f,
            "{:<16} transitions={} states={} depth={} seconds={:.1} invariants={} seen={}/{} {verdict}",
            self.name,
            self.transitions,
            self.states,
            self.depth,
            self.took.as_secs_f64(),
            self.invariants,
            self.goals.1,
            self.goals.0,
        )?;
        for failure in &self.failures {
            match &failure.steps {
                None => write!(f, "\n  never seen: {}", failure.property)?,
                Some(steps) => {
                    write!(f, "\n  broken in {} steps: {}", steps.len(), failure.property)?;
                    write!(f, "\n    {}", steps.join(", "))?;
                }
            }
        }
        Ok(())
    }
}
