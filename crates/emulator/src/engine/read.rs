//! Reading rows: at a moment, or inside a read-write transaction.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use super::cell::Cell;
use super::error::{Error, Result};
use super::locks::{Columns, Lock, Mode};
use super::mutation::{RowWrite, TableWrites, cells_of};
use super::schema::Schema;
use super::state::{Blocked, State, Step, TableData};
use super::store::Row;
use super::table::Table;
use super::transaction::{Concurrency, TransactionId};
use super::value::{Key, KeyRange, Timestamp, Value};

/// How many rows one page looks at.
const PAGE_ROWS: usize = 1_000;
/// The size at which a page is full, in bytes of values.
const PAGE_BYTES: usize = 1 << 20;

/// The wanted rows and columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    /// The table's name, in any case.
    pub table: String,
    /// The index to read in place of the table, by name in any case. It has its own key and the
    /// columns that it keeps, and no others.
    pub index: Option<String>,
    /// The columns, by name in any case.
    pub columns: Vec<String>,
    /// The keys; [`KeyRange::prefix`] of a whole key for one row. A row in several of the ranges is
    /// read once.
    pub keys: Vec<KeyRange>,
    /// At most this many rows; 0 reads none.
    pub limit: Option<usize>,
    /// True if a read-write transaction locks what it reads against other readers too.
    pub exclusive: bool,
}

impl Read {
    /// Returns a read of these columns in every row.
    pub fn all<'a>(table: &str, columns: impl IntoIterator<Item = &'a str>) -> Read {
        Read {
            table: table.to_owned(),
            index: None,
            columns: columns.into_iter().map(str::to_owned).collect(),
            keys: vec![KeyRange::all()],
            limit: None,
            exclusive: false,
        }
    }

    /// Returns a read of these columns in the row with this key, as [`Table::key`] makes it.
    pub fn row<'a>(table: &str, columns: impl IntoIterator<Item = &'a str>, key: Key) -> Read {
        Read { keys: vec![KeyRange::prefix(key)], ..Read::all(table, columns) }
    }
}

/// A read under way, which goes on page by page, so that nobody waits for all of a long one.
#[derive(Clone, Debug)]
pub struct Reading {
    /// The read; its keys are in `ranges`.
    read: Read,
    /// The ranges that are left: sorted, and none overlaps another.
    ranges: VecDeque<KeyRange>,
    /// How many more rows are wanted.
    wanted: usize,
}

impl Reading {
    /// Returns a read that has not begun.
    pub fn new(mut read: Read) -> Reading {
        let ranges = KeyRange::merged(mem::take(&mut read.keys)).into();
        let wanted = read.limit.unwrap_or(usize::MAX);
        Reading { read, ranges, wanted }
    }

    /// Returns true if nothing is left to read.
    pub fn is_done(&self) -> bool {
        self.ranges.is_empty() || self.wanted == 0
    }

    /// The next rows, as they are at `moment` under a transaction's own writes to the table.
    fn page(
        &self,
        (table, data): (&Table, &TableData),
        positions: &[usize],
        moment: Timestamp,
        writes: Option<&TableWrites>,
    ) -> Result<Page> {
        let mut page = Page::default();
        let mut looked_at = 0;
        let mut bytes = 0;
        if self.is_done() {
            return Ok(page);
        }
        for range in &self.ranges {
            for (key, row) in rows_under(data, range, moment, writes) {
                let row = match writes.and_then(|writes| writes.get(key)) {
                    None => row.map(|row| project_row(row, positions)),
                    Some(buffered) => project_write(table, buffered, row, positions)?,
                };
                bytes += row.iter().flatten().map(Value::size).sum::<usize>();
                looked_at += 1;
                page.rows.extend(row);
                if looked_at >= PAGE_ROWS || bytes >= PAGE_BYTES || page.rows.len() >= self.wanted {
                    page.until = Some(key.clone().after());
                    return Ok(page);
                }
            }
            page.ranges += 1;
            looked_at += 1;
            if looked_at >= PAGE_ROWS {
                break;
            }
        }
        Ok(page)
    }

