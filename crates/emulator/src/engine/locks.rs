//! The locks on the cells of one table.
//!
//! Locks cover rows by column: a reader of one column doesn't meet a writer of another. A range of
//! keys is locked whole, with the rows that aren't there yet, so nothing can appear in it.

use std::collections::{BTreeMap, HashMap};

use super::transaction::TransactionId;
use super::value::{Key, KeyPart, KeyRange};

/// The columns of a row that a lock covers: bit 0 for the row's existence, bit `n + 1` for column
/// `n`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns(Vec<u64>);

impl Columns {
    /// Returns the row's existence alone.
    pub fn existence() -> Columns {
        Columns(vec![1])
    }

    /// Adds the column at this position.
    pub fn insert(&mut self, position: usize) {
        let bit = position + 1;
        if self.0.len() <= bit / 64 {
            self.0.resize(bit / 64 + 1, 0);
        }
        self.0[bit / 64] |= 1 << (bit % 64);
    }

    /// Returns true if the column at this position is among them.
    pub fn contains(&self, position: usize) -> bool {
        let bit = position + 1;
        self.0.get(bit / 64).is_some_and(|bits| bits & (1 << (bit % 64)) != 0)
    }

    fn intersects(&self, other: &Columns) -> bool {
        self.0.iter().zip(&other.0).any(|(left, right)| left & right != 0)
    }

    fn covers(&self, other: &Columns) -> bool {
        other.0.iter().enumerate().all(|(index, bits)| {
            let own = self.0.get(index).copied().unwrap_or(0);
            bits & !own == 0
        })
    }
}

/// How much a lock lets others do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Others may read.
    Shared,
    /// Others may write as blindly as the holder; nobody may read.
    WriterShared,
    /// Nobody else may do anything.
    Exclusive,
}

impl Mode {
    fn allows(self, other: Mode) -> bool {
        matches!(
            (self, other),
            (Mode::Shared, Mode::Shared) | (Mode::WriterShared, Mode::WriterShared)
        )
    }

    fn covers(self, other: Mode) -> bool {
        self == other || self == Mode::Exclusive
    }
}

/// One lock, held or asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lock {
    pub range: KeyRange,
    pub columns: Columns,
    pub mode: Mode,
}

impl Lock {
    /// Returns the lock of who has found out which rows of a range are there.
    pub fn existence(range: KeyRange) -> Lock {
        Lock { range, columns: Columns::existence(), mode: Mode::Shared }
    }

    /// Returns the lock of who makes whole rows, of so many columns, come or go.
    pub fn rows(range: KeyRange, columns: usize) -> Lock {
        let mut all = Columns::existence();
        (0..columns).for_each(|position| all.insert(position));
        Lock { range, columns: all, mode: Mode::Exclusive }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Holding {
    holder: TransactionId,
    columns: Columns,
    mode: Mode,
}

/// The locks of one table.
#[derive(Debug)]
pub(super) struct LockTable {
    /// How many parts a whole key has.
    key_parts: usize,
    /// Locks on single keys, apart so that finding one doesn't take longer the more there are.
    keys: BTreeMap<Key, Vec<Holding>>,
    /// The places in `keys` that each holder is at.
    held_keys: HashMap<TransactionId, Vec<Key>>,
    ranges: Vec<(KeyRange, Holding)>,
}

impl LockTable {
    /// No locks, on a table whose keys have this many parts.
    pub fn new(key_parts: usize) -> LockTable {
        LockTable { key_parts, keys: BTreeMap::new(), held_keys: HashMap::new(), ranges: vec![] }
    }

    /// Returns how many parts a whole key has.
    pub fn key_parts(&self) -> usize {
        self.key_parts
    }

    /// Returns the holders, other than `asker`, of locks that don't allow `lock`, in no particular
    /// order.
    pub fn conflicts(&self, asker: TransactionId, lock: &Lock) -> Vec<TransactionId> {
        self.overlapping(&lock.range)
            .filter(|held| {
                held.holder != asker
                    && !held.mode.allows(lock.mode)
                    && held.columns.intersects(&lock.columns)
            })
            .map(|held| held.holder)
            .collect()
    }

    /// Notes that `holder` has this lock, which must not conflict.
    pub fn grant(&mut self, holder: TransactionId, lock: Lock) {
        let Lock { range, columns, mode } = lock;
        let held_already = self.covering(&range).any(|held| {
            held.holder == holder && held.mode.covers(mode) && held.columns.covers(&columns)
        });
        if held_already {
            return;
        }
        let holding = Holding { holder, columns, mode };
        if self.is_one_key(&range) {
            self.held_keys.entry(holder).or_default().push(range.start.clone());
            self.keys.entry(range.start).or_default().push(holding);
        } else {
            match self.ranges.last_mut() {
                // The next page of a long read.
                Some((last, held)) if last.end == range.start && *held == holding => {
                    last.end = range.end;
                }
                _ => self.ranges.push((range, holding)),
            }
        }
    }

    /// Frees every lock of `holder`.
    pub fn release(&mut self, holder: TransactionId) {
        self.ranges.retain(|(_, held)| held.holder != holder);
        for key in self.held_keys.remove(&holder).unwrap_or_default() {
            if let Some(held) = self.keys.get_mut(&key) {
                held.retain(|held| held.holder != holder);
                if held.is_empty() {
                    self.keys.remove(&key);
                }
            }
        }
    }

    fn overlapping<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Holding> {
        let keys = range.of(&self.keys);
        let ranges = self.ranges.iter().filter(|(held, _)| held.overlaps(range));
        keys.flat_map(|(_, held)| held).chain(ranges.map(|(_, held)| held))
    }

    fn covering<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Holding> {
        let keys = self.is_one_key(range).then(|| self.keys.get(&range.start)).flatten();
        let ranges = self
            .ranges
            .iter()
            .filter(|(held, _)| held.start <= range.start && range.end <= held.end);
        keys.into_iter().flatten().chain(ranges.map(|(_, held)| held))
    }

    fn is_one_key(&self, range: &KeyRange) -> bool {
        let (start, end) = (&range.start.0, &range.end.0);
        start.len() == self.key_parts
            && end.len() == self.key_parts + 1
            && end.last() == Some(&KeyPart::End)
            && end[..start.len()] == start[..]
    }
}

/// Returns true if two locks, neither of which is held yet, would be in each other's way.
pub(super) fn compete(left: &Lock, right: &Lock) -> bool {
    !left.mode.allows(right.mode)
        && left.columns.intersects(&right.columns)
        && left.range.overlaps(&right.range)
}

#[cfg(test)]
#[path = "../../tests/private/engine/locks.rs"]
mod tests;
