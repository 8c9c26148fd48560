//! The transaction that a request means.

use std::sync::Arc;

use googleapis_tonic_google_spanner_v1::google::spanner::v1 as proto;
use proto::transaction_options::read_only::TimestampBound as WireBound;
use proto::transaction_options::read_write::ReadLockMode;
use proto::transaction_options::{IsolationLevel, Mode, ReadOnly, ReadWrite};
use proto::transaction_selector::Selector;

use super::Core;
use super::convert::{decode_duration, decode_timestamp, encode_timestamp};
use crate::engine::{
    Code, Concurrency, Database, Error, Handle, ReadWriteOptions, Result, Timestamp,
    TimestampBound, TransactionId,
};

/// The mark of a read-only transaction's id. The rest of it is its timestamp, which is all there is
/// to such a transaction: nothing has to be kept for it.
const READ_ONLY_PREFIX: &str = "r";

impl Handle {
    /// Returns the id on the wire, which names the session that began the transaction: no other one
    /// can use it.
    pub fn encode(self, session: &str) -> Vec<u8> {
        let session = last_part(session);
        match self {
            Handle::ReadWrite(id) => format!("{id}-{session}").into_bytes(),
            Handle::ReadOnly(moment) => {
                format!("{READ_ONLY_PREFIX}{}-{session}", moment.nanos()).into_bytes()
            }
        }
    }

    /// Returns the transaction that an id on the wire stands for.
    pub fn decode(id: &[u8], session: &str) -> Result<Handle> {
        match Handle::parse(id)? {
            (handle, own) if own == last_part(session) => Ok(handle),
            _ => Err(not_found(id)),
        }
    }

    /// Returns the transaction and the last part of its session's name.
    fn parse(id: &[u8]) -> Result<(Handle, &str)> {
        let read_only = |text: &str| {
            let nanos = text.strip_prefix(READ_ONLY_PREFIX)?.parse().ok()?;
            Timestamp::from_nanos(nanos).map(Handle::ReadOnly)
        };
        let read_write = |text: &str| {
            text.parse().ok().map(|number| Handle::ReadWrite(TransactionId::from_number(number)))
        };
        let parts = std::str::from_utf8(id).ok().and_then(|text| text.split_once('-'));
        let parsed = parts.and_then(|(text, session)| {
            Some((read_only(text).or_else(|| read_write(text))?, session))
        });
        parsed.ok_or_else(|| not_found(id))
    }
}

fn last_part(session: &str) -> &str {
    session.rsplit('/').next().unwrap_or_default()
}

fn not_found(id: &[u8]) -> Error {
    let message = format!("Transaction not found: {}", String::from_utf8_lossy(id));
    Error::new(Code::NotFound, message)
}

/// The transaction that a read or a statement runs in.
pub(super) struct Selected {
    pub handle: Handle,
    /// The part of the reply about it, if it is new to the client.
    pub described: Option<proto::Transaction>,
    /// True if the request began a read-write transaction, which nobody can use if the request
    /// fails.
    begun: Option<Begun>,
}

impl Selected {
    /// Keeps the transaction that the request began: the reply will tell its id.
    pub fn keep(&mut self) {
        if let Some(begun) = &mut self.begun {
            begun.kept = true;
        }
    }
}

struct Begun {
    database: Database,
    id: TransactionId,
    kept: bool,
}

impl Drop for Begun {
    fn drop(&mut self) {
        if !self.kept {
            // It has ended already if it can't be rolled back.
            let _ = self.database.rollback(self.id);
        }
    }
}

