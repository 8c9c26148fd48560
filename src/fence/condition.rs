//! The fence: a condition that a term is still the lock's.

use std::hash::{Hash, Hasher};

use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::ReadWriteTransaction;
use spindle_protocol::job::{Ending, RecordChange};
use spindle_protocol::{Change, TermId, Write, Writer};

use crate::error::{Error, Kind, Result, TermEnd};
use crate::store::requests::{self, Request};
use crate::store::row;
use crate::term::Term;
use crate::token::FencingToken;

/// Makes a transaction conditional on a term: it commits before the next term begins, or not at
/// all.
///
/// That is what a lock by itself can't do: a process may always be paused between looking at
/// [`has_lock`](crate::Spindle::has_lock) and writing. See Martin Kleppmann's *How to do
/// distributed locking* (2016) for the argument.
///
/// There are three ways to use one, from the easiest to the most general. [`write`](Fence::write)
/// is for mutations alone, and [`transaction`](Fence::transaction) reads as well.
/// [`check`](Fence::check) or, for DML, [`predicate`](Fence::predicate) work inside a transaction
/// that somebody else runs.
///
/// # Isolation
///
/// All of them need a SERIALIZABLE transaction. With pessimistic reads, Spanner's default, the read
/// of the lock row keeps the next term from beginning before the transaction has ended. With
/// optimistic reads the commit validates what was read: it is refused if the next term has begun.
/// `write` and `transaction` begin with optimistic reads, so that one that is left without an
/// answer, or whose process dies, stands in nobody's way. Under REPEATABLE READ a read orders
/// nothing: the next term may begin between the read and the commit, and both commit.
///
/// # Where it goes
///
/// A fence may be cloned and, with the feature `serde`, sent to another process that works for
/// the same term. A fence that came from a [`Term`] of this process knows when that term has ended
/// here, cancelled or expired. It fails from then on without asking Spanner. A deserialized one
/// leaves that to Spanner. Either is safe.
///
/// In a child by `fork` a fence of the parent's term fails with [`is_config`](Error::is_config) where it
/// would send anything. One that is serialized and read again works there, for as long as the parent
/// holds.
///
/// ```no_run
/// # async fn pay(
/// #     term: spindle::Term,
/// #     client: google_cloud_spanner::client::DatabaseClient,
/// #     order: google_cloud_spanner::mutation::Mutation,
/// # ) -> spindle::Result<()> {
/// match term.fence().write(&client, [order]).await {
///     Err(error) if error.is_fenced() => println!("somebody else leads: {error}"),
///     written => drop(written?), // committed before the next term begins
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fence {
    pub(super) table: String,
    pub(super) lock: String,
    pub(super) token: FencingToken,
    pub(super) writer: String,
    /// The term itself, where it is one of this process.
    pub(super) term: Option<Term>,
}

impl Term {
    /// Returns the fence that makes a write in the same database conditional on this term.
    pub fn fence(&self) -> Fence {
        Fence {
            table: self.table().to_string(),
            lock: self.lock().to_string(),
            token: self.token(),
            writer: self.writer().to_string(),
            term: Some(self.clone()),
        }
    }
}

impl Fence {
    /// Returns the token of the term.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Returns the name of the lock.
    pub fn lock(&self) -> &str {
        &self.lock
    }

    /// Returns the table that the lock is in.
    pub fn table(&self) -> &str {
        &self.table
    }

    /// Checks, inside `transaction`, that the term is still the lock's.
    ///
    /// If it isn't, the transaction is poisoned too: a caller that ignores the result can't commit.
    /// It costs one read, which may carry the transaction's begin, and doesn't contend with
    /// heartbeats: they write another column.
    ///
    /// Read optimistically (`set_read_lock_mode(ReadLockMode::Optimistic)`): then the transaction
    /// holds no lock before its commit. A pessimistic read, the client's default, keeps the next
    /// term from beginning until the transaction ends, so do it last and keep the transaction
    /// short. If its process dies in the middle, a takeover waits until Spanner gives up on the
    /// transaction, after 10 s. It may then wait for a pause of up to 10 s more, since failed
    /// attempts are repeated ever more seldom.
    ///
    /// The transaction must be SERIALIZABLE, which is the client's default: under REPEATABLE READ
    /// nothing orders the read before the next term's begin.
    ///
    /// # Errors
    ///
    /// [`is_fenced`](Error::is_fenced) if the term is over. It turns into the client's error by
    /// `?`, and [`Error::extract`] finds it there again. [`is_config`](Error::is_config) in a child by
    /// `fork` of the process that holds.
    ///
    /// # Cancellation safety
    ///
    /// Dropping this future leaves the transaction unfinished; roll it back.
    pub async fn check(&self, transaction: &ReadWriteTransaction) -> Result<()> {
        self.judged(transaction, self.condition()).await.map(drop)
    }

