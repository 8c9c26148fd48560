//! The columns that the lock table has. The information schema tells; no error ever does.
//!
//! An instance may wrongly believe `lease_ms` to be missing. Then it judges holders by its own
//! lease, and may take over from one that is owed a longer one (I1). So a column that was seen is
//! never forgotten, and one that was not seen is believed missing for a minute at most.
//!
//! All runtimes that use the table share what is known. The question is asked on one of them, and
//! on another a second later if nothing has come of it: the first may be blocked, or gone.

mod log;
mod question;
mod schema;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use google_cloud_gax::error::rpc::Code;
use spindle_protocol::Moment;
use tokio::runtime::{Handle, Id};
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::connection::{Connection, REQUEST_LIMIT, TimedClient};
use crate::batch::{Charge, Need, OptionalColumns, Repeats};
use crate::error::{Error, Kind, Missing, Result};
use crate::system::Clock;
use crate::term::say;
use log::LogLine;
#[cfg(feature = "admin")]
pub(crate) use question::{is_postgresql, is_there};
use schema::Found;

/// How long a column that was found missing counts as missing.
const MISSING_FOR: Duration = Duration::from_secs(60);

/// The first and the longest delay before an unanswered question is repeated.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(60);

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
    shared: Arc<Shared>,
}

#[derive(Debug, Default)]
struct Shared {
    known: Mutex<Known>,
    /// Changes with the end of each question.
    ended: watch::Sender<()>,
}

#[derive(Debug, Default)]
struct Known {
    /// Those that were ever seen.
    seen: OptionalColumns,
    /// True if any answer found the table in order.
    in_order_once: bool,
    /// The last answer, if any has come.
    answer: Option<Answer>,
    /// Questions since then that went unanswered.
    unanswered: u32,
    /// Why the last one did.
    failure: Option<Error>,
    /// The questions under way, which have numbers: several runtimes may have one each.
    asking: Vec<(Id, u64)>,
    /// The last question, and the last of those that told anything.
    asked: u64,
    told: u64,
    /// When the last one was asked.
    asked_at: Option<Instant>,
    /// Before then no question is sent that nothing waits for.
    due: Option<Instant>,
}

/// A question under way. Its drop is its end, also where its runtime is gone.
struct Question {
    runtime: Id,
    number: u64,
    shared: Weak<Shared>,
}

impl Question {
    /// Returns true if its answer is still of use.
    fn is_open(&self) -> bool {
        self.shared.upgrade().is_some_and(|shared| lock(&shared.known).told < self.number)
    }

    /// Takes note of what came of it, and ends it.
    fn hears(self, table: &str, found: Result<(Asked, Vec<Found>)>) {
        let Some(shared) = self.shared.upgrade() else { return };
        let mut known = lock(&shared.known);
        let line = match found {
            Ok((at, _)) if known.is_outdated(at) => LogLine::None,
            Ok((at, found)) => known.learn(table, at, schema::judge(table, &found)),
            Err(_) if known.told > self.number => LogLine::None,
            Err(error) => known.fail(error),
        };
        known.told = known.told.max(self.number);
        drop(known);
        // First the answer, then the log: a writer of logs may block.
        drop(self);
        say(|| line.log(table));
    }
}

impl Drop for Question {
    fn drop(&mut self) {
        let Some(shared) = self.shared.upgrade() else { return };
        lock(&shared.known).asking.retain(|asking| *asking != (self.runtime, self.number));
        shared.ended.send_replace(());
    }
}

