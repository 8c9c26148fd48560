//! Everything a database holds, and the rules by which transactions get in each other's way.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::error::{Code, Error, Result};
use super::locks::{Lock, LockTable, compete};
use super::remembered::WrittenRows;
use super::schema::{Schema, in_lower_case};
use super::store::Rows;
use super::table::Table;
use super::transaction::{Age, Committed, Ended, Outcome, Transaction, TransactionId};
use super::value::{Key, Timestamp};

/// How far back versions can be read, unless [`super::Database::with_retention`] says otherwise.
pub const VERSION_RETENTION: Duration = Duration::from_secs(3_600);

/// How many transactions that are over are remembered, for requests that repeat themselves.
const ENDED_MAX: usize = 100_000;

/// The contents of one table.
#[derive(Debug)]
pub(super) struct TableData {
    pub rows: Rows,
    pub locks: LockTable,
}

/// The obstacle to a lock.
pub(super) struct Blocked {
    /// When the first of the transactions in the way may turn out to be idle.
    pub until: Timestamp,
}

/// The result of one try at a request.
pub(super) enum Step<T> {
    /// It is done.
    Done(T),
    /// Somebody older has, or waits for, a lock that is in the way of these.
    Blocked(Blocked, Vec<(String, Lock)>),
}

/// Everything a database holds, behind its mutex.
#[derive(Debug)]
pub(super) struct State {
    pub schema: Arc<Schema>,
    /// The schemas before it and when each ended, oldest first, as far back as versions can be read.
    pub former: VecDeque<(Timestamp, Arc<Schema>)>,
    /// By name in lower case, like the schema.
    pub tables: BTreeMap<String, TableData>,
    /// The transactions that are open.
    pub open: BTreeMap<TransactionId, Transaction>,
    /// Those that are over, as many as are remembered.
    ended: BTreeMap<TransactionId, Ended>,
    /// The order in which they ended.
    ended_in_order: VecDeque<TransactionId>,
    /// The transactions that wait, and the locks they wait for. Younger transactions don't overtake
    /// older ones.
    pub waiting: Vec<(Age, Vec<(String, Lock)>)>,
    next_age: u64,
    /// No later commit gets this timestamp or an earlier one: the latest that was given to a commit
    /// or shown by a read.
    pub last_timestamp: Timestamp,
    /// How far back versions can be read.
    pub retention: Duration,
    /// The writes and their times, oldest first, to find the versions that can be forgotten.
    written: Arc<VecDeque<(Timestamp, String, Key)>>,
    changed: Arc<Notify>,
}

impl State {
    /// Refuses a moment whose versions may be forgotten.
    pub fn check_readable(&self, moment: Timestamp, now: Timestamp) -> Result<()> {
        match moment < now.saturating_sub(self.retention) {
            true => Err(Error::failed_precondition(format!(
                "Read-only transaction timestamp {moment} has exceeded the maximum timestamp staleness"
            ))),
            false => Ok(()),
        }
    }

    pub fn new(changed: Arc<Notify>) -> State {
        State {
            schema: Arc::default(),
            former: VecDeque::new(),
            tables: BTreeMap::new(),
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            ended_in_order: VecDeque::new(),
            waiting: Vec::new(),
            next_age: 1,
            last_timestamp: Timestamp::EPOCH,
            retention: VERSION_RETENTION,
            written: Arc::default(),
            changed,
        }
    }

    /// Returns the same tables and rows, without transactions.
    pub fn copy(&self, changed: Arc<Notify>) -> State {
        let table = |(name, data): (&String, &TableData)| {
            let locks = LockTable::new(data.locks.key_parts());
            (name.clone(), TableData { rows: data.rows.clone(), locks })
        };
        State {
            schema: Arc::clone(&self.schema),
            former: self.former.clone(),
            tables: self.tables.iter().map(table).collect(),
            last_timestamp: self.last_timestamp,
            retention: self.retention,
            written: Arc::clone(&self.written),
            ..State::new(changed)
        }
    }

