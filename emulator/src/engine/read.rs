//! Reading rows: at a moment, or inside a read-write transaction.

use std::collections::BTreeMap;

use super::error::{Error, Result};
use super::locks::{Columns, Lock, Mode, TransactionNumber};
use super::mutation::{Cell, Draft, TableDraft, cells_of};
use super::schema::Table;
use super::state::{State, Step};
use super::store::{Row, Rows};
use super::transaction::{Concurrency, ReadRecord};
use super::value::{Key, KeyRange, Timestamp, Value};

/// Which rows and columns are wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The table's name, in any case.
    pub table: String,
    /// The columns, by name in any case.
    pub columns: Vec<String>,
    /// Which keys; [`KeyRange::prefix`] of a whole key for one row. A row in several of the ranges
    /// is read once.
    pub keys: Vec<KeyRange>,
    /// At most this many rows.
    pub limit: Option<usize>,
    /// Whether a read-write transaction locks what it reads against other readers too.
    pub exclusive: bool,
}

impl Read {
    /// A read of these columns in every row.
    pub fn all<'a>(table: &str, columns: impl IntoIterator<Item = &'a str>) -> Read {
        Read {
            table: table.to_owned(),
            columns: columns.into_iter().map(str::to_owned).collect(),
            keys: vec![KeyRange::all()],
            limit: None,
            exclusive: false,
        }
    }

    /// A read of these columns in the row with this key, as [`Table::key`] makes it.
    pub fn row<'a>(table: &str, columns: impl IntoIterator<Item = &'a str>, key: Key) -> Read {
        Read { keys: vec![KeyRange::prefix(key)], ..Read::all(table, columns) }
    }
}

/// A [`Read`] whose names were found.
pub(super) struct Resolved {
    /// The table's name in lower case.
    pub table: String,
    pub positions: Vec<usize>,
    /// Sorted, and none overlaps another.
    pub ranges: Vec<KeyRange>,
    limit: usize,
    mode: Mode,
}

impl Resolved {
    /// The columns to lock, or to find unchanged.
    pub fn columns(&self, table: &Table) -> Columns {
        let mut columns = Columns::existence();
        let not_key = self.positions.iter().filter(|position| !table.is_key(**position));
        not_key.for_each(|position| columns.insert(*position));
        columns
    }

    /// The locks of a read that locks.
    pub fn locks(&self, table: &Table) -> Vec<(String, Lock)> {
        let columns = self.columns(table);
        let lock = |range: &KeyRange| Lock {
            range: range.clone(),
            columns: columns.clone(),
            mode: self.mode,
        };
        self.ranges.iter().map(|range| (self.table.clone(), lock(range))).collect()
    }

    /// The rows, as they are at `moment` under a transaction's own writes.
    pub fn rows(
        &self,
        table: &Table,
        rows: &Rows,
        moment: Timestamp,
        draft: Option<&TableDraft>,
    ) -> Result<Vec<Vec<Value>>> {
        let mut result = Vec::new();
        for range in &self.ranges {
            for (key, row) in drafted_rows(rows, range, moment, draft) {
                if result.len() >= self.limit {
                    return Ok(result);
                }
                match draft.and_then(|draft| draft.get(key)) {
                    None => result.extend(row.map(|row| self.project_row(row))),
                    Some(drafted) => result.extend(self.project_draft(table, drafted, row)?),
                }
            }
        }
        Ok(result)
    }

    fn project_row(&self, row: &Row) -> Vec<Value> {
        let cell = |position: &usize| row.get(*position).cloned().unwrap_or(Value::Null);
        self.positions.iter().map(cell).collect()
    }

    fn project_draft(
        &self,
        table: &Table,
        draft: &Draft,
        stored: Option<&Row>,
    ) -> Result<Option<Vec<Value>>> {
        let Some(cells) = draft.over(table, stored) else { return Ok(None) };
        let value = |position: &usize| match &cells[*position] {
            Cell::Value(value) => Ok(value.clone()),
            Cell::CommitTimestamp => Err(Error::invalid_argument(format!(
                "Column {} cannot be accessed because it, or its associated index, has a pending \
                 CommitTimestamp",
                table.columns[*position].name
            ))),
        };
        self.positions.iter().map(value).collect::<Result<_>>().map(Some)
    }
}

