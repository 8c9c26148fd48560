//! The moment in which a transaction's writes become everybody's.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use super::error::{Code, Error, Result};
use super::locks::{Lock, Mode};
use super::mutation::{At, Mutation, Target, WriteSet, Writes};
use super::schema::Schema;
use super::state::{State, Step};
use super::store::Row;
use super::transaction::{Committed, Outcome, TransactionId};
use super::value::Timestamp;

/// The most cells and entries of indexes that one commit may write.
pub const MUTATIONS_MAX: usize = 80_000;

impl State {
    /// Commits now, if nothing is in the way. A failure ends the transaction.
    pub fn try_commit(
        &mut self,
        id: TransactionId,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<Committed>> {
        if let Some(committed) = self.committed(id)? {
            return Ok(Step::Done(committed));
        }
        self.open_transaction(id, now)?;
        let attempt = self.attempt(id, mutations, now);
        match &attempt {
            Ok(Step::Done(committed)) => {
                self.finish(id, Outcome::Committed(*committed));
            }
            Ok(Step::Blocked(..)) => {}
            Err(error) => {
                self.finish(id, Outcome::CommitFailed(error.clone()));
            }
        }
        attempt
    }

    fn attempt(
        &mut self,
        id: TransactionId,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<Committed>> {
        let transaction = self.transaction(id)?;
        let (mut writes, snapshot) = (transaction.writes.clone(), transaction.snapshot);
        check_count(writes.cells + mutations.iter().map(Mutation::cell_count).sum::<usize>())?;
        // Without writes there is nothing that an outdated read could have misled.
        if let Some(snapshot) = snapshot
            && !(mutations.is_empty() && writes.rows.is_empty())
            && !self.unchanged(id, snapshot)
        {
            return Err(Error::aborted(format!(
                "Transaction {id} aborted because what it read has changed since."
            )));
        }
        let timestamp = self.next_timestamp(now);
        let at = At { base: Timestamp::MAX, now: timestamp, committing: true };
        writes.lay(self.applied(&writes, mutations, at)?);
        // Others may have written since the statements ran, so their entries are made again. Until
        // then the old ones are none: they would count as entries of other rows.
        writes.rows.retain(|name, _| self.schema.table(name).is_some());
        let follows = self.consequences(&writes.rows, None, at)?;
        let mutation_count = writes.cells + follows.changed_entries;
        check_count(mutation_count)?;
        writes.locks.extend(follows.locks);
        writes.lay_rows(follows.entries);
        if let Some(blocked) = self.acquire(id, &writes.locks, false, now) {
            return Ok(Step::Blocked(blocked, writes.locks));
        }
        self.write(writes.rows, timestamp)?;
        self.last_timestamp = timestamp;
        self.forget_old_versions(now);
        Ok(Step::Done(Committed { timestamp, mutation_count }))
    }

    /// Works mutations out, one after another, over what a transaction has written. Each has to
    /// leave every row of an interleaved table with its parent; all else that a schema asks for is
    /// asked of what the last one leaves.
    fn applied(&self, before: &WriteSet, mutations: &[Mutation], at: At) -> Result<WriteSet> {
        let mut applied = WriteSet {
            cells: mutations.iter().map(Mutation::cell_count).sum(),
            touched: before.touched.clone(),
            ..WriteSet::default()
        };
        let mut waiting: VecDeque<Cow<'_, Mutation>> =
            mutations.iter().map(Cow::Borrowed).collect();
        while let Some(mutation) = waiting.pop_front() {
            let (table, data) = self.table(mutation.table())?;
            let name = table.name.to_ascii_lowercase();
            let is_asked = matches!(mutation, Cow::Borrowed(_));
            if let Mutation::Delete { keys, .. } = &*mutation {
                let layers = [&applied.rows, &before.rows];
                let follow = self.cascades_of(table, keys, &layers, at.base)?;
                follow.into_iter().for_each(|delete| waiting.push_front(Cow::Owned(delete)));
            }
            let columns = self.cascading_columns(table);
            let cascades = (is_asked && !columns.is_empty())
                .then(|| (columns, applied.touched.entry(name.clone()).or_default()));
            let mut locks = Vec::new();
            let mut target = Target {
                schema: &self.schema,
                table,
                rows: &data.rows,
                below: before.rows.get(&name),
                writes: applied.rows.entry(name.clone()).or_default(),
                at,
                filled: 0,
                cascades,
            };
            let moved = target.apply(&mutation, &mut locks)?;
            applied.cells += target.filled;
            self.check_interleaved(table, &moved, &[&applied.rows, &before.rows], at.base)?;
            for child in self.cascades_to(&table.name) {
                let mutation =
                    Mutation::Delete { table: child.name.clone(), keys: moved.gone.clone() };
                waiting.push_front(Cow::Owned(mutation));
            }
            applied.locks.extend(locks.into_iter().map(|lock| (name.clone(), lock)));
        }
        Ok(applied)
    }

    /// Makes the writes into versions.
    fn write(&mut self, writes: Writes, timestamp: Timestamp) -> Result<()> {
        let schema = Arc::clone(&self.schema);
        let mut rows = Vec::new();
        for (name, writes) in writes {
            for (key, write) in writes {
                let Some((table, data)) = schema.relation(&name).zip(self.tables.get(&name)) else {
                    continue;
                };
                let cells = write.over(table, data.rows.latest(&key))?;
                let row: Option<Row> = cells.map(|cells| {
                    cells.into_iter().map(|cell| cell.into_value(timestamp)).collect()
                });
                if row.is_none() && data.rows.latest(&key).is_none() {
                    continue;
                }
                rows.push((name.clone(), key, row));
            }
        }
        for (name, key, row) in rows {
            if let Some(data) = self.tables.get_mut(&name) {
                data.rows.write(key.clone(), row, timestamp);
                self.note_written(&name, key, timestamp);
            }
        }
        Ok(())
    }

    /// Adds the writes of a statement to those of an open transaction, if nothing is in the way.
    ///
    /// Other transactions see them when it commits. A failure ends the transaction, as in Cloud
    /// Spanner, unless the write is one that only this engine doesn't know.
    pub fn try_write(
        &mut self,
        id: TransactionId,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<()>> {
        let buffered = self.buffer(id, mutations, now);
        match &buffered {
            Err(error) if error.code() != Code::Unimplemented => {
                self.finish(id, Outcome::Failed(error.clone()));
            }
            _ => {}
        }
        buffered
    }

    /// Buffers the writes of a statement. It locks, or records, what the statement has read; what it
    /// writes is locked when it commits.
    fn buffer(
        &mut self,
        id: TransactionId,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<()>> {
        let at = At { base: self.moment_seen(id, now)?, now, committing: false };
        let before = &self.transaction(id)?.writes;
        let mut applied = self.applied(before, mutations, at)?;
        let follows = self.consequences(&applied.rows, Some(&before.rows), at)?;
        let mut reads = reads_of(&self.schema, &applied.locks);
        reads.extend(follows.reads);
        if let Some(blocked) = self.has_read(id, &reads, now) {
            return Ok(Step::Blocked(blocked, reads));
        }
        applied.lay_rows(follows.entries);
        self.open_transaction(id, now)?.writes.lay(applied);
        Ok(Step::Done(()))
    }
}

fn check_count(mutation_count: usize) -> Result<()> {
    match mutation_count > MUTATIONS_MAX {
        true => Err(Error::invalid_argument(format!(
            "The transaction contains too many mutations: {mutation_count}, limit: {MUTATIONS_MAX}."
        ))),
        false => Ok(()),
    }
}

/// Returns what a statement that wants to write this has read: whether the rows are there, and the
/// cells that it copied into entries of indexes.
fn reads_of(schema: &Schema, wanted: &[(String, Lock)]) -> Vec<(String, Lock)> {
    let read = |(table, lock): &(String, Lock)| {
        let mut read = Lock::existence(lock.range.clone());
        for index in schema.indexes_of(table) {
            let changes = |at: &usize| lock.mode == Mode::Exclusive || lock.columns.contains(*at);
            if index.sources.iter().any(changes) {
                index.sources.iter().for_each(|at| read.columns.insert(*at));
            }
        }
        (table.clone(), read)
    };
    wanted.iter().map(read).collect()
}
