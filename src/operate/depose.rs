//! Ending another's term: eviction and seizure.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Answer, Change, Rejection, StoredRow, Succession, Timestamp};
use tokio::time::{Instant, sleep};

use crate::error::{Error, Result};
use crate::names::{check_id, check_is_lock};
use crate::store::{PAUSE, REQUEST_LIMIT, Table};
use crate::token::FencingToken;

/// The most that `by` and `reason` may have together, so that `info` stays a line.
const MARK_BYTES_MAX: usize = 1_000;

/// For so long a lock that was seized for a contender is left to it.
const FIRST_REFUSAL: Duration = Duration::from_secs(10);

/// The holder whose term was ended.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Deposed {
    /// The id of the instance.
    pub id: String,
    /// The token of its term.
    pub token: FencingToken,
    /// The token that superseded it. It is nobody's: the next term's is greater.
    pub by: FencingToken,
}

/// An eviction, made by [`LockTable::evict`](crate::LockTable::evict). Await it.
#[derive(Clone, Debug)]
#[must_use = "an eviction does nothing until it is awaited"]
pub struct Evict {
    deposition: Deposition,
}

/// A seizure, made by [`LockTable::seize`](crate::LockTable::seize). Await it.
#[derive(Clone, Debug)]
#[must_use = "a seizure does nothing until it is awaited"]
pub struct Seize {
    deposition: Deposition,
    contender: Option<String>,
}

impl Evict {
    pub(crate) fn new(table: Arc<Table>, lock: String) -> Evict {
        Evict { deposition: Deposition::new(table, lock) }
    }

    /// Says in `info` who evicts; a text with `: ` is refused.
    pub fn by(mut self, operator: impl Into<String>) -> Evict {
        self.deposition.by = Some(operator.into());
        self
    }

    /// Says in `info` why.
    pub fn reason(mut self, reason: impl Into<String>) -> Evict {
        self.deposition.reason = Some(reason.into());
        self
    }

    async fn carry_out(self) -> Result<Option<Deposed>> {
        let info = Some(self.deposition.mark("evicted")?);
        self.deposition.depose(Change::Evict { info }).await
    }
}

impl Seize {
    pub(crate) fn new(table: Arc<Table>, lock: String) -> Seize {
        Seize { deposition: Deposition::new(table, lock), contender: None }
    }

    /// Says in `info` who seizes; a text with `: ` is refused.
    pub fn by(mut self, operator: impl Into<String>) -> Seize {
        self.deposition.by = Some(operator.into());
        self
    }

    /// Says in `info` why.
    pub fn reason(mut self, reason: impl Into<String>) -> Seize {
        self.deposition.reason = Some(reason.into());
        self
    }

    /// Gives the contender `id` first refusal: forced leadership for a node.
    ///
    /// That instance takes the lock as soon as it polls, within its poll interval. The others leave
    /// it to that one for 10 s. After that, or if no instance of this id runs, anyone takes it. It
    /// works on a lock that nobody holds, too.
    pub fn for_contender(mut self, id: impl Into<String>) -> Seize {
        self.contender = Some(id.into());
        self
    }

    async fn carry_out(self) -> Result<Option<Deposed>> {
        let Seize { deposition, contender } = self;
        let info = Some(deposition.mark("seized")?);
        let next = match contender {
            None => Succession::Anyone,
            Some(id) => {
                check_id(&id)
                    .map_err(|rule| Error::config(format!("lock `{}`: {rule}", deposition.lock)))?;
                Succession::Successor { id, grace: FIRST_REFUSAL }
            }
        };
        deposition.depose(Change::Seize { next, info }).await
    }
}

impl IntoFuture for Evict {
    type Output = Result<Option<Deposed>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}

impl IntoFuture for Seize {
    type Output = Result<Option<Deposed>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}

/// The parts that both share.
#[derive(Clone, Debug)]
struct Deposition {
    table: Arc<Table>,
    lock: String,
    by: Option<String>,
    reason: Option<String>,
}

impl Deposition {
    fn new(table: Arc<Table>, lock: String) -> Deposition {
        Deposition { table, lock, by: None, reason: None }
    }

    /// Such as `evicted by alice: bad deploy`.
    fn mark(&self, how: &str) -> Result<String> {
        let Deposition { lock, by, reason, .. } = self;
        if let Some(by) = by.as_ref().filter(|by| by.contains(": ")) {
            return Err(Error::config(format!(
                "lock `{lock}`: by {by:?}; after `: ` the mark has the reason"
            )));
        }
        let by = by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
        let reason = reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        let mark = format!("{how}{by}{reason}");
        if mark.len() > MARK_BYTES_MAX || mark.chars().any(char::is_control) {
            let (begin, bytes): (String, _) = (mark.chars().take(60).collect(), mark.len());
            return Err(Error::config(format!(
                "lock `{lock}`: mark {begin:?}, of {bytes} bytes, has a control character or more \
                 than {MARK_BYTES_MAX} bytes"
            )));
        }
        Ok(mark)
    }

    async fn depose(self, change: Change) -> Result<Option<Deposed>> {
        let Deposition { table, lock, .. } = self;
        table.check_lock(&lock)?;
        check_is_lock(&lock)?;
        let deadline = Instant::now() + REQUEST_LIMIT;
        loop {
            let (outcome, found) = table.carry_out(&lock, change.clone(), REQUEST_LIMIT).await;
            let error = match (outcome.answer, outcome.error) {
                (Answer::Applied { at }, _) => {
                    return Ok(found.first().and_then(|row| deposed(row, at)));
                }
                // Another made the row that this was to make.
                (Answer::Rejected(Rejection::Changed(_)), None) if Instant::now() < deadline => {
                    sleep(PAUSE).await;
                    continue;
                }
                (_, None) => return Ok(None),
                (_, Some(error)) => error,
            };
            if !error.may_be_anothers() || Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }
}

fn deposed(found: &StoredRow, at: Timestamp) -> Option<Deposed> {
    let row = found.row();
    Some(Deposed {
        id: row.writer.id()?.to_string(),
        token: FencingToken::from_timestamp(row.token),
        by: FencingToken::from_timestamp(at),
    })
}
