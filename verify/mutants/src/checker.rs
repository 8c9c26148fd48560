//! The checkers that may notice a mutant, and what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io;

use crate::mutant::Mutant;
use crate::sources::{Sources, Test};

/// A program that is run on a mutated copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checker {
    /// The model checker with these options.
    Model(&'static [&'static str]),
    /// The simulation with these options.
    Simulation(&'static [&'static str]),
    Test(Test),
}

/// A checker's answer, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The failure, and where.
    Noticed(String),
    NotNoticed,
    /// The mutant doesn't apply, or the copy doesn't build or run; what was printed.
    Broken(String),
}

const QUICK_MODEL: Checker = Checker::Model(&["--quick"]);
const MODEL: Checker = Checker::Model(&[]);
const SIMULATION: Checker = Checker::Simulation(&["--seconds", "60"]);
const CLIENT: Checker = Checker::Simulation(&["--seconds", "150", "--client"]);

/// Optimises what is ours, and takes all other packages as the tests have built them.
const OPTIMISED: [&str; 4] = ["run", "--quiet", "--config", ".cargo/optimised.toml"];

impl Checker {
    /// Returns the checkers for a mutant, from the quickest to the most thorough.
    ///
    /// A mutant that names a test is for that test alone. The model runs neither the driver nor the
    /// real table, and the simulation has no use for the model's table.
    pub fn all_for(mutant: &Mutant, sources: &Sources) -> io::Result<Vec<Checker>> {
        if mutant.test.is_some() {
            let test = sources.test(mutant).map_err(io::Error::other)?;
            return Ok(vec![Checker::Test(test)]);
        }
        let touches = |part| mutant.edits.iter().any(|edit| edit.file.contains(part));
        Ok(if touches("verify/model/") {
            vec![QUICK_MODEL, MODEL]
        } else if touches("crates/protocol/") {
            vec![QUICK_MODEL, SIMULATION, MODEL, CLIENT]
        } else {
            vec![SIMULATION, CLIENT]
        })
    }

    /// Returns true if a change of this file may change what the checker says.
    pub fn is_in(&self, file: &str) -> bool {
        match self {
            Checker::Model(_) => file.contains("verify/model/src/"),
            Checker::Simulation(_) => {
                file.contains("verify/simulation/src/") || file.contains("verify/judge/src/")
            }
            Checker::Test(test) => file == test.file,
        }
    }

    /// Returns cargo's arguments to build and run it.
    pub fn run(&self) -> Vec<&str> {
        match self {
            Checker::Model(options) => {
                let program = ["-p", "spindle-model", "--bin", "model", "--", "--first"];
                [&OPTIMISED[..], &program, options].concat()
            }
            // The same seeds each time, as many of them as the time is enough for. A verdict names its seed.
            Checker::Simulation(options) => {
                let program =
                    ["-p", "spindle-simulation", "--bin", "simulate", "--", "--first", "1"];
                [&OPTIMISED[..], &program, options].concat()
            }
            // Of the whole workspace where that builds nothing else: its builds of other people's packages are there,
            // while one package alone asks some of them for fewer features.
            Checker::Test(Test { name, target, .. }) if target.starts_with("--test=") => {
                vec!["test", "--quiet", "--workspace", target, "--", name]
            }
            Checker::Test(Test { package, name, target, .. }) => {
                vec!["test", "--quiet", "-p", package, target, "--", name]
            }
        }
    }

    /// Returns the runs of all tests among these checkers, those of one program together.
    ///
    /// The model and the simulation are left to their own stages of the gate, which have them pass.
    pub fn tests(checkers: &[Checker]) -> Vec<Vec<&str>> {
        let mut tests: BTreeMap<Vec<&str>, BTreeSet<&str>> = BTreeMap::new();
        for checker in checkers.iter().filter(|checker| matches!(checker, Checker::Test(_))) {
            let mut run = checker.run();
            let name = run.pop();
            tests.entry(run).or_default().extend(name);
        }
        tests.into_iter().map(|(run, names)| run.into_iter().chain(names).collect()).collect()
    }

