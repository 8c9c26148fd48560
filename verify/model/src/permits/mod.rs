//! Nobody waits for ever for one of several permits: a search as [`line`](crate::line)'s, with a row for
//! each permit.
//!
//! A process's callers share one wait. What it does is asked of a real
//! [`PermitWait`](spindle_protocol::permits::PermitWait) and, for each attempt, of a real
//! [`Instance`](spindle_protocol::Instance); what that does to a row, of a real
//! [`Change`](spindle_protocol::Change). Time is gone here, too. A promise lasts for as long as the
//! process waits, since it polls within that time. Where it waits no more, the promise may be over at
//! any moment.

mod steps;
mod world;

use self::steps::Step;
use crate::run::{Report, stopwatch};
use crate::search::Worlds;

/// Processes that want permits of one semaphore.
#[derive(Clone, Debug)]
pub struct PermitModel {
    /// Its name.
    pub name: &'static str,
    /// The number of permits.
    pub permits: usize,
    /// The processes. The first one must not wait for ever.
    pub processes: Vec<Process>,
    /// The rules without each of which it does.
    pub needed: Vec<Rule>,
    /// The rule that is left out, if one is.
    pub lacking: Option<Rule>,
}

/// One process.
#[derive(Clone, Copy, Debug)]
pub struct Process {
    /// How many callers it has, each of which wants a permit again and again.
    pub callers: usize,
    /// True if its callers keep what they have.
    pub keeps: bool,
}

/// A rule of the line before permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Another permit is marked once it has changed hands after the marked one.
    Another,
    /// A release moves the place into the row.
    Moves,
    /// A caller that came too late for all that its process saw free takes a place.
    Tried,
}

impl PermitModel {
    /// Returns the searches that run in CI.
    pub fn all() -> Vec<PermitModel> {
        let loops = |callers| Process { callers, keeps: false };
        let keeps = Process { callers: 1, keeps: true };
        let of = |name, permits, processes: &[Process], needed: &[Rule]| {
            let (processes, needed) = (processes.to_vec(), needed.to_vec());
            PermitModel { name, permits, processes, needed, lacking: None }
        };
        vec![
            of("one permit", 1, &[loops(1), loops(1)], &[Rule::Moves, Rule::Tried]),
            of("one that queues", 1, &[loops(2), loops(2)], &[Rule::Moves]),
            of("two permits", 2, &[loops(1), loops(1), loops(1)], &[Rule::Moves]),
            of("a permit kept", 2, &[loops(1), loops(1), keeps], &[Rule::Another]),
        ]
    }

    fn lacks(&self, rule: Rule) -> bool {
        self.lacking == Some(rule)
    }

    /// Searches with all rules, and once without each that is needed.
    pub fn report(&self) -> Report {
        let began = stopwatch();
        let worlds = Worlds::explore(self);
        let starves = |worlds: &Worlds<'_, PermitModel>| {
            worlds.goes_on(|step| !matches!(step, Step::Begins(0)))
        };
        let rules = self.needed.iter().map(|rule| {
            let without = PermitModel { lacking: Some(*rule), ..self.clone() };
            (rule.left_out(), starves(&Worlds::explore(&without)).is_some())
        });
        let properties = vec![("nobody waits for ever", starves(&worlds))];
        worlds.report(self.name, began, properties, rules.collect())
    }
}

impl Rule {
    fn left_out(self) -> &'static str {
        match self {
            Rule::Another => "somebody waits for ever where one permit is marked and no other",
            Rule::Moves => "somebody waits for ever where a release drops the place",
            Rule::Tried => "somebody waits for ever where only who saw none free takes a place",
        }
    }
}
