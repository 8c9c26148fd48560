//! The columns that the lock table has. The information schema tells; no error ever does.
//!
//! An instance may wrongly believe `lease_ms` to be missing. Then it judges holders by its own
//! lease, and may take over from one that is owed a longer one (I1). So a column that was seen is
//! never forgotten, and one that was not seen is believed missing for a minute at most.

mod question;
mod schema;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::Moment;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, Leased, REQUEST_LIMIT};
use crate::carrier::{Charge, Repeats};
use crate::clock::Clock;
use crate::error::{Error, Kind, Missing, Result};
#[cfg(feature = "admin")]
pub(crate) use question::{is_postgresql, is_there};
use schema::Optional;

/// How long a column that was found missing counts as missing.
const MISSING_FOR: Duration = Duration::from_secs(60);

/// Before a question that went unanswered is asked again, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// How much a request needs to know of the columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// It only reads: it waits for the first answer, not for later ones.
    Read,
    /// It begins a term: a column must not be thought missing because of what was true long ago.
    Begin,
    /// It belongs to a term that lives, and waits for nothing.
    KeepOn,
}

/// How long a question may wait for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// Until it is due.
    Routine,
    /// A second from the last one: something waits for it.
    Soon,
    /// Not at all: a caller asks for it.
    Now,
}

/// The knowledge of the columns, shared by all locks of the table.
#[derive(Debug)]
pub(crate) struct Columns {
    name: Arc<str>,
    known: Arc<Mutex<Known>>,
}

#[derive(Debug, Default)]
struct Known {
    /// True if each was ever seen.
    lease_seen: bool,
    info_seen: bool,
    /// True if any answer found the table in order.
    in_order_once: bool,
    /// The last answer, if any has come.
    answer: Option<Answer>,
    /// Questions since then that went unanswered.
    unanswered: u32,
    /// Why the last one did.
    failure: Option<Error>,
    /// The question under way: its sender is gone once it has ended.
    asking: Option<watch::Receiver<()>>,
    /// When the last question was sent.
    sent: Option<Instant>,
    /// Before then no question is sent that nothing waits for.
    due: Option<Instant>,
}

#[derive(Clone, Debug)]
struct Answer {
    asked: Asked,
    verdict: Result<Optional, String>,
}

/// When a question was sent, by both clocks: timers may stand still while a machine is suspended.
#[derive(Clone, Copy, Debug)]
struct Asked {
    by_runtime: Instant,
    by_system: Moment,
}

impl Asked {
    fn now() -> Asked {
        Asked { by_runtime: Instant::now(), by_system: Clock::system().now() }
    }

    fn age(&self) -> Duration {
        let by_system = Clock::system().now().since(self.by_system);
        self.by_runtime.elapsed().max(by_system)
    }
}

impl Columns {
    pub(crate) fn new(name: &str) -> Columns {
        Columns { name: name.into(), known: Arc::default() }
    }

    pub(crate) fn has_lease(&self) -> bool {
        self.lock().has(|optional| optional.lease)
    }

    pub(crate) fn has_info(&self) -> bool {
        self.lock().has(|optional| optional.info)
    }

    /// Returns which are there, as far as is known.
    pub(crate) fn known(&self) -> (bool, bool) {
        let known = self.lock();
        (known.has(|optional| optional.lease), known.has(|optional| optional.info))
    }

    /// Asks if it is time to, and gives what ends with the question under way.
    fn ask(&self, connection: &Connection, urgency: Urgency) -> Option<watch::Receiver<()>> {
        let mut known = self.lock();
        if let Some(asking) = &known.asking
            && asking.has_changed().is_ok()
        {
            return Some(asking.clone());
        }
        let is_time = match urgency {
            Urgency::Routine => known.is_due(),
            Urgency::Soon => known.sent.is_none_or(|sent| sent.elapsed() >= PAUSE_MIN),
            Urgency::Now => true,
        };
        if !is_time {
            return None;
        }
        known.sent = Some(Instant::now());
        let (asked, asking) = watch::channel(());
        known.asking = Some(asking.clone());
        // It outlives its caller, so that impatient callers share its answer, and it ends with
        // the table.
        let told = Arc::downgrade(&self.known);
        let is_repeat = known.unanswered > 0 && urgency != Urgency::Now;
        tokio::spawn(answer(connection.clone(), Arc::clone(&self.name), is_repeat, told, asked));
        Some(asking)
    }

