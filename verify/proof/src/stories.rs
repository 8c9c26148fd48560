//! Runs from the initial state in a small world: that each action can happen, and what goes wrong
//! without a guard.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::invariant::{CLAIMS, CLAUSES, INITIAL};
use crate::queries::{Change, Query, Update, assert, axioms, symbol};
use crate::relation::{ACTIONS, Action, Guard, RIGID, SORTS, STATE};
use crate::term::Term;

/// How many elements each sort of the small world has, in the order of [`SORTS`].
const SIZES: [usize; 6] = [2, 4, 3, 2, 2, 1];

/// No time is later, so that the numbers of a story are small.
const LATEST: u32 = 60;

/// The orders of actions among which a story is looked for. Steps may be left out.
const PLOTS: &[&str] = &[
    // One holds after another.
    "observe send tick insert tick believe send-heartbeat observe heartbeat renew release send takeover tick believe",
    "observe send insert tick send believe observe send takeover tick believe",
    "observe send insert fence evict",
    // Heartbeats and evictions between two terms.
    "observe send insert send tick believe send-heartbeat abandon heartbeat tick send-heartbeat heartbeat renew evict observe send takeover tick believe",
    // Two attempts at once, and an abandoned one.
    "observe observe send send insert insert abandon observe send tick takeover tick believe believe",
    "observe send insert abandon observe tick send takeover tick believe observe send takeover tick believe",
    // Late requests of a term that is over.
    "observe observe send send insert tick believe send-heartbeat send-heartbeat heartbeat fence heartbeat stop-believing abandon release delete-by-hand insert heartbeat fence release takeover",
    // Removals.
    "observe send insert tick believe send-heartbeat observe abandon evict release fence look send takeover heartbeat renew remove delete-by-hand observe send insert tick believe",
    // Seized, edited.
    "observe observe send send insert tick believe send-heartbeat fence edit observe send seize edit heartbeat fence takeover release",
    "observe send abandon edit look observe send delete-by-hand insert takeover remove",
];

/// Runs in which each action happens: three hold in a row, and then everything else.
const RUNS: [(&str, &str); 2] = [
    (
        "observe send insert tick believe send-heartbeat heartbeat renew fence stop-believing release observe send takeover sweep tick believe tick evict observe send takeover tick believe",
        "(and (not meddled) (exists ((t Term)) (and (valid t) (= (nth t) 2))))",
    ),
    (
        "observe send insert abandon look remove observe send insert tick believe delete-by-hand seize edit",
        "(and meddled (exists ((t Term)) (valid t)))",
    ),
];

/// A run of actions in this order.
struct Run<'a> {
    /// The formulas that hold at first.
    start: &'a [Term],
    /// The names of the actions.
    plot: &'static str,
    /// True if steps may be left out.
    skips: bool,
    /// The formula that holds in the end.
    goal: &'a Term,
    /// The change of the relation.
    change: Change,
}

