//! BeginTransaction, Commit and Rollback.

use std::time::Duration;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use proto::commit_request::Transaction as Wanted;
use proto::transaction_options::Mode;

use super::convert::{decode_duration, encode_timestamp, mutations};
use super::core::{Core, precommit_token};
use super::transactions::check_isolation;
use crate::engine::{Committed, Database, Error, Handle, Mutation, Result, TransactionId};

/// The longest time by which a commit may ask to be delayed.
const COMMIT_DELAY_MAX: Duration = Duration::from_millis(500);

impl Core {
    /// Answers BeginTransaction.
    pub fn begin_transaction(
        &self,
        request: &proto::BeginTransactionRequest,
    ) -> Result<proto::Transaction> {
        let Some(options) = &request.options else {
            return Err(Error::invalid_argument("BeginTransaction must specify options."));
        };
        let (handle, mut described) = self.begin(&request.session, options)?;
        if let Handle::ReadWrite(id) = handle
            && request.mutation_key.is_some()
        {
            // A transaction that only writes has no other reply to get the token from.
            described.precommit_token = self.precommit_token(&request.session, id)?;
        }
        Ok(described)
    }

    /// Answers Commit.
    pub async fn commit(&self, request: &proto::CommitRequest) -> Result<proto::CommitResponse> {
        let database = self.database_of(&request.session)?;
        check_delay(request)?;
        let committed = match &request.transaction {
            Some(Wanted::TransactionId(id)) => match Handle::decode(id, &request.session)? {
                Handle::ReadWrite(id) if self.replays().is_partitioned(id) => {
                    return Err(no_commit_of_read_only());
                }
                Handle::ReadWrite(id) => self.commit_by_id(&database, id, request).await?,
                Handle::ReadOnly(_) => return Err(no_commit_of_read_only()),
            },
            Some(Wanted::SingleUseTransaction(options)) => {
                check_isolation(options)?;
                match options.mode {
                    Some(Mode::ReadWrite(_)) => {}
                    _ => return Err(no_commit_of_read_only()),
                }
                let mutations = mutations(&database.schema(), &request.mutations)?;
                database.apply(&mutations).await?
            }
            None => {
                return Err(Error::invalid_argument("Commit must specify a transaction."));
            }
        };
        let stats = proto::commit_response::CommitStats {
            mutation_count: i64::try_from(committed.mutation_count).unwrap_or(i64::MAX),
        };
        Ok(proto::CommitResponse {
            commit_timestamp: Some(encode_timestamp(committed.timestamp)),
            commit_stats: request.return_commit_stats.then_some(stats),
            ..proto::CommitResponse::default()
        })
    }

    async fn commit_by_id(
        &self,
        database: &Database,
        id: TransactionId,
        request: &proto::CommitRequest,
    ) -> Result<Committed> {
        let prepared =
            self.check_token(database, id, request).and_then(|()| self.decode(database, request));
        match prepared {
            Ok(mutations) => {
                let committed = database.commit(id, &mutations).await?;
                self.replays().forget(id);
                Ok(committed)
            }
            Err(error) => database.fail_commit(id, error),
        }
    }

    fn decode(&self, database: &Database, request: &proto::CommitRequest) -> Result<Vec<Mutation>> {
        mutations(&database.schema(), &request.mutations)
    }

    fn check_token(
        &self,
        database: &Database,
        id: TransactionId,
        request: &proto::CommitRequest,
    ) -> Result<()> {
        let now = self.clock().now();
        if !self.sessions().find(&request.session, now)?.multiplexed {
            return Ok(());
        }
        match &request.precommit_token {
            Some(token) if token.precommit_token == precommit_token(id) => Ok(()),
            Some(_) => {
                Err(Error::invalid_argument("The precommit token is not one of this transaction."))
            }
            // Nothing was read or written through it, so the client was never given one.
            None if request.mutations.is_empty() && !database.has_worked(id) => Ok(()),
            None => Err(Error::failed_precondition(
                "A commit on a multiplexed session must carry the latest precommit token.",
            )),
        }
    }

    /// Answers Rollback.
    pub fn rollback(&self, request: &proto::RollbackRequest) -> Result<()> {
        let database = self.database_of(&request.session)?;
        match Handle::decode(&request.transaction_id, &request.session) {
            Ok(Handle::ReadWrite(id)) => {
                self.replays().forget(id);
                database.rollback(id)
            }
            Ok(Handle::ReadOnly(_)) => Err(no_commit_of_read_only()),
            // By Spanner's contract, a transaction that isn't found counts as rolled back.
            Err(_) => Ok(()),
        }
    }
}

fn check_delay(request: &proto::CommitRequest) -> Result<()> {
    let Some(delay) = &request.max_commit_delay else { return Ok(()) };
    if decode_duration(delay)? > COMMIT_DELAY_MAX {
        return Err(Error::invalid_argument("max_commit_delay must be between 0 and 500 ms."));
    }
    Ok(())
}

fn no_commit_of_read_only() -> Error {
    Error::failed_precondition(
        "Cannot commit or rollback a read-only or partitioned-dml transaction.",
    )
}