    /// Returns the ranges that a page has covered.
    fn seen(&self, page: &Page) -> impl Iterator<Item = KeyRange> {
        let cut = self.ranges.get(page.ranges).zip(page.until.clone());
        let cut = cut.map(|(range, end)| KeyRange { start: range.start.clone(), end });
        self.ranges.iter().take(page.ranges).cloned().chain(cut)
    }

    /// Goes on behind a page.
    fn turn(&mut self, page: Page) -> Vec<Vec<Value>> {
        self.ranges.drain(..page.ranges);
        if let Some((range, until)) = self.ranges.front_mut().zip(page.until) {
            range.start = until;
            if range.is_empty() {
                self.ranges.pop_front();
            }
        }
        self.wanted -= page.rows.len();
        page.rows
    }
}

/// Some of the rows of a read.
#[derive(Default)]
struct Page {
    rows: Vec<Vec<Value>>,
    /// How many ranges it has exhausted.
    ranges: usize,
    /// Where it stopped in the range behind those.
    until: Option<Key>,
}

fn project_row(row: &Row, positions: &[usize]) -> Vec<Value> {
    let cell = |position: &usize| row.get(*position).cloned().unwrap_or(Value::Null);
    positions.iter().map(cell).collect()
}

fn project_write(
    table: &Table,
    write: &RowWrite,
    stored: Option<&Row>,
    positions: &[usize],
) -> Result<Option<Vec<Value>>> {
    let Some(cells) = write.over(table, stored)? else { return Ok(None) };
    let value = |position: &usize| match &cells[*position] {
        Cell::Value(value) => Ok(value.clone()),
        Cell::CommitTimestamp => Err(Error::invalid_argument(format!(
            "Column {} cannot be accessed because it, or its associated index, has a pending \
             CommitTimestamp",
            table.columns[*position].name
        ))),
    };
    positions.iter().map(value).collect::<Result<_>>().map(Some)
}

/// The rows of a range in order, and `None` for the keys that only the writes know.
fn rows_under<'a>(
    data: &'a TableData,
    range: &'a KeyRange,
    moment: Timestamp,
    writes: Option<&'a TableWrites>,
) -> impl Iterator<Item = (&'a Key, Option<&'a Row>)> {
    let mut stored = data.rows.range_at(range, moment).peekable();
    let mut buffered = writes.into_iter().flat_map(|writes| range.of(writes)).peekable();
    std::iter::from_fn(move || {
        let order = match (stored.peek(), buffered.peek()) {
            (Some((stored, _)), Some((buffered, _))) => stored.cmp(buffered),
            (Some(_), None) => Ordering::Less,
            (None, _) => Ordering::Greater,
        };
        if order == Ordering::Greater {
            return buffered.next().map(|(key, _)| (key, None));
        }
        if order == Ordering::Equal {
            buffered.next();
        }
        stored.next().map(|(key, row)| (key, Some(row)))
    })
}

/// The columns to lock, or to find unchanged.
fn columns(table: &Table, positions: &[usize]) -> Columns {
    let mut columns = Columns::existence();
    let not_key = positions.iter().filter(|position| !table.is_key(**position));
    not_key.for_each(|position| columns.insert(*position));
    columns
}

impl State {
    /// Finds the rows and the columns that a read names.
    fn found(&self, read: &Read) -> Result<((&Table, &TableData), Vec<usize>)> {
        let (table, data) = self.place(&read.table, read.index.as_deref())?;
        let positions = read.columns.iter().map(|name| table.find(name)).collect::<Result<_>>()?;
        Ok(((table, data), positions))
    }