#[derive(Clone, Debug)]
struct Answer {
    asked: Asked,
    verdict: Result<OptionalColumns, String>,
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
        Columns { name: name.into(), shared: Arc::default() }
    }

    /// Returns which of the optional ones are there; until the first answer, all of them.
    pub(crate) fn known(&self) -> OptionalColumns {
        let known = self.lock();
        if known.in_order_once { known.seen } else { OptionalColumns::ALL }
    }

    /// Asks if it is time to. Returns until when to wait for an answer, if anything is unanswered: until
    /// `limit`, or until the question may be asked on this runtime, too.
    fn ask(&self, connection: &Connection, urgency: Urgency, limit: Instant) -> Option<Instant> {
        let runtime = Handle::try_current().ok()?;
        let mut known = self.lock();
        let again = known.asked_at.map(|at| at + PAUSE_MIN).filter(|at| Instant::now() < *at);
        let is_unanswered = known.asked > known.told;
        if is_unanswered {
            if known.asking.iter().any(|(asking, _)| *asking == runtime.id()) {
                return Some(limit);
            }
            if let Some(again) = again {
                return Some(again.min(limit));
            }
        } else {
            let is_time = match urgency {
                Urgency::Routine => known.is_due(),
                Urgency::Soon => again.is_none(),
                Urgency::Now => true,
            };
            if !is_time {
                return None;
            }
        }
        // The budget pays for one that repeats what told nothing.
        let is_repeat = (is_unanswered || known.unanswered > 0) && urgency != Urgency::Now;
        (known.asked, known.asked_at) = (known.asked + 1, Some(Instant::now()));
        let (runtime_id, number) = (runtime.id(), known.asked);
        known.asking.push((runtime_id, number));
        // A runtime that shuts down drops the question at once.
        drop(known);
        let shared = Arc::downgrade(&self.shared);
        let question = Question { runtime: runtime_id, number, shared };
        let ended = self.shared.ended.subscribe();
        // It outlives its caller, so that impatient callers share its answer, and it ends with
        // the table.
        let table = Arc::clone(&self.name);
        runtime.spawn(answer(connection.clone(), table, question, is_repeat, ended));
        Some(limit)
    }

    /// Asks if it is time to, and waits until something was told, or `limit`. Returns true if it
    /// was.
    async fn wait(&self, connection: &Connection, urgency: Urgency, limit: Instant) -> bool {
        let mut ended = self.shared.ended.subscribe();
        let before = self.lock().told;
        while let Some(until) = self.ask(connection, urgency, limit) {
            // Without a change in time the runtime that asked is gone, or does nothing.
            let _ = timeout_at(until, ended.changed()).await;
            if self.lock().told > before {
                return true;
            }
            if Instant::now() >= limit {
                return false;
            }
        }
        false
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
    ) -> Result<TimedClient> {
        let deadline = Instant::now() + limit;
        let mut timed = connection.client(limit).await?;
        let is_stale = need == Need::Begin && self.lock().is_stale();
        let urgency = if is_stale { Urgency::Soon } else { Urgency::Routine };
        let waits = {
            let known = self.lock();
            let is_first = known.answer.is_none() && known.unanswered == 0;
            need != Need::KeepOn && (is_first || is_stale || known.wrong().is_some())
        };
        if waits {
            // The other half is for the request itself. Either way what is known then decides.
            self.wait(connection, urgency, deadline - limit / 2).await;
        } else {
            self.ask(connection, urgency, deadline);
        }
        let known = self.lock();
        if let Some(wrong) = known.wrong().filter(|_| need != Need::KeepOn) {
            return Err(wrong);
        }
        if need == Need::Begin && known.is_stale() {
            let doing = || format!("table `{}`: ask again for its columns", self.name);
            return Err(known.failure.clone().unwrap_or_else(|| Error::timed_out(doing(), limit)));
        }
        timed.limit = deadline.saturating_duration_since(Instant::now());
        Ok(timed)
    }

    /// Asks for the columns now, whatever is known of them; fails unless they are in order.
    pub(crate) async fn ask_now(&self, connection: &Connection, limit: Duration) -> Result<()> {
        let deadline = connection.client(limit).await?.deadline;
        let doing = || format!("table `{}`: ask for its columns", self.name);
        if !self.wait(connection, Urgency::Now, deadline).await {
            return Err(Error::timed_out(doing(), limit));
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
        timed: &TimedClient,
        error: Error,
    ) -> Error {
        match error.spanner().and_then(Missing::named_in) {
            Some(Missing::Session) => return connection.session_lost(timed),
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
            // An answer that is not what it should be.
            None => error.is_answer(),
            _ => false,
        };
        if !is_unclear {
            return error;
        }
        // Without an answer in time the error speaks for itself.
        self.wait(connection, Urgency::Soon, timed.deadline).await;
        let known = self.lock();
        match &known.failure {
            Some(failure) if failure.is_session_lost() => {
                drop(known);
                connection.session_lost(timed)
            }
            Some(failure) if failure.is_config() => failure.clone(),
            _ => known.wrong().unwrap_or(error),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.shared.known)
    }
}

