//! The writes that a transaction wants, and their results.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use super::cell::Cell;
use super::check::{
    already_exists, check_cell, commit_timestamp_not_allowed, in_the_future, omitted_not_null,
};
use super::error::{Code, Error, Result};
use super::locks::{Columns, Lock, Mode};
use super::schema::Schema;
use super::store::{Row, Rows};
use super::table::Table;
use super::touched::Touched;
use super::value::{Key, KeyPart, KeyRange, Timestamp, Value};

/// The longest key, in bytes.
const KEY_BYTES_MAX: usize = 8 << 10;

/// The state that a [`Mutation`] expects to find, and its effect on that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    /// The row must not be there.
    Insert,
    /// The row must be there; columns that aren't named stay as they are.
    Update,
    /// As an update if the row is there, else as an insert. Either way it must name the columns that
    /// cannot be NULL and have no default.
    InsertOrUpdate,
    /// The row becomes what is written; columns that aren't named get their default.
    Replace,
}

/// One change to one table, as a commit carries it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// Writes one row.
    Write {
        /// The state that it expects to find.
        kind: WriteKind,
        /// The table's name, in any case.
        table: String,
        /// The columns written, by name in any case.
        columns: Vec<String>,
        /// The new values, in the same order.
        cells: Vec<Cell>,
    },
    /// Deletes every row in some ranges of keys. Rows that aren't there are no error.
    Delete {
        /// The table's name, in any case.
        table: String,
        /// The keys; [`KeyRange::prefix`] of a whole key for one row. In a column to which the
        /// commit timestamp may be written, [`Timestamp::MAX`] stands for that of this commit.
        keys: Vec<KeyRange>,
    },
}

impl Mutation {
    /// Returns a write of one row.
    pub fn write<'a>(
        kind: WriteKind,
        table: &str,
        cells: impl IntoIterator<Item = (&'a str, Cell)>,
    ) -> Mutation {
        let (columns, cells) =
            cells.into_iter().map(|(column, cell)| (column.to_owned(), cell)).unzip();
        Mutation::Write { kind, table: table.to_owned(), columns, cells }
    }

    /// Returns the table's name, as the mutation gives it.
    pub fn table(&self) -> &str {
        match self {
            Mutation::Write { table, .. } | Mutation::Delete { table, .. } => table,
        }
    }

    /// Returns how many cells it writes, which is what Spanner's limit of mutations per commit
    /// counts.
    pub fn cell_count(&self) -> usize {
        match self {
            Mutation::Write { cells, .. } => cells.len(),
            Mutation::Delete { keys, .. } => keys.len(),
        }
    }
}

/// The writes of a transaction to one table that are not committed yet.
pub(super) type TableWrites = BTreeMap<Key, RowWrite>;

/// The writes of a transaction, by table name in lower case.
pub(super) type Writes = BTreeMap<String, TableWrites>;

/// All that a transaction is to commit, or what one statement adds to that.
#[derive(Clone, Debug, Default)]
pub(super) struct WriteSet {
    /// The rows, and the entries of indexes that statements have made of them.
    pub rows: Writes,
    /// How many cells count towards the limit of a commit.
    pub cells: usize,
    /// The locks that the commit needs.
    pub locks: Vec<(String, Lock)>,
    /// The rows touched so far in tables from which foreign keys cascade, by table name.
    pub touched: HashMap<String, Touched>,
}

impl WriteSet {
    /// Lays later writes over these.
    pub fn lay(&mut self, later: WriteSet) {
        self.lay_rows(later.rows);
        self.cells += later.cells;
        self.locks.extend(later.locks);
        self.touched = later.touched;
    }

    /// Lays later rows over these.
    pub fn lay_rows(&mut self, later: Writes) {
        for (table, writes) in later {
            self.rows.entry(table).or_default().extend(writes);
        }
    }
}

