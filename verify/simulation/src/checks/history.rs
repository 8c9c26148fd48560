//! The commits of a world in the order of their timestamps, and what the rows were at each.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use spindle::FencingToken;
use spindle_emulator::engine::{Cell, Mutation, Value, WriteKind};
use spindle_protocol::{Row, Timestamp, Writer};

use super::reserved::Reservations;
use super::{Effect, Invariant, Past, Purpose, other_rows};
use crate::coverage::CoverageGoal;
use crate::instance::Instance;
use crate::rows::{TABLE, decode, timestamp};
use crate::timeline::Timeline;

/// The commits, and the rows that came of them.
#[derive(Debug, Default)]
pub(crate) struct History {
    /// By timestamp, what each commit did lock by lock; nothing stands for the loss of all rows.
    unsettled: BTreeMap<Timestamp, Option<Vec<Effect>>>,
    rows: BTreeMap<String, BTreeMap<String, Cell>>,
    pub(crate) past: Past,
    /// The writers of the terms that began, by lock and token.
    begun: BTreeMap<(String, u64), Writer>,
    /// The published terms that still have to be found among them.
    published: BTreeMap<(String, u64), Writer>,
    /// The id of the contender of each process for each lock.
    contenders: BTreeMap<(usize, String), String>,
    /// The highest token of the terms that began, by lock.
    latest: BTreeMap<String, Timestamp>,
    /// The terms that were published after a later one of their lock: lock, token, the later token.
    overtaken: Vec<(String, Timestamp, Timestamp)>,
    /// When somebody edited or deleted a lock's row; without a lock, when all rows were lost.
    touched: BTreeSet<(Timestamp, Option<String>)>,
    reserved: Reservations,
}

impl History {
    pub(crate) fn new(instances: &[Arc<Instance>]) -> History {
        let contender =
            |it: &Arc<Instance>| ((it.process, it.lock_name.clone()), it.plan.id.clone());
        let contenders = instances.iter().map(contender).collect();
        History { contenders, ..History::default() }
    }

    /// Forgets all that was committed.
    pub(crate) fn forget(&mut self) {
        *self = History { contenders: std::mem::take(&mut self.contenders), ..History::default() };
    }

    pub(crate) fn committed(&mut self, at: Timestamp, effect: Effect) {
        let commit = self.unsettled.entry(at).or_insert_with(|| Some(Vec::new()));
        commit.get_or_insert_default().push(effect);
    }

    pub(crate) fn lost_rows(&mut self, at: Timestamp) {
        self.unsettled.insert(at, None);
    }

    pub(crate) fn published(&mut self, lock: &str, token: FencingToken, writer: Writer) {
        self.published.insert((lock.to_string(), token.as_nanoseconds()), writer);
    }

    /// A term was published after one that began later. It is judged once all commits between are known.
    pub(crate) fn overtaken(&mut self, lock: &str, token: u64, by: u64) {
        let at = |token: u64| Timestamp(token.cast_signed());
        self.overtaken.push((lock.to_string(), at(token), at(by)));
    }

    /// How many commits wait to be judged.
    pub(crate) fn unsettled(&self) -> usize {
        self.unsettled.len()
    }

    /// Judges the commits before `until`, of which none can come any more.
    pub(crate) fn settle(
        &mut self,
        until: Timestamp,
        timeline: &Timeline,
    ) -> Result<(), (Invariant, String)> {
        let later = self.unsettled.split_off(&until);
        for (at, effects) in std::mem::replace(&mut self.unsettled, later) {
            match effects {
                Some(effects) => {
                    for effect in &effects {
                        self.judge(at, effect, timeline)?;
                    }
                }
                None => {
                    self.touched.insert((at, None));
                    self.rows.clear();
                    self.reserved.lost_rows();
                    self.past.lost_rows(at);
                }
            }
            debug_assert!(at < until);
        }
        self.judge_overtaken(until)?;
        let due = |token: u64| Timestamp(token.cast_signed()) < until;
        let published = std::mem::take(&mut self.published);
        for ((lock, token), writer) in published {
            let key = (lock, token);
            if !due(token) {
                self.published.insert(key, writer);
            } else if self.begun.get(&key) != Some(&writer) {
                let begun = self.begun.get(&key);
                let what = format!("{writer} says it holds {key:?}, which is {begun:?}'s");
                return Err((Invariant::I2, what));
            }
        }
        Ok(())
    }

