//! Runs of actions, as text for a solver in SMT-LIB 2; and told, once a solver has found one.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::relation::{Action, PLACES, RELATION, Symbol};
use crate::term::Term;

/// How many elements each sort of the small world has, in the order of the relation's sorts.
const SIZES: [usize; 7] = [2, 2, 5, 3, 2, 2, 5];

/// No time of the small world is later, so that the numbers of a story are small.
const LATEST: u32 = 60;

/// A change of the relation that must break the proof.
#[derive(Clone, Copy, Default)]
pub struct Change {
    /// The guard that is taken out: of the action of this name, the guard of that one.
    pub without: Option<(&'static str, &'static str)>,
    /// Takes half of the margin off the lease.
    pub half_margin: bool,
}

/// Asks if these actions, in their order, lead from such a state to such another.
pub struct Run<'a> {
    /// The formulas that hold at first.
    pub start: &'a [&'a Term],
    pub plot: &'static [String],
    /// The formula that holds in the end.
    pub goal: &'a Term,
    pub change: Change,
    /// True in the small world, and false where sorts may have any number of elements.
    pub is_small: bool,
    /// True if steps may be left out, in a run that is to be told.
    pub skips: bool,
}

/// How often each function of the state has changed.
type Versions = HashMap<&'static str, usize>;