/// The moment for which writes are worked out.
#[derive(Clone, Copy)]
pub(super) struct At {
    /// The moment whose rows count as there.
    pub base: Timestamp,
    /// The latest timestamp that may be written; in a commit, its own.
    pub now: Timestamp,
    /// True if this is the commit.
    pub committing: bool,
}

impl At {
    /// Returns the value that a commit timestamp counts as: until it is known, it is later than all.
    pub fn commit_timestamp(&self) -> Timestamp {
        if self.committing { self.now } else { Timestamp::MAX }
    }
}

/// The cells that a mutation writes to one row, by the column's position.
type Written = Vec<Option<Cell>>;

/// A transaction's version of one row.
#[derive(Clone, Debug)]
pub(super) enum RowWrite {
    /// A row of its own, whatever was there; one cell per column.
    Row(Vec<Cell>),
    /// Some columns of the row that is there.
    Patch(Written),
    /// No row.
    Deleted,
}

impl RowWrite {
    /// Returns the row that results where `stored` is.
    ///
    /// Somebody else may have written other columns since the write was made, so a patch has to be
    /// laid over the row of the moment.
    ///
    /// # Errors
    /// A generated column has no value in that row, or one that the column cannot hold.
    pub fn over(&self, table: &Table, stored: Option<&Row>) -> Result<Option<Vec<Cell>>> {
        let mut cells = match self {
            RowWrite::Row(cells) => cells.clone(),
            RowWrite::Deleted => return Ok(None),
            RowWrite::Patch(patch) => {
                let Some(stored) = stored else { return Ok(None) };
                let mut cells = cells_of(table, stored);
                lay(patch.iter().cloned(), &mut cells);
                cells
            }
        };
        generate(table, &mut cells)?;
        Ok(Some(cells))
    }
}

/// Puts what is written into a row.
fn lay(written: impl Iterator<Item = Option<Cell>>, cells: &mut [Cell]) {
    for (cell, written) in cells.iter_mut().zip(written) {
        if let Some(written) = written {
            *cell = written;
        }
    }
}

/// Puts into a row what its generated columns hold. None of them is made of a commit timestamp.
fn generate(table: &Table, cells: &mut [Cell]) -> Result<()> {
    if table.columns.iter().all(|column| column.generated.is_none()) {
        return Ok(());
    }
    let value = |cell: &Cell| cell.clone().into_value(Timestamp::MAX);
    let mut row: Vec<Value> = cells.iter().map(value).collect();
    table.generate(&mut row)?;
    for (position, column) in table.columns.iter().enumerate() {
        if column.generated.is_some() {
            let cell = Cell::Value(std::mem::replace(&mut row[position], Value::Null));
            check_cell(table, column, &cell, Timestamp::MAX)?;
            cells[position] = cell;
        }
    }
    Ok(())
}

/// Returns a stored row as cells, with NULL for the columns it is too old to have.
pub(super) fn cells_of(table: &Table, row: &Row) -> Vec<Cell> {
    let values = row.iter().cloned().chain(std::iter::repeat(Value::Null));
    values.take(table.columns.len()).map(Cell::Value).collect()
}

/// The rows that come and go by one mutation.
#[derive(Default)]
pub(super) struct Moved {
    /// The keys whose rows go away, though others may come in their place.
    pub gone: Vec<KeyRange>,
    /// The key of a row that comes where none was.
    pub come: Option<Key>,
}

/// One table while mutations are applied to it.
pub(super) struct Target<'a> {
    pub schema: &'a Schema,
    pub table: &'a Table,
    pub rows: &'a Rows,
    /// The transaction's earlier writes.
    pub below: Option<&'a TableWrites>,
    /// The present writes, laid over those.
    pub writes: &'a mut TableWrites,
    pub at: At,
    /// How many cells have got their default so far.
    pub filled: usize,
    /// The columns that others refer to by keys that cascade, and the rows that were touched since.
    pub cascades: Option<(Vec<usize>, &'a mut Touched)>,
}

