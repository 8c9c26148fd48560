//! Ending another's term: eviction, which seizes the lock if it is to happen at once.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use spindle_protocol::{Answer, Change, Expected, Rejection, Succession};
use tokio::time::{Instant, sleep};

use super::history::{Cause, PastTerm};
use crate::error::{Error, Kind, Result};
use crate::names::{check_id, check_is_lock};
use crate::store::{PAUSE, REQUEST_LIMIT, Table};
use crate::token::FencingToken;

/// The most that `by` and `reason` may have together, so that `info` stays a line.
const MARK_BYTES_MAX: usize = 1_000;

/// For so long a lock that was seized for a contender is left to it.
const FIRST_REFUSAL: Duration = Duration::from_secs(10);

/// An eviction, made by [`LockTable::evict`](crate::LockTable::evict). Await it: it returns the term that it
/// ended, which is over for fenced writes from its [`end`](PastTerm::end) on.
#[derive(Clone, Debug)]
#[must_use = "an eviction does nothing until it is awaited"]
pub struct Evict {
    table: Arc<Table>,
    lock: String,
    by: Option<String>,
    reason: Option<String>,
    expected: Expected,
    at_once: bool,
    successor: Option<String>,
}

impl Evict {
    pub(crate) fn new(table: Arc<Table>, lock: String) -> Evict {
        Evict {
            table,
            lock,
            by: None,
            reason: None,
            expected: Expected::default(),
            at_once: false,
            successor: None,
        }
    }

    /// Says in `info` who evicts; a text with `: ` is refused.
    pub fn by(mut self, operator: impl Into<String>) -> Evict {
        self.by = Some(operator.into());
        self
    }

    /// Says in `info` why.
    pub fn reason(mut self, reason: impl Into<String>) -> Evict {
        self.reason = Some(reason.into());
        self
    }

    /// Refuses unless the row names the instance `id`, so that nobody else is hit. The transaction
    /// that ends the term checks it.
    pub fn if_holder(mut self, id: impl Into<String>) -> Evict {
        self.expected.holder = Some(id.into());
        self
    }

    /// Refuses unless the row has this token, so that no other term is hit, not even another one of the
    /// same instance. The transaction that ends the term checks it.
    pub fn if_token(mut self, token: FencingToken) -> Evict {
        self.expected.token = Some(token.to_timestamp());
        self
    }

    /// Seizes the lock: the next contender that polls takes it, and doesn't wait for the lease.
    ///
    /// The old holder believes in its term until its next heartbeat is refused, or its lease has
    /// run out. For that long two instances believe that they hold the lock. **Only fenced writes
    /// are safe then**; those of the old term are refused from now on.
    ///
    /// It also ends the wait after an eviction, and a promise to a successor. A lock that is free
    /// already stays as it is. The column `info` then reads `seized by …: …`.
    pub fn at_once(mut self) -> Evict {
        self.at_once = true;
        self
    }

    /// Seizes the lock [at once](Evict::at_once), and gives the contender `id` first refusal: forced
    /// leadership for a node.
    ///
    /// That instance takes the lock as soon as it polls, within its poll interval. The others leave
    /// it to that one for 10 s. After that, or if no instance of this id runs, anyone takes it. It
    /// works on a lock that nobody holds, too.
    pub fn to(mut self, id: impl Into<String>) -> Evict {
        self.successor = Some(id.into());
        self
    }

    async fn carry_out(self) -> Result<Option<PastTerm>> {
        let change = self.change()?;
        let cause = self.cause();
        let Evict { table, lock, expected, .. } = self;
        table.check_lock(&lock)?;
        check_is_lock(&lock)?;
        let has_expectation = expected != Expected::default();
        let change = Change::Expecting { expected: expected.clone(), change: Box::new(change) };
        let deadline = Instant::now() + REQUEST_LIMIT;
        loop {
            let (outcome, found) = table.carry_out(&lock, change.clone(), REQUEST_LIMIT).await;
            let error = match (outcome.answer, outcome.error) {
                (Answer::Applied { at }, _) => {
                    return Ok(found.first().and_then(|row| PastTerm::ended_by(row, at, cause)));
                }
                (Answer::Rejected(Rejection::Changed(found)), None) if has_expectation => {
                    return Err(Error::other_term(lock, expected, found));
                }
                // Another made the row that this was to make.
                (Answer::Rejected(Rejection::Changed(_)), None) => {
                    Error::new(Kind::Overtaken { lock: lock.clone(), limit: REQUEST_LIMIT })
                }
                (_, None) => return Ok(None),
                (_, Some(error)) => error,
            };
            if !error.is_interrupted() || Instant::now() >= deadline {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    fn cause(&self) -> Cause {
        let (by, reason) = (self.by.clone(), self.reason.clone());
        match self.at_once || self.successor.is_some() {
            true => Cause::Seized { by, reason },
            false => Cause::Evicted { by, reason },
        }
    }

    fn change(&self) -> Result<Change> {
        let next = match &self.successor {
            Some(id) => {
                check_id(id)
                    .map_err(|rule| Error::config(format!("lock `{}`: {rule}", self.lock)))?;
                Succession::Successor { id: id.clone(), grace: FIRST_REFUSAL }
            }
            None if self.at_once => Succession::Anyone,
            None => return Ok(Change::Evict { info: Some(self.mark("evicted")?) }),
        };
        Ok(Change::Seize { next, info: Some(self.mark("seized")?) })
    }

    /// Such as `evicted by alice: bad deploy`.
    fn mark(&self, how: &str) -> Result<String> {
        let Evict { lock, by, reason, .. } = self;
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
}

impl IntoFuture for Evict {
    type Output = Result<Option<PastTerm>>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.carry_out())
    }
}
