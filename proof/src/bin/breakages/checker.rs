//! Who may notice a breakage, and what it says.

/// One that is run on a broken copy.
#[derive(Clone, Copy, Debug)]
pub enum Checker {
    /// The model checker with these options.
    Model(&'static [&'static str]),
    /// The simulation with these options.
    Simulation(&'static [&'static str]),
}

/// How a broken copy was noticed.
pub struct Catch {
    /// What was broken, or never seen.
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

impl Checker {
    /// The checkers for what a patch touches, from the quickest to the most thorough.
    ///
    /// The model checker runs neither the driver nor the real table, and the simulation has no
    /// use for the model's specification of one.
    pub fn for_patch(patch: &str) -> Vec<Checker> {
        let touches = |folder: &str| patch.contains(&format!("\n--- a/{folder}/"));
        if touches("proof") {
            MODEL.to_vec()
        } else if touches("protocol") {
            MODEL.into_iter().chain(SIMULATION).collect()
        } else {
            SIMULATION.to_vec()
        }
    }

    /// The package and the program in it.
    pub fn program(self) -> [&'static str; 4] {
        match self {
            Checker::Model(_) => ["-p", "spindle-proof", "--bin", "model"],
            Checker::Simulation(_) => ["-p", "spindle-simulation", "--bin", "simulate"],
        }
    }

    /// What it is run with.
    pub fn options(self) -> Vec<&'static str> {
        match self {
            Checker::Model(options) => ["--first"].iter().chain(options).copied().collect(),
            // Always the same seeds, so that the table can be made again.
            Checker::Simulation(options) => {
                ["--first", "1"].iter().chain(options).copied().collect()
            }
        }
    }

    /// Reads the verdict off what it printed; none if there is none.
    pub fn verdict(self, printed: &str) -> Option<Option<Catch>> {
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
        }
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