/// The rows of a range, and `None` for the keys that only the draft knows.
fn drafted_rows<'a>(
    rows: &'a Rows,
    range: &'a KeyRange,
    moment: Timestamp,
    draft: Option<&'a TableDraft>,
) -> BTreeMap<&'a Key, Option<&'a Row>> {
    let drafted = draft.into_iter().flat_map(TableDraft::keys);
    let mut merged: BTreeMap<_, _> =
        drafted.filter(|key| range.contains(key)).map(|key| (key, None)).collect();
    merged.extend(rows.range_at(range, moment).map(|(key, row)| (key, Some(row))));
    merged
}

impl State {
    /// Finds what a read names.
    pub fn resolve(&self, read: &Read) -> Result<Resolved> {
        let (table, _) = self.table(&read.table)?;
        let position = |name: &String| {
            table.position(name).ok_or_else(|| Error::column_not_found(&table.name, name))
        };
        Ok(Resolved {
            table: table.name.to_ascii_lowercase(),
            positions: read.columns.iter().map(position).collect::<Result<_>>()?,
            ranges: merge(read.keys.clone()),
            limit: read.limit.unwrap_or(usize::MAX),
            mode: if read.exclusive { Mode::Exclusive } else { Mode::Shared },
        })
    }

    /// Reads inside a transaction, if nothing is in the way.
    pub fn try_read(
        &mut self,
        number: TransactionNumber,
        read: &Read,
        now: Timestamp,
    ) -> Result<Step<Vec<Vec<Value>>>> {
        let concurrency = self.open_transaction(number, now)?.concurrency;
        let resolved = self.resolve(read)?;
        let locks = resolved.locks(self.table(&read.table)?.0);
        let moment = match concurrency {
            Concurrency::Optimistic => {
                self.record_reads(number, &locks);
                self.snapshot(number, now)
            }
            Concurrency::Pessimistic => {
                if let Some(blocked) = self.acquire(number, &locks, true, now) {
                    return Ok(Step::Blocked(blocked, locks));
                }
                Timestamp::MAX
            }
        };
        let (table, data) = self.table(&read.table)?;
        let draft = self.transactions.get(&number).and_then(|t| t.draft.get(&resolved.table));
        resolved.rows(table, &data.rows, moment, draft).map(Step::Done)
    }

    /// The moment that an optimistic transaction sees: that of its first read.
    pub fn snapshot(&mut self, number: TransactionNumber, now: Timestamp) -> Timestamp {
        self.age(number);
        let strong = self.strong_timestamp(now);
        self.transactions
            .get_mut(&number)
            .map_or(strong, |transaction| *transaction.snapshot.get_or_insert(strong))
    }

    /// Notes what an optimistic transaction has read, in terms of the locks it would have taken.
    pub fn record_reads(&mut self, number: TransactionNumber, locks: &[(String, Lock)]) {
        let Some(transaction) = self.transactions.get_mut(&number) else { return };
        transaction.reads.extend(locks.iter().map(|(table, lock)| ReadRecord {
            table: table.clone(),
            range: lock.range.clone(),
            columns: lock.columns.clone(),
        }));
    }

    /// Whether what an optimistic transaction has read is still so.
    pub fn unchanged(&self, number: TransactionNumber, moment: Timestamp) -> bool {
        let Some(transaction) = self.transactions.get(&number) else { return false };
        transaction.reads.iter().all(|record| {
            let Ok((table, data)) = self.table(&record.table) else { return false };
            let seen = |row: Option<&Row>| {
                let cells = cells_of(table, row?).into_iter().enumerate();
                let read = cells.filter(|(position, _)| record.columns.contains(*position));
                Some(read.collect::<Vec<_>>())
            };
            data.rows
                .written_after(&record.range, moment)
                .all(|key| seen(data.rows.at(key, moment)) == seen(data.rows.latest(key)))
        })
    }
}

fn merge(mut ranges: Vec<KeyRange>) -> Vec<KeyRange> {
    ranges.retain(|range| !range.is_empty());
    ranges.sort();
    let mut merged: Vec<KeyRange> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start < last.end => {
                last.end = range.end.max(last.end.clone());
            }
            _ => merged.push(range),
        }
    }
    merged
}
