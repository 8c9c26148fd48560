//! The checkers that may notice a breakage, and their findings.

/// One that is run on a broken copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Checker {
    /// The model checker with these options.
    Model(&'static [&'static str]),
    /// The simulation with these options.
    Simulation(&'static [&'static str]),
    /// One test of a package, which the patch names.
    Law { package: String, name: String },
}

/// How a broken copy was noticed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Catch {
    /// The property that was broken, or never seen.
    pub property: String,
    /// After how many steps, or how soon in the world of which seed.
    pub after: String,
    /// In which scenario or simulation.
    pub place: String,
}

const MODEL: [Checker; 2] = [Checker::Model(&["--quick"]), Checker::Model(&[])];
const SIMULATION: [Checker; 2] = [
    Checker::Simulation(&["--seconds", "60"]),
    Checker::Simulation(&["--seconds", "150", "--client"]),
];

/// A law is run once: it takes longer to optimise than to run.
const UNOPTIMISED: [&str; 2] = ["--config", "profile.release.package.spindle-lock.opt-level=0"];

impl Checker {
    /// Returns the checkers for what a patch touches, from the quickest to the most thorough.
    ///
    /// The model checker runs neither the driver nor the real table, and the simulation has no
    /// use for the model's specification of one. A patch with a line `Law: PACKAGE NAME` is for
    /// that test alone, because no other checker can see what it breaks.
    pub fn for_patch(patch: &str) -> Vec<Checker> {
        let law = patch.lines().find_map(|line| line.strip_prefix("Law: "));
        if let Some((package, name)) = law.and_then(|law| law.trim().split_once(' ')) {
            return vec![Checker::Law { package: package.into(), name: name.into() }];
        }
        let touches = |folder: &str| patch.contains(&format!("\n--- a/{folder}/"));
        if touches("proof") {
            MODEL.to_vec()
        } else if touches("protocol") {
            MODEL.into_iter().chain(SIMULATION).collect()
        } else {
            SIMULATION.to_vec()
        }
    }

    /// Returns the arguments of cargo's build.
    pub fn build(&self) -> Vec<&str> {
        match self {
            Checker::Model(_) => vec!["build", "-p", "spindle-proof", "--bin", "model"],
            Checker::Simulation(_) => {
                vec!["build", "-p", "spindle-simulation", "--bin", "simulate"]
            }
            Checker::Law { package, name } => {
                [&["test", "--no-run"], &UNOPTIMISED[..], &tests(package, name)[..]].concat()
            }
        }
    }

    /// Returns the arguments of cargo's run.
    pub fn run(&self) -> Vec<&str> {
        match self {
            Checker::Model(options) => {
                let program = ["run", "-p", "spindle-proof", "--bin", "model", "--", "--first"];
                [&program, *options].concat()
            }
            // Always the same seeds, so that the table can be made again.
            Checker::Simulation(options) => {
                let program = ["run", "-p", "spindle-simulation", "--bin", "simulate"];
                [&program[..], &["--", "--first", "1"], options].concat()
            }
            Checker::Law { package, name } => {
                [&["test"], &UNOPTIMISED[..], &tests(package, name)[..], &["--", name.as_str()]]
                    .concat()
            }
        }
    }

    /// Returns the folders with the sources that it runs or that judge; of the embedded Spanner
    /// those that decide about transactions, not its SQL.
    pub fn reads(&self) -> &'static [&'static str] {
        match self {
            Checker::Model(_) => &["protocol/src", "proof/src"],
            Checker::Simulation(options) if options.contains(&"--client") => &[
                "protocol/src",
                "src",
                "simulation/src",
                "emulator/src/engine",
                "emulator/src/service",
            ],
            Checker::Simulation(_) => {
                &["protocol/src", "src", "simulation/src", "emulator/src/engine"]
            }
            Checker::Law { package, .. } if package == "spindle-protocol" => &["protocol/src"],
            Checker::Law { package, .. } if package == "spindle-proof" => {
                &["protocol/src", "proof/src"]
            }
            Checker::Law { package, .. } if package == "spindle-simulation" => {
                &["protocol/src", "src", "simulation", "emulator/src/engine"]
            }
            Checker::Law { .. } => &[
                "protocol/src",
                "src",
                "tests/laws",
                "emulator/src/engine",
                "emulator/src/service",
            ],
        }
    }

    /// Reads the verdict off what it printed; none if there is none.
    pub fn verdict(&self, printed: &str) -> Option<Option<Catch>> {
        match self {
            Checker::Model(_) => {
                let verdict = printed.lines().find_map(|line| line.strip_prefix("model: "))?;
                Some((!verdict.starts_with("ok")).then(|| noticed_by_model(printed)))
            }
            Checker::Simulation(options) => {
                let verdict = printed.lines().find_map(|line| line.strip_prefix("simulate: "))?;
                let client = options.contains(&"--client");
                let place = if client { "simulation, through the client" } else { "simulation" };
                let failure = verdict.strip_prefix("FAILED ");
                Some(failure.map(|failure| noticed_by_simulation(failure, place)))
            }
            Checker::Law { package, name } => {
                let results = || printed.lines().filter_map(|it| it.strip_prefix("test result: "));
                let failed = results().any(|result| result.starts_with("FAILED"));
                // A name that no test has proves nothing.
                let ran = failed || results().any(|result| !result.starts_with("ok. 0 passed"));
                let after = String::new();
                let place = format!("law of {package}");
                let catch = Catch { property: format!("`{name}`"), after, place };
                ran.then_some(failed.then_some(catch))
            }
        }
    }
}

/// The laws of the lock are one test binary, and so are the worlds of the simulation; other packages
/// keep theirs beside the code.
fn tests<'a>(package: &'a str, name: &str) -> [&'a str; 3] {
    match package {
        // The rules of one room stand beside it.
        "spindle-lock" if name.contains("::tests::") => ["--lib", "-p", package],
        "spindle-lock" => ["--test=laws", "-p", package],
        "spindle-simulation" => ["--test=worlds", "-p", package],
        _ => ["--lib", "-p", package],
    }
}

/// Reads the first failure off a report.
fn noticed_by_model(printed: &str) -> Catch {
    let mut place = String::new();
    for line in printed.lines() {
        if let Some((steps, property)) =
            line.strip_prefix("  broken in ").and_then(|rest| rest.split_once(" steps: "))
        {
            return Catch { property: property.into(), after: format!("{steps} steps"), place };
        }
        if let Some(sight) = line.strip_prefix("  never seen: ") {
            let property = format!("never seen: {sight}");
            return Catch { property, after: "all".into(), place };
        }
        place = line.split("transitions=").next().unwrap_or_default().trim().into();
    }
    Catch { property: "?".into(), after: "?".into(), place }
}

/// Such as `seed=7 I1 at 12.345s: lock …`, or `never seen: […] …`.
fn noticed_by_simulation(failure: &str, place: &str) -> Catch {
    let place = place.to_string();
    let parts = failure.strip_prefix("seed=").and_then(|rest| {
        let (seed, rest) = rest.split_once(' ')?;
        let (invariant, rest) = rest.split_once(" at ")?;
        let (at, _) = rest.split_once(": ")?;
        Some((seed, invariant, at))
    });
    match parts {
        Some((seed, invariant, at)) => {
            Catch { property: invariant.into(), after: format!("{at} of seed {seed}"), place }
        }
        None => {
            let property = failure.split(" seeds=").next().unwrap_or(failure).into();
            Catch { property, after: "all".into(), place }
        }
    }
}
