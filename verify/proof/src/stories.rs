//! Runs from the initial state in a small world: that each action can happen, and what goes wrong
//! without a guard.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::queries::{Change, Query, assert, declared, follows, invariant, places};
use crate::relation::{Action, PLACES, RELATION};
use crate::term::Term;

/// How many elements each sort of the small world has, in the order of the relation's sorts.
const SIZES: [usize; 7] = [2, 2, 5, 3, 2, 2, 5];

/// No time is later, so that the numbers of a story are small.
const LATEST: u32 = 60;

/// A run of actions in this order.
struct Run<'a> {
    /// The formulas that hold at first.
    start: &'a [&'static Term],
    /// The names of the actions.
    plot: &'static [String],
    /// True if steps may be left out.
    skips: bool,
    /// The formula that holds in the end.
    goal: &'a Term,
    /// The change of the relation.
    change: Change,
}

/// Returns the queries, each of which has an answer: each action happens in one of these runs.
pub fn possible() -> Vec<Query> {
    let happens = |action: &Action| RELATION.runs.iter().any(|(_, run)| run.contains(&action.name));
    if let Some(action) = RELATION.actions.iter().find(|action| !happens(action)) {
        panic!("`{}` happens in no run", action.name);
    }
    let run = |(number, (goal, plot)): (usize, &'static (Term, Vec<String>))| {
        let (start, change) = (initial(), Change::default());
        Run { start: &start, plot, skips: false, goal, change }.query(format!("possible/{number}"))
    };
    RELATION.runs.iter().enumerate().map(run).collect()
}

/// Returns the question that has an answer: how a claim breaks without this guard. None if no plot
/// tells it.
pub fn without(name: &str, change: Change) -> Option<Query> {
    let plots = &RELATION.plots;
    let (_, plot) = plots.iter().find(|(tells, _)| tells.iter().any(|told| told == name))?;
    let (start, broken) = (initial(), not_all(claims()));
    let run = Run { start: &start, plot, skips: true, goal: &broken, change };
    Some(run.query(format!("story/{name}")))
}

/// Returns the questions, of which one at least has an answer: how another clause or a claim breaks
/// in one step at most, if this clause is left out of the invariant.
pub fn without_clause(name: &str) -> Vec<Query> {
    let others = || invariant().filter(|(other, _)| *other != name);
    let start: Vec<_> =
        others().filter(|(name, _)| !follows(name)).map(|(_, clause)| clause).collect();
    let (broken, change) = (not_all(others()), Change::default());
    let run = |plot: &'static [String]| {
        let of = plot.first().map_or("", |action| action);
        Run { start: &start, plot, skips: false, goal: &broken, change }
            .query(format!("clause/{name}/{of}"))
    };
    let actions = RELATION.actions.iter().map(|action| std::slice::from_ref(&action.name));
    std::iter::once(&[][..]).chain(actions).map(run).collect()
}