    /// Refuses a read of columns that weren't there at that moment, or have changed since.
    fn check_form(&self, read: &Read, moment: Timestamp) -> Result<()> {
        if self.former.back().is_none_or(|(until, _)| moment >= *until) {
            return Ok(());
        }
        let name = read.index.as_ref().unwrap_or(&read.table);
        let since = self.former.iter().filter(|(until, _)| moment < *until);
        let mut since = since.map(|(_, schema)| schema).chain([&self.schema]);
        let Some(then) = since.next().and_then(|schema| schema.relation(name)) else {
            return Ok(());
        };
        if let Some(column) = read.columns.iter().find(|column| then.position(column).is_none()) {
            return Err(Error::column_not_found(&then.name, column));
        }
        let is_same = |schema: &Arc<Schema>| {
            schema.relation(name).is_some_and(|table| table.has_form_of(then, &read.columns))
        };
        match since.all(is_same) {
            true => Ok(()),
            false => Err(Error::unimplemented(format!(
                "Not supported here: a read of {name} at {moment}, before its columns changed"
            ))),
        }
    }

    /// Reads the next page at a moment.
    pub fn read_page_at(
        &self,
        reading: &mut Reading,
        moment: Timestamp,
    ) -> Result<Vec<Vec<Value>>> {
        self.check_form(&reading.read, moment)?;
        let (place, positions) = self.found(&reading.read)?;
        let page = reading.page(place, &positions, moment, None)?;
        Ok(reading.turn(page))
    }

    /// Reads the next page inside a transaction, if nothing is in the way.
    pub fn try_read_page(
        &mut self,
        id: TransactionId,
        reading: &mut Reading,
        now: Timestamp,
    ) -> Result<Step<Vec<Vec<Value>>>> {
        let moment = self.moment_seen(id, now)?;
        let ((table, data), positions) = self.found(&reading.read)?;
        let name = table.name.to_ascii_lowercase();
        let writes = self.open.get(&id).and_then(|t| t.writes.rows.get(&name));
        let page = reading.page((table, data), &positions, moment, writes)?;
        let columns = columns(table, &positions);
        let mode = if reading.read.exclusive { Mode::Exclusive } else { Mode::Shared };
        let lock = |range| (name.clone(), Lock { range, columns: columns.clone(), mode });
        let locks: Vec<_> = reading.seen(&page).map(lock).collect();
        if let Some(blocked) = self.has_read(id, &locks, now) {
            return Ok(Step::Blocked(blocked, locks));
        }
        Ok(Step::Done(reading.turn(page)))
    }

    /// Returns the moment that a transaction sees: the latest, or that of an optimistic one's first
    /// read.
    pub fn moment_seen(&mut self, id: TransactionId, now: Timestamp) -> Result<Timestamp> {
        if self.open_transaction(id, now)?.concurrency == Concurrency::Pessimistic {
            return Ok(Timestamp::MAX);
        }
        self.age(id);
        let strong = self.strong_timestamp(now);
        let transaction = self.open.get_mut(&id);
        Ok(transaction.map_or(strong, |it| *it.snapshot.get_or_insert(strong)))
    }

    /// Locks what a transaction has read, unless something is in the way. Of an optimistic one it is
    /// noted, in terms of the locks it would have taken.
    pub fn has_read(
        &mut self,
        id: TransactionId,
        locks: &[(String, Lock)],
        now: Timestamp,
    ) -> Option<Blocked> {
        match self.open.get_mut(&id) {
            Some(transaction) if transaction.concurrency == Concurrency::Optimistic => {
                transaction.reads.extend_from_slice(locks);
                None
            }
            _ => self.acquire(id, locks, true, now),
        }
    }

    /// Returns true if what an optimistic transaction has read is still so.
    pub fn unchanged(&self, id: TransactionId, moment: Timestamp) -> bool {
        let Some(transaction) = self.open.get(&id) else { return false };
        transaction.reads.iter().all(|(table, read)| {
            let place = self.schema.relation(table).zip(self.tables.get(table));
            let Some((table, data)) = place else { return false };
            let seen = |row: Option<&Row>| {
                let cells = cells_of(table, row?).into_iter().enumerate();
                let seen = cells.filter(|(position, _)| read.columns.contains(*position));
                Some(seen.collect::<Vec<_>>())
            };
            data.rows
                .written_after(&read.range, moment)
                .all(|key| seen(data.rows.at(key, moment)) == seen(data.rows.latest(key)))
        })
    }
}
