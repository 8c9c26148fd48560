//! The moment in which a transaction's writes become everybody's.

use std::borrow::Cow;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use super::error::{Code, Error, Result};
use super::locks::{Lock, Mode};
use super::mutation::{Drafts, Mutation, Target};
use super::schema::Schema;
use super::state::{State, Step};
use super::store::Row;
use super::touched::Touched;
use super::transaction::{Committed, Concurrency, Status, TransactionId};
use super::value::Timestamp;

/// The most cells and entries of indexes that one commit may write.
pub const MUTATIONS_MAX: usize = 80_000;

/// The writes of some mutations, and the locks that this takes.
#[derive(Default)]
struct Applied {
    drafts: Drafts,
    locks: Vec<(String, Lock)>,
    /// How many cells get their default.
    filled: usize,
    touched: HashMap<String, Touched>,
}

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
                self.finish(id, Status::Committed(*committed));
            }
            Ok(Step::Blocked(..)) => {}
            Err(error) => {
                self.finish(id, Status::Failed { error: error.clone(), committing: true });
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
        let transaction = self.open_transaction(id, now)?;
        let cells = mutations.iter().map(Mutation::cell_count).sum::<usize>();
        let mutation_count = cells + transaction.draft_cells;
        check_count(mutation_count)?;
        let writes = !mutations.is_empty() || !transaction.draft.is_empty();
        // Without writes there is nothing that an outdated read could have misled.
        if let Some(snapshot) = transaction.snapshot
            && writes
            && !self.is_broken()
            && !self.unchanged(id, snapshot)
        {
            return Err(Error::aborted(format!(
                "Transaction {id} aborted because what it read has changed since."
            )));
        }
        let timestamp = self.next_timestamp(now);
        let written = self.transactions.get(&id);
        let (draft, mut locks, touched) = match written {
            Some(own) => (own.draft.clone(), own.draft_locks.clone(), own.touched.clone()),
            None => Default::default(),
        };
        let base = Timestamp::MAX;
        let applied =
            self.apply_mutations((&draft, touched), mutations, base, (timestamp, true))?;
        let mutation_count = mutation_count + applied.filled;
        check_count(mutation_count)?;
        let mut drafts = laid_over(draft, applied.drafts);
        locks.extend(applied.locks);
        // Others may have written since the statements ran, so their entries are made again.
        drafts.retain(|name, _| self.schema.table(name).is_some());
        let follows = self.consequences(&drafts, None, Timestamp::MAX, timestamp)?;
        let mutation_count = mutation_count + follows.changed_entries;
        check_count(mutation_count)?;
        locks.extend(follows.locks);
        drafts.extend(follows.entries);
        if let Some(blocked) = self.acquire(id, &locks, false, now) {
            return Ok(Step::Blocked(blocked, locks));
        }
        self.write(drafts, timestamp)?;
        self.last_timestamp = timestamp;
        self.forget_old_versions(now);
        Ok(Step::Done(Committed { timestamp, mutation_count }))
    }

    /// Applies mutations, one after another, to what a transaction has written and to the rows of
    /// `base`. Each has to leave every row of an interleaved table with its parent; all else that a
    /// schema asks for is asked of what the last one leaves.
    ///
    /// With `committing`, `now` is the commit's timestamp; before, nothing later can be written.
    fn apply_mutations(
        &self,
        (draft, touched): (&Drafts, HashMap<String, Touched>),
        mutations: &[Mutation],
        base: Timestamp,
        (now, committing): (Timestamp, bool),
    ) -> Result<Applied> {
        let mut applied = Applied { touched, ..Applied::default() };
        let mut waiting: VecDeque<Cow<'_, Mutation>> =
            mutations.iter().map(Cow::Borrowed).collect();
        while let Some(mutation) = waiting.pop_front() {
            let (table, data) = self.table(mutation.table())?;
            let name = table.name.to_ascii_lowercase();
            let is_asked = matches!(mutation, Cow::Borrowed(_));
            let layers = [&applied.drafts, draft];
            if let Mutation::Delete { keys, .. } = &*mutation {
                let follow = self.cascades_of(table, keys, &layers, base)?;
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
                below: draft.get(&name),
                draft: applied.drafts.entry(name.clone()).or_default(),
                base,
                now,
                committing,
                filled: 0,
                cascades,
            };
            let moved = target.apply(&mutation, &mut locks)?;
            applied.filled += target.filled;
            self.check_interleaved(table, &moved, &[&applied.drafts, draft], base)?;
            for child in self.cascades_to(&table.name) {
                let mutation =
                    Mutation::Delete { table: child.name.clone(), keys: moved.gone.clone() };
                waiting.push_front(Cow::Owned(mutation));
            }
            applied.locks.extend(locks.into_iter().map(|lock| (name.clone(), lock)));
        }
        Ok(applied)
    }

    /// Makes drafts into versions.
    fn write(&mut self, drafts: Drafts, timestamp: Timestamp) -> Result<()> {
        let schema = Arc::clone(&self.schema);
        let mut rows = Vec::new();
        for (name, drafts) in drafts {
            for (key, draft) in drafts {
                let Some((table, data)) = schema.relation(&name).zip(self.tables.get(&name)) else {
                    continue;
                };
                let cells = draft.over(table, data.rows.latest(&key))?;
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

    /// Adds the writes of a statement to an open transaction's draft, if nothing is in the way.
    ///
    /// Other transactions see them when it commits. A failure ends the transaction, as in Cloud
    /// Spanner, unless the write is one that only this engine doesn't know.
    pub fn try_draft(
        &mut self,
        id: TransactionId,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<()>> {
        let drafted = self.draft(id, mutations, now);
        match &drafted {
            Err(error) if error.code() != Code::Unimplemented => {
                self.finish(id, Status::failed(error.clone()));
            }
            _ => {}
        }
        drafted
    }

    fn draft(
        &mut self,
        id: TransactionId,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<()>> {
        let concurrency = self.open_transaction(id, now)?.concurrency;
        let base = match concurrency {
            Concurrency::Pessimistic => Timestamp::MAX,
            Concurrency::Optimistic => self.snapshot(id, now),
        };
        let Some(transaction) = self.transactions.get(&id) else { return Ok(Step::Done(())) };
        let before = (&transaction.draft, transaction.touched.clone());
        let applied = self.apply_mutations(before, mutations, base, (now, false))?;
        let below = Some(&transaction.draft);
        let follows = self.consequences(&applied.drafts, below, base, Timestamp::MAX)?;
        let mut reads = reads_of(&self.schema, &applied.locks);
        reads.extend(follows.looked_at);
        match concurrency {
            Concurrency::Optimistic => self.record_reads(id, &reads),
            Concurrency::Pessimistic => {
                if let Some(blocked) = self.acquire(id, &reads, true, now) {
                    return Ok(Step::Blocked(blocked, reads));
                }
            }
        }
        let transaction = self.open_transaction(id, now)?;
        let draft = laid_over(std::mem::take(&mut transaction.draft), applied.drafts);
        transaction.draft = laid_over(draft, follows.entries);
        transaction.touched = applied.touched;
        transaction.draft_cells +=
            mutations.iter().map(Mutation::cell_count).sum::<usize>() + applied.filled;
        transaction.draft_locks.extend(applied.locks);
        Ok(Step::Done(()))
    }
}

/// Returns a transaction's earlier writes, with the present ones laid over them.
fn laid_over(mut below: Drafts, above: Drafts) -> Drafts {
    for (table, drafts) in above {
        below.entry(table).or_default().extend(drafts);
    }
    below
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
/// cells that it copied into entries of indexes. It holds these like any other read; what it writes
/// is locked when it commits.
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
