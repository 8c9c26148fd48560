//! The parts of a run to draw.

use std::collections::BTreeSet;

use crate::checks::{Evidence, Line, Term, terms};
use crate::history::{Event, Failure, Fault, FaultKind, Record};
use crate::setup::{Target, WRITERS};

pub struct Run<'a> {
    begin: u64,
    end: u64,
    pub target: Target,
    /// By name; writers before readers.
    pub workers: Vec<&'a str>,
    pub locks: usize,
    /// With the lock that each is of.
    pub terms: Vec<(usize, Term)>,
    /// Token by token: its place is the term's number.
    pub tokens: Vec<u64>,
    pub records: &'a [Record],
    /// The writes that the plain file took too late.
    pub late: Vec<Line>,
    /// How many of them Spanner took as well.
    pub late_accepted: usize,
}

impl<'a> Run<'a> {
    pub fn of(evidence: &'a Evidence) -> Result<Run<'a>, Failure> {
        let records = &evidence.records[..];
        let (begin, end) = evidence.span();
        let started = records.iter().filter(|record| record.event == Event::Started);
        let workers: BTreeSet<&str> = started.map(|record| record.who.as_str()).collect();
        let target = evidence.target();
        let mut workers: Vec<&str> = workers.into_iter().collect();
        workers.sort_by_key(|who| target.side(who));
        let mut all = Vec::new();
        for (lock, part) in evidence.by_lock()?.iter().enumerate() {
            all.extend(terms(&part.records).into_iter().map(|term| (lock, term)));
        }
        let late: Vec<Line> = evidence.late_lines().into_iter().cloned().collect();
        let tokens: BTreeSet<u64> = all.iter().map(|(_, term)| term.token).collect();
        let accepted: BTreeSet<&str> =
            evidence.tables.log.iter().map(|row| row.id.as_str()).collect();
        let late_accepted = late.iter().filter(|line| accepted.contains(&*line.id)).count();
        Ok(Run {
            begin,
            end,
            target,
            workers,
            locks: target.count(),
            terms: all,
            tokens: tokens.into_iter().collect(),
            records,
            late,
            late_accepted,
        })
    }

    /// The name of a worker's lane.
    pub fn label(&self, who: &str) -> String {
        match self.target.side(who) {
            Some(WRITERS) => format!("{who} writes"),
            Some(_) => format!("{who} reads"),
            None => who.to_string(),
        }
    }

    /// True if there are too many locks or shards for a tall lane each.
    pub fn is_of_many(&self) -> bool {
        matches!(self.target, Target::Locks(_) | Target::Shards(_) | Target::Deploys { .. })
    }

    /// The number of a worker, by which it has its colour.
    pub fn number(&self, who: &str) -> Option<usize> {
        self.workers.iter().position(|other| *other == who)
    }

    pub fn seconds(&self) -> f64 {
        self.second(self.end)
    }

    pub fn second(&self, at: u64) -> f64 {
        at.saturating_sub(self.begin) as f64 / 1e9
    }

    /// How many faults of this kind there were.
    pub fn count(&self, kind: FaultKind) -> usize {
        let is = |record: &&Record| matches!(&record.event, Event::Fault { fault, .. } if fault.kind() == kind);
        self.records.iter().filter(is).count()
    }

    /// From each event that `begins` matches to the next that `ends` matches, or to the end.
    pub fn spans(
        &self,
        begins: impl Fn(&Record) -> bool,
        ends: impl Fn(&Record) -> bool,
    ) -> Vec<(f64, f64)> {
        let mut spans = Vec::new();
        let mut open = None;
        for record in self.records {
            if open.is_none() && begins(record) {
                open = Some(record.at);
            } else if ends(record)
                && let Some(from) = open.take()
            {
                spans.push((self.second(from), self.second(record.at)));
            }
        }
        spans.extend(open.map(|from| (self.second(from), self.seconds())));
        spans
    }

    pub fn fault_spans(&self, wanted: Fault, on: Option<&str>) -> Vec<(f64, f64)> {
        let of = |fault: &Fault, whom: &Option<String>| *fault == wanted && whom.as_deref() == on;
        self.spans(
            |record| matches!(&record.event, Event::Fault { fault, on } if of(fault, on)),
            |record| matches!(&record.event, Event::Over { fault, on } if of(fault, on)),
        )
    }

    pub fn faults(&self, wanted: Fault, on: Option<&str>) -> Vec<f64> {
        let is = |record: &&Record| match &record.event {
            Event::Fault { fault, on: whom } => *fault == wanted && whom.as_deref() == on,
            _ => false,
        };
        self.records.iter().filter(is).map(|record| self.second(record.at)).collect()
    }
}
