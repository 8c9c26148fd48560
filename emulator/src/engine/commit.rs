//! The moment in which a transaction's writes become everybody's.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::error::{Code, Error, Result};
use super::locks::{Columns, Lock, Mode, TransactionNumber};
use super::mutation::{Cell, Mutation, TableDraft, Target};
use super::state::{State, Step};
use super::store::Row;
use super::transaction::{Committed, Concurrency, Status};
use super::value::{Timestamp, Value};

/// The most cells that one commit may write.
pub const MUTATIONS_MAX: usize = 80_000;

/// What a transaction would write, and the locks that this takes.
struct Plan {
    drafts: BTreeMap<String, TableDraft>,
    locks: Vec<(String, Lock)>,
    /// How many cells get their default.
    filled: usize,
}

impl State {
    /// Commits now, if nothing is in the way. A failure ends the transaction.
    pub fn try_commit(
        &mut self,
        number: TransactionNumber,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<Committed>> {
        if let Some(committed) = self.committed(number)? {
            return Ok(Step::Done(committed));
        }
        self.open_transaction(number, now)?;
        let attempt = self.attempt(number, mutations, now);
        match &attempt {
            Ok(Step::Done(committed)) => {
                self.finish(number, Status::Committed(*committed));
            }
            Ok(Step::Blocked(..)) => {}
            Err(error) => {
                self.finish(number, Status::Failed { error: error.clone(), committing: true });
            }
        }
        attempt
    }

    fn attempt(
        &mut self,
        number: TransactionNumber,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<Committed>> {
        let transaction = self.open_transaction(number, now)?;
        let cells = mutations.iter().map(Mutation::cell_count).sum::<usize>();
        let mutation_count = cells + transaction.draft_cells;
        check_count(mutation_count)?;
        let writes = !mutations.is_empty() || !transaction.draft.is_empty();
        // Without writes there is nothing that an outdated read could have misled.
        if let Some(snapshot) = transaction.snapshot
            && writes
            && !self.is_broken()
            && !self.unchanged(number, snapshot)
        {
            return Err(Error::aborted(format!(
                "Transaction {number} aborted because what it read has changed since."
            )));
        }
        let timestamp = self.next_timestamp(now);
        let plan = self.plan(number, mutations, timestamp)?;
        let mutation_count = mutation_count + plan.filled;
        check_count(mutation_count)?;
        if let Some(blocked) = self.acquire(number, &plan.locks, false, now) {
            return Ok(Step::Blocked(blocked, plan.locks));
        }
        self.last_timestamp = timestamp;
        self.write(plan.drafts, timestamp);
        self.forget_old_versions(now);
        Ok(Step::Done(Committed { timestamp, mutation_count }))
    }

    fn plan(
        &self,
        number: TransactionNumber,
        mutations: &[Mutation],
        timestamp: Timestamp,
    ) -> Result<Plan> {
        let transaction = self.transactions.get(&number);
        let mut plan = Plan {
            drafts: transaction.map(|t| t.draft.clone()).unwrap_or_default(),
            locks: transaction.map(|t| t.draft_locks.clone()).unwrap_or_default(),
            filled: 0,
        };
        for mutation in mutations {
            let (table, data) = self.table(mutation.table())?;
            let name = table.name.to_ascii_lowercase();
            let mut locks = Vec::new();
            let mut target = Target {
                table,
                rows: &data.rows,
                draft: plan.drafts.entry(name.clone()).or_default(),
                base: Timestamp::MAX,
                now: timestamp,
                committing: true,
                filled: 0,
            };
            target.apply(mutation, &mut locks)?;
            plan.filled += target.filled;
            plan.locks.extend(locks.into_iter().map(|lock| (name.clone(), lock)));
        }
        Ok(plan)
    }

    /// Makes drafts into versions.
    fn write(&mut self, drafts: BTreeMap<String, TableDraft>, timestamp: Timestamp) {
        let schema = Arc::clone(&self.schema);
        for (name, drafts) in drafts {
            for (key, draft) in drafts {
                let Some((table, data)) = schema.table(&name).zip(self.tables.get_mut(&name))
                else {
                    continue;
                };
                let cells = draft.over(table, data.rows.latest(&key));
                let row: Option<Row> = cells
                    .map(|cells| cells.into_iter().map(|cell| settle(cell, timestamp)).collect());
                if row.is_none() && data.rows.latest(&key).is_none() {
                    continue;
                }
                data.rows.write(key.clone(), row, timestamp);
                self.note_written(&name, key, timestamp);
            }
        }
    }

    /// Adds the writes of a statement to an open transaction's draft, if nothing is in the way.
    ///
    /// Other transactions see them when it commits. A failure ends the transaction, as in Cloud
    /// Spanner, unless the write is one that only this engine doesn't know.
    pub fn try_draft(
        &mut self,
        number: TransactionNumber,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<()>> {
        let drafted = self.draft(number, mutations, now);
        match &drafted {
            Err(error) if error.code() != Code::Unimplemented => {
                self.finish(number, Status::failed(error.clone()));
            }
            _ => {}
        }
        drafted
    }

    fn draft(
        &mut self,
        number: TransactionNumber,
        mutations: &[Mutation],
        now: Timestamp,
    ) -> Result<Step<()>> {
        let concurrency = self.open_transaction(number, now)?.concurrency;
        let base = match concurrency {
            Concurrency::Pessimistic => Timestamp::MAX,
            Concurrency::Optimistic => self.snapshot(number, now),
        };
        let transaction = self.open_transaction(number, now)?;
        let mut drafts = transaction.draft.clone();
        let mut wanted = Vec::new();
        let mut filled = 0;
        for mutation in mutations {
            let (table, data) = self.table(mutation.table())?;
            let name = table.name.to_ascii_lowercase();
            let draft = drafts.entry(name.clone()).or_default();
            let mut locks = Vec::new();
            let mut target =
                Target { table, rows: &data.rows, draft, base, now, committing: false, filled: 0 };
            target.apply(mutation, &mut locks)?;
            filled += target.filled;
            wanted.extend(locks.into_iter().map(|lock| (name.clone(), lock)));
        }
        let existence = existence_reads(&wanted);
        match concurrency {
            Concurrency::Optimistic => self.record_reads(number, &existence),
            Concurrency::Pessimistic => {
                if let Some(blocked) = self.acquire(number, &existence, true, now) {
                    return Ok(Step::Blocked(blocked, existence));
                }
            }
        }
        let transaction = self.open_transaction(number, now)?;
        transaction.draft = drafts;
        transaction.draft_cells +=
            mutations.iter().map(Mutation::cell_count).sum::<usize>() + filled;
        transaction.draft_locks.extend(wanted);
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

/// What a statement learned from the rows being there or not. It holds this like any other read;
/// what it writes is locked when it commits.
fn existence_reads(wanted: &[(String, Lock)]) -> Vec<(String, Lock)> {
    let read = |lock: &Lock| Lock {
        range: lock.range.clone(),
        columns: Columns::existence(),
        mode: Mode::Shared,
    };
    wanted.iter().map(|(table, lock)| (table.clone(), read(lock))).collect()
}

fn settle(cell: Cell, timestamp: Timestamp) -> Value {
    match cell {
        Cell::Value(value) => value,
        Cell::CommitTimestamp => Value::Timestamp(timestamp),
    }
}