/// Tells the run that a solver found, a line for each step.
pub fn tell(plot_of: &Query, said: &str) -> Vec<String> {
    let Some(values) = said.strip_prefix("sat ") else { return Vec::new() };
    let pairs = Term::read(values);
    let mut lines = Vec::new();
    let mut steps = plot_of.plot.iter();
    let (mut step, mut happens, mut before) = (String::new(), false, String::new());
    let mut cells = Vec::new();
    for pair in pairs.parts() {
        let [asked, value] = pair.parts() else { continue };
        let (name, of) = asked.head().split_once('.').unwrap_or((asked.head(), ""));
        let value = value.to_string();
        match name {
            "keeps" if value == "false" => lines.push(format!("{of} is broken")),
            "keeps" => {}
            "do" => {
                happens = value == "true";
                step = format!("{:<15}", steps.next().map_or("", |name| name));
            }
            "present" | "heartbeat" | "token" | "wr" => cells.push(value),
            "now" => {
                let rows = cells.chunks(4).enumerate().map(|(row, cells)| match &*cells[0] {
                    "true" => format!(" row{row}: {}", cells[1..].join(" ")),
                    _ => format!(" row{row}: absent"),
                });
                let state = format!("now={value}{}", rows.collect::<String>());
                cells.clear();
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

fn initial() -> Vec<&'static Term> {
    RELATION.initial.iter().map(|(_, formula)| formula).collect()
}

fn claims() -> impl Iterator<Item = (&'static str, &'static Term)> {
    RELATION.claims.iter().map(|(name, claim)| (&**name, claim))
}

fn not_all(formulas: impl Iterator<Item = (&'static str, &'static Term)>) -> Term {
    let all = Term::call("and", formulas.map(|(_, formula)| formula.clone()));
    Term::call("not", [all])
}

impl Run<'_> {
    fn query(&self, name: String) -> Query {
        let mut text = world(self.change);
        let mut now: HashMap<&str, usize> = HashMap::new();
        for symbol in &RELATION.state {
            now.insert(&symbol.name, 0);
            text += &declared(symbol, ".0");
        }
        self.start.iter().for_each(|term| text += &assert(&at(term, &now)));
        let mut asked = Vec::new();
        for (step, name) in self.plot.iter().enumerate() {
            text += &self.step(step, RELATION.action(name), &mut now, &mut asked);
        }
        text += &assert(&at(self.goal, &now));
        for (name, claim) in claims() {
            let _ = writeln!(text, "(define-fun keeps.{name} () Bool {})", at(claim, &now));
            asked.push(format!("keeps.{name}"));
        }
        let _ = write!(text, "(check-sat)\n(get-value ({}))\n", asked.join(" "));
        Query { name, wanted: "sat", text, plot: self.plot }
    }

    fn step(
        &self,
        step: usize,
        action: &'static Action,
        now: &mut HashMap<&'static str, usize>,
        asked: &mut Vec<String>,
    ) -> String {
        let mut text = format!("(declare-const do.{step} Bool)\n");
        asked.push(format!("do.{step}"));
        if !self.skips {
            text += &format!("(assert do.{step})\n");
        }
        let mut own = HashMap::new();
        for parameter in &action.parameters {
            let full = format!("{}.{step}", parameter.name);
            text += &declared(parameter, &format!(".{step}"));
            if parameter.sorts.is_empty() {
                if parameter.sort == "Int" {
                    let _ = writeln!(text, "(assert (<= (- {LATEST}) {full} {LATEST}))");
                }
                asked.push(full.clone());
            }
            own.insert(parameter.name.clone(), Term::Atom(full));
        }
        for guard in self.change.guards(action) {
            let guard = at(&guard.term.with(&own), now);
            text += &format!("(assert (=> do.{step} {guard}))\n");
        }
        let before = now.clone();
        for (symbol, after) in action.after(&RELATION) {
            let name = &*symbol.name;
            let version = now.insert(name, step + 1).unwrap_or_default();
            let kept = Term::applied(&format!("{name}.{version}"), &PLACES[..symbol.sorts.len()]);
            let _ = writeln!(
                text,
                "(define-fun {name}.{} ({}) {} (ite do.{step} {} {kept}))",
                step + 1,
                places(&symbol.sorts),
                symbol.sort,
                at(&after.with(&own), &before)
            );
        }
        for row in elements("Row", SIZES[1]) {
            for cell in ["present", "heartbeat", "token", "wr"] {
                asked.push(format!("({cell}.{} {row})", now[cell]));
            }
        }
        asked.push(format!("now.{}", now["now"]));
        text
    }
}

/// Returns the text that declares the small world.
fn world(change: Change) -> String {
    let mut text = String::from("(set-option :produce-models true)\n(set-logic ALL)\n");
    for (sort, size) in RELATION.sorts.iter().zip(SIZES) {
        let elements: Vec<String> = elements(sort, size).map(|name| format!("({name})")).collect();
        let _ = writeln!(text, "(declare-datatypes (({sort} 0)) (({})))", elements.join(" "));
    }
    RELATION.rigid.iter().for_each(|symbol| text += &declared(symbol, ""));
    for axiom in change.axioms() {
        text += &assert(&at(axiom, &HashMap::new()));
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
        let size = RELATION.sorts.iter().zip(SIZES).find(|(known, _)| **known == *sort);
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
