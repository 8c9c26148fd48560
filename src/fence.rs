use google_cloud_gax::error::rpc::{Code, Status};
use google_cloud_gax::retry_policy::NeverRetry;
use google_cloud_spanner::key;
use google_cloud_spanner::key::KeySet;
use google_cloud_spanner::mutation::Mutation;
use google_cloud_spanner::read::ReadRequest;
use google_cloud_spanner::transaction::ReadWriteTransaction;

use crate::error::{Error, Kind, Result};
use crate::row;
use crate::status;
use crate::token::FencingToken;

/// Makes a transaction conditional on a term: it commits before the next term begins, or not at
/// all.
///
/// That is what a lock by itself can't do: a process may always be paused between looking at
/// [`has_lock`](crate::Spindle::has_lock) and writing. See Martin Kleppmann's *How to do
/// distributed locking* (2016) for the argument.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fence {
    table: String,
    lock: String,
    token: FencingToken,
    writer: String,
}

impl Fence {
    pub(crate) fn new(table: &str, lock: &str, token: FencingToken, writer: &str) -> Fence {
        Fence { table: table.into(), lock: lock.into(), token, writer: writer.into() }
    }

    /// The token of the term.
    pub fn token(&self) -> FencingToken {
        self.token
    }

    /// Checks, inside `transaction`, that the term is still the lock's.
    ///
    /// If it isn't, the transaction is spoilt as well: whoever ignores the result can't commit.
    /// It costs one read, which may carry the transaction's begin, and doesn't contend with
    /// heartbeats: they write another column. The read keeps the next term from beginning until
    /// the transaction ends, so do it late and keep the transaction short; if its process dies in
    /// the middle, a takeover waits until Spanner gives up on the transaction, after 10 s.
    ///
    /// The transaction must be SERIALIZABLE, which is the client's default: under REPEATABLE READ
    /// nothing orders the read before the next term's begin.
    ///
    /// # Errors
    ///
    /// [`is_fenced`](Error::is_fenced) if the term is over. It turns into the client's error by
    /// `?`, and [`Error::extract`] finds it there again.
    ///
    /// # Cancellation safety
    ///
    /// Dropping this future leaves the transaction unfinished; roll it back.
    pub async fn check(&self, transaction: &ReadWriteTransaction) -> Result<()> {
        let doing = || format!("lock `{}`: check token {}", self.lock, self.token);
        let keys = KeySet::builder().add_key(key![self.lock.clone()]).build();
        let request = ReadRequest::builder(&self.table, vec!["token", "writer"])
            .with_keys(keys)
            .with_retry_policy(NeverRetry)
            .build();
        let reading = async {
            let mut rows = transaction.execute_read(request).await?;
            row::full_row(&mut rows).await
        };
        let found = reading.await.map_err(|source| Error::from_read(doing(), source))?;
        let found = found.map(|full| full.row);
        if let Some(row) = &found
            && row.token == self.token.to_timestamp()
            && row.writer.as_str() == self.writer
        {
            return Ok(());
        }
        self.spoil(transaction, found.is_some())
            .map_err(|source| Error::from_read(doing(), source))?;
        Err(Error::new(Kind::Fenced {
            lock: self.lock.clone(),
            token: self.token,
            found: found.as_ref().map(status::found),
        }))
    }

    /// Adds a write that can't succeed: inserting a row that is there, or updating one that isn't.
    fn spoil(
        &self,
        transaction: &ReadWriteTransaction,
        row_exists: bool,
    ) -> google_cloud_spanner::Result<()> {
        let impossible = if row_exists {
            Mutation::new_insert_builder(&self.table)
        } else {
            Mutation::new_update_builder(&self.table)
        };
        transaction.buffer([impossible.set("name").to(&self.lock).build()])
    }
}

impl Error {
    /// The error of this library inside an error of the client, if there is one.
    ///
    /// A [`Fence::check`] that fails inside a transaction of the client's comes out of it so.
    pub fn extract(error: &google_cloud_spanner::Error) -> Option<&Error> {
        let source = std::error::Error::source(error)?;
        if let Some(found) = source.downcast_ref::<Error>() {
            return Some(found);
        }
        source.downcast_ref::<google_cloud_spanner::Error>().and_then(Error::extract)
    }
}

impl From<Error> for google_cloud_spanner::Error {
    fn from(error: Error) -> google_cloud_spanner::Error {
        // An abort stays one, so that the client's own loop repeats the transaction.
        let code = error.code().unwrap_or(Code::FailedPrecondition);
        let status = Status::default().set_code(code).set_message(error.to_string());
        google_cloud_spanner::Error::service_full(status, None, None, Some(Box::new(error)))
    }
}