impl Target<'_> {
    /// Applies one mutation to the writes; `locks` gets what it must hold.
    pub fn apply(&mut self, mutation: &Mutation, locks: &mut Vec<Lock>) -> Result<Moved> {
        match mutation {
            Mutation::Write { kind, columns, cells, .. } => {
                self.write(*kind, columns, cells, locks)
            }
            Mutation::Delete { keys, .. } => {
                let keys = keys.iter().filter(|range| !range.is_empty());
                let keys: Vec<_> =
                    keys.map(|range| self.stamped_range(range)).collect::<Result<_>>()?;
                for range in &keys {
                    if let Some((_, touched)) = &mut self.cascades {
                        touched.delete(self.table, range)?;
                    }
                    self.delete(range, locks);
                }
                Ok(Moved { gone: keys, come: None })
            }
        }
    }

    fn write(
        &mut self,
        kind: WriteKind,
        columns: &[String],
        cells: &[Cell],
        locks: &mut Vec<Lock>,
    ) -> Result<Moved> {
        let mut written = self.resolve(columns, cells)?;
        let table = self.table;
        match kind {
            WriteKind::Update => self.check_key(&written)?,
            _ => self.fill(&mut written, |position| table.is_key(position))?,
        }
        for (column, cell) in self.table.columns.iter().zip(&written) {
            if let Some(cell) = cell {
                check_cell(self.table, column, cell, self.at.now)?;
            }
        }
        let key = self.key(&written)?;
        let not_null = match kind {
            WriteKind::Update => Ok(()),
            _ => self.check_not_null(&written),
        };
        // A statement looks for the row first.
        if self.at.committing {
            not_null.clone()?;
        }
        let exists = self.exists(&key);
        self.touch(kind, &key, &written)?;
        self.check_expected(kind, &key, exists)?;
        not_null?;
        let keeps_row = exists && kind != WriteKind::Replace;
        if !keeps_row {
            self.fill(&mut written, |_| true)?;
        }
        locks.extend(write_locks(self.table, &key, &written, keeps_row));
        if keeps_row {
            self.patch(key, written);
            return Ok(Moved::default());
        }
        let mut cells = vec![Cell::Value(Value::Null); self.table.columns.len()];
        lay(written.into_iter(), &mut cells);
        self.writes.insert(key.clone(), RowWrite::Row(cells));
        Ok(match exists {
            true => Moved { gone: vec![KeyRange::prefix(key)], come: None },
            false => Moved { gone: Vec::new(), come: Some(key) },
        })
    }

    /// Notes that a row is written, where others refer to the table by keys that cascade.
    fn touch(&mut self, kind: WriteKind, key: &Key, written: &[Option<Cell>]) -> Result<()> {
        let Some((columns, touched)) = &mut self.cascades else { return Ok(()) };
        if kind == WriteKind::Replace {
            touched.delete(self.table, &KeyRange::prefix(key.clone()))?;
        }
        match columns.iter().any(|position| written[*position].is_some()) {
            true => touched.write(self.table, key),
            false => Ok(()),
        }
    }

    /// Refuses a write that expects another state.
    fn check_expected(&self, kind: WriteKind, key: &Key, exists: bool) -> Result<()> {
        match kind {
            WriteKind::Insert if self.at.committing && self.is_written(key) => {
                Err(Error::invalid_argument(format!(
                    "Table {}: Row {key} is inserted twice in one commit.",
                    self.table.name
                )))
            }
            WriteKind::Insert if exists => Err(already_exists(self.table, key)),
            WriteKind::Update if !exists => Err(self.cannot_update(key)),
            _ => Ok(()),
        }
    }

    /// Writes some columns of a row that is there.
    fn patch(&mut self, key: Key, written: Written) {
        let below = self.below.and_then(|below| below.get(&key));
        let before =
            || below.cloned().unwrap_or_else(|| RowWrite::Patch(vec![None; written.len()]));
        match self.writes.entry(key).or_insert_with(before) {
            RowWrite::Row(cells) => lay(written.into_iter(), cells),
            RowWrite::Patch(patch) => {
                patch.iter_mut().zip(written).for_each(|(cell, new)| *cell = new.or(cell.take()));
            }
            RowWrite::Deleted => debug_assert!(false, "a deleted row does not exist"),
        }
    }

    /// Refuses an update that leaves a part of the key to its default.
    fn check_key(&self, written: &[Option<Cell>]) -> Result<()> {
        for part in &self.table.primary_key {
            let column = &self.table.columns[part.position];
            if written[part.position].is_none() && column.default.is_some() {
                return Err(Error::failed_precondition(format!(
                    "Implicit use of primary key default value for column `{}.{}` is not allowed \
                     in UPDATE mutations. The column must have a specific value.",
                    self.table.name, column.name
                )));
            }
        }
        Ok(())
    }

    fn delete(&mut self, range: &KeyRange, locks: &mut Vec<Lock>) {
        locks.push(Lock::rows(range.clone(), self.table.columns.len()));
        let stored = self.rows.range_at(range, self.at.base).map(|(key, _)| key);
        let layers = self.below.into_iter().chain([&*self.writes]);
        let buffered = layers.flat_map(|writes| range.of(writes)).map(|(key, _)| key);
        let keys: Vec<Key> = stored.chain(buffered).cloned().collect();
        for key in keys {
            self.writes.insert(key, RowWrite::Deleted);
        }
    }

    /// Returns the transaction's version of a row so far.
    fn buffered(&self, key: &Key) -> Option<&RowWrite> {
        self.writes.get(key).or_else(|| self.below?.get(key))
    }

    /// Returns true if the row is one that this commit has written itself.
    fn is_written(&self, key: &Key) -> bool {
        matches!(self.writes.get(key), Some(RowWrite::Row(_)))
    }

    fn exists(&self, key: &Key) -> bool {
        match self.buffered(key) {
            Some(write) => !matches!(write, RowWrite::Deleted),
            None => self.rows.at(key, self.at.base).is_some(),
        }
    }

    /// The cells by column position, with the commit timestamp filled in once it is known.
    fn resolve(&self, columns: &[String], cells: &[Cell]) -> Result<Written> {
        if columns.len() != cells.len() {
            return Err(Error::invalid_argument(format!(
                "Mutation column and value size mismatch: Found: {} columns and {} values",
                columns.len(),
                cells.len()
            )));
        }
        let mut written = vec![None; self.table.columns.len()];
        for (name, cell) in columns.iter().zip(cells) {
            let position = self.table.find(name)?;
            let column = &self.table.columns[position];
            if column.generated.is_some() {
                return Err(Error::failed_precondition(format!(
                    "Cannot write into generated column `{}.{}`.",
                    self.table.name, column.name
                )));
            }
            let cell = self.stamped(position, cell)?;
            if written[position].replace(cell).is_some() {
                return Err(Error::invalid_argument(format!(
                    "Multiple values for column {name} in table {}.",
                    self.table.name
                )));
            }
        }
        Ok(written)
    }

    /// The cell, with the commit timestamp filled in if it is known.
    fn stamped(&self, position: usize, cell: &Cell) -> Result<Cell> {
        match cell {
            Cell::CommitTimestamp if !self.schema.allows_commit_timestamp(self.table, position) => {
                Err(commit_timestamp_not_allowed(self.table, &self.table.columns[position]))
            }
            Cell::CommitTimestamp if self.at.committing => {
                Ok(Cell::Value(Value::Timestamp(self.at.now)))
            }
            cell => Ok(cell.clone()),
        }
    }

    /// A range with the commit timestamp filled in. No row of the future can be named.
    fn stamped_range(&self, range: &KeyRange) -> Result<KeyRange> {
        let mut stamped = range.clone();
        for key in [&mut stamped.start, &mut stamped.end] {
            for (part, place) in self.table.primary_key.iter().zip(&mut key.0) {
                let column = &self.table.columns[part.position];
                let (KeyPart::Ascending(value) | KeyPart::Descending(Reverse(value))) = place
                else {
                    continue;
                };
                match value {
                    Value::Timestamp(named)
                        if !column.allow_commit_timestamp || *named <= self.at.now => {}
                    Value::Timestamp(named) if *named == Timestamp::MAX => *named = self.at.now,
                    Value::Timestamp(named) => {
                        return Err(in_the_future(self.table, column, *named));
                    }
                    _ => {}
                }
            }
        }
        Ok(stamped)
    }

    /// Gives columns that aren't written their default, where they have one.
    fn fill(&mut self, written: &mut [Option<Cell>], wanted: impl Fn(usize) -> bool) -> Result<()> {
        for (position, column) in self.table.columns.iter().enumerate() {
            if let Some(default) = &column.default
                && wanted(position)
                && written[position].is_none()
            {
                let cell = self.stamped(position, &default.value(column, self.at.now)?)?;
                check_cell(self.table, column, &cell, self.at.now)?;
                written[position] = Some(cell);
                self.filled += 1;
            }
        }
        Ok(())
    }

    fn key(&self, written: &[Option<Cell>]) -> Result<Key> {
        let mut values = Vec::with_capacity(self.table.primary_key.len());
        for part in &self.table.primary_key {
            let column = &self.table.columns[part.position];
            values.push(match &written[part.position] {
                Some(Cell::Value(value)) => value.clone(),
                Some(Cell::CommitTimestamp) => {
                    return Err(Error::unimplemented(format!(
                        "a pending commit timestamp in key column {}.{} before the commit; write \
                         the row with a mutation",
                        self.table.name, column.name
                    )));
                }
                None if column.not_null => return Err(omitted_not_null(self.table, column)),
                None => Value::Null,
            });
        }
        check_key_size("table", &self.table.name, &values)?;
        self.table.key(values)
    }

    fn cannot_update(&self, key: &Key) -> Error {
        match self.buffered(key) {
            Some(RowWrite::Deleted) => Error::invalid_argument(format!(
                "Row {key} in {} was deleted and then updated in the same transaction.",
                self.table.name
            )),
            _ => Error::new(
                Code::NotFound,
                format!("Table {}: Row {key} not found.", self.table.name),
            ),
        }
    }

    fn check_not_null(&self, written: &[Option<Cell>]) -> Result<()> {
        let mut columns = self.table.columns.iter().enumerate();
        let omitted = columns.find(|(position, column)| {
            let gets_value = column.default.is_some() || column.generated.is_some();
            column.not_null && !gets_value && written[*position].is_none()
        });
        match omitted {
            Some((_, column)) => Err(omitted_not_null(self.table, column)),
            None => Ok(()),
        }
    }
}