/// Returns the queries, each of which has an answer: each action happens in one of these runs.
pub fn possible() -> Vec<Query> {
    let missing = ACTIONS.iter().find(|action| {
        !RUNS.iter().any(|(plot, _)| plot.split(' ').any(|name| name == action.name))
    });
    if let Some(action) = missing {
        panic!("`{}` happens in no run", action.name);
    }
    let run = |(number, (plot, goal)): (usize, &(&'static str, &str))| {
        let (start, change) = (initial(), Change::default());
        let run = Run { start: &start, plot, skips: false, goal: &Term::read(goal), change };
        run.query(format!("possible/{number}"))
    };
    RUNS.iter().enumerate().map(run).collect()
}

/// Returns the questions, of which one at least has an answer: how a claim breaks without a guard.
pub fn without(action: &'static Action, guard: &'static Guard) -> Vec<Query> {
    let change = Change { without: Some((action.name, guard.name)), ..Change::default() };
    told(&format!("{}/{}", action.name, guard.name), action.name, change)
}

/// Returns the questions, of which one at least has an answer: how a claim breaks by half the
/// margin.
pub fn half_margin() -> Vec<Query> {
    told("half-margin", "tick", Change { half_margin: true, ..Change::default() })
}

/// Returns the questions for runs in which this action may happen.
fn told(name: &str, action: &str, change: Change) -> Vec<Query> {
    let (start, broken) = (initial(), not_all(CLAIMS.iter()));
    let plots = PLOTS.iter().enumerate();
    let plots = plots.filter(|(_, plot)| plot.split(' ').any(|name| name == action));
    let run = |(number, plot): (usize, &&'static str)| {
        Run { start: &start, plot, skips: true, goal: &broken, change }
            .query(format!("story/{name}/{number}"))
    };
    plots.map(run).collect()
}

/// Returns the questions, of which one at least has an answer: how another clause or a claim breaks
/// in one step at most, if this clause is left out of the invariant.
pub fn without_clause(name: &str) -> Vec<Query> {
    let others = || CLAUSES.iter().chain(CLAIMS).filter(|(other, _)| *other != name);
    let start: Vec<Term> =
        others().filter(|(name, _)| *name != "I1").map(|(_, text)| Term::read(text)).collect();
    let (broken, change) = (not_all(others()), Change::default());
    let names =
        ["", "takeover", "tick"].into_iter().chain(ACTIONS.iter().map(|action| action.name));
    let run = |plot| {
        Run { start: &start, plot, skips: false, goal: &broken, change }
            .query(format!("clause/{name}/{plot}"))
    };
    names.map(run).collect()
}

/// Tells the run that a solver found, a line for each step.
pub fn tell(plot_of: &Query, said: &str) -> Vec<String> {
    let Some(values) = said.strip_prefix("sat ") else { return Vec::new() };
    let Term::List(pairs) = Term::read(values) else { return Vec::new() };
    let mut lines = Vec::new();
    let mut steps = plot_of.plot.iter();
    let (mut step, mut happens, mut before) = (String::new(), false, String::new());
    let mut after = HashMap::new();
    for pair in &pairs {
        let (name, value) = (pair.head(), pair.arguments().first().map(Term::to_string));
        let (name, of) = name.split_once('.').unwrap_or((name, ""));
        let value = value.unwrap_or_default();
        match name {
            "keeps" if value == "false" => lines.push(format!("{of} is broken")),
            "keeps" => {}
            "do" => {
                happens = value == "true";
                step = format!("{:<15}", steps.next().copied().unwrap_or_default());
            }
            "now" | "present" | "heartbeat" | "token" => {
                after.insert(name.to_string(), value);
            }
            "wr" => {
                let at = |name| after.get(name).cloned().unwrap_or_default();
                let row = match at("present").as_str() {
                    "true" => format!("{} {} {value}", at("heartbeat"), at("token")),
                    _ => String::from("absent"),
                };
                let state = format!("now={} row: {row}", at("now"));
                if happens {
                    let shown = if state == before { "" } else { &state };
                    lines.push(format!("{step:<48} {shown}").trim_end().to_string());
                    before = state;
                }
            }
            name => step += &format!(" {name}={value}"),
        }
    }
    lines
}

fn initial() -> Vec<Term> {
    INITIAL.iter().map(|term| Term::read(term)).collect()
}

fn not_all<'a>(formulas: impl Iterator<Item = &'a (&'static str, &'static str)>) -> Term {
    let formulas: Vec<&str> = formulas.map(|(_, formula)| *formula).collect();
    Term::read(&format!("(not (and {}))", formulas.join(" ")))
}