    /// Puts another schema in place. Returns the timestamp from which it counts.
    pub fn replace_schema(&mut self, schema: Schema, now: Timestamp) -> Timestamp {
        let horizon = now.saturating_sub(self.retention);
        self.former.retain(|(until, _)| *until > horizon);
        // The first tables belong to the creation of the database.
        if !self.former.is_empty() || self.schema.tables().next().is_some() {
            self.last_timestamp = self.next_timestamp(now);
            self.former.push_back((self.last_timestamp, Arc::clone(&self.schema)));
        }
        self.schema = Arc::new(schema);
        self.last_timestamp.max(now)
    }

    /// Returns the schema of a moment.
    pub fn schema_at(&self, moment: Timestamp) -> &Arc<Schema> {
        let then = self.former.iter().find(|(until, _)| moment < *until);
        then.map_or(&self.schema, |(_, schema)| schema)
    }

    /// Returns the definition and the contents of a table.
    pub fn table(&self, name: &str) -> Result<(&Table, &TableData)> {
        let definition = self.schema.table(name).map(|table| &**table);
        let data = self.tables.get(&*in_lower_case(name));
        definition.zip(data).ok_or_else(|| self.schema.missing_table(name))
    }

    /// Returns the definition and the contents of a table, or of one of its indexes as a table.
    pub fn place(&self, table: &str, index: Option<&str>) -> Result<(&Table, &TableData)> {
        let found = self.table(table)?;
        let Some(name) = index else { return Ok(found) };
        let entries = &self.schema.index_of(found.0, name)?.entries;
        let data = self.tables.get(&*in_lower_case(name));
        Ok((entries, data.ok_or_else(|| self.schema.missing_table(name))?))
    }

    /// Adds a transaction.
    pub fn begin(&mut self, id: TransactionId, transaction: Transaction, now: Timestamp) {
        self.forget_old_versions(now);
        for open in self.open.keys().copied().collect::<Vec<_>>() {
            self.abort_outlived(open, now);
        }
        self.open.insert(id, transaction);
    }

    /// Returns a transaction, which is open.
    pub fn transaction(&self, id: TransactionId) -> Result<&Transaction> {
        self.open.get(&id).ok_or_else(|| transaction_not_found(id))
    }

    /// Returns the age of a transaction, if it has one and is remembered.
    pub fn age_of(&self, id: TransactionId) -> Option<u64> {
        let open = self.open.get(&id).map(|transaction| transaction.age);
        open.or_else(|| self.ended.get(&id).map(|ended| ended.age)).flatten()
    }

    /// Returns what is left of a transaction that is over.
    pub fn ended(&self, id: TransactionId) -> Option<&Ended> {
        self.ended.get(&id)
    }

    /// Returns the transaction, if it can still be used.
    pub fn open_transaction(
        &mut self,
        id: TransactionId,
        now: Timestamp,
    ) -> Result<&mut Transaction> {
        self.abort_outlived(id, now);
        if let Some(transaction) = self.open.get_mut(&id) {
            return Ok(transaction);
        }
        Err(match self.ended.get(&id).map(|ended| &ended.outcome) {
            None => transaction_not_found(id),
            Some(Outcome::Failed(error)) => error.clone(),
            Some(Outcome::CommitFailed(error)) if error.code() == Code::Aborted => error.clone(),
            Some(Outcome::CommitFailed(_) | Outcome::Committed(_) | Outcome::RolledBack) => {
                Error::failed_precondition(
                    "Cannot read or query using a transaction after it has been committed or rolledback.",
                )
            }
        })
    }