/// Returns true if a read or a query asks for the present, and for nothing before or after it.
pub(super) fn is_strong(selector: Option<&proto::TransactionSelector>) -> bool {
    let options = match selector.and_then(|selector| selector.selector.as_ref()) {
        None => return true,
        Some(Selector::SingleUse(options)) => options,
        Some(Selector::Id(_) | Selector::Begin(_)) => return false,
    };
    match &options.mode {
        None => true,
        Some(Mode::ReadOnly(read_only)) => {
            matches!(read_only.timestamp_bound, None | Some(WireBound::Strong(_)))
        }
        Some(Mode::ReadWrite(_) | Mode::PartitionedDml(_)) => false,
    }
}

impl Core {
    /// Answers once more what asks for the present, as long as a change of the schema fails it: the
    /// moment that it chose was before the change.
    pub(super) async fn beside_changes<R, A: Future<Output = Result<R>>>(
        &self,
        session: &str,
        is_strong: bool,
        answer: impl Fn() -> A,
    ) -> Result<R> {
        let database = self.database_of(session)?;
        loop {
            let schema = database.schema();
            let answer = answer().await;
            let is_overtaken = is_strong && !Arc::ptr_eq(&schema, &database.schema());
            if answer.is_ok() || !is_overtaken {
                return answer;
            }
        }
    }

    /// Finds or begins the transaction that a read or a statement runs in.
    pub(super) fn select(
        &self,
        session: &str,
        selector: Option<&proto::TransactionSelector>,
    ) -> Result<Selected> {
        match selector.and_then(|selector| selector.selector.as_ref()) {
            None => self.select_single_use(session, &ReadOnly::default()),
            Some(Selector::Id(id)) => {
                let handle = Handle::decode(id, session)?;
                Ok(Selected { handle, described: None, begun: None })
            }
            Some(Selector::SingleUse(options)) => match &options.mode {
                Some(Mode::ReadOnly(read_only)) => self.select_single_use(session, read_only),
                None => self.select_single_use(session, &ReadOnly::default()),
                Some(Mode::ReadWrite(_) | Mode::PartitionedDml(_)) => Err(Error::invalid_argument(
                    "Single-use transactions of reads and queries must be read-only.",
                )),
            },
            Some(Selector::Begin(options)) => {
                let (handle, described) = self.begin(session, options)?;
                let begun = match handle {
                    Handle::ReadOnly(_) => None,
                    Handle::ReadWrite(id) => {
                        let database = self.database_of(session)?;
                        Some(Begun { database, id, kept: false })
                    }
                };
                Ok(Selected { handle, described: Some(described), begun })
            }
        }
    }

    fn select_single_use(&self, session: &str, read_only: &ReadOnly) -> Result<Selected> {
        let bound = timestamp_bound(read_only, true)?;
        let moment = self.database_of(session)?.read_timestamp(bound)?;
        let described = read_only.return_read_timestamp.then(|| proto::Transaction {
            read_timestamp: Some(encode_timestamp(moment)),
            ..proto::Transaction::default()
        });
        Ok(Selected { handle: Handle::ReadOnly(moment), described, begun: None })
    }

    /// Begins a transaction, and describes it as a reply does.
    pub(super) fn begin(
        &self,
        session: &str,
        options: &proto::TransactionOptions,
    ) -> Result<(Handle, proto::Transaction)> {
        check_isolation(options)?;
        let (handle, read_timestamp) = match &options.mode {
            Some(Mode::ReadWrite(read_write)) => {
                (self.begin_read_write(session, read_write)?, None)
            }
            Some(Mode::ReadOnly(read_only)) => {
                let bound = timestamp_bound(read_only, false)?;
                let moment = self.database_of(session)?.read_timestamp(bound)?;
                let shown = read_only.return_read_timestamp.then(|| encode_timestamp(moment));
                (Handle::ReadOnly(moment), shown)
            }
            Some(Mode::PartitionedDml(_)) => (self.begin_partitioned(session)?, None),
            None => {
                return Err(Error::invalid_argument("TransactionOptions must specify a mode."));
            }
        };
        let described =
            proto::Transaction { id: handle.encode(session), read_timestamp, ..Default::default() };
        Ok((handle, described))
    }