impl Run<'_> {
    fn query(&self, name: String) -> Query {
        let mut text = world(self.change);
        let mut now: HashMap<&str, usize> = STATE.iter().map(|(name, ..)| (*name, 0)).collect();
        for (name, sorts, sort) in STATE {
            let _ = writeln!(text, "(declare-fun {name}.0 ({}) {sort})", sorts.join(" "));
        }
        self.start.iter().for_each(|term| text += &assert(&at(term, &now)));
        let mut asked = Vec::new();
        for (step, name) in self.plot.split_whitespace().enumerate() {
            let action = ACTIONS.iter().find(|action| action.name == name);
            let action = action.unwrap_or_else(|| panic!("`{name}` is no action"));
            text += &self.step(step, action, &mut now, &mut asked);
        }
        text += &assert(&at(self.goal, &now));
        for (name, claim) in CLAIMS {
            let claim = at(&Term::read(claim), &now);
            text += &format!("(define-fun keeps.{name} () Bool {claim})\n");
            asked.push(format!("keeps.{name}"));
        }
        let _ = write!(text, "(check-sat)\n(get-value ({}))\n", asked.join(" "));
        Query { name, wanted: "sat", text, plot: self.plot.split_whitespace().collect() }
    }

    fn step(
        &self,
        step: usize,
        action: &'static Action,
        now: &mut HashMap<&str, usize>,
        asked: &mut Vec<String>,
    ) -> String {
        let mut text = format!("(declare-const do.{step} Bool)\n");
        asked.push(format!("do.{step}"));
        if !self.skips {
            text += &format!("(assert do.{step})\n");
        }
        let mut own = HashMap::new();
        for (name, sort) in action.parameters {
            let full = format!("{name}.{step}");
            let (from, sort) = sort.split_once('>').unwrap_or(("", sort));
            let _ = writeln!(text, "(declare-fun {full} ({from}) {sort})");
            if from.is_empty() {
                asked.push(full.clone());
            }
            if sort == "Int" && from.is_empty() {
                let _ = writeln!(text, "(assert (<= (- {LATEST}) {full} {LATEST}))");
            }
            own.insert((*name).to_string(), Term::Atom(full));
        }
        for guard in self.change.guards(action) {
            let guard = at(&Term::read(guard.term).with(&own), now);
            text += &format!("(assert (=> do.{step} {guard}))\n");
        }
        let before = now.clone();
        for (head, value) in action.updates() {
            let update = Update::read(head, value);
            let (name, sorts, sort) = symbol(&update.name);
            let (old, new) = (format!("{name}.{}", before[name]), format!("{name}.{}", step + 1));
            let value = at(&update.at_x().with(&own), &before);
            now.insert(name, step + 1);
            let [over] = sorts else {
                text += &format!("(define-fun {new} () {sort} (ite do.{step} {value} {old}))\n");
                continue;
            };
            text += &format!(
                "(define-fun {new} ((x {over})) {sort} (ite do.{step} {value} ({old} x)))\n"
            );
        }
        for value in ["now", "present", "heartbeat", "token", "wr"] {
            asked.push(format!("{value}.{}", now[value]));
        }
        text
    }
}

/// Returns the text that declares the small world.
fn world(change: Change) -> String {
    let mut text = String::from("(set-option :produce-models true)\n(set-logic ALL)\n");
    for (sort, size) in SORTS.iter().zip(SIZES) {
        let elements: Vec<String> = elements(sort, size).map(|name| format!("({name})")).collect();
        let _ = writeln!(text, "(declare-datatypes (({sort} 0)) (({})))", elements.join(" "));
    }
    for (name, sorts, sort) in RIGID {
        let _ = writeln!(text, "(declare-fun {name} ({}) {sort})", sorts.join(" "));
    }
    for axiom in axioms(change) {
        text += &assert(&at(&Term::read(axiom), &HashMap::new()));
    }
    text + "(assert (and (<= (lease instance0) 9) (<= (lease instance1) 9)))\n"
}

fn elements(sort: &str, size: usize) -> impl Iterator<Item = String> {
    let name = sort.to_lowercase();
    (0..size).map(move |i| format!("{name}{i}"))
}

/// Puts the state's names as they are called now, and all elements in the place of quantifiers.
fn at(term: &Term, now: &HashMap<&str, usize>) -> Term {
    let Term::List(parts) = term else {
        return match now.get(term.head()) {
            Some(version) => Term::Atom(format!("{}.{version}", term.head())),
            None => term.clone(),
        };
    };
    let junction = match term.head() {
        "forall" => "and",
        "exists" => "or",
        _ => return Term::List(parts.iter().map(|part| at(part, now)).collect()),
    };
    let Term::List(bound) = &parts[1] else { panic!("`{term}` binds nothing") };
    let mut bodies = vec![parts[2].clone()];
    for variable in bound {
        let sort = variable.arguments()[0].head().to_string();
        let size = SORTS.iter().zip(SIZES).find(|(known, _)| **known == sort);
        let (_, size) = size.unwrap_or_else(|| panic!("`{sort}` is no sort"));
        let with = |body: &Term, element| {
            body.with(&HashMap::from([(variable.head().to_string(), Term::Atom(element))]))
        };
        bodies = bodies
            .iter()
            .flat_map(|body| elements(&sort, size).map(move |element| with(body, element)))
            .collect();
    }
    let bodies = bodies.iter().map(|body| at(body, now));
    Term::List(std::iter::once(Term::Atom(junction.into())).chain(bodies).collect())
}