    /// Returns the transaction's age, which begins with the first request that does something.
    pub fn age(&mut self, id: TransactionId) -> Age {
        let next_age = &mut self.next_age;
        let Some(transaction) = self.open.get_mut(&id) else {
            return (u64::MAX, id);
        };
        let age = *transaction.age.get_or_insert_with(|| {
            *next_age += 1;
            *next_age - 1
        });
        (age, id)
    }

    /// Notes that a transaction doesn't wait. It returns true if it did until now.
    pub fn stop_waiting(&mut self, age: Age) -> bool {
        let waited = self.waiting.len();
        self.waiting.retain(|(waiter, _)| *waiter != age);
        self.waiting.len() < waited
    }

    /// Ends a transaction, frees what it holds and wakes who waits for that. None ends otherwise.
    pub fn finish(&mut self, id: TransactionId, outcome: Outcome) {
        let Some(Transaction { age, locked, writes, .. }) = self.open.remove(&id) else { return };
        if let Some(age) = age {
            self.stop_waiting((age, id));
        }
        for table in locked {
            if let Some(table) = self.tables.get_mut(&table) {
                table.locks.release(id);
            }
        }
        let written = WrittenRows::of(writes.rows, &self.schema);
        self.ended.insert(id, Ended { age, outcome, written });
        self.ended_in_order.push_back(id);
        if self.ended.len() > ENDED_MAX
            && let Some(oldest) = self.ended_in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
        self.changed.notify_waiters();
    }

    /// Ends a transaction without its writes.
    pub fn roll_back(&mut self, id: TransactionId) -> Result<()> {
        self.finish(id, Outcome::RolledBack);
        let Some(Ended { outcome, .. }) = self.ended.get_mut(&id) else { return Ok(()) };
        match outcome {
            Outcome::Committed(_) => {
                return Err(Error::failed_precondition(
                    "Cannot rollback a transaction after it has been committed.",
                ));
            }
            // That it lost to another one stays known: the next attempt inherits its age.
            Outcome::Failed(error) | Outcome::CommitFailed(error)
                if error.code() == Code::Aborted => {}
            _ => *outcome = Outcome::RolledBack,
        }
        Ok(())
    }

    /// Aborts every open transaction, for the reason given.
    pub fn abort_all(&mut self, reason: &str) {
        for id in self.open.keys().copied().collect::<Vec<_>>() {
            self.finish(id, Outcome::Failed(Error::aborted(reason)));
        }
    }

    /// Takes the locks, or finds out what is in the way.
    ///
    /// The asker aborts every younger transaction in its way, and waits for the older ones. With
    /// `hold` the locks are kept until the transaction ends. Without, it is only made sure that
    /// they could be had, for a commit that applies in the same breath.
    pub fn acquire(
        &mut self,
        asker: TransactionId,
        wanted: &[(String, Lock)],
        hold: bool,
        now: Timestamp,
    ) -> Option<Blocked> {
        let age = self.age(asker);
        let mut blockers = Vec::new();
        for (table, lock) in wanted {
            let Some(table) = self.tables.get(table) else { continue };
            blockers.extend(table.locks.conflicts(asker, lock));
        }
        // One that is idle is removed once: the second time it would be an older one in the way.
        blockers.sort_unstable();
        blockers.dedup();
        blockers.retain(|holder| !self.remove_from_the_way(*holder, age, now));
        let older_waiters = self.waiting.iter().filter(|(waiter, _)| *waiter < age);
        for ((_, waiter), locks) in older_waiters {
            let competes = wanted.iter().any(|(table, lock)| {
                locks.iter().any(|(other, waited)| other == table && compete(lock, waited))
            });
            if competes {
                blockers.push(*waiter);
            }
        }
        let idle_at = |id: &TransactionId| Some(self.open.get(id)?.idle_at(now));
        if let Some(until) = blockers.iter().filter_map(idle_at).min() {
            return Some(Blocked { until });
        }
        if hold {
            self.hold(asker, wanted);
        }
        None
    }