    /// Provides a client once what the request needs to know of the columns is known, in `limit`
    /// at most.
    ///
    /// Fails for a table that can't work, except to a term that lives.
    pub(crate) async fn ready(
        &self,
        connection: &Connection,
        need: Need,
        limit: Duration,
    ) -> Result<Leased> {
        let deadline = Instant::now() + limit;
        let mut leased = connection.client(limit).await?;
        let is_stale = need == Need::Begin && self.lock().is_stale();
        let urgency = if is_stale { Urgency::Soon } else { Urgency::Routine };
        let asking = self.ask(connection, urgency);
        let waits = {
            let known = self.lock();
            let is_first = known.answer.is_none() && known.unanswered == 0;
            need != Need::KeepOn && (is_first || is_stale || known.wrong().is_some())
        };
        if let Some(mut asking) = asking.filter(|_| waits) {
            // The other half is for the request itself. Either way what is known then decides.
            let _ = timeout_at(deadline - limit / 2, asking.changed()).await;
        }
        let known = self.lock();
        if let Some(wrong) = known.wrong().filter(|_| need != Need::KeepOn) {
            return Err(wrong);
        }
        if need == Need::Begin && known.is_stale() {
            let doing = || format!("table `{}`: ask again for its columns", self.name);
            return Err(known.failure.clone().unwrap_or_else(|| Error::timed_out(doing(), limit)));
        }
        leased.limit = deadline.saturating_duration_since(Instant::now());
        Ok(leased)
    }

    /// Asks for the columns now, whatever is known of them; fails unless they are in order.
    pub(crate) async fn ask_now(&self, connection: &Connection, limit: Duration) -> Result<()> {
        let deadline = connection.client(limit).await?.deadline;
        let doing = || format!("table `{}`: ask for its columns", self.name);
        if let Some(mut asking) = self.ask(connection, Urgency::Now) {
            // Its end is all that it tells.
            let ended = timeout_at(deadline, asking.changed()).await;
            ended.map_err(|_| Error::timed_out(doing(), limit))?.ok();
        }
        let known = self.lock();
        match (&known.failure, known.wrong()) {
            (Some(failure), _) => Err(failure.clone()),
            (None, Some(wrong)) => Err(wrong),
            (None, None) if known.answer.is_none() => Err(Error::timed_out(doing(), limit)),
            (None, None) => Ok(()),
        }
    }