impl Run<'_> {
    /// Returns the text, unless no action changes what the goal speaks of.
    pub fn text(&self) -> Option<String> {
        let mut text = self.world();
        let mut now = Versions::new();
        for symbol in &RELATION.state {
            now.insert(&symbol.name, 0);
            text += &declared(symbol, ".0");
        }
        let at_first = self.at(self.goal, &now);
        self.start.iter().for_each(|term| text += &assert(&self.at(term, &now)));
        let mut asked = Vec::new();
        for (step, name) in self.plot.iter().enumerate() {
            text += &self.step(step, RELATION.action(name), &mut now, &mut asked);
        }
        let goal = self.at(self.goal, &now);
        if !self.plot.is_empty() && goal == at_first {
            return None;
        }
        text += &assert(&goal);
        for (name, claim) in RELATION.claims.iter().filter(|_| self.skips) {
            let _ = writeln!(text, "(define-fun keeps.{name} () Bool {})", self.at(claim, &now));
            asked.push(format!("keeps.{name}"));
        }
        text += "(check-sat)\n";
        if self.skips {
            let _ = writeln!(text, "(get-value ({}))", asked.join(" "));
        }
        Some(text)
    }

    /// Returns the text that declares what never changes.
    fn world(&self) -> String {
        let mut text = String::from("(set-option :produce-models true)\n(set-logic ALL)\n");
        for (sort, size) in RELATION.sorts.iter().zip(SIZES) {
            let all: Vec<String> = elements(sort, size).map(|name| format!("({name})")).collect();
            text += &match self.is_small {
                true => format!("(declare-datatypes (({sort} 0)) (({})))\n", all.join(" ")),
                false => format!("(declare-sort {sort} 0)\n"),
            };
        }
        RELATION.rigid.iter().for_each(|symbol| text += &declared(symbol, ""));
        let mut axioms: Vec<&Term> = RELATION.axioms.iter().map(|(_, axiom)| axiom).collect();
        if self.change.half_margin {
            axioms.pop();
            axioms.push(&RELATION.half_margin);
        }
        axioms.iter().for_each(|axiom| text += &assert(&self.at(axiom, &Versions::new())));
        if self.is_small {
            text += "(assert (and (<= (lease instance0) 9) (<= (lease instance1) 9)))\n";
        }
        text
    }

    fn step(
        &self,
        step: usize,
        action: &'static Action,
        now: &mut Versions,
        asked: &mut Vec<String>,
    ) -> String {
        let mut text = String::new();
        if self.skips {
            let _ = writeln!(text, "(declare-const do.{step} Bool)");
            asked.push(format!("do.{step}"));
        }
        let mut own = HashMap::new();
        for parameter in &action.parameters {
            let full = format!("{}.{step}", parameter.name);
            text += &declared(parameter, &format!(".{step}"));
            if parameter.sorts.is_empty() {
                if self.is_small && parameter.sort == "Int" {
                    let _ = writeln!(text, "(assert (<= (- {LATEST}) {full} {LATEST}))");
                }
                asked.push(full.clone());
            }
            own.insert(parameter.name.clone(), Term::Atom(full));
        }
        let without = self.change.without;
        let is_in = |guard: &str| Some((&*action.name, guard)) != without;
        for guard in action.guards.iter().filter(|guard| is_in(&guard.name)) {
            let guard = self.at(&guard.term.with(&own), now);
            text += &match self.skips {
                true => format!("(assert (=> do.{step} {guard}))\n"),
                false => assert(&guard),
            };
        }
        let before = now.clone();
        for (symbol, after) in action.after(&RELATION) {
            let Symbol { name, sorts, sort } = symbol;
            let version = now.insert(name, step + 1).unwrap_or_default();
            let mut after = self.at(&after.with(&own), &before);
            if self.skips {
                let kept = Term::applied(&format!("{name}.{version}"), &PLACES[..sorts.len()]);
                after = Term::call("ite", [Term::Atom(format!("do.{step}")), after, kept]);
            }
            let places = PLACES.iter().zip(sorts).map(|(place, sort)| format!("({place} {sort})"));
            let places: String = places.collect();
            let _ = writeln!(text, "(define-fun {name}.{} ({places}) {sort} {after})", step + 1);
        }
        for row in elements("Row", SIZES[1]) {
            for cell in ["present", "heartbeat", "token", "wr"] {
                asked.push(format!("({cell}.{} {row})", now[cell]));
            }
        }
        asked.push(format!("now.{}", now["now"]));
        text
    }

    /// Puts the state's names as they are called now; in the small world, all elements in the place
    /// of quantifiers.
    fn at(&self, term: &Term, now: &Versions) -> Term {
        let Term::List(parts) = term else {
            return match now.get(term.head()) {
                Some(version) => Term::Atom(format!("{}.{version}", term.head())),
                None => term.clone(),
            };
        };
        let junction = match term.head() {
            "forall" if self.is_small => "and",
            "exists" if self.is_small => "or",
            _ => return Term::List(parts.iter().map(|part| self.at(part, now)).collect()),
        };
        let mut bodies = vec![parts[2].clone()];
        for variable in parts[1].parts() {
            let (name, sort) = (variable.head(), variable.arguments()[0].head());
            let size = RELATION.sorts.iter().zip(SIZES).find(|(known, _)| *known == sort);
            let (_, size) = size.unwrap_or_else(|| panic!("`{sort}` is no sort"));
            let with = |body: &Term, element| {
                body.with(&HashMap::from([(name.to_string(), Term::Atom(element))]))
            };
            let each =
                |body: &Term| elements(sort, size).map(|element| with(body, element)).collect();
            bodies = bodies.iter().flat_map::<Vec<Term>, _>(each).collect();
        }
        Term::call(junction, bodies.iter().map(|body| self.at(body, now)))
    }
}

fn elements(sort: &str, size: usize) -> impl Iterator<Item = String> {
    let name = sort.to_lowercase();
    (0..size).map(move |i| format!("{name}{i}"))
}

fn declared(Symbol { name, sorts, sort }: &Symbol, version: &str) -> String {
    format!("(declare-fun {name}{version} ({}) {sort})\n", sorts.join(" "))
}

fn assert(term: &Term) -> String {
    format!("(assert {term})\n")
}

/// Tells the run that a solver found, a line for each step.
pub fn tell(plot: &[String], said: &str) -> Vec<String> {
    let pairs = Term::read(said);
    let (mut lines, mut cells, mut steps) = (Vec::new(), Vec::new(), plot.iter());
    let (mut step, mut happens, mut before) = (String::new(), false, String::new());
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