    fn begin_read_write(&self, session: &str, options: &ReadWrite) -> Result<Handle> {
        let now = self.clock().now();
        let mut sessions = self.sessions();
        let session = sessions.find(session, now)?;
        let concurrency = match ReadLockMode::try_from(options.read_lock_mode) {
            Ok(ReadLockMode::Optimistic) => Concurrency::Optimistic,
            Ok(ReadLockMode::Pessimistic | ReadLockMode::Unspecified) => Concurrency::Pessimistic,
            Err(_) => return Err(Error::unimplemented("this read_lock_mode")),
        };
        let named = match options.multiplexed_session_previous_transaction_id.as_slice() {
            [] => None,
            id => match Handle::parse(id)? {
                (Handle::ReadWrite(id), _) => Some(id),
                (Handle::ReadOnly(_), _) => None,
            },
        };
        let previous = match session.multiplexed {
            true => named,
            // Another attempt in the same session counts as one without being told.
            false => session.latest.filter(|latest| session.database.was_aborted(*latest)),
        };
        let id = session.database.begin(&ReadWriteOptions { concurrency, previous });
        if let Some(earlier) = session.latest.replace(id)
            && !session.multiplexed
        {
            session.database.fail(
                earlier,
                Error::failed_precondition(
                    "This transaction has been invalidated by a later transaction in the same \
                     session.",
                ),
            );
        }
        Ok(Handle::ReadWrite(id))
    }

    /// Begins a transaction of one statement, which commits at its end. Its rows are one partition.
    fn begin_partitioned(&self, session: &str) -> Result<Handle> {
        let database = self.database_of(session)?;
        let id = database.begin(&ReadWriteOptions::default());
        self.replays().of(&database, id).partition();
        Ok(Handle::ReadWrite(id))
    }

    /// Ends the read-write transaction that a session began last, if it is open.
    pub(super) fn end_latest(&self, session: &str) -> Result<()> {
        let now = self.clock().now();
        let mut sessions = self.sessions();
        let session = sessions.find(session, now)?;
        if let Some(latest) = session.latest.take() {
            let message = "Transaction not found: another one of its session has begun.";
            session.database.fail(latest, Error::new(Code::NotFound, message));
        }
        Ok(())
    }
}

/// Refuses what is not offered rather than giving something else.
pub(super) fn check_isolation(options: &proto::TransactionOptions) -> Result<()> {
    match IsolationLevel::try_from(options.isolation_level) {
        Ok(IsolationLevel::Unspecified | IsolationLevel::Serializable) => Ok(()),
        Ok(IsolationLevel::RepeatableRead) => {
            Err(Error::unimplemented("isolation level REPEATABLE_READ"))
        }
        Err(_) => Err(Error::unimplemented("this isolation level")),
    }
}

fn timestamp_bound(read_only: &ReadOnly, single_use: bool) -> Result<TimestampBound> {
    Ok(match &read_only.timestamp_bound {
        None | Some(WireBound::Strong(_)) => TimestampBound::Strong,
        Some(WireBound::ReadTimestamp(timestamp)) => {
            TimestampBound::ReadTimestamp(decode_timestamp(timestamp)?)
        }
        Some(WireBound::ExactStaleness(staleness)) => {
            TimestampBound::ExactStaleness(decode_duration(staleness)?)
        }
        Some(WireBound::MinReadTimestamp(_) | WireBound::MaxStaleness(_)) if !single_use => {
            return Err(Error::invalid_argument(
                "min_read_timestamp and max_staleness can only be used in single-use transactions.",
            ));
        }
        Some(WireBound::MinReadTimestamp(timestamp)) => {
            TimestampBound::MinReadTimestamp(decode_timestamp(timestamp)?)
        }
        Some(WireBound::MaxStaleness(staleness)) => {
            TimestampBound::MaxStaleness(decode_duration(staleness)?)
        }
    })
}
