//! The bounds of an exploration of readers and writers.

use super::judge::Goal;

/// A space of worlds to explore.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    pub(super) readers: usize,
    pub(super) writers: usize,
    /// The rule that is left out, if one is: then an invariant breaks, or the model is blind.
    pub(super) lacking: Option<Rule>,
    pub(super) ticks: u16,
    pub(super) budget: Budget,
    /// One state in so many is followed to its end.
    pub(super) continued_one_in: u64,
    pub(super) expected: Vec<Goal>,
}

/// A rule of the writer's begin, without which fences of readers and writers hold together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Rule {
    /// It depends on the gate's term.
    Gate,
    /// It deletes the rows of readers as they were seen, and depends on that.
    Deletion,
}

/// How often each thing may happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// All the faults below together, up to `pauses`.
    pub(super) faults: u8,
    /// A request or an answer that is held up.
    pub(super) delays: u8,
    /// An outcome that is unknown, or is that nothing was done.
    pub(super) unknowns: u8,
    pub(super) crashes: u8,
    /// A pause of any length.
    pub(super) pauses: u8,
    /// The owner lets go.
    pub(super) departures: u8,
    /// An owner that let go wants it again.
    pub(super) returns: u8,
}

/// Returns the scenarios that run in CI.
pub fn short() -> Vec<Scenario> {
    vec![two_readers(), two_writers(), turns()]
}

/// Returns the scenarios in each of which a rule is left out, so that an invariant must break.
pub fn broken() -> Vec<Scenario> {
    let without = |name, rule, scenario: Scenario| {
        let (lacking, expected, continued_one_in) = (Some(rule), Vec::new(), u64::MAX);
        Scenario { name, lacking, expected, continued_one_in, ..scenario }
    };
    vec![
        without("write blindly", Rule::Gate, two_readers()),
        without("write and leave", Rule::Deletion, two_readers()),
    ]
}

/// Returns the same in small.
pub fn quick() -> Vec<Scenario> {
    let in_small =
        |scenario: Scenario| Scenario { ticks: 4, expected: vec![Goal::WriterBegan], ..scenario };
    short().into_iter().map(in_small).collect()
}

/// Returns the same, further.
pub fn long() -> Vec<Scenario> {
    let further = |scenario: Scenario| Scenario {
        budget: Budget { faults: scenario.budget.faults + 1, ..scenario.budget },
        ..scenario
    };
    short().into_iter().map(further).collect()
}

fn two_readers() -> Scenario {
    Scenario {
        name: "two readers",
        readers: 2,
        writers: 1,
        lacking: None,
        ticks: 6,
        budget: Budget {
            faults: 1,
            delays: 1,
            unknowns: 1,
            crashes: 1,
            pauses: 1,
            departures: 1,
            returns: 0,
        },
        continued_one_in: 64,
        expected: vec![
            Goal::ReadTogether,
            Goal::WriterBegan,
            Goal::WriterWaited,
            Goal::DeadWriterReleased,
            Goal::DeadGateReleased,
            Goal::DeadReaderDeleted,
            Goal::DiedWaiting,
            Goal::ReaderRefused,
            Goal::LateRead,
            Goal::LateWrite,
        ],
    }
}

fn two_writers() -> Scenario {
    Scenario {
        name: "two writers",
        readers: 1,
        writers: 2,
        expected: vec![
            Goal::WriterBegan,
            Goal::WriterWaited,
            Goal::ReaderAfterWriter,
            Goal::DeadWriterReleased,
            Goal::DeadReaderDeleted,
            Goal::DiedWaiting,
            Goal::GateLost,
            Goal::WroteOn,
            Goal::LateWrite,
        ],
        ..two_readers()
    }
}

/// Nothing fails, and they have time for their turns.
fn turns() -> Scenario {
    Scenario {
        name: "turns to read",
        ticks: 9,
        budget: Budget { departures: 2, returns: 1, ..Budget::default() },
        expected: vec![
            Goal::WriterBegan,
            Goal::ReaderAfterWriter,
            Goal::TookPlace,
            Goal::LeftToReaders,
        ],
        ..two_writers()
    }
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