    /// Records in `transaction` that the run of a job is done, whose row has this key; refuses where the
    /// term is over, or the record is not this term's or already done.
    pub(crate) async fn finish(
        &self,
        transaction: &ReadWriteTransaction,
        key: String,
    ) -> Result<()> {
        let record = RecordChange::End { key, ending: Ending::Done };
        let change = Change::Job { term: Box::new(self.condition()), record };
        let writes = self.judged(transaction, change).await?;
        let writes = writes.into_iter().map(|write| row::mutation(&self.table, write));
        let buffered = transaction.buffer(writes.collect::<Vec<_>>());
        buffered.map_err(|source| Error::from_read(self.checking(), source))
    }

    fn condition(&self) -> Change {
        let (token, writer) = (self.token.to_timestamp(), Writer::from(self.writer.as_str()));
        Change::Fence { term: TermId { token, writer } }
    }

    /// Returns what a change that depends on the term writes in `transaction`; poisons it where that is
    /// refused.
    async fn judged(
        &self,
        transaction: &ReadWriteTransaction,
        change: Change,
    ) -> Result<Vec<Write>> {
        if let Err(ended) = self.check_here() {
            self.poison(transaction)?;
            return Err(ended);
        }
        let reads = change.reads(&self.lock);
        let columns = std::iter::once("name").chain(reads.columns.iter().map(|it| it.name()));
        let keys =
            reads.keys.iter().fold(KeySet::builder(), |keys, key| keys.add_key(key![key.clone()]));
        let request = ReadRequest::builder(&self.table, columns.collect::<Vec<_>>())
            .with_keys(keys.build())
            .with_retry_policy(NeverRetry)
            .build();
        let reading = async {
            requests::count(Request::Read);
            let mut rows = transaction.execute_read(request).await?;
            row::stored_rows(&mut rows).await
        };
        let found = match reading.await {
            Ok(found) => found,
            Err(source) => {
                // Not knowing is no leave to commit either.
                self.poison(transaction)?;
                return Err(Error::from_read(self.checking(), source));
            }
        };
        let rejection = match change.judge(&self.lock, &found) {
            Ok(writes) => return Ok(writes),
            Err(rejection) => rejection,
        };
        self.poison(transaction)?;
        if let (Change::Job { record, .. }, Ok(_)) =
            (&change, self.condition().judge(&self.lock, &found))
        {
            let found = found.iter().find(|row| row.key == record.key());
            let found =
                found.map_or("no record".to_string(), |row| format!("`{}`", row.writer.as_str()));
            let job = &self.lock;
            return Err(Error::config(format!(
                "job `{job}`: its slot is not this run's to end: {found} in its row"
            )));
        }
        let (lock, token, end) =
            (self.lock.clone(), self.token, TermEnd::superseded(rejection.seen()));
        Err(Error::new(Kind::Fenced { lock, token, end }))
    }

    /// Fails if the term is one of this process that has ended, or one of a process that forked this
    /// one; asks nobody.
    pub(super) fn check_here(&self) -> Result<()> {
        let Some(term) = &self.term else { return Ok(()) };
        term.check_process()?;
        if term.is_over() {
            let (lock, end) = (self.lock.clone(), term.ended().cloned());
            return Err(Error::new(Kind::Ended { lock, token: self.token, end }));
        }
        Ok(())
    }

    fn checking(&self) -> String {
        format!("lock `{}`: check token {}", self.lock, self.token)
    }

    /// Adds writes of which one can't succeed, whether the lock has a row or not: an update of it,
    /// then an insert.
    fn poison(&self, transaction: &ReadWriteTransaction) -> Result<()> {
        let lock = |mutation: google_cloud_spanner::mutation::WriteBuilder| {
            mutation.set("name").to(&self.lock).build()
        };
        let impossible = [
            lock(Mutation::new_update_builder(&self.table)),
            lock(Mutation::new_insert_builder(&self.table)),
        ];
        transaction.buffer(impossible).map_err(|source| Error::from_read(self.checking(), source))
    }

    /// Returns the parts that make two fences the same, whichever process they are in.
    fn identity(&self) -> (&str, &str, FencingToken, &str) {
        (&self.table, &self.lock, self.token, &self.writer)
    }
}

impl PartialEq for Fence {
    fn eq(&self, other: &Fence) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Fence {}

impl Hash for Fence {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}
