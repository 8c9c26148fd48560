//! The relation, evaluated: terms in a state, and the state after an action.

use std::collections::{BTreeMap, BTreeSet};

use spindle_protocol::{Row, Timestamp, Writer};

use crate::relation::{RELATION, Term, arguments, head, parts, read_all};

/// Heartbeat, token, writer, lease and displaced token of a row. None is NULL.
pub type Cells = (Option<Timestamp>, Option<Timestamp>, Writer, Option<i64>, Option<Timestamp>);

/// Returns the cells of a row that a look shows, with its lease in nanoseconds.
pub fn cells_of(row: &Row) -> Cells {
    let lease = row.lease.map(|lease| i64::try_from(lease.as_nanos()).expect("a short time"));
    (Some(row.heartbeat), Some(row.token), row.writer.clone(), lease, None)
}

/// Names, and what they stand for where the state doesn't say: an action's parameters.
pub type Bound<'a> = [(&'a str, &'a str)];

/// Returns an action's guards of this kind, or its updates, with their names.
pub fn guards(name: &str, kind: &str) -> impl Iterator<Item = [&'static Term; 2]> {
    let named = |item: &&Term| head(item) == "action" && head(arguments(item)[0]) == name;
    let known = RELATION.items.iter().find(named);
    let action = parts(known.unwrap_or_else(|| panic!("`{name}` is no action"))).skip(3);
    action.filter(move |part| head(part) == kind).map(|part| {
        arguments(part).try_into().unwrap_or_else(|_| panic!("`{part}` is nothing of an action"))
    })
}

/// Returns the sorts of a function's arguments, and its own.
fn sorts(function: &str) -> (&'static Term, &'static str) {
    let known = RELATION.items.iter().find_map(|item| match (head(item), &arguments(item)[..]) {
        ("rigid" | "state", [sorts, sort, names @ ..]) => {
            names.iter().any(|name| head(name) == function).then_some((*sorts, head(sort)))
        }
        _ => None,
    });
    known.unwrap_or_else(|| panic!("`{function}` is no function"))
}

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

    /// Sets names, each to the value after it.
    pub fn set_all(&mut self, names: &str) {
        let pairs = names.split_whitespace().filter_map(|pair| pair.split_once('='));
        pairs.for_each(|(name, value)| self.set(name, value));
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
        self.set(format!("present {row}"), cells.is_some());
        let (heartbeat, token, writer, lease, displaced) =
            cells.unwrap_or((None, None, Writer::nobody(), None, None));
        let or_null =
            |cell: Option<Timestamp>| cell.map_or("null".into(), |cell| cell.0.to_string());
        self.set(format!("heartbeat {row}"), or_null(heartbeat));
        self.set(format!("token {row}"), or_null(token));
        self.set(format!("wr {row}"), writer);
        self.set(format!("lease_null {row}"), lease.is_none());
        self.set(format!("lease_cell {row}"), lease.unwrap_or_default());
        self.set(format!("displaced_null {row}"), displaced.is_none());
        self.set(format!("displaced_cell {row}"), displaced.unwrap_or_default().0);
    }

    /// Lets a look see the row with these cells.
    pub fn look(&mut self, look: &str, row: &str, cells: Option<Cells>, read_at: i64) {
        self.put(row, cells);
        self.set(format!("at {look}"), row);
        self.apply("look", &[("l", look), ("ts", &read_at.to_string())]);
    }

    /// Returns the cells of a row.
    pub fn cells(&self, row: &str) -> Option<Cells> {
        let cell = |name: &str| self.get(name, &[row.into()]);
        let lease = cell("lease_cell").parse().ok().filter(|_| cell("lease_null") == "false");
        let time = |name: &str| cell(name).parse().ok().map(Timestamp);
        let displaced = time("displaced_cell").filter(|_| cell("displaced_null") == "false");
        let cells =
            (time("heartbeat"), time("token"), cell("wr").as_str().into(), lease, displaced);
        (cell("present") == "true").then_some(cells)
    }

    /// Makes all updates of the action at once.
    pub fn apply(&mut self, name: &str, bound: &Bound) {
        let mut after = Vec::new();
        for [changed, value] in guards(name, "cell").chain(guards(name, "then")) {
            let (function, keys) = (head(changed), arguments(changed));
            let is_everywhere = keys.iter().any(|key| head(key) == "x");
            let places = match is_everywhere {
                true => self.elements(head(sorts(function).0)).collect(),
                false => vec![""],
            };
            for x in places {
                let bound = [&[("x", x)], bound].concat();
                let at: Vec<String> = keys.iter().map(|key| self.value(key, &bound)).collect();
                after.push((named(function, &at), self.value(value, &bound)));
            }
        }
        self.values.extend(after);
    }

    /// Returns true if the term is.
    pub fn holds(&self, term: &Term, bound: &Bound) -> bool {
        self.value(term, bound) == "true"
    }

    /// Returns the value of what this text says.
    pub fn tells(&self, text: &str, bound: &Bound) -> String {
        self.value(&RELATION.in_full(&read_all(text)[0])[0], bound)
    }

    /// Returns the value of a term.
    fn value(&self, term: &Term, bound: &Bound) -> String {
        if term.is_number() {
            return term.to_string();
        }
        let arguments = arguments(term);
        if let (of @ ("forall" | "exists"), [variables, body]) = (head(term), &arguments[..]) {
            let variable = parts(variables).next().expect("a variable");
            assert_eq!(parts(variables).count(), 1, "`{term}` binds more than one name");
            let mut values = self
                .elements(head(crate::relation::arguments(variable)[0]))
                .map(|element| self.holds(body, &[&[(head(variable), element)], bound].concat()));
            let holds = if of == "forall" { values.all(|is| is) } else { values.any(|is| is) };
            return holds.to_string();
        }
        let given: Vec<String> =
            arguments.iter().map(|argument| self.value(argument, bound)).collect();
        let is = |value: &String| value == "true";
        let plain = |i: usize| if given[i] == "null" { "0" } else { &given[i] };
        let int = |i: usize| match plain(i).parse::<i64>() {
            Ok(number) => number,
            Err(_) => panic!("`{term}`: {}", given[i]),
        };
        let is_true = match head(term) {
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

    fn get(&self, name: &str, at: &[String]) -> String {
        let set = self.values.get(&named(name, at)).or_else(|| self.values.get(name));
        if let Some(value) = set {
            return value.clone();
        }
        if matches!(name, "true" | "false") {
            return name.into();
        }
        let writer = at.first().map_or(Writer::nobody(), |text| Writer::from(text.as_str()));
        match name {
            "is_holder" => writer.id().is_some().to_string(),
            "owner" => writer.nonce().map_or(String::new(), |nonce| nonce.instance.to_string()),
            _ => match sorts(name).1 {
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
