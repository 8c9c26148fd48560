//! The relation, evaluated: terms in a state, and the state after an action.

use std::collections::{BTreeMap, BTreeSet};

use spindle_protocol::Writer;

use crate::relation::{Action, Kind, RELATION};
use crate::term::Term;

/// Heartbeat, token, writer and lease of a row. None is NULL.
pub type Cells = (Option<i64>, Option<i64>, String, Option<i64>);

/// Names, and what they stand for where the state doesn't say: an action's parameters.
pub type Bound<'a> = [(&'a str, &'a str)];

/// The values of functions at their arguments, as text. `null` counts as the number 0.
///
/// A function that has a value without arguments has it everywhere. One that was never set is as in
/// the beginning: false, 0, or nobody.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct State {
    values: BTreeMap<String, String>,
    elements: BTreeMap<&'static str, BTreeSet<String>>,
}

impl State {
    /// Sets a name, or a function and its arguments.
    pub fn set(&mut self, name: impl Into<String>, value: impl ToString) {
        self.values.insert(name.into(), value.to_string());
    }

    /// Adds an element of a sort.
    pub fn add(&mut self, sort: &'static str, element: &str) {
        self.elements.entry(sort).or_default().insert(element.into());
    }

    /// Returns the elements of a sort.
    pub fn elements(&self, sort: &str) -> impl Iterator<Item = &str> {
        self.elements.get(sort).into_iter().flatten().map(String::as_str)
    }

    /// Sets the cells of a row.
    pub fn put(&mut self, row: &str, cells: Option<Cells>) {
        let is_present = cells.is_some();
        let (heartbeat, token, writer, lease) = cells.unwrap_or_default();
        let or_null = |cell: Option<i64>| cell.map_or("null".into(), |cell| cell.to_string());
        self.set(format!("present {row}"), is_present);
        self.set(format!("heartbeat {row}"), or_null(heartbeat));
        self.set(format!("token {row}"), or_null(token));
        self.set(format!("wr {row}"), writer);
        self.set(format!("lease_null {row}"), lease.is_none());
        self.set(format!("lease_cell {row}"), lease.unwrap_or_default());
    }

    /// Lets a look see the row with these cells.
    pub fn look(&mut self, look: &str, row: &str, cells: Option<Cells>, read_at: i64) {
        self.put(row, cells);
        self.set(format!("at {look}"), row);
        self.apply(RELATION.action("look"), &[("l", look), ("ts", &read_at.to_string())]);
    }

    /// Returns the cells of a row.
    pub fn cells(&self, row: &str) -> Option<Cells> {
        let cell = |name: &str| self.get(name, &[row.into()]);
        let lease = cell("lease_cell").parse().ok().filter(|_| cell("lease_null") == "false");
        let cells = (cell("heartbeat").parse().ok(), cell("token").parse().ok(), cell("wr"), lease);
        (cell("present") == "true").then_some(cells)
    }

    /// Returns the first guard of these kinds that does not hold.
    pub fn refused_by(
        &self,
        action: &'static Action,
        kinds: &[Kind],
        bound: &Bound,
    ) -> Option<&'static str> {
        let mut guards = action.guards.iter().filter(|guard| kinds.contains(&guard.kind));
        guards.find(|guard| !self.holds(&guard.term, bound)).map(|guard| &*guard.name)
    }

    /// Makes all updates of the action at once.
    pub fn apply(&mut self, action: &Action, bound: &Bound) {
        let mut after = Vec::new();
        for update in &action.updates {
            let at = |bound: &Bound| -> Vec<String> {
                update.key.iter().map(|term| self.value(term, bound)).collect()
            };
            if update.key.iter().all(|term| term.head() != "x") {
                after.push((named(&update.name, &at(bound)), self.value(&update.value, bound)));
                continue;
            }
            for x in self.elements(&RELATION.symbol(&update.name).sorts[0]) {
                let bound = [&[("x", x)], bound].concat();
                after.push((named(&update.name, &at(&bound)), self.value(&update.value, &bound)));
            }
        }
        self.values.extend(after);
    }

    /// Returns true if the term is.
    pub fn holds(&self, term: &Term, bound: &Bound) -> bool {
        self.value(term, bound) == "true"
    }

    /// Returns the value of a term.
    pub fn value(&self, term: &Term, bound: &Bound) -> String {
        if let "forall" | "exists" = term.head() {
            return self.quantified(term, bound).to_string();
        }
        let given: Vec<String> =
            term.arguments().iter().map(|argument| self.value(argument, bound)).collect();
        let is = |value: &String| value == "true";
        let int = |i: usize| match given[i].as_str() {
            "null" => 0,
            number => number.parse::<i64>().unwrap_or_else(|_| panic!("`{term}`: {number:?}")),
        };
        let plain = |i: usize| if given[i] == "null" { "0" } else { &given[i] };
        let is_true = match term.head() {
            "and" => given.iter().all(is),
            "or" => given.iter().any(is),
            "not" => !is(&given[0]),
            "=>" => !is(&given[0]) || is(&given[1]),
            "=" => plain(0) == plain(1),
            "<" => int(0) < int(1),
            ">" => int(0) > int(1),
            "<=" => int(0) <= int(1),
            ">=" => int(0) >= int(1),
            "+" => return (int(0) + int(1)).to_string(),
            "-" => return (int(0) - int(1)).to_string(),
            "ite" => return given[if is(&given[0]) { 1 } else { 2 }].clone(),
            name => match bound.iter().find(|(known, _)| *known == name) {
                Some((_, value)) => return (*value).into(),
                None => return self.get(name, &given),
            },
        };
        is_true.to_string()
    }

    fn quantified(&self, term: &Term, bound: &Bound) -> bool {
        let [Term::List(variables), body] = term.arguments() else { panic!("`{term}`") };
        let [variable] = variables.as_slice() else { panic!("`{term}` binds more than one name") };
        let mut values = self.elements(variable.arguments()[0].head()).map(|element| {
            let bound = [&[(variable.head(), element)], bound].concat();
            self.holds(body, &bound)
        });
        if term.head() == "forall" { values.all(|is| is) } else { values.any(|is| is) }
    }

    fn get(&self, name: &str, at: &[String]) -> String {
        let set = self.values.get(&named(name, at)).or_else(|| self.values.get(name));
        if let Some(value) = set {
            return value.clone();
        }
        if name.parse::<i64>().is_ok() || matches!(name, "true" | "false") {
            return name.into();
        }
        let writer = at.first().map_or(Writer::nobody(), |text| Writer::from(text.as_str()));
        match name {
            "is_holder" => writer.id().is_some().to_string(),
            "owner" => writer.nonce().map_or(String::new(), |nonce| nonce.instance.to_string()),
            "attempt" => writer.as_str().into(),
            // A text that is no attempt has none: another text will do.
            "second_of" => writer.second().map_or("none".into(), |second| second.to_string()),
            _ => match RELATION.symbol(name).sort.as_str() {
                "Bool" => "false".into(),
                "Int" => "0".into(),
                _ => String::new(),
            },
        }
    }
}

fn named(name: &str, at: &[String]) -> String {
    at.iter().fold(name.to_string(), |named, at| named + " " + at)
}
