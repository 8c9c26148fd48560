//! The rows of fleets among the locks: one line for all rows of a fleet, unless each is asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use crate::arguments::Listed;
use crate::output::{Cell, Line, Output, Paint};
use crate::record::{Record, State};

/// With this the names of all rows begin that the library makes for fleets.
pub const RESERVED: &str = "spindle:";

/// A line of `ls` and `watch`.
pub enum Entry {
    Lock(Box<Record>),
    Fleet(Fleet),
}

/// All rows of a fleet.
pub struct Fleet {
    name: String,
    rows: usize,
    held: usize,
    waiting: usize,
    holders: BTreeSet<String>,
}

/// Puts the rows of each fleet together, unless all rows are to be shown or the prefix asks for
/// such rows.
pub fn grouped(records: Vec<Record>, listed: &Listed) -> Vec<Entry> {
    if listed.all || listed.prefix.starts_with(RESERVED) {
        return records.into_iter().map(Box::new).map(Entry::Lock).collect();
    }
    let mut entries = BTreeMap::new();
    for record in records {
        let Some(name) = record.fleet.clone() else {
            entries.insert(record.name.clone(), Entry::Lock(Box::new(record)));
            continue;
        };
        let none = || Entry::Fleet(Fleet::none(name.clone()));
        if let Entry::Fleet(fleet) = entries.entry(name.clone()).or_insert_with(none) {
            fleet.add(record);
        }
    }
    entries.into_values().collect()
}

/// Prints records: in a table as [`grouped`], in JSON each.
pub fn print(out: &Output, records: Vec<Record>, listed: &Listed) -> io::Result<()> {
    match out.form.is_for_people() {
        true => out.table(&grouped(records, listed)),
        false => out.rows(&records),
    }
}

impl Entry {
    pub fn name(&self) -> &str {
        match self {
            Entry::Lock(record) => &record.name,
            Entry::Fleet(fleet) => &fleet.name,
        }
    }

    /// How many locks are held, and of how many.
    pub fn held_of(&self) -> (usize, usize) {
        match self {
            Entry::Lock(record) => (usize::from(record.is_held()), 1),
            Entry::Fleet(fleet) => (fleet.held, fleet.rows),
        }
    }

    /// Its line below the table of `watch`.
    pub fn next(&self) -> String {
        match self {
            Entry::Lock(record) => format!("next contender: {}", record.next),
            Entry::Fleet(fleet) => format!("`{}` says more", fleet.command()),
        }
    }
}

impl Line for Entry {
    const HEAD: &'static [&'static str] = Record::HEAD;
    const GOES_FIRST: &'static [&'static str] = Record::GOES_FIRST;
    const WIDE: usize = Record::WIDE;

    fn cells(&self) -> Vec<Cell> {
        match self {
            Entry::Lock(record) => record.cells(),
            Entry::Fleet(fleet) => fleet.cells(),
        }
    }
}

impl Fleet {
    fn none(name: String) -> Fleet {
        Fleet { name, rows: 0, held: 0, waiting: 0, holders: BTreeSet::new() }
    }

    fn add(&mut self, record: Record) {
        self.rows += 1;
        self.waiting += usize::from(record.state == State::Waiting);
        if record.is_held() {
            self.held += 1;
            self.holders.extend(record.holder);
        }
    }

    pub fn holding(&self) -> String {
        let held = format!("{} of {} held", self.held, self.rows);
        match self.waiting {
            0 => held,
            waiting => format!("{held}, {waiting} waiting"),
        }
    }

    fn cells(&self) -> Vec<Cell> {
        let holders = match self.holders.len() {
            0 => "-".to_string(),
            1 => self.holders.first().cloned().unwrap_or_default(),
            holders => format!("{holders} holders"),
        };
        let paint = if self.held > 0 { Paint::Good } else { Paint::Faint };
        let dash = || Cell::plain("-");
        vec![
            Cell::name(self.name.clone()),
            Cell::name(holders),
            Cell::painted(self.holding(), paint),
            dash(),
            dash(),
            dash(),
            Cell::plain(self.command()),
            dash(),
            dash(),
        ]
    }

    /// The command that shows its rows.
    fn command(&self) -> String {
        let rest = self.name.strip_prefix(RESERVED).unwrap_or(&self.name);
        match rest.split_once(':') {
            Some(("member", group)) => format!("spindle members {group}"),
            Some(("shard" | "share", name)) => format!("spindle shards {name}"),
            Some(("permit", name)) => format!("spindle permits {name}"),
            Some(("rw", name)) => format!("spindle readers {name}"),
            _ => format!("spindle ls {}", self.name),
        }
    }
}