    fn hold(&mut self, holder: TransactionId, locks: &[(String, Lock)]) {
        let Some(transaction) = self.open.get_mut(&holder) else { return };
        for (name, lock) in locks {
            if let Some(table) = self.tables.get_mut(name) {
                table.locks.grant(holder, lock.clone());
                transaction.locked.insert(name.clone());
            }
        }
    }

    /// Aborts a holder that is younger than the asker, or idle. It returns true if it did.
    fn remove_from_the_way(&mut self, holder: TransactionId, asker: Age, now: Timestamp) -> bool {
        if self.abort_outlived(holder, now) {
            return true;
        }
        if self.age(holder) > asker {
            let reason = format!(
                "Transaction {holder} aborted due to older transaction {} that needs its locks.",
                asker.1
            );
            self.finish(holder, Outcome::Failed(Error::aborted(reason)));
            return true;
        }
        false
    }

    /// Aborts a transaction that was idle for too long, or whose moment can't be read any more. It
    /// returns true if it did.
    fn abort_outlived(&mut self, id: TransactionId, now: Timestamp) -> bool {
        let Some(transaction) = self.open.get(&id) else { return false };
        let is_forgotten = |moment| self.check_readable(moment, now).is_err();
        let reason = match transaction.snapshot {
            _ if transaction.idle_at(now) <= now => "after being idle for too long",
            Some(moment) if is_forgotten(moment) => {
                "because the versions that it reads are too old"
            }
            _ => return false,
        };
        let error = Error::aborted(format!("Transaction {id} aborted {reason}."));
        self.finish(id, Outcome::Failed(error));
        true
    }

    /// Returns the timestamp of a commit at this moment: later than every other, not before `now`.
    pub fn next_timestamp(&self, now: Timestamp) -> Timestamp {
        let after_last = Timestamp::from_micros(self.last_timestamp.micros() + 1);
        after_last.max(now)
    }

    /// Returns the timestamp of a strong read at this moment: every commit so far is visible at it,
    /// and no later one will be.
    pub fn strong_timestamp(&mut self, now: Timestamp) -> Timestamp {
        self.last_timestamp = self.last_timestamp.max(now);
        self.last_timestamp
    }

    /// Notes that a row was written, so that its older versions can be forgotten in time.
    pub fn note_written(&mut self, table: &str, key: Key, timestamp: Timestamp) {
        Arc::make_mut(&mut self.written).push_back((timestamp, table.to_owned(), key));
    }

    /// Forgets versions that are too old to be read.
    pub fn forget_old_versions(&mut self, now: Timestamp) {
        let horizon = now.saturating_sub(self.retention);
        while self.written.front().is_some_and(|(timestamp, _, _)| *timestamp <= horizon) {
            if let Some((_, table, key)) = Arc::make_mut(&mut self.written).pop_front()
                && let Some(table) = self.tables.get_mut(&table)
            {
                table.rows.forget_before(&key, horizon);
            }
        }
    }

    /// Returns true if this transaction has committed.
    pub fn has_committed(&self, id: TransactionId) -> bool {
        matches!(self.committed(id), Ok(Some(_)))
    }

    /// Returns the answer of an earlier commit of this transaction, if there was one.
    pub fn committed(&self, id: TransactionId) -> Result<Option<Committed>> {
        if self.open.contains_key(&id) {
            return Ok(None);
        }
        match self.ended(id).map(|ended| &ended.outcome) {
            None => Err(transaction_not_found(id)),
            Some(Outcome::Committed(committed)) => Ok(Some(*committed)),
            Some(Outcome::RolledBack) => Err(Error::failed_precondition(
                "Cannot commit a transaction after it has been rolled back.",
            )),
            Some(Outcome::Failed(error) | Outcome::CommitFailed(error)) => Err(error.clone()),
        }
    }
}

fn transaction_not_found(id: TransactionId) -> Error {
    Error::new(Code::NotFound, format!("Transaction not found: {id}"))
}