    /// Reads the verdict off what it printed.
    pub fn verdict(&self, printed: &str) -> Outcome {
        let broken = || Outcome::Broken(printed.to_string());
        // It is the last word: what is said first is which worlds are tried.
        let prefixed = |prefix| printed.lines().rev().find_map(|line| line.strip_prefix(prefix));
        match self {
            Checker::Model(_) => match prefixed("model: ") {
                None => broken(),
                Some(verdict) if verdict.starts_with("ok") => Outcome::NotNoticed,
                Some(_) => noticed_by_model(printed),
            },
            Checker::Simulation(_) => match prefixed("simulate: ") {
                Some(verdict) if verdict.starts_with("ok") => Outcome::NotNoticed,
                verdict => match verdict.and_then(|verdict| verdict.strip_prefix("FAILED ")) {
                    None => broken(),
                    Some(failure) => Outcome::Noticed(format!("{failure}, by the simulation")),
                },
            },
            Checker::Test(test) => {
                let mut results = printed.lines().filter_map(|it| it.strip_prefix("test result: "));
                // Others ran too, whose names contain this one's.
                if printed.lines().any(|line| test.is_listed_in(line)) {
                    Outcome::Noticed(format!("`{}`, by a test of {}", test.name, test.package))
                } else if results.any(|result| !result.starts_with("ok. 0 passed")) {
                    Outcome::NotNoticed
                } else {
                    broken()
                }
            }
        }
    }
}

impl Outcome {
    pub fn is_noticed(&self) -> bool {
        matches!(self, Outcome::Noticed(_))
    }

    /// Returns more than fits into a table.
    pub fn details(&self) -> String {
        match self {
            Outcome::Broken(printed) => format!("{self}:\n{printed}"),
            _ => self.to_string(),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Noticed(by) => f.write_str(by),
            Outcome::NotNoticed => f.write_str("NOT NOTICED"),
            Outcome::Broken(_) => f.write_str("NOT JUDGED: it doesn't apply, build or run"),
        }
    }
}

/// Reads the first failure off the model's report.
fn noticed_by_model(printed: &str) -> Outcome {
    let mut scenario = "?";
    for line in printed.lines() {
        let failure = line.strip_prefix("  broken in ").or(line.strip_prefix("  never seen"));
        if failure.is_some() {
            return Outcome::Noticed(format!("{}, by the model in `{scenario}`", line.trim()));
        }
        scenario = line.split("transitions=").next().unwrap_or_default().trim();
    }
    Outcome::Noticed("a failed run, by the model".to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn test() -> Checker {
        Checker::Test(Test {
            package: "p".into(),
            name: "a::b".into(),
            file: "tests/a.rs".into(),
            target: "--test=a".into(),
        })
    }

    #[test]
    fn a_test_notices_by_failing_alone() {
        let ok = "test result: ok. 0 passed; 0 failed\ntest result: ok. 1 passed; 0 failed";
        assert_eq!(test().verdict(ok), Outcome::NotNoticed);
        let failed = |name: &str| {
            format!("failures:\n    {name}\n\ntest result: FAILED. 1 passed; 1 failed")
        };
        assert!(test().verdict(&failed("a::b")).is_noticed());
        assert!(test().verdict(&failed("x::a::b")).is_noticed(), "in a module of the program");
        assert_eq!(test().verdict(&failed("a::b_and_more")), Outcome::NotNoticed);
    }

    #[test]
    fn tests_of_one_program_are_run_together_where_nothing_is_mutated() {
        let other = |name: &str| match test() {
            Checker::Test(test) => Checker::Test(Test { name: name.into(), ..test }),
            other => other,
        };
        let checkers = [test(), other("c"), other("c"), MODEL, QUICK_MODEL];
        let runs = Checker::tests(&checkers);
        assert_eq!(runs.len(), 1, "{runs:?}");
        assert!(runs[0].ends_with(&["--", "a::b", "c"]), "{runs:?}");
    }

    #[test]
    fn a_copy_that_does_not_build_and_a_name_without_a_test_are_no_verdict() {
        for printed in ["error: expected `;`", "test result: ok. 0 passed; 0 failed"] {
            assert!(matches!(test().verdict(printed), Outcome::Broken(_)), "{printed}");
        }
        assert!(matches!(MODEL.verdict("error"), Outcome::Broken(_)));
        assert!(matches!(SIMULATION.verdict("error"), Outcome::Broken(_)));
    }

    #[test]
    fn the_simulation_notices_by_its_last_word() {
        let first = "simulate: seeds from 1 on, after 1 regressions";
        let noticed = SIMULATION.verdict(&format!("{first}\nsimulate: FAILED seed=7 I1 at 2 s"));
        assert_eq!(noticed.to_string(), "seed=7 I1 at 2 s, by the simulation");
        assert_eq!(SIMULATION.verdict(&format!("{first}\nsimulate: ok")), Outcome::NotNoticed);
        assert!(matches!(SIMULATION.verdict(first), Outcome::Broken(_)));
    }

    #[test]
    fn a_failure_of_the_model_is_told_with_its_scenario() {
        let printed = "slow  transitions=12 depth=3\n  broken in 9 steps: I1\nmodel: FAILED";
        let outcome = MODEL.verdict(printed);
        assert_eq!(outcome.to_string(), "broken in 9 steps: I1, by the model in `slow`");
    }
}