    /// An instance may hear of its term after another heard of a later one, but only if somebody freed the lock
    /// between the two commits: that is the freedom that I1 gives them. Tokens follow the commits all the same.
    fn judge_overtaken(&mut self, until: Timestamp) -> Result<(), (Invariant, String)> {
        let (due, waiting) =
            std::mem::take(&mut self.overtaken).into_iter().partition(|(_, _, by)| *by < until);
        self.overtaken = waiting;
        let due: Vec<(String, Timestamp, Timestamp)> = due;
        for (lock, token, by) in due {
            let is_between = |at: Timestamp| token < at && at < by;
            let is_its = |of: &Option<String>| of.as_ref().is_none_or(|of| *of == lock);
            if !self.touched.iter().any(|(at, of)| is_between(*at) && is_its(of)) {
                let what = format!(
                    "lock `{lock}`: a term began with token {}, after one with {}, and nobody touched the row",
                    token.0, by.0
                );
                return Err((Invariant::I2, what));
            }
        }
        Ok(())
    }

    fn judge(
        &mut self,
        at: Timestamp,
        effect: &Effect,
        timeline: &Timeline,
    ) -> Result<(), (Invariant, String)> {
        let Effect { by, lock, purpose, .. } = effect;
        let row = self.row(lock);
        let context = |what: String| format!("at {}, process {by:?}, lock `{lock}`: {what}", at.0);
        effect.judge(row.as_ref()).map_err(|(broken, what)| (broken, context(what)))?;
        // An edit is nobody's.
        let contender = by.and_then(|by| self.contenders.get(&(by, lock.clone()))).cloned();
        let id = contender.unwrap_or_default();
        let reserved = self.reserved.committed(at, effect, &id);
        let reserved = reserved.map_err(|what| (Invariant::Reserved, context(what)))?;
        reserved.into_iter().for_each(|goal| timeline.saw(goal));
        note(effect, row.as_ref(), timeline);
        for mutation in effect.mutations.iter().filter(|write| write.table() == TABLE) {
            self.apply(mutation, at);
        }
        if *purpose == Purpose::ManualEdits {
            self.touched.insert((at, Some(lock.clone())));
        }
        let row = self.row(lock);
        self.past.committed(at, effect, &id, row.as_ref());
        if matches!(purpose, Purpose::Insert | Purpose::Takeover { .. })
            && let Some(row) = self.row(lock)
        {
            if successor_of(purpose) == Some(&*id) {
                timeline.saw(CoverageGoal::SuccessorTook);
            }
            let before = self.latest.insert(lock.clone(), row.token);
            if let Some(before) = before.filter(|before| *before >= row.token) {
                let what =
                    format!("a term began with token {}, after one with {}", row.token.0, before.0);
                return Err((Invariant::I2, context(what)));
            }
            self.begun.insert((lock.clone(), row.token.0.unsigned_abs()), row.writer);
        }
        Ok(())
    }

    fn apply(&mut self, mutation: &Mutation, at: Timestamp) {
        let keys = other_rows::all_keys(mutation).unwrap_or_default();
        let Mutation::Write { columns, cells, .. } = mutation else {
            keys.iter().for_each(|key| drop(self.rows.remove(key)));
            return;
        };
        for key in keys {
            let row = self.rows.entry(key).or_default();
            for (column, cell) in columns.iter().zip(cells) {
                let cell = match cell {
                    Cell::CommitTimestamp => Cell::Value(engine_timestamp(at)),
                    Cell::Value(_) => cell.clone(),
                };
                row.insert(column.clone(), cell);
            }
        }
    }

    fn row(&self, lock: &str) -> Option<Row> {
        const COLUMNS: [&str; 4] = ["heartbeat", "token", "writer", "lease_ms"];
        let row = self.rows.get(lock)?;
        let value = |column: &str| match row.get(column) {
            Some(Cell::Value(value)) => value.clone(),
            _ => Value::Null,
        };
        Some(decode(lock, &COLUMNS, &COLUMNS.map(value)).row())
    }
}

fn engine_timestamp(at: Timestamp) -> Value {
    let found = spindle_emulator::engine::Timestamp::from_nanos(i128::from(at.0));
    debug_assert_eq!(found.map(timestamp), Some(at));
    found.into()
}

fn successor_of(purpose: &Purpose) -> Option<&str> {
    match purpose {
        Purpose::Takeover { seen, .. } => seen.writer.successor_id(),
        _ => None,
    }
}

fn note(effect: &Effect, row: Option<&Row>, timeline: &Timeline) {
    match &effect.purpose {
        Purpose::Insert => timeline.saw(CoverageGoal::Inserted),
        Purpose::Takeover { .. } => {
            timeline.saw(CoverageGoal::TookOver);
            for mutation in &effect.mutations {
                match mutation {
                    Mutation::Delete { .. } => timeline.saw(CoverageGoal::DeletedFormer),
                    Mutation::Write { kind: WriteKind::InsertOrUpdate, .. } => {
                        timeline.saw(CoverageGoal::WroteOver);
                    }
                    Mutation::Write { .. } => {}
                }
            }
            if row.is_some_and(|row| row.writer == Writer::nobody() && !row.is_released()) {
                timeline.saw(CoverageGoal::EvictedTook);
            }
        }
        Purpose::Release { .. } => timeline.saw(CoverageGoal::Released),
        _ => {}
    }
}
