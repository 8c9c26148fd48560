//! All that is known of a run, and what may be wrong with it.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use crate::history::{Event, Failure, HISTORY, Phase, Record, UNFENCED};
use crate::setup::Target;
use crate::tables::{Tables, lock_of};

/// Where the tables are kept, so that a run can be judged again.
pub const TABLES: &str = "tables.json";

/// All that is known of a run.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// By time.
    pub records: Vec<Record>,
    pub tables: Tables,
    /// In the order of the file.
    pub unfenced: Vec<Line>,
}

/// A write that the plain file took.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub lock: usize,
    pub token: u64,
    pub worker: String,
    pub id: String,
    pub at: u64,
}

impl Evidence {
    /// Reads what a run has left in its folder.
    pub fn read(folder: &Path) -> Result<Evidence, Failure> {
        let mut records: Vec<Record> = Vec::new();
        for (number, line) in (1..).zip(std::fs::read_to_string(folder.join(HISTORY))?.lines()) {
            let record = serde_json::from_str(line)
                .map_err(|error| format!("{HISTORY}, line {number}: {error}: {line}"))?;
            records.push(record);
        }
        records.sort_by_key(|record| record.at);
        let tables = serde_json::from_slice(&std::fs::read(folder.join(TABLES))?)?;
        let mut unfenced = Vec::new();
        for line in std::fs::read_to_string(folder.join(UNFENCED))?.lines() {
            unfenced.push(Line::parse(line)?);
        }
        Ok(Evidence { records, tables, unfenced })
    }

    pub fn target(&self) -> Target {
        let target = self.records.iter().find_map(|record| match record.event {
            Event::Run(target) => Some(target),
            _ => None,
        });
        target.unwrap_or_default()
    }

    /// Returns the begin and the end of the run.
    pub fn span(&self) -> (u64, u64) {
        let begin = phase(&self.records, Phase::Faults).unwrap_or(0);
        let last = self.records.last().map_or(begin, |record| record.at);
        (begin, phase(&self.records, Phase::End).unwrap_or(last))
    }

    /// Returns the same for each lock alone; what is about no lock in particular is there for each.
    pub fn by_lock(&self) -> Result<Vec<Evidence>, Failure> {
        let mut parts = vec![Evidence::default(); self.target().count()];
        let none = |lock| format!("there is no lock {lock}");
        for record in &self.records {
            match record.lock {
                Some(lock) => {
                    let part = parts.get_mut(lock).ok_or_else(|| none(lock))?;
                    part.records.push(record.clone());
                }
                None => parts.iter_mut().for_each(|part| part.records.push(record.clone())),
            }
        }
        for row in &self.tables.log {
            let lock = lock_of(&row.counter)?;
            let part = parts.get_mut(lock).ok_or_else(|| none(lock))?;
            part.tables.log.push(row.clone());
        }
        for (counter, value) in &self.tables.counters {
            let lock = lock_of(counter)?;
            let part = parts.get_mut(lock).ok_or_else(|| none(lock))?;
            part.tables.counters.insert(counter.clone(), *value);
        }
        for line in &self.unfenced {
            let part = parts.get_mut(line.lock).ok_or_else(|| none(line.lock))?;
            part.unfenced.push(line.clone());
        }
        Ok(parts)
    }

    /// Every token that anybody has been seen with, of one lock.
    pub fn tokens(&self) -> Vec<u64> {
        let of_records = self.records.iter().filter_map(|record| match &record.event {
            Event::Claim { token, .. }
            | Event::Lost { token, .. }
            | Event::Attempt { token, .. } => Some(*token),
            _ => None,
        });
        let mut tokens: Vec<u64> = of_records.collect();
        tokens.extend(self.tables.log.iter().map(|row| row.token));
        tokens.extend(self.unfenced.iter().map(|line| line.token));
        tokens.sort_unstable();
        tokens.dedup();
        tokens
    }

    /// The writes that the plain file took although one was in it already of a later term that
    /// excludes theirs.
    pub fn late_lines(&self) -> Vec<&Line> {
        let target = self.target();
        let mut highest: BTreeMap<usize, u64> = BTreeMap::new();
        let is_late = |line: &&Line| {
            let mut later = highest.iter().filter(|(_, token)| line.token < **token);
            let late = later.any(|(lock, _)| target.excludes(*lock, line.lock));
            let highest = highest.entry(line.lock).or_default();
            *highest = line.token.max(*highest);
            late
        };
        self.unfenced.iter().filter(is_late).collect()
    }

    /// The time by Spanner's clock at that moment of the machine's, if it is known.
    pub fn spanner_time(&self, at: u64) -> Option<u64> {
        let known = self.records.iter().find_map(|record| match record.event {
            Event::Spanner(time) => Some((record.at, time)),
            _ => None,
        });
        known.map(|(then, time)| (time + at).saturating_sub(then))
    }
}

impl Line {
    fn parse(line: &str) -> Result<Line, Failure> {
        let [lock, token, worker, id, at] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("{UNFENCED}: not a write: {line}").into());
        };
        let (worker, id) = (worker.to_string(), id.to_string());
        Ok(Line { lock: lock.parse()?, token: token.parse()?, worker, id, at: at.parse()? })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub property: Property,
    pub what: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// At no instant two holders (I1).
    OneHolder,
    /// Tokens increase from term to term, and belong to one process (I2).
    TokensIncrease,
    /// In one process no two tasks of one shard are at work.
    OneTask,
    /// No write is accepted after one of a later term, or outside of its term (I3).
    WritesInOrder,
    /// A write that was late in the plain file was not accepted (I3).
    LateIsRefused,
    /// No increment is lost or doubled.
    IncrementsCount,
    /// A writer that was told how a write ended was told the truth.
    OutcomesAreTrue,
    /// Once the faults are over, somebody leads (I5), or reads, and somebody writes.
    Progress,
    /// After each act of a deploy the shards are shared evenly again.
    Settles,
    /// Nobody reads beside a writer.
    WriterAlone,
    /// Nobody begins to read while a writer writes or waits to.
    WaitingStopsReaders,
    /// No reader's fence is good beside a writer's: the row of neither goes on once the other began.
    FencesApart,
    /// There is something to be judged.
    SomethingHappened,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.property, self.what)
    }
}

pub fn phase(records: &[Record], wanted: Phase) -> Option<u64> {
    records.iter().find(|record| record.event == Event::Phase(wanted)).map(|record| record.at)
}