fn lock(known: &Mutex<Known>) -> MutexGuard<'_, Known> {
    known.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    fn misses_any(&self) -> bool {
        matches!(&self.answer, Some(Answer { verdict: Ok(_), .. }))
            && self.seen != OptionalColumns::ALL
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

    /// Returns true if a question that was sent later has been answered already.
    fn is_outdated(&self, asked: Asked) -> bool {
        self.answer.as_ref().is_some_and(|answer| answer.asked.by_runtime > asked.by_runtime)
    }

    fn learn(
        &mut self,
        table: &str,
        asked: Asked,
        verdict: Result<OptionalColumns, String>,
    ) -> LogLine {
        let before = (self.seen, self.answer.is_some());
        let verdict =
            verdict.and_then(|seen| match seen.missing().find(|column| self.seen.has(*column)) {
                None => Ok(seen),
                Some(gone) => Err(format!(
                    "table `{table}` had a column `{}` and has it no more; add it again, or \
                     restart every instance",
                    gone.name()
                )),
            });
        if let Ok(seen) = &verdict {
            self.in_order_once = true;
            self.seen = *seen;
        }
        self.unanswered = 0;
        self.failure = None;
        self.due = Some(Instant::now() + PAUSE_MIN);
        let is_wrong = verdict.is_err();
        self.answer = Some(Answer { asked, verdict });
        if is_wrong || before == (self.seen, true) {
            return LogLine::None;
        }
        LogLine::Columns(self.seen)
    }

    fn fail(&mut self, error: Error) -> LogLine {
        let pause = PAUSE_MIN * 2_u32.saturating_pow(self.unanswered.min(6));
        self.due = Some(Instant::now() + pause.min(PAUSE_MAX));
        let is_first = self.unanswered == 0 && self.answer.is_none();
        self.unanswered = self.unanswered.saturating_add(1);
        self.failure = Some(error.clone());
        LogLine::NoAnswer { error, is_first }
    }
}

/// Asks once, and takes note of what came of it.
async fn answer(
    connection: Connection,
    table: Arc<str>,
    question: Question,
    is_repeat: bool,
    mut ended: watch::Receiver<()>,
) {
    let repeats = Repeats::after(is_repeat);
    let asking = async {
        let turn = repeats.turn(connection.budget(), Charge::Read).await;
        // The runtime may have been blocked since it was told to ask.
        let at = Asked::now();
        let timed = connection.client(REQUEST_LIMIT).await?;
        let found = question::ask(&timed, &table).await;
        turn.ends(found.is_ok());
        connection.ended(&timed, found.as_ref().err());
        found.map(|found| (at, found)).map_err(|error| missing(&connection, &timed, error))
    };
    let needless = async { while question.is_open() && ended.changed().await.is_ok() {} };
    let found = tokio::select! {
        found = asking => found,
        // The table is gone, or a later question was answered.
        () = needless => return,
    };
    question.hears(&table, found);
}

/// Names the missing part, where Spanner names it. A query that names no table of its own can miss
/// only the session or the database.
fn missing(connection: &Connection, timed: &TimedClient, error: Error) -> Error {
    match error.spanner().and_then(Missing::named_in) {
        Some(Missing::Database) => Error::config(format!("database is not there: {error}")),
        Some(Missing::Session) => connection.session_lost(timed),
        None if error.code() == Some(Code::NotFound) => connection.session_lost(timed),
        None => error,
    }
}