    /// Finds out what is really wrong, where an error has several possible reasons. It asks one
    /// question, and waits no longer for it than the request had time.
    pub(crate) async fn explain(
        &self,
        connection: &Connection,
        leased: &Leased,
        error: Error,
    ) -> Error {
        match error.spanner().and_then(Missing::named_in) {
            Some(Missing::Session) => return connection.session_lost(leased),
            Some(Missing::Database) => {
                return Error::config(format!("database is not there: {error}"));
            }
            None => {}
        }
        let is_unclear = match error.code() {
            Some(
                Code::NotFound
                | Code::InvalidArgument
                | Code::FailedPrecondition
                | Code::OutOfRange,
            ) => true,
            None => error.is_malformed(),
            _ => false,
        };
        if !is_unclear {
            return error;
        }
        if let Some(mut asking) = self.ask(connection, Urgency::Soon) {
            // Without an answer in time the error speaks for itself.
            let _ = timeout_at(leased.deadline, asking.changed()).await;
        }
        let known = self.lock();
        match &known.failure {
            Some(failure) if failure.is_session_lost() => {
                drop(known);
                connection.session_lost(leased)
            }
            Some(failure) if failure.is_config() => failure.clone(),
            _ => known.wrong().unwrap_or(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.known)
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Until the first answer every column is assumed to be there.
    fn has(&self, column: impl Fn(&Optional) -> bool) -> bool {
        let seen = Optional { lease: self.lease_seen, info: self.info_seen };
        !self.in_order_once || column(&seen)
    }

    fn misses_any(&self) -> bool {
        matches!(&self.answer, Some(Answer { verdict: Ok(_), .. }))
            && !(self.lease_seen && self.info_seen)
    }

    fn is_due(&self) -> bool {
        if self.due.is_some_and(|due| Instant::now() < due) {
            return false;
        }
        match &self.answer {
            Some(Answer { verdict: Ok(_), asked }) => {
                self.misses_any() && asked.age() >= MISSING_FOR
            }
            _ => true,
        }
    }

    /// Returns true if a column is believed missing on the strength of an old answer.
    fn is_stale(&self) -> bool {
        let is_old = |answer: &Answer| answer.asked.age() >= MISSING_FOR;
        self.misses_any() && self.answer.as_ref().is_some_and(is_old)
    }

    fn wrong(&self) -> Option<Error> {
        match &self.answer {
            Some(Answer { verdict: Err(wrong), .. }) => {
                Some(Error::new(Kind::Schema(wrong.clone())))
            }
            _ => None,
        }
    }

    fn learn(&mut self, table: &str, asked: Asked, verdict: Result<Optional, String>) {
        let before = (self.lease_seen, self.info_seen, self.answer.is_some());
        let verdict = verdict.and_then(|seen| {
            for (name, was_seen, is_seen) in
                [("lease_ms", self.lease_seen, seen.lease), ("info", self.info_seen, seen.info)]
            {
                if was_seen && !is_seen {
                    return Err(format!(
                        "table `{table}` had a column `{name}` and has it no more; add it again, \
                         or restart every instance"
                    ));
                }
            }
            Ok(seen)
        });
        if let Ok(seen) = &verdict {
            self.in_order_once = true;
            self.lease_seen |= seen.lease;
            self.info_seen |= seen.info;
        }
        self.unanswered = 0;
        self.failure = None;
        self.due = Some(Instant::now() + PAUSE_MIN);
        let is_wrong = verdict.is_err();
        self.answer = Some(Answer { asked, verdict });
        if !is_wrong && before != (self.lease_seen, self.info_seen, true) {
            self.report(table);
        }
    }

    fn report(&self, table: &str) {
        let (lease_ms, info) = (self.lease_seen, self.info_seen);
        if lease_ms && info {
            tracing::debug!(table, "the lock table has all columns");
        } else if lease_ms {
            tracing::info!(table, "the lock table has no column `info`; ddl/ has the ALTER");
        } else {
            tracing::warn!(
                table,
                info,
                "the lock table has no column `lease_ms`: all instances must use one and the same \
                 lease, or two may hold a lock at once; ddl/ has the ALTER that adds the column"
            );
        }
    }

    fn fail(&mut self, table: &str, error: Error) {
        let pause = PAUSE_MIN * 2_u32.saturating_pow(self.unanswered.min(6));
        self.due = Some(Instant::now() + pause.min(PAUSE_MAX));
        if self.unanswered == 0 && self.answer.is_none() {
            tracing::warn!(
                table,
                %error,
                "the information schema does not answer; until it does, the lock table is assumed \
                 to have all columns"
            );
        } else {
            tracing::debug!(table, %error, "the information schema does not answer");
        }
        self.unanswered = self.unanswered.saturating_add(1);
        self.failure = Some(error);
    }
}

/// Asks once, and takes note of what came of it.
async fn answer(
    connection: Connection,
    table: Arc<str>,
    is_repeat: bool,
    told: Weak<Mutex<Known>>,
    asked: watch::Sender<()>,
) {
    let repeats = Repeats::after(is_repeat);
    let asking = async {
        let turn = repeats.turn(connection.budget(), Charge::Read).await;
        let sent = Asked::now();
        let leased = connection.client(REQUEST_LIMIT).await?;
        let found = question::ask(&leased, &table).await;
        turn.ends(found.is_ok());
        connection.heard(&leased, found.as_ref().err());
        found.map(|found| (sent, found)).map_err(|error| missing(&connection, &leased, error))
    };
    let found = tokio::select! {
        found = asking => found,
        // Nobody waits any more, and the table is gone with its own receiver.
        () = asked.closed() => return,
    };
    let Some(told) = told.upgrade() else { return };
    let mut known = lock(&told);
    match found {
        Ok((sent, found)) => known.learn(&table, sent, schema::judge(&table, &found)),
        Err(error) => known.fail(&table, error),
    }
}

/// Names the missing part, where Spanner names it. A query that names no table of its own can miss
/// only the session or the database.
fn missing(connection: &Connection, leased: &Leased, error: Error) -> Error {
    match error.spanner().and_then(Missing::named_in) {
        Some(Missing::Database) => Error::config(format!("database is not there: {error}")),
        Some(Missing::Session) => connection.session_lost(leased),
        None if error.code() == Some(Code::NotFound) => connection.session_lost(leased),
        None => error,
    }
}