/// Refuses a key of too many bytes.
pub(super) fn check_key_size(kind: &str, name: &str, values: &[Value]) -> Result<()> {
    let size = values.iter().map(Value::size).sum::<usize>();
    match size <= KEY_BYTES_MAX {
        true => Ok(()),
        false => Err(Error::invalid_argument(format!(
            "Number of bytes for key of {kind} {name} is {size} which exceeds the maximum of \
             {KEY_BYTES_MAX}."
        ))),
    }
}

fn write_locks(table: &Table, key: &Key, written: &[Option<Cell>], keeps_row: bool) -> [Lock; 2] {
    let range = KeyRange::prefix(key.clone());
    let mut columns = Columns::default();
    let written = (0..written.len()).filter(|position| written[*position].is_some());
    let not_key = written.clone().filter(|position| !table.is_key(*position));
    not_key.for_each(|position| columns.insert(position));
    table.dependents(written).into_iter().for_each(|at| columns.insert(at));
    let (existence_mode, mode) = match keeps_row {
        true => (Mode::Shared, Mode::WriterShared),
        // Every reader of a row holds its existence, so this meets all of them.
        false => (Mode::Exclusive, Mode::Exclusive),
    };
    let existence = Columns::existence();
    [
        Lock { range: range.clone(), columns: existence, mode: existence_mode },
        Lock { range, columns, mode },
    ]
}
